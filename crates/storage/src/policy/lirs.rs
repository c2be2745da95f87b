//! LIRS over weighed keys, with use counts for its hot keys and a cold queue that adapts.
//!
//! Jiang and Zhang, "LIRS: an efficient low inter-reference recency set replacement policy to improve buffer cache
//! performance", SIGMETRICS 2002. Most of the capacity belongs to hot keys (LIR in the paper). The others (HIR) pass
//! through a short cold queue, and become hot if they are used again sooner than the hot key whose last use is oldest.
//! The keys of a loop larger than the cache never do, so a part of the loop stays hot and hits in every round, and a
//! scan passes through the cold queue only.
//!
//! ```text
//!            oldest use                                             newest use
//! stack      hot │ ghost │ hot │ cold │ hot │ ghost │ ghost │ hot │ cold │ hot      decides which keys become hot
//! cold       front: next victim │ cold │ cold │ demoted │ cold                      about 5% of the capacity
//! ghosts     front: next to forget │ ghost │ ghost │ ghost                          three capacities
//! ```
//!
//! The oldest key of the stack is always hot; keys older than the oldest hot key leave the stack, but may remain in
//! their other queue: such a key was last used too long ago to become hot.
//!
//! Differences from the paper:
//!
//! 1. Hot keys count their uses. The oldest hot key with uses left gets a second chance and spends one:
//!    recency alone loses to frequency if accesses follow Zipf's law. When the hot keys are not used for a
//!    quarter of the capacity of insertions, all counts are void: a new working set need not wait for those
//!    of the old one.
//! 2. The cold queue adapts, after Li, "DLIRS: improving low inter-reference recency set cache replacement
//!    policy with dynamics", SYSTOR 2018. A miss that a longer cold queue would have avoided makes it longer;
//!    a use of a demoted key makes it shorter. So does, by less, each eviction: a loop after a change of
//!    working sets finds the queue short again.
//! 3. Uses right after the insertion are taken as part of it, as in LRU-K's correlated reference period: a
//!    scan that reads each page in pieces stays a scan.
//! 4. Ghosts are bounded in bytes and in number.

use std::{fmt::Debug, hash::Hash};

use hashbrown::HashMap;

use super::{
    Eviction, EvictionSlot,
    history::max_ghosts,
    queue::{LinkedSlab, SlabQueue},
};

/// Divisor of the capacity that yields the cold queue's minimum share.
const MIN_COLD_DIVISOR: u64 = 20;

/// Divisor of the capacity that yields the cold queue's maximum share.
const MAX_COLD_DIVISOR: u64 = 2;

/// Minimum number of mean-weight keys that fit into the cold queue, however small the capacity.
const MIN_COLD_KEYS: u64 = 2;

/// Fraction of each eviction's bytes by which the cold queue shrinks.
const COLD_DECAY: f64 = 0.2;

/// Maximum uses counted per hot key.
const MAX_USES: u8 = 3;

/// Maximum hot keys with uses left that are skipped per demotion.
///
/// More would favour the hot keys of the previous working set over those of the next, and make a single call visit
/// every hot key.
const MAX_SECOND_CHANCES: u32 = 8;

/// Divisor of the capacity that yields the bytes inserted without hits on hot keys after which all use counts are
/// void.
const IDLE_DIVISOR: u64 = 4;

/// Minimum insertions for that, in keys of mean weight: fewer insertions without a hit may be chance.
const MIN_IDLE_KEYS: u64 = 64;

/// Bytes of insertions that a byte of a hit on a hot key compensates in [`Lirs::idle_bytes`].
const HOT_HIT_CREDIT: u64 = 8;

/// Divisor of the capacity that yields the bytes inserted after an insertion within which uses count as part of it.
const CORRELATED_DIVISOR: u64 = 256;

/// Maximum evicted bytes that ghosts represent, as a multiple of the capacity.
const GHOST_CAPACITIES: u64 = 3;

/// Index of the links of the stack.
const STACK: usize = 0;

/// Index of the links of the cold queue and the ghosts: a key is in at most one of them.
const QUEUE: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LirsStatus {
    /// Resident and in the stack.
    Hot,
    /// Resident and in the cold queue.
    Cold,
    /// Evicted and among the ghosts.
    Ghost,
}

#[derive(Clone, Copy, Debug)]
struct LirsEntry<K> {
    key: K,
    heat: LirsStatus,
    in_stack: bool,
    /// Set if the cold key was hot, and has not been used since.
    was_demoted: bool,
    /// Uses since the key became hot, minus those spent. Void unless `epoch` is current.
    uses: u8,
    epoch: u32,
    /// [`Lirs::inserted_bytes`] at the insertion of a resident key, [`Lirs::evicted_bytes`] at the eviction
    /// of a ghost.
    since: u64,
}

/// LIRS: keeps hot the keys that are used again soonest, and evicts from the front of the cold queue.
#[derive(Debug)]
pub(super) struct Lirs<K> {
    entries: LinkedSlab<LirsEntry<K>, 2>,
    stack: SlabQueue<STACK>,
    cold: SlabQueue<QUEUE>,
    ghosts: SlabQueue<QUEUE>,
    ghost_slots: HashMap<K, EvictionSlot>,
    hot_len: usize,
    hot_weight: u64,
    capacity: u64,
    /// Target length of the cold queue in bytes, adapted to misses.
    adaptive_cold_bytes: f64,
    inserted_bytes: u64,
    evicted_bytes: u64,
    /// Bytes inserted, less [`HOT_HIT_CREDIT`] times the bytes of hits on hot keys; never negative.
    idle_bytes: u64,
    /// Current epoch; use counts of earlier ones are void.
    epoch: u32,
}

impl<K: Copy + Eq + Hash> Lirs<K> {
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            entries: LinkedSlab::new(),
            stack: SlabQueue::new(),
            cold: SlabQueue::new(),
            ghosts: SlabQueue::new(),
            ghost_slots: HashMap::new(),
            hot_len: 0,
            hot_weight: 0,
            capacity,
            adaptive_cold_bytes: 0.0,
            inserted_bytes: 0,
            evicted_bytes: 0,
            idle_bytes: 0,
            epoch: 0,
        }
    }

    fn residents(&self) -> usize {
        self.hot_len + self.cold.len()
    }

    fn resident_weight(&self) -> u64 {
        self.hot_weight + self.cold.weight()
    }

    fn mean_weight(&self) -> u64 {
        self.resident_weight() / self.residents().max(1) as u64
    }

    fn hot_capacity(&self) -> u64 {
        let cold_capacity = (self.adaptive_cold_bytes as u64)
            .max(self.capacity / MIN_COLD_DIVISOR)
            .max(self.mean_weight().saturating_mul(MIN_COLD_KEYS))
            .min(self.capacity / MAX_COLD_DIVISOR);

        self.capacity - cold_capacity
    }

    /// Grows the cold queue by `bytes`, or shrinks it if negative.
    fn adapt_cold_capacity(&mut self, bytes: f64) {
        let min = (self.capacity / MIN_COLD_DIVISOR) as f64;
        let max = (self.capacity / MAX_COLD_DIVISOR) as f64;

        self.adaptive_cold_bytes = (self.adaptive_cold_bytes + bytes).clamp(min, max);
    }

    /// Counts an insertion, and voids all use counts if hot keys are no longer used.
    fn note_insertion(&mut self, weight: u64) {
        self.inserted_bytes += weight;
        self.idle_bytes += weight;

        let min_idle_bytes = self.mean_weight().saturating_mul(MIN_IDLE_KEYS);
        if self.idle_bytes > (self.capacity / IDLE_DIVISOR).max(min_idle_bytes) {
            self.idle_bytes = 0;
            self.epoch = self.epoch.wrapping_add(1);
        }
    }

    fn note_hot_hit(&mut self, slot: EvictionSlot) {
        let credit = self.entries.weight(slot).saturating_mul(HOT_HIT_CREDIT);
        self.idle_bytes = self.idle_bytes.saturating_sub(credit);

        let entry = &mut self.entries[slot];
        let uses = if entry.epoch == self.epoch { entry.uses } else { 0 };
        entry.uses = (uses + 1).min(MAX_USES);
        entry.epoch = self.epoch;
    }

    fn remove_from_stack(&mut self, slot: EvictionSlot) {
        if std::mem::take(&mut self.entries[slot].in_stack) {
            self.stack.remove(&mut self.entries, slot);
        }
    }

    /// Moves a key to the newest end of the stack.
    fn move_to_top(&mut self, slot: EvictionSlot) {
        self.remove_from_stack(slot);
        self.entries[slot].in_stack = true;
        self.stack.push_back(&mut self.entries, slot);
    }

    /// Removes all keys older than the oldest hot key from the stack. Must be called whenever that may have changed.
    fn prune(&mut self) {
        while let Some(slot) = self.stack.front()
            && self.entries[slot].heat != LirsStatus::Hot
        {
            self.remove_from_stack(slot);
        }
    }

    /// Makes a key hot that is in neither the cold queue nor the ghosts, and demotes others if it needs room.
    fn promote(&mut self, slot: EvictionSlot) {
        let entry = &mut self.entries[slot];
        entry.heat = LirsStatus::Hot;
        entry.was_demoted = false;
        entry.uses = 0;

        self.hot_len += 1;
        self.hot_weight += self.entries.weight(slot);
        self.move_to_top(slot);
        self.prune();
        self.demote_excess();
    }

    /// Makes a key that is in neither the cold queue nor the ghosts the oldest hot key: the first to be demoted.
    fn promote_as_oldest(&mut self, slot: EvictionSlot) {
        self.remove_from_stack(slot);

        let entry = &mut self.entries[slot];
        entry.heat = LirsStatus::Hot;
        entry.in_stack = true;
        entry.was_demoted = false;
        entry.uses = 0;

        self.hot_len += 1;
        self.hot_weight += self.entries.weight(slot);
        self.stack.push_front(&mut self.entries, slot);
    }

    /// Moves the oldest hot keys to the cold queue until the hot keys fit their capacity. Keys with uses left get a
    /// second chance, but only a few per demotion.
    fn demote_excess(&mut self) {
        let mut second_chances = MAX_SECOND_CHANCES;

        while self.hot_weight > self.hot_capacity()
            && let Some(slot) = self.stack.front()
        {
            let epoch = self.epoch;
            let entry = &mut self.entries[slot];

            if second_chances > 0 && entry.epoch == epoch && entry.uses > 0 {
                second_chances -= 1;
                entry.uses -= 1;
                self.move_to_top(slot);
            } else {
                second_chances = MAX_SECOND_CHANCES;
                entry.heat = LirsStatus::Cold;
                entry.was_demoted = true;
                self.unlink_hot(slot);
                self.cold.push_back(&mut self.entries, slot);
            }

            self.prune();
        }
    }

    fn unlink_hot(&mut self, slot: EvictionSlot) {
        self.hot_len -= 1;
        self.hot_weight -= self.entries.weight(slot);
        self.remove_from_stack(slot);
    }

    /// Turns a key that has left the hot keys or the cold queue into a ghost. It keeps its position in the stack.
    fn make_ghost(&mut self, slot: EvictionSlot) -> K {
        self.evicted_bytes += self.entries.weight(slot);

        let entry = &mut self.entries[slot];
        entry.heat = LirsStatus::Ghost;
        entry.since = self.evicted_bytes;
        let key = entry.key;

        self.ghosts.push_back(&mut self.entries, slot);
        self.ghost_slots.insert(key, slot);
        self.trim_ghosts();
        key
    }

    fn trim_ghosts(&mut self) {
        let max_weight = self.capacity.saturating_mul(GHOST_CAPACITIES);
        let max_len = max_ghosts(self.residents());

        while (self.ghosts.weight() > max_weight || self.ghosts.len() > max_len)
            && let Some(slot) = self.ghosts.front()
        {
            self.forget_ghost(slot);
        }
    }

    fn forget_ghost(&mut self, slot: EvictionSlot) {
        self.ghost_slots.remove(&self.entries[slot].key);
        self.ghosts.remove(&mut self.entries, slot);
        self.remove_from_stack(slot);
        self.entries.remove(slot);
    }

    /// Returns whether a ghost was evicted within the last capacity of evicted bytes.
    fn is_recent(&self, ghost: &LirsEntry<K>) -> bool {
        self.evicted_bytes - ghost.since < self.capacity
    }

    /// Removes the key's ghost. Returns whether the key was used again soon enough to become hot.
    fn recall(&mut self, key: &K, weight: u64) -> bool {
        let Some(slot) = self.ghost_slots.get(key).copied() else {
            return false;
        };

        let ghost = self.entries[slot];
        self.forget_ghost(slot);

        if ghost.in_stack && self.is_recent(&ghost) {
            self.adapt_cold_capacity(weight as f64);
        }
        ghost.in_stack
    }

    fn evict_cold(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<EvictionSlot> {
        for _ in 0..self.cold.len() {
            let slot = self.cold.front()?;
            let weight = self.entries.weight(slot);

            if is_held(&self.entries[slot].key) {
                self.cold.move_to_back(&mut self.entries, slot);
                continue;
            }

            self.cold.remove(&mut self.entries, slot);

            // Hot keys may have been removed, or evicted while all cold ones were held. In a loop, no key would be
            // used soon enough to replace them.
            if self.hot_weight + weight <= self.hot_capacity() {
                self.promote_as_oldest(slot);
                continue;
            }

            if !self.entries[slot].was_demoted {
                self.adapt_cold_capacity(-COLD_DECAY * weight as f64);
            }
            return Some(slot);
        }

        None
    }

    fn evict_hot(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<EvictionSlot> {
        // Skip held keys in place: they were not used, and must not push others out.
        let mut candidate = self.stack.front();
        while let Some(slot) = candidate {
            let entry = &self.entries[slot];
            if entry.heat == LirsStatus::Hot && !is_held(&entry.key) {
                self.unlink_hot(slot);
                self.prune();
                return Some(slot);
            }
            candidate = self.stack.next(&self.entries, slot);
        }

        None
    }
}

impl<K: Copy + Eq + Hash + Debug + Send> Eviction<K> for Lirs<K> {
    fn insert(&mut self, key: K, weight: u64) -> EvictionSlot {
        self.note_insertion(weight);
        let is_used_soon = self.recall(&key, weight);

        let slot = self.entries.insert(
            LirsEntry {
                key,
                heat: LirsStatus::Cold,
                in_stack: false,
                was_demoted: false,
                uses: 0,
                epoch: self.epoch,
                since: self.inserted_bytes,
            },
            weight,
        );

        if is_used_soon {
            self.promote(slot);
        } else if self.resident_weight() + weight <= self.hot_capacity() {
            // While the cache fills, every key is hot. Keys without a second use are demoted first.
            self.promote_as_oldest(slot);
        } else {
            self.move_to_top(slot);
            self.prune();
            self.cold.push_back(&mut self.entries, slot);
        }

        slot
    }

    fn touch(&mut self, slot: EvictionSlot) {
        let entry = self.entries[slot];
        debug_assert_ne!(entry.heat, LirsStatus::Ghost, "touched after its eviction");

        if entry.heat == LirsStatus::Hot {
            self.note_hot_hit(slot);
            self.move_to_top(slot);
            self.prune();
            return;
        }

        if self.inserted_bytes - entry.since < self.capacity / CORRELATED_DIVISOR {
            return;
        }

        let weight = self.entries.weight(slot);
        if entry.was_demoted {
            self.entries[slot].was_demoted = false;
            self.adapt_cold_capacity(-(weight as f64));
        }

        if entry.in_stack || self.hot_weight + weight <= self.hot_capacity() {
            self.cold.remove(&mut self.entries, slot);
            self.promote(slot);
        } else {
            self.move_to_top(slot);
            self.prune();
            self.cold.move_to_back(&mut self.entries, slot);
        }
    }

    fn resize(&mut self, slot: EvictionSlot, weight: u64) {
        let LirsEntry { heat, in_stack, .. } = self.entries[slot];
        let old_weight = self.entries.weight(slot);

        if in_stack {
            self.stack.reweigh(old_weight, weight);
        }
        if heat == LirsStatus::Hot {
            self.hot_weight = self.hot_weight - old_weight + weight;
        } else {
            self.cold.reweigh(old_weight, weight);
        }

        self.entries.set_weight(slot, weight);
    }

    fn remove(&mut self, slot: EvictionSlot) {
        if self.entries[slot].heat == LirsStatus::Hot {
            self.unlink_hot(slot);
        } else {
            self.cold.remove(&mut self.entries, slot);
            self.remove_from_stack(slot);
        }

        self.entries.remove(slot);
        self.prune();
    }

    fn evict(&mut self, is_held: &mut dyn FnMut(&K) -> bool) -> Option<K> {
        self.demote_excess();

        let slot = self.evict_cold(is_held).or_else(|| self.evict_hot(is_held))?;
        Some(self.make_ghost(slot))
    }

    fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
        self.adapt_cold_capacity(0.0);
        self.trim_ghosts();
    }

    fn remembers(&self, key: &K) -> bool {
        let ghost = self.ghost_slots.get(key);
        ghost.is_some_and(|slot| self.is_recent(&self.entries[*slot]))
    }

    fn weight(&self) -> u64 {
        self.resident_weight()
    }

    fn len(&self) -> usize {
        self.residents()
    }
}

#[cfg(test)]
impl<K: Copy + Eq + Hash + Debug> Lirs<K> {
    /// Asserts the invariants that hold after each operation.
    pub(super) fn assert_invariants(&self) {
        let stack: Vec<_> =
            std::iter::successors(self.stack.front(), |slot| self.stack.next(&self.entries, *slot)).collect();
        let hot: Vec<_> =
            stack.iter().copied().filter(|slot| self.entries[*slot].heat == LirsStatus::Hot).collect();

        assert_eq!(hot.len(), self.hot_len);
        assert_eq!(hot.iter().map(|slot| self.entries.weight(*slot)).sum::<u64>(), self.hot_weight);
        assert_eq!(stack.first(), hot.first(), "the oldest key of the stack is hot");
        assert!(stack.iter().all(|slot| self.entries[*slot].in_stack));
        assert_eq!(stack.len(), self.stack.len());

        assert_eq!(self.ghost_slots.len(), self.ghosts.len());
        for (key, slot) in &self.ghost_slots {
            assert_eq!(self.entries[*slot].key, *key);
            assert_eq!(self.entries[*slot].heat, LirsStatus::Ghost);
        }
    }

    pub(super) fn ghosts(&self) -> usize {
        self.ghosts.len()
    }
}
