//! The least-recently-used caches of many nodes.

use hashbrown::HashMap;

/// Null index: the end of a list.
const NONE: u32 = u32::MAX;

/// Byte-bounded caches of equal capacity. They share one table, so that a thousand small ones cost no more than a large
/// one.
pub(crate) struct LruCaches {
    capacity: u64,
    caches: Vec<CacheList>,
    /// Slots by cache and key.
    found: HashMap<u64, u32>,
    slots: Vec<LruSlot>,
    free: Vec<u32>,
}

/// The recency list of one cache.
#[derive(Clone)]
struct CacheList {
    newest: u32,
    oldest: u32,
    bytes: u64,
}

struct LruSlot {
    key: u64,
    bytes: u64,
    newer: u32,
    older: u32,
}

impl LruCaches {
    /// Creates `count` empty caches of `capacity` bytes each.
    pub(crate) fn new(count: usize, capacity: u64) -> Self {
        let empty = CacheList { newest: NONE, oldest: NONE, bytes: 0 };
        let caches = vec![empty; count];
        Self { capacity, caches, found: HashMap::new(), slots: Vec::new(), free: Vec::new() }
    }

    /// Returns whether the cache has the key, and marks it as most recently used. On a miss the key is inserted,
    /// evicting the oldest entries; a key larger than the capacity is never inserted.
    pub(crate) fn read(&mut self, cache: usize, key: u32, bytes: u64) -> bool {
        let key = (cache as u64) << 32 | u64::from(key);
        if let Some(&slot) = self.found.get(&key) {
            if self.caches[cache].newest != slot {
                self.unlink(cache, slot);
                self.link_newest(cache, slot);
            }
            return true;
        }

        if bytes <= self.capacity {
            while self.caches[cache].bytes + bytes > self.capacity {
                self.evict_oldest(cache);
            }
            self.insert(cache, key, bytes);
        }
        false
    }

    fn insert(&mut self, cache: usize, key: u64, bytes: u64) {
        let entry = LruSlot { key, bytes, newer: NONE, older: NONE };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                self.slots.len() as u32 - 1
            }
        };

        self.found.insert(key, slot);
        self.caches[cache].bytes += bytes;
        self.link_newest(cache, slot);
    }

    fn evict_oldest(&mut self, cache: usize) {
        let slot = self.caches[cache].oldest;
        let LruSlot { key, bytes, .. } = self.slots[slot as usize];

        self.unlink(cache, slot);
        self.caches[cache].bytes -= bytes;
        self.found.remove(&key);
        self.free.push(slot);
    }

    fn link_newest(&mut self, cache: usize, slot: u32) {
        let list = &mut self.caches[cache];
        let second = list.newest;
        list.newest = slot;
        match second {
            NONE => list.oldest = slot,
            second => self.slots[second as usize].newer = slot,
        }

        let entry = &mut self.slots[slot as usize];
        entry.newer = NONE;
        entry.older = second;
    }

    fn unlink(&mut self, cache: usize, slot: u32) {
        let LruSlot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.caches[cache].newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.caches[cache].oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SimRng;

    #[test]
    fn the_least_recently_used_are_evicted() {
        let mut caches = LruCaches::new(1, 3);
        for key in [1, 2, 3] {
            assert!(!caches.read(0, key, 1));
        }
        assert!(caches.read(0, 1, 1));
        assert!(!caches.read(0, 4, 1), "2 leaves");
        assert!(caches.read(0, 1, 1) && caches.read(0, 3, 1) && !caches.read(0, 2, 1));
    }

    #[test]
    fn what_is_larger_than_the_cache_evicts_nothing() {
        let mut caches = LruCaches::new(1, 3);
        assert!(!caches.read(0, 1, 3));
        assert!(!caches.read(0, 2, 4) && !caches.read(0, 2, 4));
        assert!(caches.read(0, 1, 3));
    }

    #[test]
    fn caches_answer_like_a_list_in_order_of_use() {
        const CACHES: usize = 3;
        const CAPACITY: u64 = 50;
        let mut caches = LruCaches::new(CACHES, CAPACITY);
        let mut lists = vec![Vec::<(u32, u64)>::new(); CACHES];
        let mut random = SimRng::new(1, 0);

        for _ in 0..50_000 {
            let cache = random.below(CACHES);
            let key = random.below(40) as u32;
            let bytes = u64::from(key) % 17;

            let list = &mut lists[cache];
            let at = list.iter().position(|(other, _)| *other == key);
            at.map(|at| list.remove(at));
            list.push((key, bytes));
            while list.iter().map(|(_, bytes)| bytes).sum::<u64>() > CAPACITY {
                list.remove(0);
            }

            assert_eq!(caches.read(cache, key, bytes), at.is_some());
            assert_eq!(caches.caches[cache].bytes, list.iter().map(|(_, bytes)| bytes).sum::<u64>());
        }
        assert_eq!(caches.found.len(), lists.iter().map(Vec::len).sum::<usize>());
        assert_eq!(caches.slots.len(), caches.found.len() + caches.free.len());
    }
}
