//! The places that the bytes of reads come from, counted for the reads of one reader.

use crate::stats::AtomicCounter;

/// The place that bytes of a read come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ByteSource {
    Memory,
    Disk,
    Peer,
    #[default]
    Origin,
}

/// Bytes that the reads of some objects returned, by the place that they came from. A fetch that several readers share
/// counts for each of them.
#[derive(Debug, Default)]
pub struct BytesBySource {
    memory: AtomicCounter,
    disk: AtomicCounter,
    peer: AtomicCounter,
    origin: AtomicCounter,
}

impl BytesBySource {
    /// Returns the bytes that were in memory.
    pub fn memory(&self) -> u64 {
        self.memory.get()
    }

    /// Returns the bytes that the disk tier had.
    pub fn disk(&self) -> u64 {
        self.disk.get()
    }

    /// Returns the bytes that another node of the cluster sent.
    pub fn peer(&self) -> u64 {
        self.peer.get()
    }

    /// Returns the bytes that the object store or the folder sent.
    pub fn origin(&self) -> u64 {
        self.origin.get()
    }

    pub(crate) fn add(&self, source: ByteSource, bytes: u64) {
        let counter = match source {
            ByteSource::Memory => &self.memory,
            ByteSource::Disk => &self.disk,
            ByteSource::Peer => &self.peer,
            ByteSource::Origin => &self.origin,
        };
        counter.add(bytes);
    }
}
