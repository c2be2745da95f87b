//! Which rows of a row group a filter may pass, by page indexes and bloom filters: asked before its columns are read.

use std::{ops::Range, sync::Arc};

use stylobate_storage::Reservation;

use super::plan::{Planned, PlannedFile, PlannedUnit};
use crate::{
    Result,
    chunk_cache::IndexKey,
    parquet::{LeafIndex, PageStatistics, SelectedPages},
    predicate::Bound,
    prune::{Verdict, columns_compared, prune},
    schema::Projected,
    table_statistics::of_file,
};

/// Below so many bytes of columns all of them are read: what is decoded whole is found again.
const WORTH_SELECTING: u64 = 1 << 20;
/// Pages are read alone where they have at most one in so many of the bytes.
const ONE_IN: u64 = 4;

/// What is known of a row group before its columns are read.
pub(super) enum Narrowed {
    /// Nothing that helps.
    Whole,
    /// No row passes.
    Nothing,
    /// Few pages hold all rows that may pass; these were read.
    Few(SelectedPages, Reservation),
}

/// What the indexes of the filter's columns say, and the few pages of `columns` that are left, if they are few.
pub(super) async fn narrow(
    planned: &Planned,
    unit: PlannedUnit,
    filter: &Bound,
    columns: &[Projected],
) -> Result<Narrowed> {
    let Some(file) = planned.files.get(unit.file) else { return Ok(Narrowed::Whole) };
    let Some(paged) = file.metadata.paged() else { return Ok(Narrowed::Whole) };
    let filtered = file.metadata.indexed_leaves(unit.unit, columns_compared(filter).into_iter());
    if filtered.is_empty() {
        return Ok(Narrowed::Whole);
    }
    let leaves = indexes(planned, file, unit.unit, &filtered).await?;
    let wanted = {
        let pages = PageStatistics::new(paged, unit.unit, leaves);
        let ranges: Vec<Range<u64>> = pages.ranges().collect();
        let statistics = of_file(&planned.table, &file.located, &file.metadata, Box::new(pages));
        joined(ranges.into_iter().zip(prune(filter, &statistics)))
    };
    let rows: u64 = wanted.iter().map(|range| range.end - range.start).sum();
    if rows == 0 {
        return Ok(Narrowed::Nothing);
    }
    let whole = file.metadata.estimated_bytes(unit.unit, columns);
    if rows.saturating_mul(ONE_IN) > unit.rows || whole < WORTH_SELECTING {
        return Ok(Narrowed::Whole);
    }
    let leaves = paged.leaves_of(columns);
    let all: Vec<(usize, bool)> = leaves.into_iter().map(|leaf| (leaf, false)).collect();
    let leaves = indexes(planned, file, unit.unit, &all).await?;
    let Some(selected) = paged.select(unit.unit, columns, &wanted, leaves) else {
        return Ok(Narrowed::Whole);
    };
    if selected.bytes().saturating_mul(ONE_IN) > whole {
        return Ok(Narrowed::Whole);
    }
    let Some(working) = planned.cache.working().try_reserve(selected.bytes()) else {
        return Ok(Narrowed::Whole);
    };
    Ok(Narrowed::Few(paged.read_selected(&file.object, selected).await?, working))
}

/// Neighbours that are not ruled out become one.
fn joined(ranges: impl Iterator<Item = (Range<u64>, Verdict)>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for (range, _) in ranges.filter(|(_, verdict)| *verdict != Verdict::None) {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// The indexes of some leaves, each with its bloom filter if that is asked for; read once for each version.
async fn indexes(
    planned: &Planned,
    file: &PlannedFile,
    unit: usize,
    leaves: &[(usize, bool)],
) -> Result<Vec<(usize, Arc<LeafIndex>)>> {
    let chunks = planned.cache.chunks();
    let key = |(leaf, bloom): (usize, bool)| {
        let object = file.object.version()?;
        Some(IndexKey { object, unit: unit as u32, leaf: leaf as u32, bloom })
    };
    let known: Vec<Option<Arc<LeafIndex>>> = leaves.iter().map(|leaf| chunks.index(&key(*leaf)?)).collect();
    let missing: Vec<(usize, bool)> =
        leaves.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(leaf, _)| *leaf).collect();
    let mut read = match file.metadata.paged() {
        Some(paged) if !missing.is_empty() => paged.leaf_indexes(&file.object, unit, &missing).await?,
        _ => Vec::new(),
    }
    .into_iter();
    let found = leaves.iter().zip(known).filter_map(|(leaf, known)| {
        let index = known.or_else(|| {
            let index = Arc::new(read.next()?);
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
        let verdicts = [Verdict::Some, Verdict::All, Verdict::None, Verdict::Some];
        let ranges = [0..10, 10..20, 20..30, 30..35];
        assert_eq!(joined(ranges.into_iter().zip(verdicts)), [0..20, 30..35]);
    }
}
