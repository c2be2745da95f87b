//! Sources of the bytes that reads return, with byte counters per source for the reads of one reader.

use crate::stats::AtomicCounter;

/// The source of the bytes of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ByteSource {
    Memory,
    Disk,
    Peer,
    #[default]
    Origin,
}

/// Bytes returned by the reads of some objects, by source. A fetch shared by several readers counts for each of them.
#[derive(Debug, Default)]
pub struct BytesBySource {
    memory: AtomicCounter,
    disk: AtomicCounter,
    peer: AtomicCounter,
    origin: AtomicCounter,
}

impl BytesBySource {
    /// Returns the bytes read from memory.
    pub fn memory(&self) -> u64 {
        self.memory.get()
    }

    /// Returns the bytes read from the disk tier.
    pub fn disk(&self) -> u64 {
        self.disk.get()
    }

    /// Returns the bytes received from other nodes of the cluster.
    pub fn peer(&self) -> u64 {
        self.peer.get()
    }

    /// Returns the bytes received from the object store or the folder.
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
