//! Options of writing a graph.

use std::{fmt, path::PathBuf, sync::Arc};

use stylobate_columnar::{orc::OrcCompression, parquet::Compression};
use stylobate_storage::{ByteSize, Durability, Overwrite};

use super::progress::{WriteProgress, WriteProgressListener};
use crate::graphar::FileType;

/// Vertices per chunk.
const VERTEX_CHUNK_SIZE: u64 = 1 << 18;
/// Edges per chunk.
const EDGE_CHUNK_SIZE: u64 = 1 << 22;
/// Memory of a writer.
const MEMORY: ByteSize = ByteSize::gib(1);
/// Snappy decompresses fastest, and graphs are read more often than written.
const COMPRESSION: Compression = Compression::Snappy;

/// Options of writing a graph. They apply to all types without options of their own.
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
    /// Sets the format of chunk files: Parquet, ORC or CSV. CSV has no lists, and other programs cannot distinguish an
    /// empty string from null in it. JSON can be read, but not written. Default: Parquet.
    pub fn with_file_type(mut self, file_type: FileType) -> Self {
        self.file_type = file_type;
        self
    }

    /// Sets the number of vertices per chunk, 1 or more. Default: 262,144.
    pub fn with_vertex_chunk_size(mut self, vertices: u64) -> Self {
        self.vertex_chunk_size = vertices;
        self
    }

    /// Sets the number of edges per chunk, 1 or more. Default: 4,194,304.
    pub fn with_edge_chunk_size(mut self, edges: u64) -> Self {
        self.edge_chunk_size = edges;
        self
    }

    /// Sets the compression of Parquet files. Default: snappy.
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the compression of ORC files. Default: zstd(3).
    pub fn with_orc_compression(mut self, compression: OrcCompression) -> Self {
        self.orc_compression = compression;
        self
    }

    /// Sets the memory for vertex keys, edge sorts and encoders. Edges that do not fit are sorted on disk; keys that do
    /// not fit are an error. Encoders take about 30 MiB even if less is set. Default: 1 GiB.
    pub fn with_memory(mut self, memory: ByteSize) -> Self {
        self.memory = memory;
        self
    }

    /// Sets the number of threads that sort and encode. Default: the number of cores.
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets whether existing graphs are replaced. In a folder, they are removed once the new one is complete, just
    /// before its files are renamed into place; in an object store, before the first chunk is written. Files that
    /// belong to no graph are kept. Default: a non-empty location is an error.
    pub fn with_overwrite(mut self, overwrite: Overwrite) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Sets the durability of a finished graph in a folder. Default: it survives a power failure.
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the folder for sorting edges that do not fit into memory. It needs about the size of the edges for
    /// each adjacency list. No files remain, even after a crash. Default: the system's folder for temporary files.
    pub fn with_temporary_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary_folder = Some(folder.into());
        self
    }

    /// Sets a progress listener, which is called from any thread whenever rows are consumed or a file is complete.
    /// It must not block. Default: none.
    pub fn with_progress(mut self, listener: impl Fn(WriteProgress) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Adds metadata of the graph beside GraphAr's own keys. Default: none.
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
