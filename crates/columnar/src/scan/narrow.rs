//! Narrows a row group or stripe to the rows that may pass the filter, by page indexes, row indexes and bloom filters,
//! before its columns are read.

use std::ops::Range;

use super::plan::{PlannedRowGroup, PlannedScanFile, ScanPlan};
use crate::{
    Result,
    cache::{DecodeReservation, chunk_cache::IndexKey, workers::DecodeWorkers},
    file::schema::ProjectedColumn,
    format::{
        ColumnarFile,
        index::{ColumnChunkIndex, RowGroupSubset},
    },
    predicate::BoundPredicate,
    prune::{PruneVerdict, columns_compared, prune},
    table::statistics::of_file,
};

/// Minimum bytes of the columns for reading only some pages or strides: below it, whole columns are read, which can be
/// cached.
const MIN_SELECTION_BYTES: u64 = if cfg!(fuzzing) { 0 } else { 1 << 20 };
/// Only some pages or strides are read if they are at most `1 / SELECTION_DIVISOR` of the bytes.
const SELECTION_DIVISOR: u64 = if cfg!(fuzzing) { 1 } else { 4 };
/// Rows of a batch if columns are not in memory as a whole.
pub(super) const STREAMED_ROWS: usize = 8192;

/// The part of a row group or stripe to read.
pub(super) enum RowGroupAccess {
    /// All pages or strides.
    Whole,
    /// Nothing: no row passes.
    Nothing,
    /// The few pages or strides that contain all rows that may pass, already read.
    Few(RowGroupSubset, DecodeReservation),
}

/// Prunes by the indexes of the filter's columns, and reads the pages or strides of `columns` that are left if they are
/// few.
pub(super) async fn narrow(
    planned: &ScanPlan,
    workers: &DecodeWorkers,
    row_group: PlannedRowGroup,
    filter: &BoundPredicate,
    columns: &[ProjectedColumn],
) -> Result<RowGroupAccess> {
    let Some(file) = planned.files.get(row_group.file) else { return Ok(RowGroupAccess::Whole) };
    let filtered = file.metadata.indexed_leaves(row_group.index, columns_compared(filter).into_iter());
    if filtered.is_empty() {
        return Ok(RowGroupAccess::Whole);
    }

    let leaves = indexes(planned, file, row_group.index, &filtered).await?;
    let (wanted, ruled_out) = {
        let Some((ranges, parts)) = file.metadata.parts(row_group.index, &leaves) else {
            return Ok(RowGroupAccess::Whole);
        };
        let statistics = of_file(&planned.table, &file.located, &file.metadata, parts);
        let verdicts = prune(filter, &statistics);
        let ruled_out = verdicts.iter().filter(|verdict| **verdict == PruneVerdict::None).count();
        (join_ranges(ranges.into_iter().zip(verdicts)), ruled_out)
    };

    let count_strides = || {
        if matches!(file.metadata.file, ColumnarFile::Orc(_)) {
            planned.cache.chunks().count_pruned_strides(ruled_out);
        }
    };

    let rows: u64 = wanted.iter().map(|range| range.end - range.start).sum();
    if rows == 0 {
        count_strides();
        return Ok(RowGroupAccess::Nothing);
    }

    let whole = file.metadata.estimated_bytes(row_group.index, columns);
    if rows.saturating_mul(SELECTION_DIVISOR) > row_group.rows || whole < MIN_SELECTION_BYTES {
        return Ok(RowGroupAccess::Whole);
    }

    let leaves = file.metadata.leaves_of(columns);
    let all: Vec<(usize, bool)> = leaves.into_iter().map(|leaf| (leaf, false)).collect();
    let leaves = indexes(planned, file, row_group.index, &all).await?;
    let Some(selected) = file.metadata.select(row_group.index, columns, &wanted, &leaves) else {
        return Ok(RowGroupAccess::Whole);
    };
    if selected.bytes().saturating_mul(SELECTION_DIVISOR) > whole {
        return Ok(RowGroupAccess::Whole);
    }
    let Some(working) = planned.cache.working().try_reserve(selected.working_bytes()) else {
        return Ok(RowGroupAccess::Whole);
    };

    let mut selected = file.metadata.read_selected(&file.object, selected).await?;
    if matches!(selected, RowGroupSubset::Strides(_)) {
        let metadata = file.metadata.clone();
        let rows = STREAMED_ROWS.min(planned.batch_rows);
        match workers.run(move || metadata.decode_strides(selected, rows)).await? {
            Some(decoded) => selected = decoded,
            None => return Ok(RowGroupAccess::Whole),
        }
    }

    count_strides();
    Ok(RowGroupAccess::Few(selected, working))
}

/// Joins adjacent ranges that are not pruned.
fn join_ranges(ranges: impl Iterator<Item = (Range<u64>, PruneVerdict)>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for (range, _) in ranges.filter(|(_, verdict)| *verdict != PruneVerdict::None) {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// Returns the indexes of some leaves, each with its bloom filter if requested; read once for each version.
async fn indexes(
    planned: &ScanPlan,
    file: &PlannedScanFile,
    row_group: usize,
    leaves: &[(usize, bool)],
) -> Result<Vec<(usize, ColumnChunkIndex)>> {
    let chunks = planned.cache.chunks();
    let key = |(leaf, bloom): (usize, bool)| {
        let object = file.object.version()?;
        Some(IndexKey { object, row_group: row_group as u32, leaf: leaf as u32, bloom })
    };
    // An index with its bloom filter also serves requests without one.
    let known = |(leaf, bloom): (usize, bool)| {
        let with = || chunks.index(&key((leaf, true))?);
        if bloom { with() } else { chunks.index(&key((leaf, false))?).or_else(with) }
    };
    let known: Vec<Option<ColumnChunkIndex>> = leaves.iter().map(|leaf| known(*leaf)).collect();
    let missing: Vec<(usize, bool)> =
        leaves.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(leaf, _)| *leaf).collect();

    let read = if missing.is_empty() {
        Vec::new()
    } else {
        file.metadata.indexes(&file.object, row_group, &missing).await?
    };
    let mut read = read.into_iter();
    let found = leaves.iter().zip(known).filter_map(|(leaf, known)| {
        let index = known.or_else(|| {
            let index = read.next()?;
            if let Some(key) = key(*leaf) {
                chunks.keep_index(key, index.clone());
            }
            Some(index)
        });
        Some((leaf.0, index?))
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_may_pass_are_read_as_one() {
        let verdicts = [PruneVerdict::Some, PruneVerdict::All, PruneVerdict::None, PruneVerdict::Some];
        let ranges = [0..10, 10..20, 20..30, 30..35];
        assert_eq!(join_ranges(ranges.into_iter().zip(verdicts)), [0..20, 30..35]);
    }
}
