//! Bounds the bytes held ahead of readers, so that read-ahead shrinks with the budget and the number of readers.
//!
//! Read-ahead takes at most a quarter of the budget in total, and an eighth per reader. The rest is left for the
//! bytes that readers need now, and for repeated reads.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Counter of read-ahead bytes, and of the readers that have any.
#[derive(Debug)]
pub(crate) struct ReadAheadQuota {
    limit: u64,
    held: AtomicU64,
    readers: AtomicU64,
}

/// Bytes held ahead of a reader, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct ReadAheadBytes {
    quota: Arc<ReadAheadQuota>,
    bytes: u64,
}

/// A reader that uses read-ahead, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct ReadAheadGuard {
    quota: Arc<ReadAheadQuota>,
}

impl ReadAheadQuota {
    /// Creates a quota of a quarter of `budget` bytes.
    pub(crate) fn new(budget: u64) -> Arc<Self> {
        Arc::new(Self { limit: budget / 4, held: AtomicU64::new(0), readers: AtomicU64::new(0) })
    }

    /// Counts one more reader.
    pub(crate) fn enter(self: &Arc<Self>) -> ReadAheadGuard {
        self.readers.fetch_add(1, Ordering::Relaxed);
        ReadAheadGuard { quota: self.clone() }
    }

    /// Returns the bytes that each reader may hold ahead of its position: at most half of the limit.
    pub(crate) fn share(&self) -> u64 {
        self.limit / self.readers.load(Ordering::Relaxed).max(2)
    }

    /// Returns the bytes of the quota that are still free.
    pub(crate) fn free(&self) -> u64 {
        self.limit.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// Returns the bytes held ahead of readers.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Counts bytes held ahead of a reader. Callers check [`free`](Self::free) first; two concurrent callers may both
    /// proceed, but the budget bounds their bytes.
    pub(crate) fn hold(self: &Arc<Self>, bytes: u64) -> ReadAheadBytes {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        ReadAheadBytes { quota: self.clone(), bytes }
    }
}

impl Drop for ReadAheadBytes {
    fn drop(&mut self) {
        self.quota.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Drop for ReadAheadGuard {
    fn drop(&mut self) {
        self.quota.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_a_quarter_of_the_budget_and_give_back_what_they_held() {
        let quota = ReadAheadQuota::new(400);
        assert_eq!((quota.share(), quota.free()), (50, 100));
        let readers = [quota.enter(), quota.enter(), quota.enter(), quota.enter()];
        assert_eq!(quota.share(), 25);
        let some = quota.hold(70);
        let more = quota.hold(50);
        assert_eq!((quota.free(), quota.held()), (0, 120));
        drop((some, readers));
        assert_eq!((quota.free(), quota.share()), (50, 50));
        drop(more);
        assert_eq!(quota.held(), 0);
    }
}
