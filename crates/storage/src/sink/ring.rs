//! Backends that write slots to files: a thread's own calls or io_uring; tests replace them.

use std::{fs::File, io, os::unix::fs::FileExt, path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};

use super::slot::{SlotPool, WriteSlot};

/// A file that is being written, and the state of its writes.
#[derive(Debug)]
pub(super) struct SinkFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// Set if writes bypass the system's cache, in whole blocks.
    pub(super) direct: bool,
    pub(super) state: Mutex<SinkFileState>,
}

#[derive(Debug, Default)]
pub(super) struct SinkFileState {
    /// Number of submitted slots that are not written yet.
    pub(super) pending: usize,
    /// The first error.
    pub(super) error: Option<Arc<io::Error>>,
    /// End of the range for which preallocation was requested, successfully or not.
    pub(super) allocated: u64,
}

impl SinkFile {
    pub(super) fn error(&self) -> Option<Arc<io::Error>> {
        self.state.lock().error.clone()
    }

    /// Records an error, unless there already is one.
    pub(super) fn fail(&self, error: io::Error) {
        self.state.lock().error.get_or_insert_with(|| Arc::new(error));
    }
}

/// A slot to write.
#[derive(Debug)]
pub(super) struct SlotWrite {
    pub(super) target: Arc<SinkFile>,
    pub(super) slot: WriteSlot,
    /// Offset of the slot in the file.
    pub(super) offset: u64,
    /// Number of bytes of the slot that are written.
    pub(super) done: usize,
    /// Number of consecutive retries.
    pub(super) retries: u32,
    /// The pool that the slot returns to.
    pub(super) pool: SlotPool,
}

impl SlotWrite {
    /// Returns the unwritten rest of the slot.
    pub(super) fn left(&self) -> &[u8] {
        self.slot.bytes().get(self.done..).unwrap_or_default()
    }

    /// Returns the offset of the unwritten rest in the file.
    pub(super) fn position(&self) -> u64 {
        self.offset + self.done as u64
    }
}

/// A backend that writes slots in any order. The ring owns a slot until it returns it with the outcome, since the
/// system may read its memory.
pub(super) trait WriteRing {
    /// Begins to write the unwritten rest of a slot.
    fn submit(&mut self, write: SlotWrite);

    /// Waits for a submitted write, which may have written fewer bytes than were left. `None` if no write is in
    /// flight.
    fn wait(&mut self) -> Option<(SlotWrite, io::Result<usize>)>;

    /// Returns the number of writes in flight.
    fn in_flight(&self) -> usize;

    /// Preallocates a range of a file without changing its size.
    fn allocate(&mut self, file: &File, from: u64, length: u64) -> rustix::io::Result<()> {
        rustix::io::retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, from, length))
    }
}

/// Positioned writes on the calling thread.
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

    fn in_flight(&self) -> usize {
        self.submitted.len()
    }
}
