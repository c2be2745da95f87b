//! Blocking work whose result is awaited by async code.

use futures::TryFutureExt;
use tokio::task::JoinError;

/// Runs a closure on a blocking thread of the current runtime and returns its result. The closure is submitted
/// immediately, before the future is first polled.
///
/// Dropping the future does not stop the closure: it runs to completion, and its result is dropped. To stop it
/// earlier, have it watch something that the caller drops, such as a channel. The runtime bounds the number of its
/// blocking threads; for a lower bound, hold a semaphore permit within the closure.
///
/// # Errors
///
/// If the closure panicked, or if the runtime is shutting down and the closure never ran.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, BlockingWorkError>> + Send + Unpin + 'static {
    tokio::task::spawn_blocking(work).map_err(BlockingWorkError)
}

/// Error for blocking work that ended without a result. Crates convert it to their own error.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BlockingWorkError(JoinError);

impl From<BlockingWorkError> for object_store::Error {
    fn from(error: BlockingWorkError) -> Self {
        Self::JoinError { source: error.0 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_panic_of_blocking_work_is_an_error() {
        assert_eq!(run_blocking(|| 7).await.unwrap(), 7);
        let error = run_blocking(|| -> u8 { panic!("half-way") }).await.unwrap_err();
        assert!(error.to_string().contains("panic"), "{error}");
        let error = object_store::Error::from(error);
        assert!(matches!(error, object_store::Error::JoinError { .. }), "{error}");
    }

    #[tokio::test]
    async fn blocking_work_begins_before_it_is_awaited_and_ends_though_its_future_is_dropped() {
        let (go, gone) = mpsc::channel::<()>();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let work = run_blocking(move || {
            gone.recv().unwrap();
            sender.send(()).unwrap();
        });
        drop(work);
        go.send(()).unwrap();
        receiver.await.unwrap();
    }
}
