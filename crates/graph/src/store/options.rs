//! Options of opening and writing a store.

use std::path::PathBuf;

use stylobate_storage::{ByteSize, Durability};

/// Default limit of a commit's inline batches, in total.
const INLINE_LIMIT: ByteSize = ByteSize::kib(64);
/// Default number of vertices per chunk of a base.
const VERTEX_CHUNK_SIZE: u64 = 1 << 16;
/// Default number of edges per chunk of a base.
const EDGE_CHUNK_SIZE: u64 = 1 << 16;
/// Default memory of a bulk load or a compaction.
const MEMORY: ByteSize = ByteSize::gib(1);

/// Options of opening and writing a store.
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
    /// Sets the maximum total size of a commit's batches that are inline in its record of the log; larger ones become
    /// files. Default: 64 KiB.
    pub fn with_inline_limit(mut self, limit: ByteSize) -> Self {
        self.inline_limit = limit;
        self
    }

    /// Sets the number of vertices per chunk of a base, 1 or more. Default: 65,536.
    pub fn with_vertex_chunk_size(mut self, vertices: u64) -> Self {
        self.vertex_chunk_size = vertices.max(1);
        self
    }

    /// Sets the number of edges per chunk of a base, 1 or more. Default: 65,536.
    pub fn with_edge_chunk_size(mut self, edges: u64) -> Self {
        self.edge_chunk_size = edges.max(1);
        self
    }

    /// Sets the memory of a bulk load or a compaction. A compaction merges at most a quarter of it, and at most 64 MiB,
    /// into one delta. Default: 1 GiB.
    pub fn with_memory(mut self, memory: ByteSize) -> Self {
        self.memory = memory;
        self
    }

    /// Sets the durability of commits in a local folder. Default: they survive a power failure.
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the folder where bulk loads and compactions sort data that does not fit into memory. Default: the system's
    /// folder.
    pub fn with_temporary_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary_folder = Some(folder.into());
        self
    }
}
