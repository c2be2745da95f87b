//! Query memory, taken from the budget of the cache that scans read through.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use datafusion::{
    common::Result,
    execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
};
use parking_lot::Mutex;
use stylobate_columnar::Cache;
use stylobate_storage::Reservation;

/// Granularity in bytes at which the pool grows and shrinks its share of the budget.
const STEP: usize = 1 << 20;
/// The share of the budget is larger than the reservations by `1 / UNRESERVED_DIVISOR`: operators do not reserve all
/// memory, for example while they concatenate the batches of a join or grow a hash table.
const UNRESERVED_DIVISOR: usize = 8;

/// The memory of the queries over one cache: seven eighths of the cache's memory. Sessions used together share it.
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct QueryMemory(Arc<CachePool>);

impl QueryMemory {
    /// Creates query memory that is reserved from this cache.
    pub fn over(cache: Cache) -> Self {
        Self(Arc::new(CachePool::over(cache)))
    }

    pub(crate) fn pool(&self) -> Arc<dyn MemoryPool> {
        self.0.clone()
    }
}

/// A memory pool whose reservations evict pages and decoded columns. Operators that can spill get equal shares of it.
#[derive(Debug)]
pub(crate) struct CachePool {
    shares: FairSpillPool,
    /// Maximum bytes including those of operators that cannot spill: without this reserve, they would fail while
    /// others use all shares.
    limit: usize,
    cache: Cache,
    /// Size of `held` in bytes.
    held_bytes: AtomicUsize,
    held: Mutex<Vec<Reservation>>,
}

impl CachePool {
    /// Creates a pool of half of the cache's memory, plus three eighths for operators that cannot spill. The rest is
    /// left for decoding.
    pub(crate) fn over(cache: Cache) -> Self {
        let capacity = usize::try_from(cache.budget_stats().capacity).unwrap_or(usize::MAX);
        Self {
            shares: FairSpillPool::new(capacity / 2),
            limit: capacity - capacity / 8,
            cache,
            held_bytes: AtomicUsize::new(0),
            held: Mutex::default(),
        }
    }

    /// Adjusts the share of the budget to the reservations, in whole steps.
    fn settle(&self) {
        let wanted = || {
            let reserved = self.shares.reserved();
            (reserved + reserved / UNRESERVED_DIVISOR).div_ceil(STEP).saturating_mul(STEP)
        };
        if self.held_bytes.load(Ordering::Relaxed) == wanted() {
            return;
        }

        let mut held = self.held.lock();
        let wanted = wanted();
        let before = self.held_bytes.load(Ordering::Relaxed);
        if wanted > before {
            held.push(self.cache.hold((wanted - before) as u64));
        }

        let mut excess = before.saturating_sub(wanted) as u64;
        while excess > 0
            && let Some(mut last) = held.pop()
        {
            excess -= last.split(excess).bytes();
            if last.bytes() > 0 {
                held.push(last);
            }
        }
        self.held_bytes.store(wanted, Ordering::Relaxed);
    }
}

impl MemoryPool for CachePool {
    fn name(&self) -> &'static str {
        "stylobate"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.shares.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.shares.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.shares.grow(reservation, additional);
        self.settle();
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.shares.shrink(reservation, shrink);
        self.settle();
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if let Err(error) = self.shares.try_grow(reservation, additional) {
            let total = self.shares.reserved().saturating_add(additional);
            if reservation.consumer().can_spill() || total > self.limit {
                return Err(error);
            }
            self.shares.grow(reservation, additional);
        }
        self.settle();
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.shares.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.shares.memory_limit()
    }
}

impl fmt::Display for CachePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.shares)
    }
}

#[cfg(test)]
mod tests {
    use stylobate_storage::{ByteSize, CacheOptions};

    use super::*;

    #[tokio::test]
    async fn what_queries_reserve_is_taken_from_the_budget_and_given_back() {
        let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(CachePool::over(cache.clone()));
        let held = || cache.stats().held_bytes;

        let sort = MemoryConsumer::new("sort").with_can_spill(true).register(&pool);
        sort.try_grow(5 << 20).unwrap();
        assert_eq!(held(), 6 << 20, "an eighth more, in whole steps");
        sort.shrink((5 << 20) - 1);
        assert_eq!(held(), 1 << 20);
        sort.free();
        assert_eq!(held(), 0);
    }

    #[tokio::test]
    async fn operators_that_spill_share_half_of_the_memory_and_others_get_three_eighths_more() {
        let cache = Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(CachePool::over(cache));

        let one = MemoryConsumer::new("one").with_can_spill(true).register(&pool);
        let other = MemoryConsumer::new("other").with_can_spill(true).register(&pool);
        one.try_grow(16 << 20).unwrap();
        other.try_grow(16 << 20).unwrap();
        assert!(one.try_grow(1).is_err() && other.try_grow(1).is_err());

        let merge = MemoryConsumer::new("merge").register(&pool);
        merge.try_grow(24 << 20).unwrap();
        assert!(merge.try_grow(1).is_err());
    }
}
