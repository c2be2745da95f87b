//! How often columns were asked for, and what is in memory of them.

use std::{
    iter::Sum,
    sync::atomic::{AtomicU64, Ordering},
};

/// What was asked of columns, and what the cache has of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ColumnsUse {
    /// Files that are open.
    pub files: u64,
    /// Columns that the cache has.
    pub columns: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Times that a column was found; some are missed where several threads count at once.
    pub hits: u64,
    /// Times that a column was decoded.
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

/// A number that is only shown: counting costs next to nothing, and may miss what others count at the same time.
#[derive(Debug, Default)]
pub(crate) struct RelaxedCounter(AtomicU64);

impl RelaxedCounter {
    /// Counts one more.
    #[inline]
    pub(crate) fn add(&self) {
        self.0.store(self.get() + 1, Ordering::Relaxed);
    }

    /// What was counted.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
