//! Interns values: gives each distinct one a code, in the order of first appearance.
//!
//! Values are bytes. A number is interned by the bytes of its bits, so zeros of both signs and NaNs of different bits
//! are different values.
//!
//! Values are looked up in batches, step by step for the whole batch: hash, bucket, position and bytes of the
//! candidate. The data of the next step is prefetched meanwhile; a lookup per value would wait for memory three times.
//! The bytes of a value lie in one cache line if they fit.

mod table;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;

use self::table::{ValueHashTable, ValueTableScratch};
use super::prefetch::prefetch;

/// Values looked up together.
const BATCH: usize = 128;
/// Maximum bytes of a batch.
const BATCH_BYTES: usize = 64 << 10;
/// Maximum bytes reserved at a time.
const MAX_RESERVED: usize = 32 << 20;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Error text for a value that exceeds the codes or the offsets.
pub(crate) const FULL: &str = "more values or bytes than a dictionary can have";

#[cfg(test)]
thread_local! {
    /// Values that this thread has hashed.
    pub(crate) static HASHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Distinct values, and their codes: the positions in the order of first appearance.
///
/// It holds fewer than 2^32 values, of less than 4 GiB in total.
#[derive(Debug, Default)]
pub struct ValueInterner {
    /// Bytes of the values, with gaps so that none spans more cache lines than it must.
    bytes: Vec<u8>,
    /// Offset and length of each value.
    spans: Vec<(u32, u32)>,
    /// Bytes that a file stores before each value.
    prefix: usize,
    /// Bytes of the values in a file.
    stored_bytes: usize,
    /// Index of all values, or empty.
    table: ValueHashTable,
    hasher: DefaultHashBuilder,
}

/// Memory that successive interners reuse: the system zeroes fresh memory first.
#[derive(Debug, Default)]
pub(crate) struct InternerScratch {
    bytes: Vec<u8>,
    spans: Vec<(u32, u32)>,
    table: ValueTableScratch,
}

impl InternerScratch {
    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<(u32, u32)>() + self.table.memory()
    }
}

impl ValueInterner {
    /// Creates an interner in existing memory, with room for `values` values of `bytes` bytes in all. The interner will
    /// hold at most `max_values` values. A file stores `prefix` bytes before each value.
    pub(crate) fn in_scratch(
        scratch: InternerScratch,
        prefix: usize,
        values: usize,
        bytes: usize,
        max_values: usize,
    ) -> Self {
        let InternerScratch { bytes: mut arena, mut spans, table } = scratch;
        arena.clear();
        arena.reserve(bytes + bytes / 8);
        spans.clear();
        spans.reserve(values);
        let table = ValueHashTable::in_scratch(table, values, max_values);
        let hasher = DefaultHashBuilder::default();

        Self { bytes: arena, spans, prefix, stored_bytes: 0, table, hasher }
    }

    /// Returns the interner's memory for reuse.
    pub(crate) fn into_scratch(self) -> InternerScratch {
        let Self { bytes, spans, table, .. } = self;
        InternerScratch { bytes, spans, table: table.into_scratch() }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns the bytes of the value with this code; empty if there is no such value.
    #[inline]
    pub(crate) fn value(&self, code: u32) -> &[u8] {
        self.spanned(self.span(code))
    }

    /// Returns the offset and length of the value with this code, or those of no bytes.
    #[inline]
    fn span(&self, code: u32) -> (u32, u32) {
        self.spans.get(code as usize).copied().unwrap_or_default()
    }

    /// Returns the values in the order of their codes.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.spans.iter().map(|span| self.spanned(*span))
    }

    #[inline]
    fn spanned(&self, (start, length): (u32, u32)) -> &[u8] {
        let start = start as usize;
        self.bytes.get(start..start + length as usize).unwrap_or_default()
    }

    /// Returns the size of all values in a file, in bytes, prefixes included.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// Reserves room for more values of `bytes` bytes in all. Unused room costs address space only.
    pub(crate) fn reserve(&mut self, values: usize, bytes: usize) {
        self.bytes.reserve((bytes + bytes / 8).min(MAX_RESERVED));
        self.spans.reserve(values.min(MAX_RESERVED / size_of::<(u32, u32)>()));
    }

    /// Frees the hash table, which is rebuilt on the next lookup.
    pub(crate) fn free_table(&mut self) {
        self.table = ValueHashTable::default();
    }

    /// Rebuilds the hash table, if it was freed.
    fn rebuild_table(&mut self) {
        if !self.table.is_empty() || self.spans.is_empty() {
            return;
        }

        self.table = ValueHashTable::for_values(self.len());
        for (code, span) in (0..).zip(&self.spans) {
            let value = self.spanned(*span);
            let hash = self.hash(value);
            if self.find(value, hash).is_none() {
                self.table.insert(hash, code);
            }
        }
    }

    /// Returns the memory in use, in bytes. It depends only on the values and their order.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<(u32, u32)>() + self.table.memory()
    }

    /// Returns the code of a value, adding it if it is new; `None` if it is new and there is no room.
    pub fn intern(&mut self, value: &[u8]) -> Option<u32> {
        self.rebuild_table();
        let hash = self.hash(value);
        match self.find(value, hash) {
            Some(code) => Some(code),
            None => self.add(value, hash, true),
        }
    }

    /// Returns the codes of values, adding new ones; `None` if there is no room for all.
    pub fn intern_all<'v>(
        &mut self,
        mut values: impl ExactSizeIterator<Item = &'v [u8]>,
    ) -> Option<Vec<u32>> {
        let count = values.len();
        let mut codes = Vec::with_capacity(count);
        let next = || values.next().ok_or_else(|| "fewer values than announced".to_owned());
        let append = |some: &[u32]| codes.extend_from_slice(some);
        self.intern_each::<false>(count, usize::MAX, next, append).ok()?;
        Some(codes)
    }

    /// Gives a value the next code, even if it already has one: lookups find the first.
    pub(crate) fn push(&mut self, value: &[u8]) -> Result<(), String> {
        self.rebuild_table();
        let hash = self.hash(value);
        let is_new = self.find(value, hash).is_none();
        self.add(value, hash, is_new).map(drop).ok_or_else(|| FULL.to_owned())
    }

    /// Emits the codes of `count` values, in batches and in order, adding new ones. If `BOUNDED`, stops once the values
    /// have more bytes in a file than `max_bytes`. Returns the number of values consumed.
    #[inline(always)]
    pub(crate) fn intern_each<'v, const BOUNDED: bool>(
        &mut self,
        count: usize,
        max_bytes: usize,
        mut next: impl FnMut() -> Result<&'v [u8], String>,
        mut append: impl FnMut(&[u32]),
    ) -> Result<usize, String> {
        self.rebuild_table();
        let mut left = count;
        let mut values = [([].as_slice(), 0); BATCH];
        let mut candidates = [None; BATCH];
        let mut spans = [(0, 0); BATCH];
        let mut codes = [0; BATCH];

        while left > 0 && (!BOUNDED || self.stored_bytes <= max_bytes) {
            let mut together = 0;
            let mut bytes = 0;
            for slot in values.iter_mut().take(left) {
                if BOUNDED && bytes > BATCH_BYTES {
                    break;
                }

                let value = next()?;
                together += 1;
                bytes += value.len();
                let hash = self.hash(value);
                self.table.prefetch(hash);
                *slot = (value, hash);
            }

            left -= together;
            let values = values.iter().take(together);
            for (candidate, (_, hash)) in candidates.iter_mut().zip(values.clone()) {
                *candidate = self.table.candidate(*hash);
                prefetch(&self.spans, candidate.unwrap_or(u32::MAX) as usize);
            }

            for (span, candidate) in spans.iter_mut().zip(candidates).take(together) {
                *span = self.span(candidate.unwrap_or(u32::MAX));
                prefetch(&self.bytes, span.0 as usize);
            }

            let candidates = candidates.iter().zip(spans);
            for ((code, (value, hash)), (candidate, span)) in codes.iter_mut().zip(values).zip(candidates) {
                *code = match *candidate {
                    Some(code) if self.spanned(span) == *value => code,
                    _ => match self.find(value, *hash) {
                        Some(code) => code,
                        None => self.add(value, *hash, true).ok_or(FULL)?,
                    },
                };
            }

            append(codes.get(..together).unwrap_or_default());
        }

        Ok(count - left)
    }

    #[inline(always)]
    fn hash(&self, value: &[u8]) -> u32 {
        #[cfg(test)]
        HASHED.set(HASHED.get() + 1);
        let mut hasher = self.hasher.build_hasher();
        hasher.write(value);
        (hasher.finish() >> 32) as u32
    }

    fn find(&self, value: &[u8], hash: u32) -> Option<u32> {
        self.table.find(hash, |code| self.value(code) == value)
    }

    /// Gives a value the next code; `None` if there is no room. Only a new value is added to the table, so that lookups
    /// find the first of equal values.
    fn add(&mut self, value: &[u8], hash: u32, is_new: bool) -> Option<u32> {
        let code = u32::try_from(self.spans.len()).ok().filter(|code| *code < u32::MAX)?;
        let end = self.bytes.len() % LINE + value.len();
        let start = if end > LINE && value.len() <= LINE {
            self.bytes.len().next_multiple_of(LINE)
        } else {
            self.bytes.len()
        };
        u32::try_from(start.checked_add(value.len())?).ok()?;

        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(value);
        self.spans.push((start as u32, value.len() as u32));
        self.stored_bytes += self.prefix + value.len();

        if is_new {
            self.table.insert(hash, code);
        }
        Some(code)
    }
}
