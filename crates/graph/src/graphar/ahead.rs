//! Read-ahead that continues without being polled.

use tokio_util::task::AbortOnDropHandle;

use crate::{Error, Result};

/// Spawns a read that continues even if the caller stops polling, because other readers may wait for the same bytes.
/// Dropping the future aborts it.
pub(crate) async fn ahead<T: Send + 'static>(
    read: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let read = AbortOnDropHandle::new(tokio::spawn(read)).await;
    read.unwrap_or_else(|error| Err(Error::Ended { reason: error.to_string() }))
}
