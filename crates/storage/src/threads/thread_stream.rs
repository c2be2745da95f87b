//! A stream of items from a blocking thread, which ends only if the thread reports that it is done.

use futures::{StreamExt, stream::BoxStream};
use tokio::sync::mpsc;

use super::blocking::{BlockingWorkError, run_blocking};

/// Streams the items that `produce` yields on a blocking thread of the current runtime, buffering at most `ahead` of
/// them.
///
/// `produce` passes items to the given function, which returns `false` once the stream is dropped. The stream ends
/// when `produce` returns `Ok`; if it returns an error, that is the last item. If it does not return, because it
/// panicked or the runtime is shutting down, the last item is the error that `ended` makes from the cause: a dead
/// thread is never mistaken for one that is done.
///
/// The end of the stream joins the thread. Dropping the stream does not wait for it, since that would block a thread
/// of the runtime: `produce` notices when it yields its next item.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn stream_from_thread<T, E>(
    ahead: usize,
    produce: impl FnOnce(&mut dyn FnMut(T) -> bool) -> Result<(), E> + Send + 'static,
    ended: impl FnOnce(String) -> E + Send + 'static,
) -> BoxStream<'static, Result<T, E>>
where
    T: Send + 'static,
    E: Send + 'static,
{
    let (sender, items) = mpsc::channel(ahead);
    let thread = run_blocking(move || produce(&mut |item| sender.blocking_send(item).is_ok()));
    let reading = ThreadStreamState { items, thread, ended };
    futures::stream::unfold(Some(reading), |reading| async move {
        let mut reading = reading?;
        match reading.items.recv().await {
            Some(item) => Some((Ok(item), Some(reading))),
            None => reading.end().await.map(|error| (Err(error), None)),
        }
    })
    .boxed()
}

struct ThreadStreamState<T, J, F> {
    items: mpsc::Receiver<T>,
    thread: J,
    ended: F,
}

impl<T, E, J, F> ThreadStreamState<T, J, F>
where
    J: Future<Output = Result<Result<(), E>, BlockingWorkError>>,
    F: FnOnce(String) -> E,
{
    /// Joins the thread. Returns its error, if any.
    async fn end(self) -> Option<E> {
        match self.thread.await {
            Ok(done) => done.err(),
            Err(error) => Some((self.ended)(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects the items of a stream up to `last`, followed by the result of `end`.
    async fn taken(
        last: usize,
        end: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Vec<Result<usize, String>> {
        let produce = move |give: &mut dyn FnMut(usize) -> bool| {
            for item in 0..last {
                if !give(item) {
                    return Ok(());
                }
            }
            end()
        };

        stream_from_thread(2, produce, |reason| format!("ended: {reason}")).collect().await
    }

    #[tokio::test]
    async fn a_thread_that_is_done_ends_the_stream() {
        assert_eq!(taken(5, || Ok(())).await, (0..5).map(Ok).collect::<Vec<_>>());
        assert_eq!(taken(0, || Ok(())).await, []);
    }

    #[tokio::test]
    async fn an_error_is_the_last_item() {
        let items = taken(2, || Err("wrong".to_owned())).await;
        assert_eq!(items, [Ok(0), Ok(1), Err("wrong".to_owned())]);
    }

    #[tokio::test]
    async fn a_thread_that_panics_is_an_error_and_not_the_end() {
        for last in [0, 1, 2, 10] {
            let items = taken(last, || panic!("half-way")).await;
            assert_eq!(items.len(), last + 1);
            assert_eq!(items[..last], (0..last).map(Ok).collect::<Vec<_>>());
            let error = items[last].as_ref().unwrap_err();
            assert!(error.starts_with("ended: ") && error.contains("panic"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_stream_that_is_dropped_ends_its_thread() {
        let (sender, done) = tokio::sync::oneshot::channel();
        let produce = move |give: &mut dyn FnMut(u64) -> bool| {
            while give(1) {}
            let _ = sender.send(());
            Ok::<_, String>(())
        };
        let mut stream = stream_from_thread(1, produce, |reason| reason);
        assert_eq!(stream.next().await, Some(Ok(1)));
        drop(stream);
        done.await.unwrap();
    }
}
