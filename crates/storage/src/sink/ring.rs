//! What writes slots to files: a thread's own calls, or io_uring; and what a test puts in their place.

use std::{fs::File, io, os::unix::fs::FileExt, path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};

use super::slot::{SlotPool, WriteSlot};

/// A file that is being written, and what became of it so far.
#[derive(Debug)]
pub(super) struct SinkFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// Writes past the system's cache, in whole blocks.
    pub(super) direct: bool,
    pub(super) state: Mutex<SinkFileState>,
}

#[derive(Debug, Default)]
pub(super) struct SinkFileState {
    /// Slots that were handed over and are not written yet.
    pub(super) pending: usize,
    /// The first that went wrong.
    pub(super) error: Option<Arc<io::Error>>,
    /// Bytes that the file system was asked to give room to, and gave it or not.
    pub(super) allocated: u64,
}

impl SinkFile {
    pub(super) fn error(&self) -> Option<Arc<io::Error>> {
        self.state.lock().error.clone()
    }

    /// Notes what went wrong, unless something did before.
    pub(super) fn fail(&self, error: io::Error) {
        self.state.lock().error.get_or_insert_with(|| Arc::new(error));
    }
}

/// A slot that is to be written.
#[derive(Debug)]
pub(super) struct SlotWrite {
    pub(super) target: Arc<SinkFile>,
    pub(super) slot: WriteSlot,
    /// Where in the file the slot begins.
    pub(super) offset: u64,
    /// Bytes of the slot that are written.
    pub(super) done: usize,
    /// Times in a row that it was to be tried again.
    pub(super) again: u32,
    /// Where the slot goes in the end.
    pub(super) pool: SlotPool,
}

impl SlotWrite {
    /// What is left of it.
    pub(super) fn left(&self) -> &[u8] {
        self.slot.bytes().get(self.done..).unwrap_or_default()
    }

    /// Where in the file that goes.
    pub(super) fn position(&self) -> u64 {
        self.offset + self.done as u64
    }
}

/// Writes what it is given, in any order. Who gives it a slot gets it back with what became of it; until then the
/// slot is the ring's, since the system may read it.
pub(super) trait WriteRing {
    /// Begins to write what is left of a slot.
    fn submit(&mut self, write: SlotWrite);

    /// Waits for one of those that were submitted: the bytes that were written may be fewer than were left.
    /// `None` where none is under way.
    fn wait(&mut self) -> Option<(SlotWrite, io::Result<usize>)>;

    /// How many are under way.
    fn under_way(&self) -> usize;

    /// Asks the file system for room for a part of a file, whose size stays as it is.
    fn allocate(&mut self, file: &File, from: u64, length: u64) -> rustix::io::Result<()> {
        rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, from, length))
    }
}

/// Positioned writes by the thread that calls.
#[derive(Debug, Default)]
pub(super) struct PositionedWrites {
    submitted: std::collections::VecDeque<SlotWrite>,
}

impl WriteRing for PositionedWrites {
    fn submit(&mut self, write: SlotWrite) {
        self.submitted.push_back(write);
    }

    fn wait(&mut self) -> Option<(SlotWrite, io::Result<usize>)> {
        let write = self.submitted.pop_front()?;
        let written = write.target.file.write_at(write.left(), write.position());
        Some((write, written))
    }

    fn under_way(&self) -> usize {
        self.submitted.len()
    }
}
