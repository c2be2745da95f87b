//! Counters of a cache of columns, and of the columns of open files.

use std::{
    iter::Sum,
    sync::atomic::{AtomicU64, Ordering},
};

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
    #[serde(rename = "streamed_units")]
    pub streamed_row_groups: u64,
    /// Row groups and stripes that statistics, page indexes, row indexes or bloom filters pruned.
    #[serde(rename = "pruned_units")]
    pub pruned_row_groups: u64,
    /// Row groups and stripes read in part: only the pages or strides that the filter may pass.
    #[serde(rename = "selected_units")]
    pub selected_row_groups: u64,
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

/// Counters of the columns of open files, and their bytes in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ColumnsUse {
    /// Open files.
    pub files: u64,
    /// Cached columns.
    pub columns: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Hits; some are lost if several threads count at once.
    pub hits: u64,
    /// Decodes.
    pub decoded: u64,
}

impl Sum for ColumnsUse {
    fn sum<I: Iterator<Item = Self>>(uses: I) -> Self {
        uses.fold(Self::default(), |sum, one| Self {
            files: sum.files + one.files,
            columns: sum.columns + one.columns,
            bytes: sum.bytes + one.bytes,
            hits: sum.hits + one.hits,
            decoded: sum.decoded + one.decoded,
        })
    }
}

/// A counter for display: counting is cheap, and may lose increments of other threads.
#[derive(Debug, Default)]
pub(crate) struct RelaxedCounter(AtomicU64);

impl RelaxedCounter {
    /// Adds one.
    #[inline]
    pub(crate) fn add(&self) {
        self.0.store(self.get() + 1, Ordering::Relaxed);
    }

    /// Returns the count.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
