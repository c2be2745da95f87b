//! Blocking work of one scan: no more at a time than it has threads, with scratch memory that is reused.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::Mutex;
use stylobate_storage::run_blocking;
use tokio::sync::oneshot;

use crate::{Error, Result, parquet::DecodeScratch};

/// A queue of blocking work, and the threads that take it. A thread keeps taking work until none is left: a scan then
/// costs few wake-ups, and its threads stay on processors of their own. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DecodeWorkers {
    threads: usize,
    queue: Arc<Mutex<DecodeQueue>>,
}

type DecodeJob = Box<dyn FnOnce(&mut DecodeScratch) + Send>;

#[derive(Default)]
struct DecodeQueue {
    jobs: VecDeque<DecodeJob>,
    /// Number of threads that take jobs.
    running: usize,
    /// Scratch memory that threads leave for the next; at most one per thread.
    scratches: Vec<DecodeScratch>,
}

impl DecodeWorkers {
    /// Allows `threads` pieces of work at the same time.
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), queue: Arc::default() }
    }

    /// Runs work on a blocking thread, in the order of calls. If the future is dropped, work that has not begun never
    /// begins, and other work runs to its end.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.decode(|_| work()).await
    }

    /// Runs work with scratch memory to decode in.
    pub(crate) async fn decode<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut DecodeScratch) -> T + Send + 'static,
    ) -> Result<T> {
        let (tell, told) = oneshot::channel();
        self.submit(Box::new(move |scratch| {
            if tell.is_closed() {
                return;
            }
            let done = catch_unwind(AssertUnwindSafe(|| work(scratch)));
            if done.is_err() {
                *scratch = DecodeScratch::default();
            }
            // The caller may be gone.
            let _ = tell.send(done.map_err(|_| "a panic while decoding"));
        }));

        let ended = |reason: &str| Error::Ended { reason: reason.to_owned() };
        let done = told.await.map_err(|_| ended("the runtime is shutting down"))?;
        done.map_err(ended)
    }

    /// Queues a job, and starts a thread for it unless all are running.
    fn submit(&self, job: DecodeJob) {
        let mut queue = self.queue.lock();
        queue.jobs.push_back(job);
        if queue.running == self.threads {
            return;
        }

        queue.running += 1;
        drop(queue);
        let thread = DecodeThread { queue: self.queue.clone(), is_done: false };
        drop(run_blocking(move || thread.run()));
    }
}

impl fmt::Debug for DecodeWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeWorkers").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// One of the threads that take jobs.
struct DecodeThread {
    queue: Arc<Mutex<DecodeQueue>>,
    is_done: bool,
}

impl DecodeThread {
    fn run(mut self) {
        let mut scratch = self.queue.lock().scratches.pop().unwrap_or_default();
        loop {
            let mut queue = self.queue.lock();
            let Some(job) = queue.jobs.pop_front() else {
                // Within the lock, so that a job that arrives now starts a thread.
                queue.running -= 1;
                queue.scratches.push(scratch);
                drop(queue);
                self.is_done = true;
                return;
            };

            drop(queue);
            job(&mut scratch);
        }
    }
}

impl Drop for DecodeThread {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }

        // It never ran, since the runtime is shutting down. Callers learn it from their dropped jobs.
        let mut queue = self.queue.lock();
        queue.running -= 1;
        let jobs = if queue.running == 0 { std::mem::take(&mut queue.jobs) } else { VecDeque::new() };
        drop(queue);
        drop(jobs);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        task::Poll,
        time::Duration,
    };

    use futures::future::join_all;

    use super::*;

    /// Occupies the only thread until the sender is used or dropped.
    async fn occupied() -> (DecodeWorkers, mpsc::Sender<()>) {
        let workers = DecodeWorkers::new(1);
        let (go, gone) = mpsc::channel::<()>();
        let (tell, told) = oneshot::channel();
        tokio::spawn({
            let workers = workers.clone();
            async move {
                let work = move || {
                    tell.send(()).unwrap();
                    gone.recv().is_ok()
                };
                workers.run(work).await
            }
        });

        told.await.unwrap();
        (workers, go)
    }

    async fn soon<T>(work: impl Future<Output = Result<T>>) -> T {
        tokio::time::timeout(Duration::from_secs(30), work).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_waiter_that_is_not_polled_does_not_keep_others_from_a_thread() {
        let (workers, go) = occupied().await;
        let mut second = Box::pin(workers.run(|| 2));
        assert!(matches!(futures::poll!(&mut second), Poll::Pending));
        go.send(()).unwrap();
        assert_eq!(soon(workers.run(|| 3)).await, 3);
        assert_eq!(soon(second).await, 2);
    }

    #[tokio::test]
    async fn work_of_a_dropped_waiter_never_begins() {
        let (workers, go) = occupied().await;
        let begun = Arc::new(AtomicUsize::new(0));
        let count = begun.clone();
        let mut given_up = Box::pin(workers.run(move || count.fetch_add(1, Ordering::Relaxed)));
        assert!(futures::poll!(&mut given_up).is_pending());
        drop(given_up);
        drop(go);
        assert_eq!(soon(workers.run(|| 2)).await, 2);
        assert_eq!(begun.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_more_work_runs_at_a_time_than_there_are_threads() {
        let workers = DecodeWorkers::new(3);
        let running = Arc::new(AtomicUsize::new(0));
        let works = (0..200).map(|number| {
            let (workers, running) = (workers.clone(), running.clone());
            async move {
                let work = move || {
                    let at_once = running.fetch_add(1, Ordering::SeqCst) + 1;
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                    (number, at_once)
                };
                soon(workers.run(work)).await
            }
        });

        for (expected, (number, at_once)) in join_all(works).await.into_iter().enumerate() {
            assert_eq!(number, expected);
            assert!(at_once <= 3, "{at_once} at once");
        }
    }

    #[tokio::test]
    async fn a_panic_is_the_error_of_its_caller_alone() {
        let workers = DecodeWorkers::new(1);
        let error = workers.run(|| panic!("half-way")).await.unwrap_err();
        assert!(matches!(&error, Error::Ended { reason } if reason.contains("panic")), "{error}");
        assert_eq!(soon(workers.run(|| 4)).await, 4);
    }

    #[test]
    fn work_of_a_runtime_that_ends_is_an_error() {
        let workers = DecodeWorkers::new(1);
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        let (go, gone) = mpsc::channel::<()>();
        // The only blocking thread of the runtime is busy, so the thread of the queue never starts.
        runtime.spawn_blocking(move || gone.recv().is_ok());
        let mut waiting = Box::pin(workers.run(|| 5));
        runtime.block_on(async { assert!(futures::poll!(&mut waiting).is_pending()) });

        runtime.shutdown_background();
        drop(go);
        let answer = futures::executor::block_on(waiting);
        assert!(matches!(answer, Err(Error::Ended { .. })), "{answer:?}");
    }
}
