//! Runs work on the columns of a row group in parallel.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::parallel::side_by_side::{ParallelError, side_by_side};

/// Column that failed, if known, and the reason.
pub(super) type ParquetEncodeFailure = (Option<String>, String);

const GAVE_UP: &str = "the encoder gave up";

/// Runs each item on a few threads, and returns the results in order; `size` weighs the items. If dropped, it stops
/// once running items end.
pub(super) async fn in_parallel<T: Send + 'static, U: Send + 'static>(
    threads: usize,
    work: Vec<T>,
    size: impl Fn(&T) -> usize,
    run: impl Fn(T) -> Result<U, ParquetEncodeFailure> + Copy + Send + Sync + 'static,
) -> Result<Vec<U>, ParquetEncodeFailure> {
    side_by_side(threads, work, size, run).await.map_err(|failed| match failed {
        ParallelError::Wrong(failed) => failed,
        ParallelError::Panicked => (None, GAVE_UP.to_owned()),
        ParallelError::Ended(reason) => (None, reason),
    })
}

/// Converts a panic of an encoder into an error: unforeseen values must not end the process.
pub(super) fn guarded<T>(encode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|_| Err(GAVE_UP.to_owned()))
}
