//! Work that takes long, on threads where it holds up nobody.

use crate::{Error, Result};

/// Does it on a thread of its own. Must be used within a tokio runtime. Dropped, the work goes on to its end and is
/// forgotten.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::Ended { reason: error.to_string() })?
}
