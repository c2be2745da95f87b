//! Counters of a cache of columns.

/// Counters of a [`Cache`](crate::Cache).
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ColumnStats {
    /// Hits of chunks and metadata; the last few hits of a hot column are added late.
    pub hits: u64,
    /// Misses of chunks and metadata.
    pub misses: u64,
    /// Decoded chunks.
    pub decoded_chunks: u64,
    /// Parsed footers.
    pub parsed_files: u64,
    /// Row groups and stripes that bypassed the cache for lack of memory.
    pub streamed_units: u64,
    /// Row groups and stripes that statistics, page indexes, row indexes or bloom filters pruned.
    pub pruned_units: u64,
    /// Row groups and stripes read in part: only the pages or strides that the filter may pass.
    pub selected_units: u64,
    /// Strides of stripes, which ORC calls row groups, that row indexes or bloom filters pruned.
    pub pruned_strides: u64,
    /// Cached chunks, footers and indexes.
    pub entries: u64,
    /// Bytes of these entries.
    pub bytes: u64,
    /// Maximum bytes of these entries.
    pub capacity: u64,
    /// Bytes of running decodes.
    pub working_bytes: u64,
    /// Bytes that others hold, such as the deltas of graph stores; they reduce the memory for entries.
    pub held_bytes: u64,
}
