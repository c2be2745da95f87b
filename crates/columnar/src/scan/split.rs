//! Splits a planned scan into parts that can be run elsewhere, and lists where its row groups begin.

use super::{
    part::{RowGroupStart, ScanPart, ScanPartFile},
    plan::{PlannedRowGroup, PlannedScanFile, Scan, ScanPlan, version},
};

impl Scan {
    /// Splits the scan into at most `max_parts` parts, in order and with about the same number of rows each. A limit
    /// applies to each part separately. [`ScanRequest::with_part`](super::ScanRequest::with_part) runs a part.
    pub fn parts(&self, max_parts: usize) -> Vec<ScanPart> {
        let rows_per_part = self.estimated_rows().div_ceil(max_parts.max(1) as u64).max(1);
        let mut parts: Vec<Vec<ScanPartFile>> = Vec::new();
        // Starts as if a part were full, so that the first row group begins a new one.
        let mut part_rows = rows_per_part;

        for (row_group, file) in self.inner.row_groups_with_files() {
            if part_rows >= rows_per_part {
                parts.push(Vec::new());
                part_rows = 0;
            }

            part_rows += row_group.rows;
            if let Some(part) = parts.last_mut() {
                add_row_group(part, row_group, file);
            }
        }

        let table = self.inner.relevant.clone();
        let schema = self.inner.schema.as_ref().clone();
        let part = |pieces| ScanPart { table: table.clone(), schema: schema.clone(), pieces };
        parts.into_iter().map(part).collect()
    }

    /// Returns the row groups of this scan as one part of `table`, the scan that they were selected from: with the
    /// columns of `table`, and without the filter and the limit of this scan.
    pub fn part_of(&self, table: &Self) -> ScanPart {
        let mut pieces = Vec::new();
        for (row_group, file) in self.inner.row_groups_with_files() {
            add_row_group(&mut pieces, row_group, file);
        }

        let schema = table.inner.schema.as_ref().clone();
        ScanPart { table: table.inner.relevant.clone(), schema, pieces }
    }

    /// Returns the first byte of each row group or stripe, in the order in which they are read.
    pub fn row_group_starts(&self) -> Vec<RowGroupStart> {
        let start = |(row_group, file): (&PlannedRowGroup, &PlannedScanFile)| RowGroupStart {
            source: file.source,
            path: file.object.meta().location.to_string(),
            offset: file.metadata.row_group_offset(row_group.index),
            rows: row_group.rows,
        };

        self.inner.row_groups_with_files().map(start).collect()
    }
}

impl ScanPlan {
    /// Returns the row groups of the plan, each with its file.
    fn row_groups_with_files(&self) -> impl Iterator<Item = (&PlannedRowGroup, &PlannedScanFile)> {
        self.row_groups.iter().filter_map(|row_group| Some((row_group, self.files.get(row_group.file)?)))
    }
}

/// Appends a row group to a part, extending the last piece if it ends where the row group begins.
fn add_row_group(part: &mut Vec<ScanPartFile>, row_group: &PlannedRowGroup, file: &PlannedScanFile) {
    let path = file.object.meta().location.as_ref();
    match part.last_mut() {
        Some(piece)
            if piece.source == file.source
                && piece.path == path
                && piece.row_groups.end == row_group.index =>
        {
            piece.row_groups.end += 1;
        }
        _ => part.push(ScanPartFile {
            source: file.source,
            path: path.to_owned(),
            version: version(&file.object),
            row_groups: row_group.index..row_group.index + 1,
            offset: file.metadata.row_group_offset(row_group.index),
        }),
    }
}
