//! How a store is opened and written.

use std::path::PathBuf;

use stylobate_storage::{ByteSize, Durability};

/// Batches of a commit ride in the log's record up to so many bytes together.
const INLINE_LIMIT: ByteSize = ByteSize::kib(64);
/// Vertices of a chunk of a base.
const VERTEX_CHUNK_SIZE: u64 = 1 << 16;
/// Edges of a chunk of a base.
const EDGE_CHUNK_SIZE: u64 = 1 << 16;
/// Memory of a bulk load or a compaction.
const MEMORY: ByteSize = ByteSize::gib(1);

/// How a store is opened and written.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub(crate) inline_limit: ByteSize,
    pub(crate) vertex_chunk_size: u64,
    pub(crate) edge_chunk_size: u64,
    pub(crate) memory: ByteSize,
    pub(crate) durability: Durability,
    pub(crate) temporary_folder: Option<PathBuf>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            inline_limit: INLINE_LIMIT,
            vertex_chunk_size: VERTEX_CHUNK_SIZE,
            edge_chunk_size: EDGE_CHUNK_SIZE,
            memory: MEMORY,
            durability: Durability::default(),
            temporary_folder: None,
        }
    }
}

impl StoreOptions {
    /// Batches of a commit ride in the record of the log up to so many bytes together; what is more becomes files.
    /// Default: 64 KiB.
    pub fn with_inline_limit(mut self, limit: ByteSize) -> Self {
        self.inline_limit = limit;
        self
    }

    /// Vertices of a chunk of a base, 1 or more. Default: 65,536.
    pub fn with_vertex_chunk_size(mut self, vertices: u64) -> Self {
        self.vertex_chunk_size = vertices.max(1);
        self
    }

    /// Edges of a chunk of a base, 1 or more. Default: 65,536.
    pub fn with_edge_chunk_size(mut self, edges: u64) -> Self {
        self.edge_chunk_size = edges.max(1);
        self
    }

    /// Memory that a bulk load or a compaction may take. Default: 1 GiB.
    pub fn with_memory(mut self, memory: ByteSize) -> Self {
        self.memory = memory;
        self
    }

    /// What holds of a commit in a local folder once it is done. Default: it survives a loss of power.
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Where a bulk load or a compaction sorts what does not fit its memory. Default: the system's folder.
    pub fn with_temporary_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary_folder = Some(folder.into());
        self
    }
}
