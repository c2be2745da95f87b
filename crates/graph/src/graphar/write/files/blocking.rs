//! Blocking work on threads of its own.

use crate::{Error, Result};

/// Runs a closure on a blocking thread. Must be called within a tokio runtime. If the future is dropped, the work runs
/// to its end and its result is discarded.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Ended { reason: error.to_string() })?
}
