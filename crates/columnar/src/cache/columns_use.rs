//! Counters of the columns of open files.

use std::{
    iter::Sum,
    sync::atomic::{AtomicU64, Ordering},
};

/// Counters of columns, and their bytes in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ColumnsUse {
    /// Open files.
    pub files: u64,
    /// Cached columns.
    pub columns: u64,
    /// Bytes of these.
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
