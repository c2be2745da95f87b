//! First in, first out.

use std::{fmt::Debug, hash::Hash};

use super::{
    Eviction, EvictionSlot,
    history::EvictionHistory,
    queue::{LinkedSlab, SlabQueue},
};

/// Evicts in order of insertion. A held key goes to the back of the queue.
#[derive(Debug)]
pub(super) struct Fifo<K> {
    keys: LinkedSlab<K>,
    queue: SlabQueue,
    history: EvictionHistory<K>,
}

impl<K: Copy + Eq + Hash> Fifo<K> {
    pub(super) fn new(capacity: u64) -> Self {
        Self { keys: LinkedSlab::new(), queue: SlabQueue::new(), history: EvictionHistory::new(capacity) }
    }

    /// Makes a key the last to be evicted.
    pub(super) fn move_to_back(&mut self, slot: EvictionSlot) {
        self.queue.move_to_back(&mut self.keys, slot);
    }
}

impl<K: Copy + Eq + Hash + Debug + Send> Eviction<K> for Fifo<K> {
    fn insert(&mut self, key: K, weight: u64) -> EvictionSlot {
        self.history.forget(&key);

        let slot = self.keys.insert(key, weight);
        self.queue.push_back(&mut self.keys, slot);
        slot
    }

    fn touch(&mut self, _slot: EvictionSlot) {}

    fn resize(&mut self, slot: EvictionSlot, weight: u64) {
        self.queue.resize(&mut self.keys, slot, weight);
    }

    fn remove(&mut self, slot: EvictionSlot) {
        self.queue.remove(&mut self.keys, slot);
        self.keys.remove(slot);
    }

    fn evict(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<K> {
        for _ in 0..self.queue.len() {
            let slot = self.queue.front()?;
            let key = self.keys[slot];

            if is_held(&key) {
                self.move_to_back(slot);
                continue;
            }

            let weight = self.keys.weight(slot);
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
