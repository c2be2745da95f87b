//! History of evicted keys that a cache of twice the size might still hold.

use std::{collections::VecDeque, hash::Hash};

use hashbrown::HashMap;

/// Minimum number of ghosts, however few keys are resident.
const MIN_GHOSTS: usize = 1024;

/// Maximum ghosts per resident key.
const MAX_GHOSTS_PER_RESIDENT: usize = 4;

/// Returns the maximum number of evicted keys to remember for `residents` resident keys.
///
/// The history is bounded in bytes; with tiny weights, this bounds its memory.
pub(super) fn max_ghosts(residents: usize) -> usize {
    residents.saturating_mul(MAX_GHOSTS_PER_RESIDENT).max(MIN_GHOSTS)
}

#[derive(Debug)]
struct Ghost<K> {
    key: K,
    /// Total bytes evicted so far, including this key's.
    evicted_bytes: u64,
}

/// The keys of about the last `capacity` evicted bytes, in order of eviction.
#[derive(Debug)]
pub(super) struct EvictionHistory<K> {
    capacity: u64,
    evicted_bytes: u64,
    ghosts: VecDeque<Ghost<K>>,
    /// Number of the ghost at the front, counted from the first eviction.
    first: u64,
    /// The number of each remembered key's ghost. A ghost is stale if its key has another number, or none.
    numbers: HashMap<K, u64>,
}

impl<K: Copy + Eq + Hash> EvictionHistory<K> {
    pub(super) fn new(capacity: u64) -> Self {
        Self { capacity, evicted_bytes: 0, ghosts: VecDeque::new(), first: 0, numbers: HashMap::new() }
    }

    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
        self.trim(usize::MAX);
    }

    /// Remembers a key that was just evicted; `residents` is the number of remaining resident keys.
    pub(super) fn record(&mut self, key: K, weight: u64, residents: usize) {
        self.evicted_bytes += weight;
        self.numbers.insert(key, self.first + self.ghosts.len() as u64);
        self.ghosts.push_back(Ghost { key, evicted_bytes: self.evicted_bytes });

        self.trim(max_ghosts(residents));
    }

    /// Forgets a key that became resident again. Returns whether it was remembered.
    pub(super) fn forget(&mut self, key: &K) -> bool {
        self.numbers.remove(key).is_some()
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.numbers.contains_key(key)
    }

    fn trim(&mut self, max_ghosts: usize) {
        while let Some(ghost) = self.ghosts.front()
            && (self.evicted_bytes - ghost.evicted_bytes >= self.capacity || self.ghosts.len() > max_ghosts)
        {
            if self.numbers.get(&ghost.key) == Some(&self.first) {
                self.numbers.remove(&ghost.key);
            }

            self.ghosts.pop_front();
            self.first += 1;
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ghosts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_capacity_of_evicted_bytes_is_remembered() {
        let mut history = EvictionHistory::new(30);
        for key in 0..5 {
            history.record(key, 10, 0);
        }

        let remembered: Vec<_> = (0..5).filter(|key| history.contains(key)).collect();
        assert_eq!(remembered, [2, 3, 4]);
    }

    #[test]
    fn a_key_evicted_twice_lives_as_long_as_its_second_eviction() {
        let mut history = EvictionHistory::new(30);
        history.record(1, 10, 0);
        assert!(history.forget(&1));
        history.record(2, 10, 0);
        history.record(1, 10, 0);

        // The stale ghost of the first eviction leaves the history, and must not remove the key.
        history.record(3, 10, 0);
        assert!(history.contains(&1));
    }

    #[test]
    fn weightless_keys_do_not_fill_memory() {
        let mut history = EvictionHistory::new(u64::MAX);
        for key in 0..10_000 {
            history.record(key, 0, 300);
        }

        assert_eq!(history.len(), 1200);
        assert!(history.contains(&9_999) && !history.contains(&8_000));
    }
}
