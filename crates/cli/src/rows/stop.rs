//! Stops a command on a signal by dropping its work, which removes unfinished output.

use std::{process, time::Duration};

use anyhow::{Context, Result};
use stylobate_storage::{run_blocking, wait_for_unfinished_writes};
use tokio::signal::unix::{SignalKind, signal};

/// Time limit for removing unfinished output, which may require requests to an object store.
pub(crate) const UNFINISHED_WRITES_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs the work. On SIGINT or SIGTERM, drops the work and exits with the code that shells use for the signal. Waits
/// for unfinished output to be removed, but not for threads: one may be blocked on a pipe without a reader.
pub(crate) async fn until_stopped<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut work = Box::pin(work);
    let signal = tokio::select! {
        done = &mut work => return done,
        _ = interrupt.recv() => SignalKind::interrupt(),
        _ = terminate.recv() => SignalKind::terminate(),
    };

    drop(work);
    // Waits outside the runtime's workers, which may be removing output. A second signal ends the wait.
    tokio::select! {
        _ = run_blocking(|| wait_for_unfinished_writes(UNFINISHED_WRITES_TIMEOUT)) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }

    process::exit(128 + signal.as_raw_value());
}
