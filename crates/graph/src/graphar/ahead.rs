//! Reads ahead that go on by themselves.

use tokio_util::task::AbortOnDropHandle;

use crate::{Error, Result};

/// Reads on though nobody asks on: others may wait for the same bytes. Dropped, it ends.
pub(crate) async fn ahead<T: Send + 'static>(
    read: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let read = AbortOnDropHandle::new(tokio::spawn(read)).await;
    read.unwrap_or_else(|error| Err(Error::Ended { reason: error.to_string() }))
}
