//! A LIFO pool of decode threads: the thread that became idle last has a warm allocator and warm processor caches.
//!
//! tokio's blocking pool rotates through its threads. Each thread allocates from its own memory, so a scan that
//! decodes on one thread at a time would touch the memory of all of them.

use std::{
    io,
    sync::{Arc, mpsc},
    thread::{self, ThreadId},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

/// Work for a decode thread. A panic ends the thread.
pub(crate) type DecodeWork = Box<dyn FnOnce() + Send>;

/// Idle time after which a thread exits.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of threads, far above the number of processors: concurrent scans each have their own threads.
const MAX_THREADS: usize = 256;

/// The pool of this process; replaced in a forked child.
static THREADS: ArcSwapOption<DecodeThreads> = ArcSwapOption::const_empty();

/// Runs work on the thread that became idle last, or on a new one.
///
/// # Errors
///
/// The work itself, if all threads are busy and their maximum number is reached, or the system refuses a new one.
pub(crate) fn run_on_decode_thread(work: DecodeWork) -> Result<(), DecodeWork> {
    DecodeThreads::of_this_process().run(work)
}

struct DecodeThreads {
    process: u32,
    idle_timeout: Duration,
    state: Mutex<DecodeThreadsState>,
}

#[derive(Default)]
struct DecodeThreadsState {
    /// A stack: the thread that became idle last is on top.
    idle: Vec<IdleThread>,
    /// Number of all threads, including busy ones.
    count: usize,
}

struct IdleThread {
    id: ThreadId,
    jobs: mpsc::Sender<DecodeWork>,
}

impl DecodeThreads {
    fn new(idle_timeout: Duration) -> Arc<Self> {
        Arc::new(Self { process: std::process::id(), idle_timeout, state: Mutex::default() })
    }

    /// Returns the pool of this process. A forked child gets a new one: it has none of its parent's threads, and may
    /// have inherited the lock as held.
    fn of_this_process() -> Arc<Self> {
        let process = std::process::id();
        loop {
            let current = THREADS.load_full();
            if let Some(current) = &current
                && current.process == process
            {
                return current.clone();
            }
            THREADS.compare_and_swap(&current, Some(Self::new(IDLE_TIMEOUT)));
        }
    }

    fn run(self: Arc<Self>, work: DecodeWork) -> Result<(), DecodeWork> {
        let idle = {
            let mut state = self.state.lock();
            let idle = state.idle.pop();
            if idle.is_none() {
                if state.count >= MAX_THREADS {
                    return Err(work);
                }
                state.count += 1;
            }
            idle
        };

        match idle {
            // A thread that is not in the list waits for this message without a timeout.
            Some(thread) => thread.jobs.send(work).map_err(|unsent| unsent.0),
            None => self.start(work),
        }
    }

    /// Starts a thread, which is counted already.
    fn start(self: Arc<Self>, work: DecodeWork) -> Result<(), DecodeWork> {
        let (sender, jobs) = mpsc::channel();
        let counted = CountedThread(self);
        // A failed start drops its closure, so the work is kept outside of it.
        let first = Arc::new(Mutex::new(Some(work)));
        let started: io::Result<_> = thread::Builder::new().name("decode".to_owned()).spawn({
            let first = first.clone();
            move || {
                let work = first.lock().take();
                if let Some(work) = work {
                    counted.0.serve(work, &sender, &jobs);
                }
            }
        });
        match started {
            Ok(_) => Ok(()),
            Err(_) => first.lock().take().map_or(Ok(()), Err),
        }
    }

    fn serve(&self, first: DecodeWork, sender: &mpsc::Sender<DecodeWork>, jobs: &mpsc::Receiver<DecodeWork>) {
        let id = thread::current().id();
        first();

        loop {
            self.state.lock().idle.push(IdleThread { id, jobs: sender.clone() });
            let Some(work) = self.next_job(id, jobs) else { return };
            work();
        }
    }

    /// Waits for the next job; returns `None` if the thread was idle for too long.
    fn next_job(&self, id: ThreadId, jobs: &mpsc::Receiver<DecodeWork>) -> Option<DecodeWork> {
        if let Ok(work) = jobs.recv_timeout(self.idle_timeout) {
            return Some(work);
        }
        // A thread that was taken from the list will be sent a job.
        if self.remove_idle(id) { None } else { jobs.recv().ok() }
    }

    /// Removes a thread from the list. Returns `false` if it is not there.
    fn remove_idle(&self, id: ThreadId) -> bool {
        let mut state = self.state.lock();
        let position = state.idle.iter().position(|thread| thread.id == id);
        if let Some(position) = position {
            state.idle.remove(position);
        }
        position.is_some()
    }
}

/// A counted thread of a pool, until it ends.
struct CountedThread(Arc<DecodeThreads>);

impl Drop for CountedThread {
    fn drop(&mut self) {
        self.0.state.lock().count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    /// Starts work that ends when the sender is used or dropped; returns the sender and the thread.
    fn occupy(threads: &Arc<DecodeThreads>) -> (mpsc::Sender<()>, ThreadId) {
        let (end, ended) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let work = Box::new(move || {
            sender.send(thread::current().id()).unwrap();
            let _ = ended.recv();
        });
        assert!(threads.clone().run(work).is_ok());
        (end, receiver.recv_timeout(DEADLINE).unwrap())
    }

    fn wait_for_idle(threads: &DecodeThreads, count: usize) {
        while threads.state.lock().idle.len() != count {
            thread::yield_now();
        }
    }

    #[test]
    fn the_thread_that_became_idle_last_runs_next() {
        let threads = DecodeThreads::new(IDLE_TIMEOUT);
        let (end_first, first) = occupy(&threads);
        let (end_second, second) = occupy(&threads);
        assert_ne!(first, second);
        drop(end_second);
        wait_for_idle(&threads, 1);
        drop(end_first);
        wait_for_idle(&threads, 2);

        for _ in 0..3 {
            let (end, id) = occupy(&threads);
            assert_eq!(id, first);
            drop(end);
            wait_for_idle(&threads, 2);
        }
        let (_end_first, again) = occupy(&threads);
        let (_end_second, other) = occupy(&threads);
        assert_eq!((again, other), (first, second));
    }

    #[test]
    fn a_thread_that_was_taken_from_the_list_waits_for_its_job() {
        let threads = DecodeThreads::new(Duration::ZERO);
        let (sender, jobs) = mpsc::channel();
        let serving = threads.clone();
        // As if a job were about to be sent: the list does not have this thread.
        let next = move || serving.next_job(thread::current().id(), &jobs).map(|work| work());
        let thread = thread::spawn(next);
        assert!(sender.send(Box::new(|| {})).is_ok());
        assert_eq!(thread.join().unwrap(), Some(()));
    }

    #[test]
    fn idle_threads_exit() {
        let threads = DecodeThreads::new(Duration::from_millis(1));
        let (end, _) = occupy(&threads);
        assert_eq!(threads.state.lock().count, 1);
        drop(end);
        while threads.state.lock().count > 0 {
            thread::yield_now();
        }
        assert!(threads.state.lock().idle.is_empty());
    }

    #[test]
    fn the_number_of_threads_is_limited() {
        let threads = DecodeThreads::new(IDLE_TIMEOUT);
        threads.state.lock().count = MAX_THREADS;
        assert!(threads.clone().run(Box::new(|| {})).is_err());
        threads.state.lock().count = 0;
        assert!(threads.run(Box::new(|| {})).is_ok());
    }

    #[test]
    fn a_forked_child_has_threads_of_its_own() {
        let state = Mutex::default();
        let parent = Arc::new(DecodeThreads { process: 0, idle_timeout: IDLE_TIMEOUT, state });
        THREADS.store(Some(parent.clone()));
        let child = DecodeThreads::of_this_process();
        assert!(!Arc::ptr_eq(&parent, &child));
        assert!(Arc::ptr_eq(&child, &DecodeThreads::of_this_process()));
    }
}
