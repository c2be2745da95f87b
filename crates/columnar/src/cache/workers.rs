//! FIFO queues of decode jobs with bounded concurrency and reusable scratch memory.

use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::Mutex;
use stylobate_storage::run_blocking;
use tokio::{
    runtime::{self, Handle},
    sync::oneshot,
};

use crate::{Error, Result, parallel::decode_threads::run_on_decode_thread, parquet::DecodeScratch};

/// Queues of decode jobs, at most `threads` running per runtime. A thread takes jobs until none is left, so a scan
/// costs few wake-ups. Cheap to clone.
#[derive(Clone)]
pub(crate) struct DecodeWorkers {
    threads: usize,
    state: Arc<Mutex<DecodeWorkersState>>,
}

/// Work that neither awaits nor waits for other work of the queue.
type DecodeJob = Box<dyn FnOnce(&mut DecodeScratch) + Send>;

#[derive(Default)]
struct DecodeWorkersState {
    /// One per runtime: its jobs run in the context of that runtime.
    queues: HashMap<runtime::Id, DecodeQueue>,
    /// Scratch memory that threads return for reuse; at most one per thread.
    scratches: Vec<DecodeScratch>,
}

#[derive(Default)]
struct DecodeQueue {
    jobs: VecDeque<DecodeJob>,
    /// Number of threads that take jobs.
    running: usize,
}

impl DecodeWorkers {
    /// Creates queues that run at most `threads` jobs at a time.
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads: threads.max(1), state: Arc::default() }
    }

    /// Runs a job on a decode thread, in the order of calls, in the context of the current runtime. If the future is
    /// dropped, a job that has not started is dropped with it; a started one runs to its end.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] if the job panicked, or was dropped with its runtime.
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
        let (sender, receiver) = oneshot::channel();
        let work = Arc::new(Mutex::new(Some(work)));
        let _withdraw = WithdrawOnDrop(work.clone());
        self.submit(Box::new(move |scratch| {
            let Some(work) = take(&work) else { return };
            let done = catch_unwind(AssertUnwindSafe(|| work(scratch)));
            if done.is_err() {
                *scratch = DecodeScratch::default();
            }
            // The caller may be gone.
            let _ = sender.send(done.map_err(|panic| panic_reason(panic.as_ref())));
        }));

        let ended = |reason| Error::Ended { reason };
        let done = receiver.await.map_err(|_| ended("the runtime is shutting down".to_owned()))?;
        done.map_err(ended)
    }

    /// Queues a job, and starts a thread for it unless all are running.
    fn submit(&self, job: DecodeJob) {
        let handle = Handle::current();
        let mut state = self.state.lock();
        let queue = state.queues.entry(handle.id()).or_default();
        queue.jobs.push_back(job);
        if queue.running == self.threads {
            return;
        }

        queue.running += 1;
        drop(state);

        let drain = QueueDrain { state: self.state.clone(), runtime: handle.id(), is_done: false };
        let work = Box::new(move || {
            let _entered = handle.enter();
            drain.run();
        });
        if let Err(work) = run_on_decode_thread(work) {
            drop(run_blocking(work));
        }
    }
}

impl fmt::Debug for DecodeWorkers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodeWorkers").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// Guard that drops work that has not begun when the future that waits for it is dropped: the work may hold the bytes
/// of a file.
struct WithdrawOnDrop<W>(Arc<Mutex<Option<W>>>);

impl<W> Drop for WithdrawOnDrop<W> {
    fn drop(&mut self) {
        drop(take(&self.0));
    }
}

/// Takes work, which is dropped or run outside of the lock.
fn take<W>(work: &Mutex<Option<W>>) -> Option<W> {
    work.lock().take()
}

fn panic_reason(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a decode thread panicked: {}", message.unwrap_or("no reason given"))
}

/// Takes the jobs of one runtime until none is left.
struct QueueDrain {
    state: Arc<Mutex<DecodeWorkersState>>,
    runtime: runtime::Id,
    is_done: bool,
}

impl QueueDrain {
    fn run(mut self) {
        let mut scratch = self.state.lock().scratches.pop().unwrap_or_default();
        loop {
            let mut state = self.state.lock();
            let job = state.queues.get_mut(&self.runtime).and_then(|queue| queue.jobs.pop_front());
            let Some(job) = job else {
                state.scratches.push(scratch);
                // Under the same lock, so that a job that arrives from now on starts a thread.
                state.end_thread(self.runtime);
                drop(state);
                self.is_done = true;
                return;
            };

            drop(state);
            job(&mut scratch);
        }
    }
}

impl Drop for QueueDrain {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }

        // It never ran, since its runtime is shutting down. Callers learn of it from their dropped jobs.
        let lost = self.state.lock().end_thread(self.runtime);
        drop(lost);
    }
}

impl DecodeWorkersState {
    /// Counts a thread as ended. Returns the jobs that have no thread left.
    fn end_thread(&mut self, runtime: runtime::Id) -> Option<DecodeQueue> {
        let queue = self.queues.get_mut(&runtime)?;
        queue.running = queue.running.saturating_sub(1);
        if queue.running > 0 { None } else { self.queues.remove(&runtime) }
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
        let (sender, receiver) = oneshot::channel();
        tokio::spawn({
            let workers = workers.clone();
            async move {
                let work = move || {
                    sender.send(()).unwrap();
                    gone.recv().is_ok()
                };
                workers.run(work).await
            }
        });

        receiver.await.unwrap();
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
    async fn work_of_a_dropped_waiter_is_dropped_and_never_begins() {
        let (workers, go) = occupied().await;
        let begun = Arc::new(AtomicUsize::new(0));
        let count = begun.clone();
        let mut given_up = Box::pin(workers.run(move || count.fetch_add(1, Ordering::Relaxed)));
        assert!(futures::poll!(&mut given_up).is_pending());
        drop(given_up);
        assert_eq!(Arc::strong_count(&begun), 1, "while the only thread is busy");

        drop(go);
        assert_eq!(soon(workers.run(|| 2)).await, 2);
        assert_eq!(begun.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_more_work_runs_at_a_time_than_there_are_threads() {
        let workers = DecodeWorkers::new(3);
        let running = Arc::new(AtomicUsize::new(0));
        let works = (0..200).map(|number| {
            let workers = workers.clone();
            let running = running.clone();
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
        assert!(
            matches!(&error, Error::Ended { reason } if reason.ends_with("panicked: half-way")),
            "{error}"
        );
        assert_eq!(soon(workers.run(|| 4)).await, 4);
    }

    #[test]
    fn work_of_a_runtime_that_ends_is_answered_and_that_of_another_runs() {
        let workers = DecodeWorkers::new(1);
        let others = workers.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (go, gone) = mpsc::channel::<()>();
        let mut waiting = Box::pin(workers.run(move || gone.recv().is_ok()));
        runtime.block_on(async { assert!(futures::poll!(&mut waiting).is_pending()) });

        let other = tokio::runtime::Runtime::new().unwrap();
        assert_eq!(other.block_on(soon(others.run(|| 6))), 6);
        runtime.shutdown_background();
        drop(go);
        assert!(matches!(futures::executor::block_on(waiting), Ok(false)));
    }

    #[tokio::test]
    async fn work_that_no_thread_will_run_is_answered() {
        let workers = DecodeWorkers::new(1);
        let runtime = Handle::current().id();
        // As if a thread were starting.
        workers.state.lock().queues.entry(runtime).or_default().running = 1;
        let mut waiting = Box::pin(workers.run(|| 5));
        assert!(futures::poll!(&mut waiting).is_pending());

        drop(QueueDrain { state: workers.state.clone(), runtime, is_done: false });
        assert!(matches!(waiting.await, Err(Error::Ended { .. })));
        assert_eq!(soon(workers.run(|| 6)).await, 6);
    }
}
