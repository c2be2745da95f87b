//! What becomes of work when the process is told to stop: it is dropped, which removes what is unfinished.

use std::process;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// Does the work; at SIGINT or SIGTERM drops it and ends the process with the exit code that shells count for the
/// signal. It does not wait for threads: one may be writing into a pipe that nobody reads.
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
    process::exit(128 + signal.as_raw_value());
}
