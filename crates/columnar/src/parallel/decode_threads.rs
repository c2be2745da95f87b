//! Threads that decode. The one that became idle last runs next: its memory and the caches of its processor are warm.
//!
//! A runtime hands blocking work to its threads in turn. Each thread allocates from memory of its own, so a scan that
//! decodes on one thread at a time would touch the memory of all of them.

use std::{
    io,
    sync::{Arc, mpsc},
    thread::{self, ThreadId},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

/// What a thread runs. It must not panic.
pub(crate) type DecodeWork = Box<dyn FnOnce() + Send>;

/// Time after which an idle thread ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The threads of this process.
static THREADS: ArcSwapOption<DecodeThreads> = ArcSwapOption::const_empty();

/// Runs work on the idle thread that worked last, or on a new thread. Returns the work if no thread can be started.
pub(crate) fn run_on_decode_thread(work: DecodeWork) -> Result<(), DecodeWork> {
    DecodeThreads::of_this_process().run(work)
}

struct DecodeThreads {
    process: u32,
    /// The one that became idle last is the last.
    idle: Mutex<Vec<IdleThread>>,
}

struct IdleThread {
    id: ThreadId,
    next: mpsc::Sender<DecodeWork>,
}

impl DecodeThreads {
    fn new() -> Arc<Self> {
        Arc::new(Self { process: std::process::id(), idle: Mutex::default() })
    }

    /// A forked child has none of the threads of its parent, and may have inherited their list locked.
    fn of_this_process() -> Arc<Self> {
        let process = std::process::id();
        loop {
            let current = THREADS.load_full();
            if let Some(current) = &current
                && current.process == process
            {
                return current.clone();
            }
            THREADS.compare_and_swap(&current, Some(Self::new()));
        }
    }

    fn run(self: Arc<Self>, work: DecodeWork) -> Result<(), DecodeWork> {
        let idle = self.idle.lock().pop();
        match idle {
            // A thread ends only after it has removed itself from the list, so it receives what it is sent.
            Some(thread) => thread.next.send(work).map_err(|unsent| unsent.0),
            None => self.start(work),
        }
    }

    fn start(self: Arc<Self>, work: DecodeWork) -> Result<(), DecodeWork> {
        let (next, works) = mpsc::channel();
        // Kept here until the thread has started: a closure that cannot be started is dropped.
        let first = Arc::new(Mutex::new(Some(work)));
        let started: io::Result<_> = thread::Builder::new().name("stylobate-decode".to_owned()).spawn({
            let first = first.clone();
            move || {
                let work = first.lock().take();
                if let Some(work) = work {
                    self.serve(work, &next, &works);
                }
            }
        });
        match started {
            Ok(_) => Ok(()),
            Err(_) => first.lock().take().map_or(Ok(()), Err),
        }
    }

    fn serve(&self, first: DecodeWork, next: &mpsc::Sender<DecodeWork>, works: &mpsc::Receiver<DecodeWork>) {
        let id = thread::current().id();
        let mut work = first;
        loop {
            work();
            self.idle.lock().push(IdleThread { id, next: next.clone() });
            let received = works.recv_timeout(IDLE_TIMEOUT).or_else(|_| {
                if self.end_idle(id) { Err(mpsc::RecvError) } else { works.recv() }
            });
            match received {
                Ok(next) => work = next,
                Err(_) => return,
            }
        }
    }

    /// Removes a thread from the list. Returns `false` if it is not there, since work is being sent to it.
    fn end_idle(&self, id: ThreadId) -> bool {
        let mut idle = self.idle.lock();
        let position = idle.iter().position(|thread| thread.id == id);
        if let Some(position) = position {
            idle.remove(position);
        }
        position.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    /// Starts work that ends when the sender is used or dropped; returns the sender and the thread.
    fn occupy(threads: &Arc<DecodeThreads>) -> (mpsc::Sender<()>, ThreadId) {
        let (go, gone) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let work = Box::new(move || {
            sender.send(thread::current().id()).unwrap();
            let _ = gone.recv();
        });
        assert!(threads.clone().run(work).is_ok());
        (go, receiver.recv_timeout(SOON).unwrap())
    }

    fn wait_for_idle(threads: &DecodeThreads, count: usize) {
        while threads.idle.lock().len() != count {
            thread::yield_now();
        }
    }

    #[test]
    fn the_thread_that_became_idle_last_runs_next() {
        let threads = DecodeThreads::new();
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
    fn a_thread_that_was_taken_from_the_list_waits_for_its_work() {
        let threads = DecodeThreads::new();
        let (end, id) = occupy(&threads);
        drop(end);
        wait_for_idle(&threads, 1);
        assert!(threads.end_idle(id));
        assert!(!threads.end_idle(id));
    }

    #[test]
    fn a_forked_child_has_threads_of_its_own() {
        let parent = Arc::new(DecodeThreads { process: 0, idle: Mutex::default() });
        THREADS.store(Some(parent.clone()));
        let child = DecodeThreads::of_this_process();
        assert!(!Arc::ptr_eq(&parent, &child));
        assert!(Arc::ptr_eq(&child, &DecodeThreads::of_this_process()));
    }
}
