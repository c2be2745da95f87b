//! Division of a writer's memory.

use stylobate_storage::ByteSize;

/// Memory of each consumer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriterMemoryBudget {
    /// All keys together.
    pub(crate) keys: usize,
    /// Edges that are being sorted.
    pub(crate) sort: usize,
    /// Files that are being written, and rows queued for them.
    pub(crate) encoders: usize,
}

impl WriterMemoryBudget {
    /// Divides the memory that remains after the `keys` bytes that keys already use. The unassigned rest is for
    /// incoming and gathered batches.
    pub(crate) fn new(memory: ByteSize, keys: usize) -> Self {
        let memory = memory.as_usize();
        let left = memory.saturating_sub(keys);
        Self { keys: memory - memory / 4, sort: left / 2, encoders: left / 4 }
    }
}
