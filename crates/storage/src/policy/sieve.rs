//! SIEVE: one queue in insertion order, and a hand that spares keys used since it last passed them.
//!
//! Zhang, Yang, Yue, Vigfusson and Rashmi, "SIEVE is simpler than LRU: an efficient turn-key eviction
//! algorithm for web caches", NSDI 2024.

use std::{fmt::Debug, hash::Hash};

use super::{
    Eviction, EvictionSlot,
    history::EvictionHistory,
    queue::{LinkedSlab, SlabQueue},
};

#[derive(Clone, Copy, Debug)]
struct SieveEntry<K> {
    key: K,
    is_visited: bool,
}

/// SIEVE: evicts at the hand, which moves from the oldest key to the newest. A held key is skipped in place.
#[derive(Debug)]
pub(super) struct Sieve<K> {
    entries: LinkedSlab<SieveEntry<K>>,
    queue: SlabQueue,
    /// The next candidate; `None` stands for the oldest key.
    hand: Option<EvictionSlot>,
    history: EvictionHistory<K>,
}

impl<K: Copy + Eq + Hash> Sieve<K> {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            entries: LinkedSlab::new(),
            queue: SlabQueue::new(),
            hand: None,
            history: EvictionHistory::new(capacity),
        }
    }
}

impl<K: Copy + Eq + Hash + Debug + Send> Eviction<K> for Sieve<K> {
    fn insert(&mut self, key: K, weight: u64) -> EvictionSlot {
        self.history.forget(&key);

        let slot = self.entries.insert(SieveEntry { key, is_visited: false }, weight);
        self.queue.push_back(&mut self.entries, slot);
        slot
    }

    fn touch(&mut self, slot: EvictionSlot) {
        self.entries[slot].is_visited = true;
    }

    fn resize(&mut self, slot: EvictionSlot, weight: u64) {
        self.queue.resize(&mut self.entries, slot, weight);
    }

    fn remove(&mut self, slot: EvictionSlot) {
        if self.hand == Some(slot) {
            self.hand = self.queue.next(&self.entries, slot);
        }

        self.queue.remove(&mut self.entries, slot);
        self.entries.remove(slot);
    }

    fn evict(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<K> {
        let mut held_in_a_row = 0;

        while held_in_a_row < self.queue.len() {
            let slot = self.hand.or(self.queue.front())?;
            let entry = &mut self.entries[slot];
            let key = entry.key;

            if entry.is_visited {
                entry.is_visited = false;
                held_in_a_row = 0;
                self.hand = self.queue.next(&self.entries, slot);
                continue;
            }

            if is_held(&key) {
                held_in_a_row += 1;
                self.hand = self.queue.next(&self.entries, slot);
                continue;
            }

            let weight = self.entries.weight(slot);
            self.hand = Some(slot);
            self.remove(slot);
            self.history.record(key, weight, self.queue.len());
            return Some(key);
        }

        None
    }

    fn set_capacity(&mut self, bytes: u64) {
        self.history.set_capacity(bytes);
    }

    fn remembers(&self, key: &K) -> bool {
        self.history.contains(key)
    }

    fn weight(&self) -> u64 {
        self.queue.weight()
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}
