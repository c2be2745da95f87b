//! Splits incoming batches, and numbers their rows.

use arrow::array::RecordBatch;
use futures::{Stream, TryStreamExt};

use super::columns::BATCH_ROWS;
use crate::{Error, Result};

/// Returns batches of at most [`BATCH_ROWS`] rows, each with the number of its first row in the whole input.
pub(super) fn numbered(
    batches: impl Stream<Item = Result<RecordBatch>> + Send,
) -> impl Stream<Item = Result<(u64, RecordBatch)>> + Send {
    let pieces = batches.map_ok(|batch| {
        let rows = batch.num_rows();
        let starts = (0..rows).step_by(BATCH_ROWS);
        let pieces =
            starts.map(move |start| Ok::<_, Error>(batch.slice(start, BATCH_ROWS.min(rows - start))));
        futures::stream::iter(pieces)
    });
    let mut next = 0;
    pieces.try_flatten().map_ok(move |piece| {
        let first = next;
        next += piece.num_rows() as u64;
        (first, piece)
    })
}
