//! Work on the columns of a row group, done by a few threads side by side.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::parallel::side_by_side::{ParallelError, side_by_side};

/// Why work failed: the column, if it is known, and the reason.
pub(super) type ParquetEncodeFailure = (Option<String>, String);

const GAVE_UP: &str = "the encoder gave up";

/// What becomes of all that is to be done, in its order; `size` says what is large. Dropped, it ends when what is being done is done.
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

/// An encoder that meets values which its authors did not think of must not take the process with it.
pub(super) fn guarded<T>(encode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(encode)).unwrap_or_else(|_| Err(GAVE_UP.to_owned()))
}
