//! The tokio runtime of this process, and blocking on it so that Ctrl-C works.
//!
//! Threads do not survive a fork: a child that finds the runtime of its parent creates one of its own. Values of the
//! parent are forgotten rather than dropped, because dropping them would wait for threads that do not exist.

pub(super) mod exit;

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use futures::FutureExt;
use parking_lot::Mutex;
use pyo3::prelude::*;
use stylobate_storage::wait_for_unfinished_writes;
use tokio::{
    runtime::{Builder, Handle},
    task::block_in_place,
    time::timeout,
};

use crate::errors::{ResultExt, UnraisedError};

/// Interval at which a blocking call checks for signals.
const SLICE: Duration = Duration::from_millis(50);

/// Time limit at exit for removing the output of interrupted writes, which may require requests to an object store.
const UNFINISHED_WRITES_TIMEOUT: Duration = Duration::from_secs(5);

/// Locked only by threads that hold the GIL, as the forking thread does, so a child never finds it locked.
static CURRENT: Mutex<Option<ProcessRuntime>> = Mutex::new(None);

/// A process id and the runtime of that process. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ProcessRuntime {
    pid: u32,
    runtime: Handle,
    /// True if the process was forked from one that had a runtime.
    is_forked: bool,
}

impl ProcessRuntime {
    /// Returns this process. The first call in a process creates the runtime, which lives as long as the process.
    pub(crate) fn current(_: Python<'_>) -> PyResult<Self> {
        let mut current = CURRENT.lock();
        if let Some(process) = current.as_ref().filter(|process| process.is_current()) {
            return Ok(process.clone());
        }

        let runtime = Builder::new_multi_thread().thread_name("stylobate").enable_all().build()?;
        let runtime = Box::leak(Box::new(runtime)).handle().clone();
        let process = Self { pid: std::process::id(), runtime, is_forked: current.is_some() };
        if let Some(parents) = current.replace(process.clone()) {
            std::mem::forget(parents);
        }

        Ok(process)
    }

    /// Returns whether this is the running process, not the parent it was forked from.
    pub(crate) fn is_current(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Returns the runtime.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Blocks on the future with the GIL released. If a signal handler raises, as for Ctrl-C, the future is dropped and
    /// the exception returned.
    pub(crate) fn wait<F>(&self, py: Python<'_>, future: F) -> PyResult<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        py.detach(|| self.wait_detached(future, &mut SignalPoller::new()))
    }

    /// Like [`Self::wait`], for a thread that does not hold the GIL. The thread may be one that drives the runtime
    /// already: a progress callback may read a table, and a table of a query may be a query.
    pub(crate) fn wait_detached<F: Future>(
        &self,
        future: F,
        signals: &mut SignalPoller,
    ) -> PyResult<F::Output> {
        let _runtime = self.runtime.enter();
        let mut future = pin!(future);
        // Cached answers are ready at the first poll.
        if let Some(output) = future.as_mut().now_or_never() {
            return Ok(output);
        }

        loop {
            // If this call is nested, it may consume a wakeup of the outer one, which is then late by at most a slice.
            let waited =
                block_in_place(|| self.runtime.block_on(async { timeout(SLICE, future.as_mut()).await }));
            match waited {
                Ok(output) => return Ok(output),
                Err(_) => signals.check()?,
            }
        }
    }

    /// Like [`Self::wait`], and converts the error of the future to an exception.
    pub(crate) fn run<T, E, F>(&self, py: Python<'_>, future: F) -> PyResult<T>
    where
        F: Future<Output = Result<T, E>> + Send,
        T: Send,
        E: Into<UnraisedError> + Send,
    {
        self.wait(py, future)?.or_raise(py)
    }

    /// Waits until the output of interrupted writes is removed, for at most [`UNFINISHED_WRITES_TIMEOUT`]. If a signal
    /// handler raises, as for a second Ctrl-C, returns the exception. Does nothing in a forked child whose parent had a
    /// runtime: it inherited the count of unfinished writes, and those of its parent never end in it.
    pub(crate) fn wait_for_unfinished_writes(py: Python<'_>) -> PyResult<()> {
        let owns_count =
            CURRENT.lock().as_ref().is_some_and(|process| process.is_current() && !process.is_forked);
        if !owns_count {
            return Ok(());
        }

        let deadline = Instant::now() + UNFINISHED_WRITES_TIMEOUT;
        while !py.detach(|| wait_for_unfinished_writes(SLICE)) && Instant::now() < deadline {
            py.check_signals()?;
        }
        Ok(())
    }
}

/// Checks for signals at most once per interval.
#[derive(Debug)]
pub(crate) struct SignalPoller {
    checked: Instant,
}

impl SignalPoller {
    /// Starts an interval.
    pub(crate) fn new() -> Self {
        Self { checked: Instant::now() }
    }

    /// Runs the handlers of pending signals, at most once per [`SLICE`]; returns the exception that a handler raised.
    pub(crate) fn check(&mut self) -> PyResult<()> {
        if self.checked.elapsed() < SLICE {
            return Ok(());
        }
        self.checked = Instant::now();
        Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))
    }
}

/// A value that belongs to the process that created it: a forked child forgets it instead of dropping it.
#[derive(Debug)]
pub(crate) struct ProcessOwned<T> {
    process: ProcessRuntime,
    value: Option<T>,
}

impl<T> ProcessOwned<T> {
    pub(crate) fn new(process: ProcessRuntime, value: T) -> Self {
        Self { process, value: Some(value) }
    }

    /// Returns the value, unless it belongs to another process.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.process.is_current())
    }

    /// Returns the value mutably, unless it belongs to another process.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.value.as_mut().filter(|_| self.process.is_current())
    }

    /// Takes the value, unless it belongs to another process.
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.process.is_current() { self.value.take() } else { None }
    }

    /// Returns the owner.
    pub(crate) fn process(&self) -> &ProcessRuntime {
        &self.process
    }
}

impl<T> Drop for ProcessOwned<T> {
    fn drop(&mut self) {
        let value = self.value.take();
        if self.process.is_current() {
            // Its destructor may spawn a task.
            let _runtime = self.process.runtime.enter();
            drop(value);
        } else {
            std::mem::forget(value);
        }
    }
}
