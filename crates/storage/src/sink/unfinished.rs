//! Counts the writes that this process must finish or remove before it ends.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

static UNFINISHED: Mutex<usize> = Mutex::new(0);
static NONE_LEFT: Condvar = Condvar::new();

/// An unfinished write, counted until it is dropped.
#[derive(Debug)]
pub(super) struct UnfinishedWriteGuard(());

impl UnfinishedWriteGuard {
    pub(super) fn begin() -> Self {
        *UNFINISHED.lock() += 1;
        Self(())
    }
}

impl Drop for UnfinishedWriteGuard {
    fn drop(&mut self) {
        let mut unfinished = UNFINISHED.lock();
        *unfinished -= 1;
        if *unfinished == 0 {
            NONE_LEFT.notify_all();
        }
    }
}

/// Waits until the output of all dropped sinks has been removed and that of sinks being published has its name,
/// for at most `timeout`. For processes that exit without joining their threads. Returns false on a timeout.
/// Blocks the thread.
pub fn wait_for_unfinished_writes(timeout: Duration) -> bool {
    let mut unfinished = UNFINISHED.lock();
    !NONE_LEFT.wait_while_for(&mut unfinished, |unfinished| *unfinished > 0, timeout).timed_out()
}
