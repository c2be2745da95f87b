//! What a cache of columns did so far, in numbers.

/// What a [`Cache`](crate::Cache) did so far.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct ColumnStats {
    /// Chunks and metadata that were found; the last few of a column that is asked for all the time come later.
    pub hits: u64,
    /// Chunks and metadata that were not.
    pub misses: u64,
    /// Chunks that were decoded.
    pub decoded_chunks: u64,
    /// Footers that were parsed.
    pub parsed_files: u64,
    /// Row groups and stripes that were read past the cache, for want of memory.
    pub streamed_units: u64,
    /// Row groups and stripes that statistics, page indexes, row indexes or bloom filters ruled out.
    pub pruned_units: u64,
    /// Row groups of which only the pages were read that the filter may pass, and stripes of which only the strides were.
    pub selected_units: u64,
    /// Strides of stripes, which ORC calls row groups, that row indexes or bloom filters ruled out.
    pub pruned_strides: u64,
    /// Chunks and files held.
    pub entries: u64,
    /// Bytes held by them.
    pub bytes: u64,
    /// Bytes that they may hold.
    pub capacity: u64,
    /// Bytes that decodes under way hold.
    pub working_bytes: u64,
    /// Bytes that others hold, such as the deltas of graph stores: so much less is kept.
    pub held_bytes: u64,
}
