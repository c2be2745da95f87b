//! Hash table from value hashes to codes: its buckets are one cache line each.

use crate::kernels::prefetch::prefetch;

/// Slots of a bucket.
const PLACES: usize = 4;
/// Slots of the smallest table.
const MIN_PLACES: usize = 128;
/// Maximum load factor, as a fraction: above it the table is rebuilt.
const MAX_TAKEN: (usize, usize) = (1, 2);
/// Values from which on a full table doubles instead of quadrupling: memory matters more than the time of a rebuild.
const LARGE: usize = 1 << 16;

/// Open-addressing table: a value is in its home bucket, or in a later one with no free slot in between.
#[derive(Debug)]
pub(crate) struct ValueHashTable {
    buckets: Vec<ValueBucket>,
    taken: usize,
    /// Right shift that leaves the home bucket, from the highest bits of a hash.
    shift: u32,
}

/// Memory of a table, for reuse.
#[derive(Debug, Default)]
pub(crate) struct ValueTableScratch(Vec<ValueBucket>);

/// Bucket whose slots are filled in order.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct ValueBucket([ValueSlot; PLACES]);

/// Known value, and the location of its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ValueSlot {
    pub(crate) hash: u32,
    /// Code plus one, or 0 if the slot is free.
    pub(crate) code: u32,
    pub(crate) start: u32,
    pub(crate) length: u32,
}

impl ValueBucket {
    /// Returns the first value with this hash, if any.
    #[inline(always)]
    fn first(&self, hash: u32) -> ValueSlot {
        // All slots are compared, and the first match wins: cheaper than an unpredictable early exit.
        let places = self.0.iter().enumerate().rev();
        let at = places.fold(PLACES, |found, (at, known)| if known.hash == hash { at } else { found });
        self.0.get(at).copied().unwrap_or_default()
    }
}

/// Returns the buckets of a table for `values` values, a power of two.
fn buckets(values: usize) -> usize {
    let places = values.saturating_mul(MAX_TAKEN.1).div_ceil(MAX_TAKEN.0).clamp(MIN_PLACES, 1 << 31);
    (places / PLACES).next_power_of_two()
}

impl ValueTableScratch {
    /// Returns the bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<ValueBucket>()
    }
}

impl Default for ValueHashTable {
    fn default() -> Self {
        Self::for_values(0)
    }
}

impl ValueHashTable {
    /// Creates a table with room for `values` values.
    pub(crate) fn for_values(values: usize) -> Self {
        Self::of(vec![ValueBucket::default(); buckets(values)])
    }

    /// Creates the same in existing memory, using all of it if `most` values would need it: then it does not grow.
    pub(crate) fn in_scratch(
        ValueTableScratch(mut kept): ValueTableScratch,
        values: usize,
        most: usize,
    ) -> Self {
        if kept.capacity() == 0 {
            return Self::for_values(values);
        }

        let there = kept.capacity() + 1;
        let all = buckets(most).min(there.next_power_of_two() / 2);
        kept.clear();
        kept.resize(buckets(values).max(all), ValueBucket::default());
        Self::of(kept)
    }

    fn of(buckets: Vec<ValueBucket>) -> Self {
        let shift = 32 - buckets.len().trailing_zeros();
        Self { buckets, taken: 0, shift }
    }

    /// Returns its memory for reuse.
    pub(crate) fn into_scratch(self) -> ValueTableScratch {
        ValueTableScratch(self.buckets)
    }

    /// Returns whether it has no value.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Returns the bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.buckets.len() * size_of::<ValueBucket>()
    }

    /// Returns whether one more value exceeds the load factor.
    fn is_full(&self) -> bool {
        (self.taken + 1).saturating_mul(MAX_TAKEN.1)
            > (self.buckets.len() * PLACES).saturating_mul(MAX_TAKEN.0)
    }

    fn home(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    /// Prefetches the home bucket of a hash.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u32) {
        prefetch(&self.buckets, self.home(hash));
    }

    /// Returns the value with this hash in its home bucket, if any.
    #[inline(always)]
    pub(crate) fn near(&self, hash: u32) -> ValueSlot {
        self.buckets.get(self.home(hash)).map(|bucket| bucket.first(hash)).unwrap_or_default()
    }

    /// Returns the probe sequence of a hash: its home bucket, and all others after it.
    fn places(&self, hash: u32) -> impl Iterator<Item = usize> + use<> {
        let home = self.home(hash);
        let last = self.buckets.len() - 1;
        (home..=home + last).map(move |at| at & last)
    }

    /// Returns the first value from the home bucket on that satisfies the predicate, up to the first free slot.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u32, is: impl Fn(&ValueSlot) -> bool) -> Option<ValueSlot> {
        for at in self.places(hash) {
            for known in &self.buckets.get(at)?.0 {
                if known.code == 0 {
                    return None;
                }
                if known.hash == hash && is(known) {
                    return Some(*known);
                }
            }
        }

        None
    }

    /// Puts a value into the first free slot from its home bucket on.
    pub(crate) fn insert(&mut self, value: ValueSlot) {
        if self.is_full() {
            let factor = if self.taken < LARGE { 4 } else { 2 };
            let mut larger = Self::for_values(self.taken * factor);
            let known = self.buckets.iter().flat_map(|bucket| bucket.0);
            known.filter(|known| known.code != 0).for_each(|known| larger.insert(known));
            *self = larger;
        }
        for at in self.places(value.hash) {
            let bucket = self.buckets.get_mut(at);
            if let Some(free) = bucket.and_then(|bucket| bucket.0.iter_mut().find(|known| known.code == 0)) {
                *free = value;
                self.taken += 1;
                return;
            }
        }
    }
}
