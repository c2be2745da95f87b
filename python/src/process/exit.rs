//! Resources that are closed before the interpreter exits: caches with a disk, and nodes. Before that, the output of
//! interrupted writes is removed.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::process::ProcessRuntime;

/// Locked only while the GIL is held, and never across a release of the GIL.
static OPEN: Mutex<Vec<Weak<dyn CloseAtExit>>> = Mutex::new(Vec::new());

/// An open resource.
pub(crate) trait CloseAtExit: Send + Sync {
    /// Closes the resource; does nothing if it is already closed.
    fn close(&self, py: Python<'_>) -> PyResult<()>;
}

/// Registers a resource to be closed at exit, if it still exists then.
pub(crate) fn close_at_exit<T: CloseAtExit + 'static>(open: &Arc<T>) {
    let mut all = OPEN.lock();
    all.retain(|open| open.strong_count() > 0);
    let weak = Arc::downgrade(open);
    all.push(weak);
}

/// Waits for unfinished writes, and closes all open resources; called by Python's `atexit`.
#[pyfunction]
pub(crate) fn _close_all(py: Python<'_>) -> PyResult<()> {
    // First, because an upload may be one to a node of this process.
    let waited = ProcessRuntime::wait_for_unfinished_writes(py);
    let all = std::mem::take(&mut *OPEN.lock());
    all.iter().filter_map(Weak::upgrade).map(|open| open.close(py)).fold(waited, Result::and)
}
