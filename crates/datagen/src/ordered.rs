//! Ordered parallel work: several threads process pieces that are consumed in order. No thread starts a piece far
//! ahead of its turn, which bounds the number of waiting results.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use parking_lot::{Condvar, Mutex};

/// Pieces in progress or waiting, per thread.
const PIECES_PER_THREAD: usize = 4;

/// Processes the piece of work with this number.
pub(crate) type OrderedWorkFn<T> = Box<dyn FnMut(usize) -> Result<T, String> + Send>;

/// The results of the pieces, in order. Once dropped, the threads end after their current piece.
pub(crate) struct OrderedWork<T> {
    count: usize,
    next: usize,
    workers: OrderedWorkers<T>,
}

enum OrderedWorkers<T> {
    /// The consumer does the work itself.
    Taker(OrderedWorkFn<T>),
    Threads(Arc<OrderedQueue<T>>),
}

struct OrderedQueue<T> {
    state: Mutex<OrderedQueueState<T>>,
    /// Signals that a piece is finished.
    done: Condvar,
    /// Signals that a piece was taken.
    taken: Condvar,
    count: usize,
    /// Maximum number of pieces in progress or waiting.
    ahead: usize,
}

struct OrderedQueueState<T> {
    begun: usize,
    taken: usize,
    waiting: HashMap<usize, Result<T, String>>,
    is_given_up: bool,
}

impl<T: Send + 'static> OrderedWork<T> {
    /// Starts `count` pieces of work on `threads` threads, each with its own `worker`.
    pub(crate) fn new(count: usize, threads: usize, worker: impl Fn() -> OrderedWorkFn<T>) -> Self {
        let threads = threads.min(count);
        if threads <= 1 {
            return Self { count, next: 0, workers: OrderedWorkers::Taker(worker()) };
        }
        let state = OrderedQueueState { begun: 0, taken: 0, waiting: HashMap::new(), is_given_up: false };
        let shared = Arc::new(OrderedQueue {
            state: Mutex::new(state),
            done: Condvar::new(),
            taken: Condvar::new(),
            count,
            ahead: PIECES_PER_THREAD * threads,
        });

        for _ in 0..threads {
            let shared = shared.clone();
            let work = worker();
            let spawned = thread::Builder::new().name("stylobate-datagen".to_owned()).spawn({
                let shared = shared.clone();
                move || shared.run(work)
            });

            if spawned.is_err() {
                // If no thread can be started, the consumer does the work itself.
                shared.give_up();
                return Self { count, next: 0, workers: OrderedWorkers::Taker(worker()) };
            }
        }

        Self { count, next: 0, workers: OrderedWorkers::Threads(shared) }
    }

    /// Waits for the next piece; `None` after the last one, and after one that failed.
    pub(crate) fn next(&mut self) -> Option<Result<T, String>> {
        if self.next >= self.count {
            return None;
        }
        let number = self.next;
        let done = match &mut self.workers {
            OrderedWorkers::Taker(work) => guarded(work, number),
            OrderedWorkers::Threads(shared) => shared.take(number),
        };
        self.next = if done.is_ok() { number + 1 } else { self.count };
        Some(done)
    }
}

impl<T> Drop for OrderedWork<T> {
    fn drop(&mut self) {
        if let OrderedWorkers::Threads(shared) = &self.workers {
            shared.give_up();
        }
    }
}

impl<T> OrderedQueue<T> {
    fn run(&self, mut work: OrderedWorkFn<T>) {
        while let Some(number) = self.begin() {
            let done = guarded(&mut work, number);
            self.state.lock().waiting.insert(number, done);
            self.done.notify_one();
        }
    }

    fn begin(&self) -> Option<usize> {
        let mut state = self.state.lock();
        while !state.is_given_up && state.begun < self.count && state.begun >= state.taken + self.ahead {
            self.taken.wait(&mut state);
        }
        let number = state.begun;
        state.begun += 1;
        (!state.is_given_up && number < self.count).then_some(number)
    }

    fn take(&self, number: usize) -> Result<T, String> {
        let mut state = self.state.lock();
        loop {
            if let Some(done) = state.waiting.remove(&number) {
                state.taken += 1;
                drop(state);
                self.taken.notify_one();
                return done;
            }
            self.done.wait(&mut state);
        }
    }

    fn give_up(&self) {
        self.state.lock().is_given_up = true;
        self.taken.notify_all();
    }
}

/// Runs a piece and converts a panic to an error, so that the consumer does not wait for it forever.
fn guarded<T>(work: &mut OrderedWorkFn<T>, number: usize) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(|| work(number)))
        .unwrap_or_else(|_| Err("the generator gave up".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn numbers(count: usize, threads: usize) -> OrderedWork<usize> {
        OrderedWork::new(count, threads, || {
            Box::new(|number| {
                thread::sleep(Duration::from_micros(if number % 3 == 0 { 300 } else { 10 }));
                Ok(number)
            })
        })
    }

    #[test]
    fn pieces_come_in_order_whoever_does_them() {
        for threads in [1, 2, 5] {
            let mut ordered = numbers(50, threads);
            let all: Vec<_> = std::iter::from_fn(|| ordered.next()).map(Result::unwrap).collect();
            assert_eq!(all, (0..50).collect::<Vec<_>>());
        }
        assert!(numbers(0, 2).next().is_none());
    }

    #[test]
    fn a_failure_is_the_last_that_comes_and_a_breakdown_is_one() {
        for threads in [1, 2] {
            let mut ordered = OrderedWork::new(9, threads, || {
                Box::new(|number| if number == 2 { panic!("on purpose") } else { Ok(number) })
            });
            assert_eq!((ordered.next(), ordered.next()), (Some(Ok(0)), Some(Ok(1))));
            assert!(ordered.next().unwrap().is_err() && ordered.next().is_none());
        }
    }

    #[test]
    fn nobody_runs_far_ahead_of_who_takes() {
        let begun = Arc::new(Mutex::new(0));
        let mut ordered = OrderedWork::new(100, 2, || {
            let begun = begun.clone();
            Box::new(move |number| {
                *begun.lock() += 1;
                Ok(number)
            })
        });

        ordered.next().unwrap().unwrap();
        let OrderedWorkers::Threads(queue) = &ordered.workers else { panic!("no thread was started") };
        let deadline = Instant::now() + Duration::from_secs(30);
        // A thread that is woken before its turn waits again.
        while queue.taken.notify_all() < 2 {
            assert!(Instant::now() < deadline, "not all threads wait for their turn");
            thread::sleep(Duration::from_millis(1));
        }
        assert!(*begun.lock() <= 1 + 2 * PIECES_PER_THREAD);
    }
}
