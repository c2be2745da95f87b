//! Splits a planned scan into parts that can be run elsewhere, and tells where they read.

use super::{
    part::{RowGroupStart, ScanPart, ScanPartFile},
    plan::{PlannedRowGroup, PlannedScanFile, Scan, ScanPlan, version},
};

impl Scan {
    /// Splits the scan into at most `most` parts, in order and of about the same number of rows.
    /// [`ScanRequest::with_part`](super::ScanRequest::with_part) runs one. A limit applies to each part separately.
    pub fn parts(&self, most: usize) -> Vec<ScanPart> {
        let share = self.estimated_rows().div_ceil(most.max(1) as u64).max(1);
        let mut parts: Vec<Vec<ScanPartFile>> = Vec::new();
        let mut full = share;

        for (unit, file) in self.inner.row_groups() {
            if full >= share {
                parts.push(Vec::new());
                full = 0;
            }
            full += unit.rows;
            if let Some(part) = parts.last_mut() {
                add_row_group(part, unit, file);
            }
        }

        let table = self.inner.relevant.clone();
        let schema = self.inner.schema.as_ref().clone();
        let part = |pieces| ScanPart { table: table.clone(), schema: schema.clone(), pieces };
        parts.into_iter().map(part).collect()
    }

    /// Returns the row groups of this scan as one part of `table`, which it was selected from: with the columns of
    /// `table`, and without the filter and the limit of this scan.
    pub fn part_of(&self, table: &Self) -> ScanPart {
        let mut pieces = Vec::new();
        for (unit, file) in self.inner.row_groups() {
            add_row_group(&mut pieces, unit, file);
        }
        let schema = table.inner.schema.as_ref().clone();
        ScanPart { table: table.inner.relevant.clone(), schema, pieces }
    }

    /// Returns the first byte of each row group and stripe, in the order in which they are read.
    pub fn row_group_starts(&self) -> Vec<RowGroupStart> {
        let start = |(unit, file): (&PlannedRowGroup, &PlannedScanFile)| RowGroupStart {
            source: file.source,
            path: file.object.meta().location.to_string(),
            offset: file.metadata.unit_offset(unit.unit),
            rows: unit.rows,
        };
        self.inner.row_groups().map(start).collect()
    }
}

impl ScanPlan {
    fn row_groups(&self) -> impl Iterator<Item = (&PlannedRowGroup, &PlannedScanFile)> {
        self.units.iter().filter_map(|unit| Some((unit, self.files.get(unit.file)?)))
    }
}

/// Adds a row group to a part: to its last piece, if it follows that.
fn add_row_group(part: &mut Vec<ScanPartFile>, unit: &PlannedRowGroup, file: &PlannedScanFile) {
    let path = file.object.meta().location.as_ref();
    match part.last_mut() {
        Some(piece) if piece.source == file.source && piece.path == path && piece.units.end == unit.unit => {
            piece.units.end += 1;
        }
        _ => part.push(ScanPartFile {
            source: file.source,
            path: path.to_owned(),
            version: version(&file.object),
            units: unit.unit..unit.unit + 1,
            offset: file.metadata.unit_offset(unit.unit),
        }),
    }
}
