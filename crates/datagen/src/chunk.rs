//! A chunk of a table: rows that one thread generates at a time. The chunks of a part are consecutive.

use arrow::{array::RecordBatch, error::ArrowError};

/// Number of rows in a batch.
pub(crate) const BATCH_ROWS: usize = 8_192;

/// Batches of a generator.
pub(crate) type GeneratedBatches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableChunk {
    /// Chunk `number` of `of` chunks of equal length, from 1, without its first `skip` rows and limited to `rows` of
    /// the others.
    Numbered { number: u64, of: u64, skip: u64, rows: Option<u64> },
    /// Rows generated from the source rows `first` to `last`, counted from 1.
    Sources { first: u64, last: u64 },
}

/// Drops the first `skip` rows of the batches, and limits the rest to `rows`.
pub(crate) fn clipped(batches: GeneratedBatches, skip: u64, rows: Option<u64>) -> GeneratedBatches {
    if skip == 0 && rows.is_none() {
        return batches;
    }
    let mut skip = skip;
    let mut left = rows.unwrap_or(u64::MAX);
    let mut batches = batches;

    Box::new(std::iter::from_fn(move || {
        while left > 0 {
            let batch = match batches.next()? {
                Ok(batch) => batch,
                Err(error) => return Some(Err(error)),
            };
            let count = batch.num_rows() as u64;
            let start = skip.min(count);
            skip -= start;
            let kept = (count - start).min(left);
            left -= kept;

            if kept > 0 {
                return Some(Ok(batch.slice(start as usize, kept as usize)));
            }
        }
        None
    }))
}
