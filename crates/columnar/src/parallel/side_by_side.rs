//! Work that several threads share: each takes the largest that nobody took, so that no large one is left for the end.

use std::{
    cmp::Reverse,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::Mutex;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum ParallelError<E> {
    /// What some work said.
    Wrong(E),
    /// Some work met what its authors did not think of.
    Panicked,
    /// The runtime is shutting down.
    Ended(String),
}

/// What becomes of all that is to be done, in its order; `size` says what is large. Must be used within a tokio runtime.
/// Where this is dropped, or something goes wrong, nothing more is begun.
pub(crate) async fn side_by_side<T: Send + 'static, U: Send + 'static, E: Send + 'static>(
    threads: usize,
    work: Vec<T>,
    size: impl Fn(&T) -> usize,
    run: impl Fn(T) -> Result<U, E> + Copy + Send + Sync + 'static,
) -> Result<Vec<U>, ParallelError<E>> {
    let count = work.len();
    let mut work: Vec<(usize, T)> = work.into_iter().enumerate().collect();
    work.sort_by_cached_key(|(_, item)| Reverse(size(item)));
    let queue = Arc::new(Mutex::new(VecDeque::from(work)));
    let _end = ClearQueueOnDrop(queue.clone());
    let threads = (0..threads.min(count)).map(|_| {
        let queue = queue.clone();
        tokio::task::spawn_blocking(move || {
            let mut done = Vec::new();
            loop {
                let next = queue.lock().pop_front();
                let Some((at, item)) = next else { return Ok(done) };
                // An encoder that panics must not take the process with it.
                let ran = catch_unwind(AssertUnwindSafe(|| run(item)));
                let ran = ran.map_or(Err(ParallelError::Panicked), |ran| ran.map_err(ParallelError::Wrong));
                done.push((at, ran.inspect_err(|_| queue.lock().clear())?));
            }
        })
    });
    let mut all: Vec<(usize, U)> = Vec::with_capacity(count);
    for thread in futures::future::join_all(threads).await {
        all.extend(thread.map_err(|error| ParallelError::Ended(error.to_string()))??);
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, done)| done).collect())
}

/// Ends the work of those whom nobody waits for any more.
struct ClearQueueOnDrop<T>(Arc<Mutex<VecDeque<(usize, T)>>>);

impl<T> Drop for ClearQueueOnDrop<T> {
    fn drop(&mut self) {
        self.0.lock().clear();
    }
}
