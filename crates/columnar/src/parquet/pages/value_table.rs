//! Where values are found by their hashes: a table of buckets, each one line of the processor's cache.

use crate::kernels::prefetch::prefetch;

/// Places of a bucket.
const PLACES: usize = 4;
/// Places of the smallest table.
const LEAST: usize = 128;
/// A table is made anew where more than this share of its places would be taken.
const MOST_TAKEN: (usize, usize) = (1, 2);

/// Open addressing: a value is in its home bucket, or behind it with no bucket in between that has a free place.
pub(crate) struct ValueHashTable {
    buckets: Vec<ValueBucket>,
    taken: usize,
    /// The home of a hash is in its highest bits.
    shift: u32,
}

/// Memory of a table.
#[derive(Default)]
pub(crate) struct ValueTableScratch(Vec<ValueBucket>);

/// The places are taken one after the other.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct ValueBucket([ValueSlot; PLACES]);

/// A value that is known, and where its bytes are.
#[derive(Clone, Copy, Default)]
pub(crate) struct ValueSlot {
    pub(crate) hash: u32,
    /// The code and one, or 0 where there is none.
    pub(crate) code: u32,
    pub(crate) start: u32,
    pub(crate) length: u32,
}

impl ValueBucket {
    /// The first value with this hash, if there is one.
    #[inline(always)]
    fn first(&self, hash: u32) -> ValueSlot {
        // All are looked at, and the first wins: cheaper than to stop at one that cannot be foreseen.
        let places = self.0.iter().enumerate().rev();
        let at = places.fold(PLACES, |found, (at, known)| if known.hash == hash { at } else { found });
        self.0.get(at).copied().unwrap_or_default()
    }
}

/// Buckets of a table for so many values, a power of two.
fn buckets(values: usize) -> usize {
    let places = values.saturating_mul(MOST_TAKEN.1).div_ceil(MOST_TAKEN.0).clamp(LEAST, 1 << 31);
    (places / PLACES).next_power_of_two()
}

impl ValueTableScratch {
    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<ValueBucket>()
    }
}

impl ValueHashTable {
    /// With room for as many values.
    pub(crate) fn for_values(values: usize) -> Self {
        Self::of(vec![ValueBucket::default(); buckets(values)])
    }

    /// The same in memory that is there already, all of it where `most` values would need it: then it need not grow.
    pub(crate) fn within(ValueTableScratch(mut room): ValueTableScratch, values: usize, most: usize) -> Self {
        if room.capacity() == 0 {
            return Self::for_values(values);
        }
        let there = room.capacity() + 1;
        let all = buckets(most).min(there.next_power_of_two() / 2);
        room.clear();
        room.resize(buckets(values).max(all), ValueBucket::default());
        Self::of(room)
    }

    fn of(buckets: Vec<ValueBucket>) -> Self {
        let shift = 32 - buckets.len().trailing_zeros();
        Self { buckets, taken: 0, shift }
    }

    /// Its memory, for another one.
    pub(crate) fn into_room(self) -> ValueTableScratch {
        ValueTableScratch(self.buckets)
    }

    /// Whether there is no value in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.buckets.len() * size_of::<ValueBucket>()
    }

    /// Whether one more value is one too many.
    fn is_full(&self) -> bool {
        (self.taken + 1).saturating_mul(MOST_TAKEN.1)
            > (self.buckets.len() * PLACES).saturating_mul(MOST_TAKEN.0)
    }

    fn home(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    /// Says that this hash will be looked for soon.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u32) {
        prefetch(&self.buckets, self.home(hash));
    }

    /// The value with this hash in its home bucket, if there is one.
    #[inline(always)]
    pub(crate) fn near(&self, hash: u32) -> ValueSlot {
        self.buckets.get(self.home(hash)).map(|bucket| bucket.first(hash)).unwrap_or_default()
    }

    /// The buckets that a hash may be in: its home, and all others behind it.
    fn places(&self, hash: u32) -> impl Iterator<Item = usize> + use<> {
        let (home, last) = (self.home(hash), self.buckets.len() - 1);
        (home..=home + last).map(move |at| at & last)
    }

    /// The first value from the home of a hash on of which something holds, up to the first free place.
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

    /// Puts a value into the first free place from its home on.
    pub(crate) fn insert(&mut self, value: ValueSlot) {
        if self.is_full() {
            let mut larger = Self::for_values(self.taken * 4);
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
