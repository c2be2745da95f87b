//! Progress of a write, and its listener.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;

/// Progress of a write since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteProgress {
    /// Vertices and edges consumed.
    pub rows: u64,
    /// Bytes of complete files.
    pub bytes: u64,
    /// Complete files.
    pub files: u64,
}

/// Listener of a write's progress.
pub(super) type WriteProgressListener = Arc<dyn Fn(WriteProgress) + Send + Sync>;

/// Progress counters, shared by all clones. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct WriteProgressTracker {
    listener: Option<WriteProgressListener>,
    so_far: Arc<Mutex<WriteProgress>>,
}

impl WriteProgressTracker {
    pub(super) fn new(listener: Option<WriteProgressListener>) -> Self {
        Self { listener, so_far: Arc::default() }
    }

    pub(super) fn add_rows(&self, rows: u64) {
        self.add(|so_far| so_far.rows += rows);
    }

    pub(super) fn add_file(&self, bytes: u64) {
        self.add(|so_far| {
            so_far.bytes += bytes;
            so_far.files += 1;
        });
    }

    pub(super) fn so_far(&self) -> WriteProgress {
        *self.so_far.lock()
    }

    fn add(&self, add: impl FnOnce(&mut WriteProgress)) {
        // Called under the lock, so that reported numbers never decrease.
        let mut so_far = self.so_far.lock();
        add(&mut so_far);
        if let Some(listener) = &self.listener {
            listener(*so_far);
        }
    }
}

impl fmt::Debug for WriteProgressTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.so_far().fmt(f)
    }
}
