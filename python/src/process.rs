//! The runtime of this process, and waiting on it so that the keyboard is heard.
//!
//! Threads do not survive a fork: a child that finds a runtime of another process makes one of its own, and
//! what the parent made is forgotten rather than dropped, since dropping it would wait for threads that are
//! not there.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use futures::FutureExt;
use parking_lot::Mutex;
use pyo3::prelude::*;
use tokio::{
    runtime::{Builder, Handle},
    time::timeout,
};

use crate::errors::UnraisedError;

/// How long a call may wait before it looks whether a signal came.
const SLICE: Duration = Duration::from_millis(50);

/// Locked only by threads that hold the interpreter's lock, as the thread that forks does: no child finds it
/// locked.
static CURRENT: Mutex<Option<ProcessRuntime>> = Mutex::new(None);

/// A process and its runtime. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ProcessRuntime {
    pid: u32,
    runtime: Handle,
}

impl ProcessRuntime {
    /// This process. The first call in each makes the runtime, which lives as long as the process does.
    pub(crate) fn current(_: Python<'_>) -> PyResult<Self> {
        let mut current = CURRENT.lock();
        if let Some(process) = current.as_ref().filter(|process| process.is_current()) {
            return Ok(process.clone());
        }
        let runtime = Builder::new_multi_thread().thread_name("stylobate").enable_all().build()?;
        let process =
            Self { pid: std::process::id(), runtime: Box::leak(Box::new(runtime)).handle().clone() };
        if let Some(parents) = current.replace(process.clone()) {
            std::mem::forget(parents);
        }
        Ok(process)
    }

    /// Whether this is the process that runs, and not the parent of one that was forked.
    pub(crate) fn is_current(&self) -> bool {
        self.pid == std::process::id()
    }

    /// The runtime.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// What comes out of the future. The interpreter's lock is released meanwhile; a signal whose handler
    /// raises, as Ctrl-C does, drops the future and is the error.
    pub(crate) fn wait<F>(&self, py: Python<'_>, future: F) -> PyResult<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        py.detach(|| self.wait_detached(future, &mut SignalPoller::new()))
    }

    /// [`Self::wait`] for a thread that does not hold the interpreter's lock.
    pub(crate) fn wait_detached<F: Future>(
        &self,
        future: F,
        signals: &mut SignalPoller,
    ) -> PyResult<F::Output> {
        let _runtime = self.runtime.enter();
        let mut future = pin!(future);
        // What needs nothing but memory is there at once.
        if let Some(output) = future.as_mut().now_or_never() {
            return Ok(output);
        }
        loop {
            match self.runtime.block_on(async { timeout(SLICE, future.as_mut()).await }) {
                Ok(output) => return Ok(output),
                Err(_) => signals.check()?,
            }
        }
    }

    /// [`Self::wait`] for what may fail: its error as Python's.
    pub(crate) fn run<T, E, F>(&self, py: Python<'_>, future: F) -> PyResult<T>
    where
        F: Future<Output = Result<T, E>> + Send,
        T: Send,
        E: Into<UnraisedError> + Send,
    {
        self.wait(py, future)?.map_err(|error| error.into().raised(py))
    }
}

/// When signals were looked at last.
#[derive(Debug)]
pub(crate) struct SignalPoller {
    checked: Instant,
}

impl SignalPoller {
    /// They were looked at just now.
    pub(crate) fn new() -> Self {
        Self { checked: Instant::now() }
    }

    /// Runs the handlers of signals that came, at most once in each slice; the error is what a handler
    /// raised.
    pub(crate) fn check(&mut self) -> PyResult<()> {
        if self.checked.elapsed() < SLICE {
            return Ok(());
        }
        self.checked = Instant::now();
        Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))
    }
}

/// A value that belongs to the process that made it: a child that was forked forgets it instead of dropping
/// it.
#[derive(Debug)]
pub(crate) struct ProcessOwned<T> {
    process: ProcessRuntime,
    value: Option<T>,
}

impl<T> ProcessOwned<T> {
    pub(crate) fn new(process: ProcessRuntime, value: T) -> Self {
        Self { process, value: Some(value) }
    }

    /// The value, unless it is another process's.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.process.is_current())
    }

    /// The value to change, unless it is another process's.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.value.as_mut().filter(|_| self.process.is_current())
    }

    /// Takes the value out, unless it is another process's.
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.process.is_current() { self.value.take() } else { None }
    }

    /// Whose it is.
    pub(crate) fn process(&self) -> &ProcessRuntime {
        &self.process
    }
}

impl<T> Drop for ProcessOwned<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        match self.process.is_current() {
            true => {
                // What it does when it ends may be done in a task.
                let _runtime = self.process.runtime.enter();
                drop(value);
            }
            false => std::mem::forget(value),
        }
    }
}
