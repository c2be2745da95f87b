//! Distributes work over threads. Each takes the largest remaining item, so that no large one is left for the end.

use std::{
    cmp::Reverse,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::Mutex;
use stylobate_storage::run_blocking;

/// Error of parallel work.
#[derive(Debug)]
pub(crate) enum ParallelError<E> {
    /// Error of an item.
    Wrong(E),
    /// An item panicked.
    Panicked,
    /// The runtime is shutting down.
    Ended(String),
}

/// Runs all items on threads and returns their results in the order of the items, the largest by `size` first. Must be
/// used within a tokio runtime. If the future is dropped or an item fails, no further item begins.
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
        run_blocking(move || {
            let mut done = Vec::new();
            loop {
                let next = queue.lock().pop_front();
                let Some((at, item)) = next else { return Ok(done) };
                // A panic of an encoder must not end the process.
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

/// Guard that clears the queue on drop, which ends the threads.
struct ClearQueueOnDrop<T>(Arc<Mutex<VecDeque<(usize, T)>>>);

impl<T> Drop for ClearQueueOnDrop<T> {
    fn drop(&mut self) {
        self.0.lock().clear();
    }
}
