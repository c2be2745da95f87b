//! The memory budget of the process: counts usage by holder, and reclaims from the least valuable cache when full.
//!
//! ```text
//!   try_reserve ──▶ free? ──yes──▶ Reservation ──drop──▶ free again
//!                     │no
//!                     ▼
//!   caches, the least valuable first ──reclaim──▶ free? ──▶ Reservation, or a refusal
//! ```
//!
//! Nothing has a fixed share. The value of a cache is the bytes it served recently per byte held; when the budget is
//! full, the cache with the lowest value gives up bytes first, down to a floor. A refusal means "read once, bypassing
//! the cache": reserving never waits and never fails a read.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use serde::Serialize;

use crate::ByteSize;

/// The use of reserved memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// Pages of objects: resident, being fetched, or on their way to a client or to disk.
    Pages,
    /// Decoded column chunks.
    Chunks,
    /// Parsed footers and indexes, and the index of the disk tier.
    Metadata,
    /// Decodes in progress.
    Decodes,
    /// Bodies of uploads.
    Uploads,
    /// Memory that is reserved even if none is free.
    Other,
}

impl Holder {
    /// Every holder, in the order of reports.
    pub const ALL: [Self; 6] =
        [Self::Pages, Self::Chunks, Self::Metadata, Self::Decodes, Self::Uploads, Self::Other];
}

/// A cache that can give memory back.
pub trait Reclaim: fmt::Debug + Send + Sync {
    /// Returns the bytes served recently per second, per byte held. The cache with the smallest value is reclaimed
    /// first.
    fn value(&self) -> f64;

    /// Drops entries to free about `bytes`, and returns the number of bytes freed; 0 if none can be.
    fn reclaim(&self, bytes: u64) -> u64;
}

/// Divisor of the capacity that yields the floor below which one cache gives up nothing to another.
const FLOOR_DIVISOR: u64 = 32;

/// A byte budget shared by all caches of a process. Cheap to clone: all clones share one count.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<BudgetInner>,
}

#[derive(Debug)]
struct BudgetInner {
    capacity: u64,
    used: AtomicU64,
    holders: [HolderCount; Holder::ALL.len()],
    caches: RwLock<Vec<(Holder, Weak<dyn Reclaim>)>>,
}

#[derive(Debug, Default)]
struct HolderCount {
    bytes: AtomicU64,
    refused: AtomicU64,
    reclaimed: AtomicU64,
}

/// Memory of one holder.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HolderStats {
    /// The holder.
    pub holder: Holder,
    /// Bytes held now.
    pub bytes: u64,
    /// Bytes served recently per second, per byte held: decides the order of reclaim. 0 for holders without a cache.
    pub value: f64,
    /// Bytes reclaimed so far for other reservations.
    pub reclaimed: u64,
    /// Reservations that were refused.
    pub refused: u64,
}

/// A snapshot of the budget by holder.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BudgetStats {
    /// Capacity in bytes.
    pub capacity: u64,
    /// Bytes reserved.
    pub used: u64,
    /// Bytes that a cache may keep when others need memory.
    pub floor: u64,
    /// Every holder.
    pub holders: Vec<HolderStats>,
}

impl Budget {
    /// Creates a budget of `capacity` bytes, all of them free.
    pub fn new(capacity: ByteSize) -> Self {
        let shared = BudgetInner {
            capacity: capacity.as_u64(),
            used: AtomicU64::new(0),
            holders: Default::default(),
            caches: RwLock::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Registers a cache that gives memory back when the budget is full, for as long as the cache lives.
    pub fn register(&self, holder: Holder, cache: Weak<dyn Reclaim>) {
        let mut caches = self.shared.caches.write();
        caches.retain(|(_, cache)| cache.strong_count() > 0);
        caches.push((holder, cache));
    }

    /// Reserves `bytes` until the reservation is dropped, reclaiming from caches if needed. Returns `None` if they
    /// cannot free enough.
    pub fn try_reserve(&self, holder: Holder, bytes: u64) -> Option<Reservation> {
        self.reserve(holder, bytes, false)
    }

    /// Reserves `bytes` for a cache that would otherwise evict its own entries: only caches worth no more than this
    /// one give up memory.
    pub fn try_grow(&self, holder: Holder, bytes: u64) -> Option<Reservation> {
        self.reserve(holder, bytes, true)
    }

    /// Reserves `bytes` even if they are not free: accounts for memory that is in use anyway, so that caches shrink.
    pub fn hold(&self, holder: Holder, bytes: u64) -> Reservation {
        let take = |used: u64| Some(used.saturating_add(bytes));
        let before = self.shared.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        let before = before.unwrap_or_else(|used| used);
        let bytes = before.saturating_add(bytes) - before;

        self.count(holder).bytes.fetch_add(bytes, Ordering::Relaxed);
        let excess = (before + bytes).saturating_sub(self.shared.capacity);
        if excess > 0 {
            self.make_room(holder, excess, false);
        }

        Reservation { budget: self.clone(), holder, bytes }
    }

    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.shared.capacity
    }

    /// Returns the bytes reserved now.
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Acquire)
    }

    /// Returns the bytes that one holder has reserved now.
    pub fn held_by(&self, holder: Holder) -> u64 {
        self.count(holder).bytes.load(Ordering::Relaxed)
    }

    /// Returns the maximum bytes that `holder` can hold without reclaiming from other caches.
    pub fn capacity_for(&self, holder: Holder) -> u64 {
        let others = self.used().saturating_sub(self.held_by(holder));
        self.capacity().saturating_sub(others)
    }

    /// Returns the usage by holder.
    pub fn stats(&self) -> BudgetStats {
        let caches = self.caches();
        let value = |holder| {
            let values = caches.iter().filter(|(of, _)| *of == holder).map(|(_, cache)| cache.value());
            values.fold(0.0, f64::max)
        };
        let holders = Holder::ALL.map(|holder| HolderStats {
            holder,
            bytes: self.held_by(holder),
            value: value(holder),
            reclaimed: self.count(holder).reclaimed.load(Ordering::Relaxed),
            refused: self.count(holder).refused.load(Ordering::Relaxed),
        });

        BudgetStats {
            capacity: self.capacity(),
            used: self.used(),
            floor: self.floor(),
            holders: holders.to_vec(),
        }
    }

    fn reserve(&self, holder: Holder, bytes: u64, is_growth: bool) -> Option<Reservation> {
        // Another thread may take the reclaimed bytes: make a few attempts, then refuse.
        for _ in 0..4 {
            match self.take(bytes) {
                Ok(()) => {
                    self.count(holder).bytes.fetch_add(bytes, Ordering::Relaxed);
                    return Some(Reservation { budget: self.clone(), holder, bytes });
                }
                Err(missing) if bytes <= self.capacity() => {
                    if self.make_room(holder, missing, is_growth) == 0 {
                        break;
                    }
                }
                Err(_) => break,
            }
        }

        self.count(holder).refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Takes free bytes, or returns how many are missing.
    fn take(&self, bytes: u64) -> Result<(), u64> {
        let capacity = self.shared.capacity;
        let fits = |used: u64| used.checked_add(bytes).filter(|total| *total <= capacity);
        let taken = self.shared.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits);
        taken.map(|_| ()).map_err(|used| used.saturating_add(bytes).saturating_sub(capacity))
    }

    /// Reclaims `missing` bytes from caches, the least valuable first. Returns the number of bytes freed.
    fn make_room(&self, requester: Holder, missing: u64, is_growth: bool) -> u64 {
        let mut caches: Vec<_> =
            self.caches().into_iter().map(|(holder, cache)| (cache.value(), holder, cache)).collect();
        let own = caches.iter().filter(|(_, holder, _)| *holder == requester).map(|(value, ..)| *value);
        let own = own.fold(0.0, f64::max);
        // Among caches of equal value, the requester's own comes last.
        caches.sort_by(|(a, holder, _), (b, other, _)| {
            a.total_cmp(b).then_with(|| (*holder == requester).cmp(&(*other == requester)))
        });

        let mut freed = 0;
        for (value, holder, cache) in caches {
            let is_own = holder == requester;
            if freed >= missing || (is_growth && (is_own || value > own)) {
                break;
            }
            let spare = if is_own { u64::MAX } else { self.held_by(holder).saturating_sub(self.floor()) };
            let wanted = (missing - freed).min(spare);
            if wanted > 0 {
                let given = cache.reclaim(wanted);
                self.count(holder).reclaimed.fetch_add(given, Ordering::Relaxed);
                freed += given;
            }
        }

        freed
    }

    fn floor(&self) -> u64 {
        self.shared.capacity / FLOOR_DIVISOR
    }

    fn caches(&self) -> Vec<(Holder, Arc<dyn Reclaim>)> {
        let caches = self.shared.caches.read();
        caches.iter().filter_map(|(holder, cache)| Some((*holder, cache.upgrade()?))).collect()
    }

    fn count(&self, holder: Holder) -> &HolderCount {
        let [pages, chunks, metadata, decodes, uploads, other] = &self.shared.holders;
        match holder {
            Holder::Pages => pages,
            Holder::Chunks => chunks,
            Holder::Metadata => metadata,
            Holder::Decodes => decodes,
            Holder::Uploads => uploads,
            Holder::Other => other,
        }
    }
}

/// Bytes reserved from a [`Budget`], released on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    holder: Holder,
    bytes: u64,
}

impl Reservation {
    /// Returns the bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds `more` bytes to grow a cache; see [`Budget::try_grow`]. Returns `false` if they cannot be reserved.
    pub fn try_grow(&mut self, more: u64) -> bool {
        let more = self.budget.try_grow(self.holder, more);
        let is_reserved = more.is_some();
        self.absorb(more);
        is_reserved
    }

    /// Changes the number of bytes held; more are added even if they are not free, as by [`Budget::hold`].
    pub(crate) fn resize(&mut self, bytes: u64) {
        if bytes > self.bytes {
            let more = self.budget.hold(self.holder, bytes - self.bytes);
            self.absorb(Some(more));
        } else {
            drop(self.split(self.bytes - bytes));
        }
    }

    /// Splits off `bytes`, or all if there are fewer, as a reservation of their own.
    pub fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { budget: self.budget.clone(), holder: self.holder, bytes }
    }

    fn absorb(&mut self, more: Option<Self>) {
        if let Some(mut more) = more {
            self.bytes += std::mem::take(&mut more.bytes);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.count(self.holder).bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.shared.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// Exponentially decaying average of the bytes per second that a cache served recently.
#[derive(Debug)]
pub struct HitMeter {
    total: AtomicU64,
    average: Mutex<DecayingRate>,
}

#[derive(Debug)]
struct DecayingRate {
    since: Instant,
    counted: u64,
    rate: f64,
}

/// Time constant of the decay.
const MEMORY: Duration = Duration::from_secs(8);

/// Minimum interval between two samples of the rate.
const SAMPLE: Duration = Duration::from_millis(50);

impl Default for HitMeter {
    fn default() -> Self {
        let average = DecayingRate { since: Instant::now(), counted: 0, rate: 0.0 };
        Self { total: AtomicU64::new(0), average: Mutex::new(average) }
    }
}

impl HitMeter {
    /// Counts bytes that were served, or that a larger cache would have served.
    #[inline]
    pub fn add(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the recent rate in bytes per second.
    pub fn rate(&self) -> f64 {
        self.rate_at(Instant::now())
    }

    fn rate_at(&self, now: Instant) -> f64 {
        let mut average = self.average.lock();
        let elapsed = now.saturating_duration_since(average.since);
        if elapsed < SAMPLE {
            return average.rate;
        }
        let total = self.total.load(Ordering::Relaxed);
        let rate = total.saturating_sub(average.counted) as f64 / elapsed.as_secs_f64();
        let kept = (-elapsed.as_secs_f64() / MEMORY.as_secs_f64()).exp();

        let rate = average.rate * kept + rate * (1.0 - kept);
        // A cache that has been idle for a minute is worth nothing, not slightly more than one that was never hit.
        let rate = if rate < 1.0 { 0.0 } else { rate };
        *average = DecayingRate { since: now, counted: total, rate };
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: Holder = Holder::Pages;

    /// A cache that holds one reservation.
    #[derive(Debug)]
    struct FakeCache {
        value: f64,
        held: Mutex<Reservation>,
    }

    impl FakeCache {
        fn new(budget: &Budget, holder: Holder, bytes: u64, value: f64) -> Arc<Self> {
            let held = Mutex::new(budget.try_reserve(holder, bytes).unwrap());
            let cache = Arc::new(Self { value, held });
            let weak: Weak<Self> = Arc::downgrade(&cache);
            budget.register(holder, weak);
            cache
        }

        fn bytes(&self) -> u64 {
            self.held.lock().bytes()
        }
    }

    impl Reclaim for FakeCache {
        fn value(&self) -> f64 {
            self.value
        }

        fn reclaim(&self, bytes: u64) -> u64 {
            self.held.lock().split(bytes).bytes()
        }
    }

    #[test]
    fn a_dropped_reservation_can_be_made_again() {
        let budget = Budget::new(ByteSize::bytes(10));
        let six = budget.try_reserve(PAGES, 6).unwrap();
        assert!(budget.try_reserve(PAGES, 5).is_none());
        let mut four = budget.try_reserve(Holder::Uploads, 4).unwrap();
        assert_eq!((budget.used(), budget.held_by(PAGES)), (10, 6));
        drop(four.split(1));
        assert_eq!((four.bytes(), budget.used()), (3, 9));
        assert!(budget.try_reserve(Holder::Uploads, 2).is_none());
        four.absorb(budget.try_reserve(Holder::Uploads, 1));
        assert_eq!((four.bytes(), budget.used()), (4, 10));

        let one = four.split(1);
        drop(four);
        assert_eq!((one.bytes(), budget.used()), (1, 7));
        drop((six, one));
        assert_eq!((budget.used(), budget.held_by(PAGES), budget.held_by(Holder::Uploads)), (0, 0, 0));
        assert!(budget.try_reserve(PAGES, u64::MAX).is_none());
    }

    #[test]
    fn memory_that_is_held_anyway_is_taken_from_caches() {
        let budget = Budget::new(ByteSize::bytes(100));
        let cache = FakeCache::new(&budget, PAGES, 90, 1.0);
        let held = budget.hold(Holder::Other, 50);
        assert_eq!((held.bytes(), cache.bytes(), budget.used()), (50, 50, 100));

        let all = budget.hold(Holder::Other, u64::MAX);
        assert_eq!(cache.bytes(), 100 / FLOOR_DIVISOR);
        drop((all, held));
        assert_eq!(budget.used(), cache.bytes());
    }

    #[test]
    fn the_cache_that_is_worth_least_gives_way_first() {
        let budget = Budget::new(ByteSize::bytes(100));
        let hot = FakeCache::new(&budget, Holder::Chunks, 50, 2.0);
        let cold = FakeCache::new(&budget, PAGES, 50, 1.0);
        let upload = budget.try_reserve(Holder::Uploads, 30).unwrap();
        assert_eq!((hot.bytes(), cold.bytes()), (50, 20));

        // The cold cache keeps its floor of 100 / 32 bytes.
        let more = budget.try_reserve(Holder::Uploads, 30).unwrap();
        assert_eq!((hot.bytes(), cold.bytes(), budget.used()), (37, 3, 100));
        drop((upload, more));
    }

    #[test]
    fn a_cache_grows_at_the_cost_of_caches_that_are_worth_no_more() {
        let budget = Budget::new(ByteSize::bytes(100));
        let hot = FakeCache::new(&budget, Holder::Chunks, 50, 2.0);
        let cold = FakeCache::new(&budget, PAGES, 50, 1.0);
        assert!(budget.try_grow(PAGES, 10).is_none());
        let grown = budget.try_grow(Holder::Chunks, 10).unwrap();
        assert_eq!((grown.bytes(), hot.bytes(), cold.bytes()), (10, 50, 40));

        let idle = FakeCache::new(&Budget::new(ByteSize::bytes(9)), PAGES, 1, 0.0);
        assert_eq!(idle.value(), 0.0);
    }

    #[test]
    fn a_cache_that_is_gone_is_not_asked() {
        let budget = Budget::new(ByteSize::bytes(100));
        drop(FakeCache::new(&budget, PAGES, 100, 1.0));
        assert_eq!(budget.used(), 0);
        assert!(budget.try_reserve(PAGES, 100).is_some());
    }

    #[test]
    fn a_budget_of_nothing_gives_nothing() {
        let budget = Budget::new(ByteSize::ZERO);
        assert!(budget.try_reserve(PAGES, 1).is_none());
        assert!(budget.try_reserve(PAGES, 0).is_some());
        let refused: u64 = budget.stats().holders.iter().map(|holder| holder.refused).sum();
        assert_eq!(refused, 1);
    }

    #[test]
    fn the_rate_of_hits_follows_the_load_and_fades() {
        let meter = HitMeter::default();
        let start = meter.average.lock().since;
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        meter.add(1_000_000);
        let busy = meter.rate_at(at(1.0));
        assert!(busy > 100_000.0 && busy < 1_000_000.0, "{busy}");
        assert_eq!(meter.rate_at(at(1.01)), busy, "not sampled again at once");
        assert!(meter.rate_at(at(10.0)) < busy / 2.0);
        assert_eq!(meter.rate_at(at(200.0)), 0.0);
    }
}
