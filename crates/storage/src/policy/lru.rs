//! Least recently used.

use std::{fmt::Debug, hash::Hash};

use super::{Eviction, EvictionSlot, fifo::Fifo};

/// Evicts the least recently used key: a queue in which used keys move to the back. A held key counts as used.
#[derive(Debug)]
pub(super) struct Lru<K>(Fifo<K>);

impl<K: Copy + Eq + Hash> Lru<K> {
    pub(super) fn new(capacity: u64) -> Self {
        Self(Fifo::new(capacity))
    }
}

impl<K: Copy + Eq + Hash + Debug + Send> Eviction<K> for Lru<K> {
    fn insert(&mut self, key: K, weight: u64) -> EvictionSlot {
        self.0.insert(key, weight)
    }

    fn touch(&mut self, slot: EvictionSlot) {
        self.0.move_to_back(slot);
    }

    fn resize(&mut self, slot: EvictionSlot, weight: u64) {
        self.0.resize(slot, weight);
    }

    fn remove(&mut self, slot: EvictionSlot) {
        self.0.remove(slot);
    }

    fn evict(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<K> {
        self.0.evict(is_held)
    }

    fn set_capacity(&mut self, bytes: u64) {
        self.0.set_capacity(bytes);
    }

    fn remembers(&self, key: &K) -> bool {
        self.0.remembers(key)
    }

    fn weight(&self) -> u64 {
        self.0.weight()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
