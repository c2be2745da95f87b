//! Progress callbacks of long operations.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::interop::stream::InterruptibleError;

/// Minimum interval between two calls.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// An optional Python function that is called with rows and bytes.
pub(crate) struct ProgressCallback {
    function: Option<Py<PyAny>>,
    last_report: Instant,
}

impl ProgressCallback {
    pub(crate) fn new(function: Option<Py<PyAny>>) -> Self {
        Self { function, last_report: Instant::now() }
    }

    /// Returns whether there is a function and the interval has passed.
    pub(crate) fn is_due(&self) -> bool {
        self.function.is_some() && self.last_report.elapsed() >= REPORT_INTERVAL
    }

    /// Calls the function. An exception in it ends the operation.
    pub(crate) fn report(&mut self, rows: u64, bytes: u64) -> Result<(), InterruptibleError> {
        let Some(function) = &self.function else { return Ok(()) };
        self.last_report = Instant::now();
        let called = Python::try_attach(|py| function.call1(py, (rows, bytes)).map(drop));
        called.unwrap_or(Ok(())).map_err(InterruptibleError::Interrupted)
    }
}
