//! A cache whose capacity is a grant of the memory budget: it grows while other holders can shrink, and shrinks when
//! they need the memory more.

use std::{
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use quick_cache::{
    DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter,
    sync::{Cache, PlaceholderGuard},
};
use stylobate_storage::{Budget, ByteSize, HitMeter, Holder, Reclaim, Reservation};

use super::EntryWeighter;

/// The fraction `1 / FLOOR_DIVISOR` of the limit is granted at the start and never released.
const FLOOR_DIVISOR: u64 = 32;
/// Minimum growth of a grant, as the fraction `1 / STEP_DIVISOR` of the limit, so that grants grow rarely.
const STEP_DIVISOR: u64 = 256;

/// A cache of entries weighed in bytes, which are charged to a budget.
pub(super) struct GrantedCache<K, V, L> {
    cache: Cache<K, V, EntryWeighter, DefaultHashBuilder, L>,
    grant: Mutex<Reservation>,
    floor: u64,
    limit: u64,
    /// Bytes of pending inserts.
    pending: AtomicU64,
    /// Hits, and misses of keys in `ghosts`, which a larger cache would have avoided.
    hits: HitMeter,
    ghosts: GhostKeys,
}

/// The reserved room of an insert.
#[must_use = "others may take its room once it is dropped"]
pub(super) struct PendingInsert<'a> {
    pending: &'a AtomicU64,
    weight: u64,
}

impl Drop for PendingInsert<'_> {
    fn drop(&mut self) {
        self.pending.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

/// The guard of a task that computes a value while others wait for it.
pub(super) type EntryGuard<'a, K, V, L> = PlaceholderGuard<'a, K, V, EntryWeighter, DefaultHashBuilder, L>;

impl<K, V, L> fmt::Debug for GrantedCache<K, V, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantedCache").field("grant", &self.grant).field("limit", &self.limit).finish()
    }
}

impl<K, V, L> GrantedCache<K, V, L>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    EntryWeighter: Weighter<K, V>,
    L: Lifecycle<K, V> + Clone + Send + Sync + 'static,
{
    /// Creates a cache of up to `limit` bytes of the budget; `typical_entry_bytes` sizes its hash table. `lifecycle`
    /// receives the ghost keys, to which it adds the evicted ones.
    pub(super) fn new(
        budget: &Budget,
        holder: Holder,
        limit: u64,
        typical_entry_bytes: u64,
        lifecycle: impl FnOnce(GhostKeys) -> L,
    ) -> Arc<Self> {
        let items = (limit / typical_entry_bytes).clamp(64, 1 << 20) as usize;
        let ghosts = GhostKeys::default();
        let hasher = DefaultHashBuilder::default();
        let lifecycle = lifecycle(ghosts.clone());

        let options = OptionsBuilder::new()
            // Shards split the capacity evenly, and one that is full evicts: with few large entries, long before all
            // of them are full.
            .shards(1)
            .estimated_items_capacity(items)
            .weight_capacity(limit)
            .build();
        let cache = match options {
            Ok(options) => Cache::with_options(options, EntryWeighter, hasher, lifecycle),
            Err(_) => Cache::with(items, limit, EntryWeighter, hasher, lifecycle),
        };

        let floor = limit / FLOOR_DIVISOR;
        let none = || Budget::new(ByteSize::ZERO).hold(holder, 0);
        let grant = budget.try_reserve(holder, floor).unwrap_or_else(none);
        cache.set_capacity(grant.bytes());
        let floor = grant.bytes();
        let granted = Self {
            cache,
            grant: Mutex::new(grant),
            floor,
            limit,
            pending: AtomicU64::new(0),
            hits: HitMeter::default(),
            ghosts,
        };

        let granted = Arc::new(granted);
        let weak = Arc::downgrade(&granted);
        budget.register(holder, weak);
        granted
    }

    /// Returns the value if it is cached, and counts a hit.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let value = self.cache.get(key)?;
        self.hits.add(1);
        Some(value)
    }

    /// Returns the value if it is cached, without counting a hit.
    pub(super) fn peek(&self, key: &K) -> Option<V> {
        self.cache.get(key)
    }

    /// Returns the value, waiting for a task that is computing it, or the guard to compute it.
    pub(super) async fn get_or_guard(&self, key: &K) -> Result<V, EntryGuard<'_, K, V, L>>
    where
        K: Clone,
    {
        let found = match self.cache.get(key) {
            Some(value) => Ok(value),
            None => self.cache.get_value_or_guard_async(key).await,
        };

        // A key that is missed again counts too: a larger cache would still have it.
        if found.is_ok() || self.ghosts.is_remembered(key) {
            self.hits.add(1);
        }
        found
    }

    /// Requests memory for an entry that is inserted before the returned value is dropped. If it is refused, entries of
    /// this cache are evicted.
    pub(super) fn make_room(&self, key: &K, value: &V) -> PendingInsert<'_> {
        let weight = EntryWeighter.weight(key, value);
        let pending_bytes = self.pending.fetch_add(weight, Ordering::Relaxed) + weight;
        let insert = PendingInsert { pending: &self.pending, weight };

        let needed = (self.cache.weight() + pending_bytes).min(self.limit);
        let mut grant = self.grant.lock();
        let missing = needed.saturating_sub(grant.bytes());
        if missing == 0 {
            return insert;
        }

        let step = (self.limit / STEP_DIVISOR).min(self.limit - grant.bytes());
        if grant.try_grow(missing.max(step)) || grant.try_grow(missing) {
            self.cache.set_capacity(grant.bytes());
        }

        insert
    }

    /// Inserts an entry.
    pub(super) fn insert(&self, key: K, value: V) {
        let _pending = self.make_room(&key, &value);
        self.cache.insert(key, value);
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.cache.contains_key(key)
    }

    /// Counts hits of entries that were found without a lookup here.
    pub(super) fn count_hits(&self, hits: u64) {
        self.hits.add(hits);
    }

    pub(super) fn clear(&self) {
        self.cache.clear();
    }

    pub(super) fn len(&self) -> u64 {
        self.cache.len() as u64
    }

    pub(super) fn weight(&self) -> u64 {
        self.cache.weight()
    }
}

impl<K, V, L> Reclaim for GrantedCache<K, V, L>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    EntryWeighter: Weighter<K, V>,
    L: Lifecycle<K, V> + Clone + Send + Sync + 'static,
{
    fn value(&self) -> f64 {
        // Hit bytes per held byte equal hit entries per held entry.
        self.hits.rate() / (self.cache.len().max(1) as f64)
    }

    fn reclaim(&self, bytes: u64) -> u64 {
        // If this cache is growing, it may be reclaiming from the caller.
        let Some(mut grant) = self.grant.try_lock() else { return 0 };
        let target = grant.bytes().saturating_sub(bytes).max(self.floor);
        if target >= grant.bytes() {
            return 0;
        }

        self.cache.set_capacity(target);
        let kept = target.max(self.cache.weight());
        let given = grant.bytes().saturating_sub(kept);
        grant.split(given).bytes()
    }
}

/// Hashes of keys that were recently evicted or missed, one per slot: a key replaces another one in the same slot.
#[derive(Clone, Debug)]
pub(super) struct GhostKeys {
    hasher: RandomState,
    hashes: Arc<[AtomicU64]>,
}

/// Number of remembered keys.
const GHOST_SLOTS: usize = 8192;

impl Default for GhostKeys {
    fn default() -> Self {
        Self { hasher: RandomState::new(), hashes: (0..GHOST_SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl GhostKeys {
    pub(super) fn remember(&self, key: &impl Hash) {
        self.is_remembered(key);
    }

    /// Returns whether the key is remembered, and remembers it.
    fn is_remembered(&self, key: &impl Hash) -> bool {
        let hash = self.hasher.hash_one(key);
        let slot = self.hashes.get(hash as usize % GHOST_SLOTS);
        slot.is_some_and(|slot| slot.swap(hash, Ordering::Relaxed) == hash)
    }
}

#[cfg(test)]
mod tests {
    use quick_cache::sync::DefaultLifecycle;

    use super::*;

    impl Weighter<u64, u64> for EntryWeighter {
        fn weight(&self, _: &u64, bytes: &u64) -> u64 {
            *bytes
        }
    }

    #[test]
    fn nothing_leaves_while_the_budget_has_room_however_large_entries_are() {
        let limit = 8 << 30;
        let budget = Budget::new(ByteSize::bytes(limit));
        let cache =
            GrantedCache::new(&budget, Holder::Chunks, limit, 1 << 20, |_| DefaultLifecycle::default());
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for key in (thread..400).step_by(4) {
                        cache.insert(key, (key * 7919 % 37 + 1) << 20);
                    }
                });
            }
        });
        assert_eq!((0..400).filter(|key| cache.contains(key)).count(), 400);
        assert!(cache.weight() <= budget.used() && budget.used() <= limit);
    }

    #[test]
    fn absent_keys_are_remembered() {
        let absent = GhostKeys::default();
        absent.remember(&5);
        assert!(absent.is_remembered(&5) && !absent.is_remembered(&6));
        assert!(absent.is_remembered(&6));
    }
}
