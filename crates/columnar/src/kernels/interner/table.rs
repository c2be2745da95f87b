//! Hash table from value hashes to codes: its buckets are one cache line each.

use crate::kernels::prefetch::prefetch;

/// Slots of a bucket.
const SLOTS: usize = 8;
/// Buckets of the smallest table.
const MIN_BUCKETS: usize = 16;
/// Maximum load factor, as a fraction: above it the table doubles.
const MAX_LOAD: (usize, usize) = (3, 4);

/// Open-addressing table: a value is in its home bucket, or in a later one with no free slot in between.
///
/// It takes 11 to 22 bytes per value, since it keeps hashes and codes only: growth then reads no values, and most
/// candidates are ruled out without reading theirs.
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
struct ValueBucket {
    hashes: [u32; SLOTS],
    /// Codes plus one; 0 in free slots.
    codes: [u32; SLOTS],
}

impl ValueBucket {
    /// Returns the code of the first value with this hash, if any.
    #[inline(always)]
    fn first(&self, hash: u32) -> Option<u32> {
        // All slots are compared: cheaper than an unpredictable early exit.
        let slots = self.hashes.iter().enumerate();
        let equal = slots.fold(0_u32, |equal, (at, known)| equal | (u32::from(*known == hash) << at));
        self.codes.get(equal.trailing_zeros() as usize)?.checked_sub(1)
    }
}

/// Returns the buckets of a table for `values` values, a power of two.
fn buckets(values: usize) -> usize {
    let slots = values.saturating_mul(MAX_LOAD.1).div_ceil(MAX_LOAD.0);
    slots.div_ceil(SLOTS).next_power_of_two().max(MIN_BUCKETS)
}

impl ValueTableScratch {
    /// Returns the memory in use, in bytes.
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

    /// Creates a table with room for `values` values in existing memory. The table uses all of that memory if
    /// `max_values` values would need it, so that it does not grow.
    pub(crate) fn in_scratch(
        ValueTableScratch(mut kept): ValueTableScratch,
        values: usize,
        max_values: usize,
    ) -> Self {
        if kept.capacity() == 0 {
            return Self::for_values(values);
        }

        let there = kept.capacity() + 1;
        let all = buckets(max_values).min(there.next_power_of_two() / 2);
        kept.clear();
        kept.resize(buckets(values).max(all), ValueBucket::default());
        Self::of(kept)
    }

    fn of(buckets: Vec<ValueBucket>) -> Self {
        let shift = 32 - buckets.len().trailing_zeros();
        Self { buckets, taken: 0, shift }
    }

    /// Returns the table's memory for reuse.
    pub(crate) fn into_scratch(self) -> ValueTableScratch {
        ValueTableScratch(self.buckets)
    }

    /// Returns whether the table has no value.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.buckets.len() * size_of::<ValueBucket>()
    }

    /// Returns whether one more value exceeds the load factor.
    fn is_full(&self) -> bool {
        (self.taken + 1) * MAX_LOAD.1 > self.buckets.len() * SLOTS * MAX_LOAD.0
    }

    fn home(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    /// Prefetches the home bucket of a hash.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u32) {
        prefetch(&self.buckets, self.home(hash));
    }

    /// Returns the code of the first value with this hash in its home bucket, if any.
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: u32) -> Option<u32> {
        self.buckets.get(self.home(hash))?.first(hash)
    }

    /// Returns the probe sequence of a hash: its home bucket, and all others after it.
    fn probes(&self, hash: u32) -> impl Iterator<Item = usize> + use<> {
        let home = self.home(hash);
        let last = self.buckets.len() - 1;
        (home..=home + last).map(move |at| at & last)
    }

    /// Returns the first code, from the home bucket up to the first free slot, whose value has this hash and satisfies
    /// the predicate.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        for at in self.probes(hash) {
            let bucket = self.buckets.get(at)?;
            for (known, code) in bucket.hashes.iter().zip(bucket.codes) {
                let code = code.checked_sub(1)?;
                if *known == hash && is(code) {
                    return Some(code);
                }
            }
        }

        None
    }

    /// Adds a value, unless its code is `u32::MAX`.
    pub(crate) fn insert(&mut self, hash: u32, code: u32) {
        if self.is_full() {
            let mut larger = Self::of(vec![ValueBucket::default(); self.buckets.len() * 2]);
            for bucket in &self.buckets {
                let slots = bucket.hashes.iter().zip(bucket.codes);
                let taken = slots.take_while(|(_, code)| *code != 0);
                taken.for_each(|(hash, code)| larger.put(*hash, code));
            }
            *self = larger;
        }
        self.put(hash, code + 1);
    }

    /// Puts a hash and a code plus one into the first free slot from the home bucket on.
    fn put(&mut self, hash: u32, code: u32) {
        for at in self.probes(hash) {
            let Some(bucket) = self.buckets.get_mut(at) else { return };
            let mut slots = bucket.hashes.iter_mut().zip(&mut bucket.codes);
            if let Some((free_hash, free_code)) = slots.find(|(_, code)| **code == 0) {
                (*free_hash, *free_code) = (hash, code);
                self.taken += 1;
                return;
            }
        }
    }
}
