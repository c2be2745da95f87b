//! What must be closed before the interpreter ends: caches with a disk, and nodes.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pyo3::prelude::*;

/// Locked only with the interpreter's lock held, and never while that is released.
static OPEN: Mutex<Vec<Weak<dyn CloseAtExit>>> = Mutex::new(Vec::new());

/// Something that is open.
pub(crate) trait CloseAtExit: Send + Sync {
    /// Closes it, unless it is closed.
    fn close(&self, py: Python<'_>) -> PyResult<()>;
}

/// Has it closed when the interpreter ends, if it is still there then.
pub(crate) fn close_at_exit<T: CloseAtExit + 'static>(open: &Arc<T>) {
    let mut all = OPEN.lock();
    all.retain(|open| open.strong_count() > 0);
    let weak = Arc::downgrade(open);
    all.push(weak);
}

/// Closes all that is open: called by Python's `atexit`.
#[pyfunction]
pub(crate) fn _close_all(py: Python<'_>) -> PyResult<()> {
    let all = std::mem::take(&mut *OPEN.lock());
    all.iter().filter_map(Weak::upgrade).map(|open| open.close(py)).fold(Ok(()), Result::and)
}
