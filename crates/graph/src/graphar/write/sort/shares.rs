//! How the memory of a writer is divided.

use stylobate_storage::ByteSize;

/// Who may take how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriterMemoryBudget {
    /// All keys together.
    pub(crate) keys: usize,
    /// Edges that are being sorted.
    pub(crate) sort: usize,
    /// Files that are being written, and rows on their way to them.
    pub(crate) encoders: usize,
}

impl WriterMemoryBudget {
    /// Where keys take so many bytes already. What is left over is for batches that arrive and that are put together.
    pub(crate) fn new(memory: ByteSize, keys: usize) -> Self {
        let memory = memory.as_usize();
        let left = memory.saturating_sub(keys);
        Self { keys: memory - memory / 4, sort: left / 2, encoders: left / 4 }
    }
}
