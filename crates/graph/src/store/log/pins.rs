//! Versions that snapshots hold, whose data must not be removed, and versions that garbage collection is removing,
//! which must not be opened.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Pins of versions. One lock decides whether a version is opened or removed if both are attempted at a time.
#[derive(Debug, Default)]
pub(crate) struct SnapshotPins {
    table: Mutex<PinTable>,
}

#[derive(Debug, Default)]
struct PinTable {
    /// Pins of each version.
    pinned: VersionCounts,
    /// Garbage collections that are removing each version.
    condemned: VersionCounts,
}

/// Number of holders of each version.
#[derive(Debug, Default)]
struct VersionCounts {
    by_version: BTreeMap<u64, usize>,
}

/// Pin of a version, until it is dropped.
#[derive(Debug)]
pub(crate) struct SnapshotPin<'a> {
    pins: &'a SnapshotPins,
    version: u64,
}

/// Versions that one garbage collection is removing, until it is dropped.
#[derive(Debug)]
pub(crate) struct CondemnedVersions<'a> {
    pins: &'a SnapshotPins,
    versions: Vec<u64>,
}

/// Versions that a pin protects from garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinScope {
    /// The pinned version.
    Version,
    /// The pinned version and all later ones.
    VersionAndLater,
}

impl SnapshotPins {
    pub(crate) fn add(&self, version: u64) {
        self.table.lock().pinned.add(version);
    }

    pub(crate) fn remove(&self, version: u64) {
        self.table.lock().pinned.remove(version);
    }

    /// Pins a version; `None` if garbage collection is removing it.
    pub(crate) fn pin(&self, version: u64) -> Option<SnapshotPin<'_>> {
        let mut table = self.table.lock();
        if table.condemned.contains(version) {
            return None;
        }

        table.pinned.add(version);
        Some(SnapshotPin { pins: self, version })
    }

    /// Returns true if a pin protects a version.
    pub(crate) fn protects(&self, version: u64, scope: PinScope) -> bool {
        self.table.lock().pinned.protects(version, scope)
    }
}

impl<'a> CondemnedVersions<'a> {
    /// Returns a guard that condemns no version yet.
    pub(crate) fn none_of(pins: &'a SnapshotPins) -> Self {
        Self { pins, versions: Vec::new() }
    }

    /// Condemns a version, which cannot be pinned from now on, and returns true; false if a pin protects it.
    pub(crate) fn condemn(&mut self, version: u64, scope: PinScope) -> bool {
        let mut table = self.pins.table.lock();
        if table.pinned.protects(version, scope) {
            return false;
        }

        table.condemned.add(version);
        self.versions.push(version);
        true
    }
}

impl VersionCounts {
    fn add(&mut self, version: u64) {
        *self.by_version.entry(version).or_default() += 1;
    }

    fn remove(&mut self, version: u64) {
        if let Some(count) = self.by_version.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                self.by_version.remove(&version);
            }
        }
    }

    fn contains(&self, version: u64) -> bool {
        self.by_version.contains_key(&version)
    }

    fn protects(&self, version: u64, scope: PinScope) -> bool {
        match scope {
            PinScope::Version => self.contains(version),
            PinScope::VersionAndLater => {
                self.by_version.keys().next().is_some_and(|oldest| *oldest <= version)
            }
        }
    }
}

impl Drop for SnapshotPin<'_> {
    fn drop(&mut self) {
        self.pins.remove(self.version);
    }
}

impl Drop for CondemnedVersions<'_> {
    fn drop(&mut self) {
        let mut table = self.pins.table.lock();
        for version in &self.versions {
            table.condemned.remove(*version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_pinned_or_condemned_and_never_both() {
        let pins = SnapshotPins::default();
        let pin = pins.pin(3).unwrap();
        let mut condemned = CondemnedVersions::none_of(&pins);
        assert!(!condemned.condemn(3, PinScope::Version));
        assert!(condemned.condemn(4, PinScope::Version));
        assert!(pins.pin(4).is_none());

        drop(pin);
        assert!(condemned.condemn(3, PinScope::Version));
        assert!(pins.pin(3).is_none());
        drop(condemned);
        assert!(pins.pin(3).is_some() && pins.pin(4).is_some());
    }

    #[test]
    fn a_version_stays_condemned_until_the_last_garbage_collection_ends() {
        let pins = SnapshotPins::default();
        let mut first = CondemnedVersions::none_of(&pins);
        let mut second = CondemnedVersions::none_of(&pins);
        assert!(first.condemn(3, PinScope::Version) && second.condemn(3, PinScope::Version));
        drop(first);
        assert!(pins.pin(3).is_none());
        drop(second);
        assert!(pins.pin(3).is_some());
    }

    #[test]
    fn the_oldest_pin_protects_all_later_versions_if_asked_to() {
        let pins = SnapshotPins::default();
        pins.add(5);
        pins.add(3);
        let protects = |version| pins.protects(version, PinScope::VersionAndLater);
        assert_eq!([2, 3, 4, 5, 6].map(protects), [false, true, true, true, true]);
        pins.remove(3);
        assert_eq!(
            [3, 4, 5].map(|version| pins.protects(version, PinScope::VersionAndLater)),
            [false, false, true]
        );
        assert_eq!([4, 5, 6].map(|version| pins.protects(version, PinScope::Version)), [false, true, false]);
    }
}
