//! Runs independent jobs on a few threads.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use anyhow::{Result, anyhow};

/// Runs `job` for each number below `count`, and returns the results in that order.
pub(crate) fn run_jobs<T: Send>(
    threads: usize,
    count: usize,
    job: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return done;
            }
            done.push((number, job(number)));
        }
    };

    let joined: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });

    let mut numbered = Vec::with_capacity(count);
    for done in joined {
        numbered.extend(done.map_err(|_| anyhow!("a thread of the simulation panicked"))?);
    }
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, result)| result).collect()
}
