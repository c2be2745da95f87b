//! W-TinyLFU: a small LRU window in front of a segmented LRU with admission by a frequency sketch.
//!
//! Einziger, Friedman and Manes, "TinyLFU: a highly efficient cache admission policy", ACM Transactions on
//! Storage 13(4), 2017. The window is fixed at 1%.

use std::{
    collections::hash_map::DefaultHasher,
    fmt::Debug,
    hash::{Hash, Hasher},
};

use super::{
    Eviction, EvictionSlot,
    history::EvictionHistory,
    queue::{LinkedSlab, SlabQueue},
};

/// Divisor of the capacity that yields the window's share.
const WINDOW_DIVISOR: u64 = 100;

/// Divisor of the main segments' capacity that yields probation's share; protected keys get the rest.
const PROBATION_DIVISOR: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LfuSegment {
    Window,
    Probation,
    Protected,
}

#[derive(Clone, Copy, Debug)]
struct LfuEntry<K> {
    key: K,
    hash: u64,
    segment: LfuSegment,
}

/// W-TinyLFU: the oldest key of the window competes with the oldest on probation; the less frequently used one is
/// evicted.
#[derive(Debug)]
pub(super) struct TinyLfu<K> {
    entries: LinkedSlab<LfuEntry<K>>,
    /// Indexed by [`LfuSegment`].
    queues: [SlabQueue; 3],
    capacity: u64,
    sketch: FrequencySketch,
    history: EvictionHistory<K>,
}

impl<K: Copy + Eq + Hash> TinyLfu<K> {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            entries: LinkedSlab::new(),
            queues: [SlabQueue::new(), SlabQueue::new(), SlabQueue::new()],
            capacity,
            sketch: FrequencySketch::new(),
            history: EvictionHistory::new(capacity),
        }
    }

    fn residents(&self) -> usize {
        self.queues.iter().map(SlabQueue::len).sum()
    }

    fn queue(&self, segment: LfuSegment) -> &SlabQueue {
        &self.queues[segment as usize]
    }

    fn unlink(&mut self, slot: EvictionSlot) {
        let segment = self.entries[slot].segment;
        self.queues[segment as usize].remove(&mut self.entries, slot);
    }

    fn link(&mut self, slot: EvictionSlot, segment: LfuSegment) {
        self.entries[slot].segment = segment;
        self.queues[segment as usize].push_back(&mut self.entries, slot);
    }

    fn move_to(&mut self, slot: EvictionSlot, segment: LfuSegment) {
        self.unlink(slot);
        self.link(slot, segment);
    }

    fn window_capacity(&self) -> u64 {
        self.capacity / WINDOW_DIVISOR
    }

    fn main_capacity(&self) -> u64 {
        self.capacity - self.window_capacity()
    }

    /// Moves the least recently used protected keys to probation until they fit their share.
    fn shrink_protected(&mut self) {
        let max_weight = self.main_capacity() - self.main_capacity() / PROBATION_DIVISOR;

        while self.queue(LfuSegment::Protected).weight() > max_weight
            && let Some(slot) = self.queue(LfuSegment::Protected).front()
        {
            self.move_to(slot, LfuSegment::Probation);
        }
    }

    /// Returns the first key of the segment that is not held, after moving held ones before it to the back.
    fn candidate(
        &mut self,
        segment: LfuSegment,
        is_held: &mut dyn FnMut(&K) -> bool,
    ) -> Option<EvictionSlot> {
        for _ in 0..self.queue(segment).len() {
            let slot = self.queue(segment).front()?;

            if !is_held(&self.entries[slot].key) {
                return Some(slot);
            }

            self.queues[segment as usize].move_to_back(&mut self.entries, slot);
        }

        None
    }

    fn main_candidate(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<EvictionSlot> {
        self.candidate(LfuSegment::Probation, is_held)
            .or_else(|| self.candidate(LfuSegment::Protected, is_held))
    }

    fn main_weight(&self) -> u64 {
        self.queue(LfuSegment::Probation).weight() + self.queue(LfuSegment::Protected).weight()
    }

    /// Moves keys of a full window to probation without a contest while the main segments have room.
    fn fill_main(&mut self) {
        while self.queue(LfuSegment::Window).weight() > self.window_capacity()
            && let Some(slot) = self.queue(LfuSegment::Window).front()
            && self.main_weight() + self.entries.weight(slot) <= self.main_capacity()
        {
            self.move_to(slot, LfuSegment::Probation);
        }
    }

    fn victim(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<EvictionSlot> {
        if self.main_weight() > self.main_capacity() {
            return self.main_candidate(is_held).or_else(|| self.candidate(LfuSegment::Window, is_held));
        }

        let Some(newcomer) = self.candidate(LfuSegment::Window, is_held) else {
            return self.main_candidate(is_held);
        };
        let Some(oldest) = self.main_candidate(is_held) else {
            return Some(newcomer);
        };

        // On a tie, the newcomer is evicted: a key that is read once never displaces a resident one.
        let newcomer_frequency = self.sketch.estimate(self.entries[newcomer].hash);
        let oldest_frequency = self.sketch.estimate(self.entries[oldest].hash);

        if newcomer_frequency <= oldest_frequency {
            return Some(newcomer);
        }

        self.move_to(newcomer, LfuSegment::Probation);
        Some(oldest)
    }
}

impl<K: Copy + Eq + Hash + Debug + Send> Eviction<K> for TinyLfu<K> {
    fn insert(&mut self, key: K, weight: u64) -> EvictionSlot {
        self.history.forget(&key);

        let hash = hash_of(&key);
        let slot = self.entries.insert(LfuEntry { key, hash, segment: LfuSegment::Window }, weight);
        self.link(slot, LfuSegment::Window);
        self.fill_main();

        self.sketch.reserve(self.residents());
        self.sketch.increment(hash);
        slot
    }

    fn touch(&mut self, slot: EvictionSlot) {
        let LfuEntry { hash, segment, .. } = self.entries[slot];
        self.sketch.increment(hash);

        match segment {
            LfuSegment::Window | LfuSegment::Protected => {
                self.queues[segment as usize].move_to_back(&mut self.entries, slot);
            }
            LfuSegment::Probation => {
                self.move_to(slot, LfuSegment::Protected);
                self.shrink_protected();
            }
        }
    }

    fn resize(&mut self, slot: EvictionSlot, weight: u64) {
        let segment = self.entries[slot].segment;
        self.queues[segment as usize].resize(&mut self.entries, slot, weight);
        self.shrink_protected();
    }

    fn remove(&mut self, slot: EvictionSlot) {
        self.unlink(slot);
        self.entries.remove(slot);
    }

    fn evict(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<K> {
        let slot = self.victim(is_held)?;
        let key = self.entries[slot].key;
        let weight = self.entries.weight(slot);

        self.remove(slot);
        self.history.record(key, weight, self.residents());
        Some(key)
    }

    fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
        self.history.set_capacity(bytes);
        self.shrink_protected();
    }

    fn remembers(&self, key: &K) -> bool {
        self.history.contains(key)
    }

    fn weight(&self) -> u64 {
        self.queues.iter().map(SlabQueue::weight).sum()
    }

    fn len(&self) -> usize {
        self.residents()
    }
}

/// Hashes without a random seed, so that simulations are reproducible.
fn hash_of<K: Hash>(key: &K) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Rows of the sketch, each with its own hash function.
const ROWS: u32 = 4;

/// Maximum value of a four-bit counter.
const MAX_COUNT: u64 = 15;

/// Initial counters per row: a power of two.
const MIN_COUNTERS: usize = 256;

/// Increments per resident key after which all counters are halved.
const SAMPLES_PER_COUNTER: usize = 10;

/// A count-min sketch of four rows of four-bit counters, halved periodically so that old uses fade.
///
/// Each word has 16 counters, 4 per row; a hash selects a word and a counter in it, independently for each row.
#[derive(Debug)]
struct FrequencySketch {
    words: Vec<u64>,
    increments: usize,
}

impl FrequencySketch {
    fn new() -> Self {
        Self { words: vec![0; MIN_COUNTERS], increments: 0 }
    }

    /// Grows to at least one word per resident key, preserving all counts.
    fn reserve(&mut self, residents: usize) {
        while self.words.len() < residents {
            // A key's new word is its old one, or the copy of it in the upper half.
            self.words.extend_from_within(..);
        }
    }

    /// Returns the word and the shift of the key's counter in the row.
    fn locate(&self, hash: u64, row: u32) -> (usize, u32) {
        let row_hash = hash.rotate_left(16 * row).wrapping_mul(0x9E37_79B9_7F4A_7C15);

        // The word comes from below the top bits, which select the counter, so that growing only adds bits.
        let word = (row_hash >> 24) as usize & (self.words.len() - 1);
        let column = (row_hash >> 62) as u32;
        (word, 4 * (4 * row + column))
    }

    fn increment(&mut self, hash: u64) {
        let mut added = false;

        for row in 0..ROWS {
            let (word, shift) = self.locate(hash, row);
            if (self.words[word] >> shift) & MAX_COUNT < MAX_COUNT {
                self.words[word] += 1 << shift;
                added = true;
            }
        }

        if added {
            self.increments += 1;
            if self.increments >= self.words.len() * SAMPLES_PER_COUNTER {
                self.halve();
            }
        }
    }

    fn estimate(&self, hash: u64) -> u64 {
        let count = |row| {
            let (word, shift) = self.locate(hash, row);
            (self.words[word] >> shift) & MAX_COUNT
        };

        (0..ROWS).map(count).min().unwrap_or(0)
    }

    fn halve(&mut self) {
        for word in &mut self.words {
            *word = (*word >> 1) & 0x7777_7777_7777_7777;
        }

        self.increments /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sketch_counts_up_to_fifteen_and_never_too_low() {
        let mut sketch = FrequencySketch::new();
        for key in 0..20_u64 {
            for _ in 0..key {
                sketch.increment(hash_of(&key));
            }
        }

        for key in 0..20_u64 {
            assert!(sketch.estimate(hash_of(&key)) >= key.min(MAX_COUNT), "{key}");
        }
        assert_eq!(sketch.estimate(hash_of(&1000_u64)), 0);
    }

    #[test]
    fn growing_keeps_the_counts() {
        let mut sketch = FrequencySketch::new();
        for _ in 0..7 {
            sketch.increment(hash_of(&1_u64));
        }

        sketch.reserve(100_000);
        assert_eq!(sketch.estimate(hash_of(&1_u64)), 7);
    }

    #[test]
    fn old_uses_fade() {
        let mut sketch = FrequencySketch::new();
        for _ in 0..15 {
            sketch.increment(hash_of(&0_u64));
        }

        for key in 1..=(MIN_COUNTERS * SAMPLES_PER_COUNTER) as u64 {
            sketch.increment(hash_of(&key));
        }
        assert!(sketch.estimate(hash_of(&0_u64)) < 12);
    }
}
