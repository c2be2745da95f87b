//! What becomes of work when the process is told to stop: it is dropped, which removes what is unfinished.

use std::{process, time::Duration};

use anyhow::{Context, Result};
use stylobate_storage::wait_for_unfinished_writes;
use tokio::signal::unix::{SignalKind, signal};

/// How long what was begun may take to be removed, which an object store may have to be asked for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Does the work; at SIGINT or SIGTERM drops it and ends the process with the exit code that shells count for the
/// signal. It waits for what is unfinished to be removed and not for threads: one may be writing into a pipe that nobody
/// reads.
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
    // Outside of the runtime's workers, which may have the removing to do. Who asks twice does not wait.
    tokio::select! {
        _ = tokio::task::spawn_blocking(|| wait_for_unfinished_writes(PATIENCE)) => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    process::exit(128 + signal.as_raw_value());
}
