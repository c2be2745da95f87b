//! Simulates the hit ratios of a sequence of accesses under each eviction policy, without reading any bytes.
//!
//! The policies of [`EvictionPolicy`] run in the same implementation that the page cache uses. Two others serve as
//! a comparison: LRU-2 (O'Neil, O'Neil and Weikum, "The LRU-K page replacement algorithm for database disk
//! buffering", SIGMOD 1993), and the offline optimum, which knows future accesses.
//!
//! The same rules apply to every policy: an access to a cached key is a hit, a miss is admitted, and a key larger
//! than the whole cache bypasses it without evicting anything.

pub(crate) mod mixes;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::{
    ByteSize, EvictionPolicy,
    policy::{self, Eviction, EvictionSlot},
};

/// The name under which [`simulate`] reports LRU-2.
const LRU_2: &str = "lru-2";

/// The name under which [`simulate`] reports the optimum.
const OPTIMUM: &str = "optimum";

/// One read of a cached object or page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Identifies the object or page.
    pub key: u64,
    /// Weight in the cache, in bytes. The same at each access.
    pub bytes: u64,
}

/// Hits and misses of one policy over a sequence of accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HitRatio {
    /// The policy's name: that of an [`EvictionPolicy`], `lru-2` or `optimum`.
    pub policy: String,
    /// Number of accesses.
    pub requests: u64,
    /// Number of accesses that were hits.
    pub hits: u64,
    /// Bytes of all accesses.
    pub bytes: u64,
    /// Bytes of the hits.
    pub hit_bytes: u64,
}

impl HitRatio {
    /// Returns the hits per request, from 0 to 1; 0 if there were no requests.
    pub fn by_requests(&self) -> f64 {
        share(self.hits, self.requests)
    }

    /// Returns the hit bytes per byte accessed, from 0 to 1; 0 if there were none.
    pub fn by_bytes(&self) -> f64 {
        share(self.hit_bytes, self.bytes)
    }
}

/// Simulates the accesses, in order, on an initially empty cache of `capacity` under each policy.
///
/// The result has one entry per policy: those of [`EvictionPolicy::ALL`] in order, then `lru-2` and `optimum`.
pub fn simulate(accesses: &[Access], capacity: ByteSize) -> Vec<HitRatio> {
    let mut ratios: Vec<_> = EvictionPolicy::ALL
        .into_iter()
        .map(|policy| run(policy.name(), accesses, capacity, &mut PolicyCache::new(policy, capacity)))
        .collect();
    ratios.push(run(LRU_2, accesses, capacity, &mut Lru2::new(capacity)));
    ratios.push(run(OPTIMUM, accesses, capacity, &mut BeladyCache::new(accesses, capacity)));
    ratios
}

/// A cache of keys and weights without values.
trait KeyCache {
    /// Returns whether the key is cached. Counts as a use of the key.
    fn touch(&mut self, key: u64) -> bool;

    /// Inserts a key that was just missed and weighs at most the capacity.
    fn admit(&mut self, access: Access);
}

fn run(policy: &str, accesses: &[Access], capacity: ByteSize, cache: &mut dyn KeyCache) -> HitRatio {
    let mut ratio = HitRatio { policy: policy.to_owned(), ..HitRatio::default() };
    for access in accesses {
        ratio.requests += 1;
        ratio.bytes += access.bytes;
        if cache.touch(access.key) {
            ratio.hits += 1;
            ratio.hit_bytes += access.bytes;
        } else if access.bytes <= capacity.as_u64() {
            cache.admit(*access);
        }
    }
    ratio
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A cache under an [`EvictionPolicy`].
struct PolicyCache {
    capacity: u64,
    slots: HashMap<u64, EvictionSlot>,
    policy: Box<dyn Eviction<u64>>,
}

impl PolicyCache {
    fn new(policy: EvictionPolicy, capacity: ByteSize) -> Self {
        let capacity = capacity.as_u64();
        Self { capacity, slots: HashMap::new(), policy: policy::new(policy, capacity) }
    }
}

impl KeyCache for PolicyCache {
    fn touch(&mut self, key: u64) -> bool {
        let Some(slot) = self.slots.get(&key) else {
            return false;
        };

        self.policy.touch(*slot);
        true
    }

    fn admit(&mut self, access: Access) {
        while self.policy.weight() + access.bytes > self.capacity
            && let Some(evicted) = self.policy.evict(&mut |_| false)
        {
            self.slots.remove(&evicted);
        }

        let slot = self.policy.insert(access.key, access.bytes);
        self.slots.insert(access.key, slot);
    }
}

/// The times of a key's last two uses, in accesses since the start. Ordered as LRU-2 evicts: keys used once come
/// before those used twice, then by the older of the deciding times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LastTwoUses {
    before_last: Option<u64>,
    last: u64,
}

/// LRU-2: evicts the key with the oldest second-to-last use. Keys used only once are evicted first, in LRU order.
/// The times of evicted keys are remembered for the whole sequence.
struct Lru2 {
    capacity: u64,
    used: u64,
    clock: u64,
    history: HashMap<u64, LastTwoUses>,
    /// The cached keys in eviction order. `LastTwoUses` are distinct, since every access has its own `last`.
    cached: BTreeMap<LastTwoUses, Access>,
}

impl Lru2 {
    fn new(capacity: ByteSize) -> Self {
        let capacity = capacity.as_u64();
        Self { capacity, used: 0, clock: 0, history: HashMap::new(), cached: BTreeMap::new() }
    }
}

impl KeyCache for Lru2 {
    fn touch(&mut self, key: u64) -> bool {
        self.clock += 1;
        let earlier = self.history.get(&key).copied();
        let now = LastTwoUses { before_last: earlier.map(|uses| uses.last), last: self.clock };
        self.history.insert(key, now);

        match earlier.and_then(|uses| self.cached.remove(&uses)) {
            Some(access) => {
                self.cached.insert(now, access);
                true
            }
            None => false,
        }
    }

    fn admit(&mut self, access: Access) {
        while self.used + access.bytes > self.capacity
            && let Some((_, evicted)) = self.cached.pop_first()
        {
            self.used -= evicted.bytes;
        }

        if let Some(uses) = self.history.get(&access.key) {
            self.used += access.bytes;
            self.cached.insert(*uses, access);
        }
    }
}

/// The next use of a key that is never used again.
const NEVER: u64 = u64::MAX;

/// Evicts the key whose next use is farthest away, which may be the new key: it then bypasses the cache.
///
/// Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966. This
/// is the optimum if all weights are equal. If they differ, finding the optimum is hard, and this is a greedy
/// approximation.
struct BeladyCache {
    capacity: u64,
    used: u64,
    clock: usize,
    /// For each access, the index of the next access to the same key.
    next_uses: Vec<u64>,
    /// The next use of each cached key.
    cached: HashMap<u64, u64>,
    /// Weights of the cached keys, by next use and key. The key distinguishes keys that are never used again.
    by_next_use: BTreeMap<(u64, u64), u64>,
}

impl BeladyCache {
    fn new(accesses: &[Access], capacity: ByteSize) -> Self {
        let mut next_uses = vec![NEVER; accesses.len()];
        let mut later = HashMap::new();
        for (index, (access, next_use)) in accesses.iter().zip(&mut next_uses).enumerate().rev() {
            if let Some(next) = later.insert(access.key, index as u64) {
                *next_use = next;
            }
        }

        Self {
            capacity: capacity.as_u64(),
            used: 0,
            clock: 0,
            next_uses,
            cached: HashMap::new(),
            by_next_use: BTreeMap::new(),
        }
    }

    /// Returns the next use after the most recently touched access.
    #[expect(clippy::indexing_slicing, reason = "each access is touched once, in order")]
    fn next_use(&self) -> u64 {
        self.next_uses[self.clock - 1]
    }
}

impl KeyCache for BeladyCache {
    fn touch(&mut self, key: u64) -> bool {
        self.clock += 1;
        let next = self.next_use();

        let Some(use_of_key) = self.cached.get_mut(&key) else {
            return false;
        };

        let bytes = self.by_next_use.remove(&(*use_of_key, key));
        *use_of_key = next;
        self.by_next_use.extend(bytes.map(|bytes| ((next, key), bytes)));
        true
    }

    fn admit(&mut self, access: Access) {
        let next = self.next_use();
        self.cached.insert(access.key, next);
        self.by_next_use.insert((next, access.key), access.bytes);
        self.used += access.bytes;

        while self.used > self.capacity
            && let Some(((_, evicted), bytes)) = self.by_next_use.pop_last()
        {
            self.cached.remove(&evicted);
            self.used -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one access of one byte per letter.
    fn letters(sequence: &str) -> Vec<Access> {
        sequence.bytes().map(|letter| Access { key: letter.into(), bytes: 1 }).collect()
    }

    /// Returns the cache's hits for the sequence: `x` for a hit, `.` for a miss.
    fn hits(cache: &mut dyn KeyCache, sequence: &str) -> String {
        let mut marks = String::new();
        for access in letters(sequence) {
            let hit = cache.touch(access.key);
            marks.push(if hit { 'x' } else { '.' });
            if !hit {
                cache.admit(access);
            }
        }
        marks
    }

    fn of<'a>(ratios: &'a [HitRatio], policy: &str) -> &'a HitRatio {
        ratios.iter().find(|ratio| ratio.policy == policy).unwrap()
    }

    #[test]
    fn lru_2_keeps_what_was_used_twice_through_a_scan() {
        // b, used once, is evicted at c; c at d; d at e; a, used twice, stays. LRU would lose it.
        assert_eq!(hits(&mut Lru2::new(ByteSize::bytes(2)), "aabcdea"), ".x....x");
        let mut lru = PolicyCache::new(EvictionPolicy::Lru, ByteSize::bytes(2));
        assert_eq!(hits(&mut lru, "aabcdea"), ".x.....");
    }

    #[test]
    fn lru_2_evicts_the_oldest_last_use_but_one() {
        // At c: the second-to-last use of a is 1, that of b is 2, so a is evicted though it was used last. Then b
        // hits.
        assert_eq!(hits(&mut Lru2::new(ByteSize::bytes(2)), "abbacb"), "..xx.x");
        // Of two keys used once, the least recently used one is evicted: a at c, then b at a.
        assert_eq!(hits(&mut Lru2::new(ByteSize::bytes(2)), "abcacb"), "....x.");
    }

    #[test]
    fn lru_2_remembers_the_uses_of_what_it_evicted() {
        // a is evicted at c, comes back at 4 with a second-to-last use of 1, and so outlives the keys used once.
        assert_eq!(hits(&mut Lru2::new(ByteSize::bytes(2)), "abcadea"), "......x");
    }

    fn optimum(sequence: &str, capacity: u64) -> String {
        let accesses = letters(sequence);
        hits(&mut BeladyCache::new(&accesses, ByteSize::bytes(capacity)), sequence)
    }

    #[test]
    fn the_optimum_evicts_what_is_used_last_again() {
        // At c: of a, b and c, the next use of a is the latest.
        assert_eq!(optimum("abcbca", 2), "...xx.");
        // d is never used again and bypasses the cache; a and b stay.
        assert_eq!(optimum("abdab", 2), "...xx");
    }

    #[test]
    fn no_policy_is_better_than_the_optimum_where_weights_are_equal() {
        for mix in mixes::Mix::ALL {
            let accesses: Vec<_> = mix
                .accesses(1)
                .into_iter()
                .map(|access| Access { bytes: 1, ..access })
                .take(20_000)
                .collect();
            let ratios = simulate(&accesses, ByteSize::bytes(200));

            let max = of(&ratios, OPTIMUM).hits;
            assert!(ratios.iter().all(|ratio| ratio.hits <= max), "{}", mix.name());
        }
    }

    #[test]
    fn a_use_keeps_a_key_under_lru_and_not_under_fifo() {
        // Twenty letters fill the cache, c is used again, and three more letters evict three keys.
        let sequence = "abcdefghijklmnopqrst".to_owned() + "c" + "uvw" + "c";
        let last_hit = |policy| {
            let mut cache = PolicyCache::new(policy, ByteSize::bytes(20));
            hits(&mut cache, &sequence).ends_with('x')
        };
        assert!(last_hit(EvictionPolicy::Lru));
        assert!(!last_hit(EvictionPolicy::Fifo));
    }

    #[test]
    fn every_policy_is_reported_once() {
        let ratios = simulate(&letters("ab"), ByteSize::bytes(1));
        let names: Vec<_> = ratios.iter().map(|ratio| ratio.policy.as_str()).collect();
        assert_eq!(names, ["lirs", "lru", "lfu", "s3fifo", "sieve", "fifo", "lru-2", "optimum"]);
    }

    #[test]
    fn with_room_for_everything_only_first_reads_miss() {
        let accesses: Vec<_> =
            (0..1000_u64).map(|i| Access { key: i % 50, bytes: 10 * (i % 50 + 1) }).collect();
        for ratio in simulate(&accesses, ByteSize::mib(1)) {
            assert_eq!((ratio.requests, ratio.hits), (1000, 950), "{}", ratio.policy);
            assert!((ratio.by_bytes() - 0.95).abs() < 1e-9, "{}", ratio.policy);
        }
    }

    #[test]
    fn what_is_larger_than_the_cache_evicts_nothing() {
        let access = |key, bytes| Access { key, bytes };
        let accesses = [access(1, 4), access(2, 11), access(1, 4), access(2, 11)];
        for ratio in simulate(&accesses, ByteSize::bytes(10)) {
            assert_eq!((ratio.hits, ratio.hit_bytes, ratio.bytes), (1, 4, 30), "{}", ratio.policy);
        }
    }

    #[test]
    fn a_cache_without_room_or_requests_has_a_ratio_of_zero() {
        for ratio in simulate(&letters("aaa"), ByteSize::ZERO) {
            assert_eq!((ratio.hits, ratio.by_requests()), (0, 0.0), "{}", ratio.policy);
        }
        assert_eq!(of(&simulate(&[], ByteSize::mib(1)), "lru-2").by_bytes(), 0.0);
    }

    #[test]
    fn a_larger_object_weighs_more_when_room_is_made() {
        let access = |key, bytes| Access { key, bytes };
        // The object of 8 bytes evicts both others under LRU and LRU-2.
        let accesses = [access(1, 3), access(2, 3), access(3, 8), access(1, 3), access(2, 3)];
        let ratios = simulate(&accesses, ByteSize::bytes(10));
        assert_eq!(of(&ratios, "lru").hits, 0);
        assert_eq!(of(&ratios, "lru-2").hits, 0);
    }
}
