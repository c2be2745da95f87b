//! Versions held by snapshots, whose data must not be removed.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Number of snapshots that hold each version.
#[derive(Debug, Default)]
pub(crate) struct SnapshotPins {
    by_version: Mutex<BTreeMap<u64, usize>>,
}

impl SnapshotPins {
    pub(crate) fn add(&self, version: u64) {
        *self.by_version.lock().entry(version).or_default() += 1;
    }

    pub(crate) fn remove(&self, version: u64) {
        let mut by_version = self.by_version.lock();
        if let Some(count) = by_version.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                by_version.remove(&version);
            }
        }
    }

    /// Returns the held versions, ascending.
    pub(crate) fn versions(&self) -> Vec<u64> {
        self.by_version.lock().keys().copied().collect()
    }
}
