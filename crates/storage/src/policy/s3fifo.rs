//! S3-FIFO: a small queue on probation, a main queue, and the history of keys evicted from the small one.
//!
//! Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache eviction", SOSP 2023. Unlike in the
//! paper, one use in the small queue is enough to move to the main queue, and the history contains keys evicted from
//! either queue.

use std::{fmt::Debug, hash::Hash};

use super::{
    Eviction, EvictionSlot,
    history::EvictionHistory,
    queue::{LinkedSlab, SlabQueue},
};

/// Divisor of the capacity that yields the small queue's share.
const SMALL_DIVISOR: u64 = 10;

/// Maximum uses counted per key.
const MAX_USES: u8 = 3;

/// Uses in the small queue that move a key to the main queue.
const USES_TO_MAIN: u8 = 1;

#[derive(Clone, Copy, Debug)]
struct S3FifoEntry<K> {
    key: K,
    uses: u8,
    in_main: bool,
}

/// S3-FIFO: evicts from the small queue while it exceeds its share, otherwise from the main queue, where each counted
/// use buys one more round.
#[derive(Debug)]
pub(super) struct S3Fifo<K> {
    entries: LinkedSlab<S3FifoEntry<K>>,
    small: SlabQueue,
    main: SlabQueue,
    capacity: u64,
    history: EvictionHistory<K>,
}

impl<K: Copy + Eq + Hash> S3Fifo<K> {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            entries: LinkedSlab::new(),
            small: SlabQueue::new(),
            main: SlabQueue::new(),
            capacity,
            history: EvictionHistory::new(capacity),
        }
    }

    fn push_main(&mut self, slot: EvictionSlot) {
        let entry = &mut self.entries[slot];
        entry.in_main = true;
        entry.uses = 0;

        self.main.push_back(&mut self.entries, slot);
    }

    fn evict_small(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<EvictionSlot> {
        for _ in 0..self.small.len() {
            let slot = self.small.front()?;
            let S3FifoEntry { key, uses, .. } = self.entries[slot];

            if uses >= USES_TO_MAIN {
                self.small.remove(&mut self.entries, slot);
                self.push_main(slot);
            } else if is_held(&key) {
                self.small.move_to_back(&mut self.entries, slot);
            } else {
                return Some(slot);
            }
        }

        None
    }

    fn evict_main(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<EvictionSlot> {
        let mut held_in_a_row = 0;

        while held_in_a_row < self.main.len() {
            let slot = self.main.front()?;
            let entry = &mut self.entries[slot];

            if entry.uses > 0 {
                entry.uses -= 1;
                held_in_a_row = 0;
            } else if is_held(&entry.key) {
                held_in_a_row += 1;
            } else {
                return Some(slot);
            }

            self.main.move_to_back(&mut self.entries, slot);
        }

        None
    }
}

impl<K: Copy + Eq + Hash + Debug + Send> Eviction<K> for S3Fifo<K> {
    fn insert(&mut self, key: K, weight: u64) -> EvictionSlot {
        let was_evicted = self.history.forget(&key);
        let slot = self.entries.insert(S3FifoEntry { key, uses: 0, in_main: was_evicted }, weight);

        let queue = if was_evicted { &mut self.main } else { &mut self.small };
        queue.push_back(&mut self.entries, slot);
        slot
    }

    fn touch(&mut self, slot: EvictionSlot) {
        let entry = &mut self.entries[slot];
        entry.uses = (entry.uses + 1).min(MAX_USES);
    }

    fn resize(&mut self, slot: EvictionSlot, weight: u64) {
        let queue = if self.entries[slot].in_main { &mut self.main } else { &mut self.small };
        queue.resize(&mut self.entries, slot, weight);
    }

    fn remove(&mut self, slot: EvictionSlot) {
        let queue = if self.entries[slot].in_main { &mut self.main } else { &mut self.small };
        queue.remove(&mut self.entries, slot);
        self.entries.remove(slot);
    }

    fn evict(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<K> {
        let small_first = self.small.weight() > self.capacity / SMALL_DIVISOR || self.main.len() == 0;

        let victim = if small_first {
            self.evict_small(is_held).or_else(|| self.evict_main(is_held))
        } else {
            self.evict_main(is_held).or_else(|| self.evict_small(is_held))
        };

        // The small queue may have moved keys to the main queue after the main queue was searched.
        let slot = victim.or_else(|| self.evict_main(is_held))?;
        let key = self.entries[slot].key;
        let weight = self.entries.weight(slot);
        let residents = self.len() - 1;

        self.remove(slot);
        self.history.record(key, weight, residents);
        Some(key)
    }

    fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
        self.history.set_capacity(bytes);
    }

    fn remembers(&self, key: &K) -> bool {
        self.history.contains(key)
    }

    fn weight(&self) -> u64 {
        self.small.weight() + self.main.weight()
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }
}
