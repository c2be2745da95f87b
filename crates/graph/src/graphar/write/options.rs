//! How a graph is written.

use std::{fmt, path::PathBuf, sync::Arc};

use stylobate_columnar::{Compression, OrcCompression};
use stylobate_storage::{ByteSize, Durability, Overwrite};

use super::progress::{WriteProgress, WriteProgressListener};
use crate::FileType;

/// Vertices of a chunk.
const VERTEX_CHUNK_SIZE: u64 = 1 << 18;
/// Edges of a chunk.
const EDGE_CHUNK_SIZE: u64 = 1 << 22;
/// Memory of a writer.
const MEMORY: ByteSize = ByteSize::gib(1);
/// Snappy decompresses quickest, and what is read of a graph is read more often than it is written.
const COMPRESSION: Compression = Compression::Snappy;

/// How a graph is written. What is said here holds for all types that do not say otherwise.
#[derive(Clone)]
pub struct GraphWriteOptions {
    pub(super) file_type: FileType,
    pub(super) vertex_chunk_size: u64,
    pub(super) edge_chunk_size: u64,
    pub(super) compression: Compression,
    pub(super) orc_compression: OrcCompression,
    pub(super) memory: ByteSize,
    pub(super) threads: usize,
    pub(super) overwrite: Overwrite,
    pub(super) durability: Durability,
    pub(super) temporary_folder: Option<PathBuf>,
    pub(super) listener: Option<WriteProgressListener>,
    pub(super) extra: Vec<(String, String)>,
}

impl Default for GraphWriteOptions {
    fn default() -> Self {
        Self {
            file_type: FileType::Parquet,
            vertex_chunk_size: VERTEX_CHUNK_SIZE,
            edge_chunk_size: EDGE_CHUNK_SIZE,
            compression: COMPRESSION,
            orc_compression: OrcCompression::default(),
            memory: MEMORY,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            overwrite: Overwrite::Refuse,
            durability: Durability::default(),
            temporary_folder: None,
            listener: None,
            extra: Vec::new(),
        }
    }
}

impl GraphWriteOptions {
    /// The format of chunk files: Parquet, ORC or CSV. CSV has no lists, and does not tell an empty text from none
    /// where other programs read it. JSON can be read only. Default: Parquet.
    pub fn with_file_type(mut self, file_type: FileType) -> Self {
        self.file_type = file_type;
        self
    }

    /// Vertices of a chunk, 1 or more. Default: 262,144.
    pub fn with_vertex_chunk_size(mut self, vertices: u64) -> Self {
        self.vertex_chunk_size = vertices;
        self
    }

    /// Edges of a chunk, 1 or more. Default: 4,194,304.
    pub fn with_edge_chunk_size(mut self, edges: u64) -> Self {
        self.edge_chunk_size = edges;
        self
    }

    /// How Parquet files are compressed. Default: snappy.
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// How ORC files are compressed. Default: zstd(3).
    pub fn with_orc_compression(mut self, compression: OrcCompression) -> Self {
        self.orc_compression = compression;
        self
    }

    /// Memory for the keys of vertices, for edges that are being sorted, and for encoders. Edges that do not fit are
    /// sorted on disk; keys that do not fit are an error. Encoders take some 30 MiB even where less is given. Default:
    /// 1 GiB.
    pub fn with_memory(mut self, memory: ByteSize) -> Self {
        self.memory = memory;
        self
    }

    /// Threads that sort and encode. Default: as many as the machine has cores.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Whether graphs that are there are replaced. In a folder they are gone from when the new one is whole until it
    /// has its names; in an object store, from when the first chunk is written. Files that are no graph's stay.
    /// Default: a place that is not empty is refused.
    pub fn with_overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// What holds of the graph once it is finished, in a folder. Default: it survives a loss of power.
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Where edges are sorted that do not fit into memory: about as many bytes as they have, for each of their
    /// adjacency lists. Nothing is left there, whatever happens. Default: the system's folder for temporary files.
    pub fn with_temporary_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary_folder = Some(folder.into());
        self
    }

    /// Is told how far the write is, from any thread, whenever rows were taken in or a file is whole. It must not
    /// wait. Default: nobody is told.
    pub fn with_progress(mut self, listener: impl Fn(WriteProgress) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Adds what is said of the graph beside GraphAr's own keys. Default: nothing.
    pub fn with_extra(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.push((key.into(), value.into()));
        self
    }
}

impl fmt::Debug for GraphWriteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphWriteOptions")
            .field("file_type", &self.file_type)
            .field("vertex_chunk_size", &self.vertex_chunk_size)
            .field("edge_chunk_size", &self.edge_chunk_size)
            .field("memory", &self.memory)
            .field("threads", &self.threads)
            .field("overwrite", &self.overwrite)
            .field("durability", &self.durability)
            .field("temporary_folder", &self.temporary_folder)
            .finish_non_exhaustive()
    }
}
