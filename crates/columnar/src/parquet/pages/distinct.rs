//! Interns values of PLAIN fallback pages into the chunk's dictionary.
//!
//! Values are looked up in batches, one step for all of them after the other: hash, bucket, bytes of the candidate. The
//! data of the next step is prefetched meanwhile; a lookup per value would wait for memory twice. A bucket holds all
//! that locates the bytes, which lie in one cache line if they fit.

use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;
use parquet::{basic::Type as PhysicalType, schema::types::ColumnDescPtr};

use super::value_table::{ValueHashTable, ValueSlot, ValueTableScratch};
use crate::kernels::prefetch::prefetch;

/// Values looked up together.
const BATCH: usize = 128;
/// Maximum bytes of a batch.
const BATCH_BYTES: usize = 64 << 10;
/// Maximum bytes reserved at a time.
const MAX_RESERVED: usize = 32 << 20;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Memory that is kept for the next chunk.
const MAX_KEPT: usize = 32 << 20;

/// Distinct values of a chunk; a value's code is its position in the order of arrival.
pub(crate) struct ValueInterner {
    /// Bytes of the values, with gaps so that none spans more cache lines than it must.
    bytes: Vec<u8>,
    /// Offset and length of each value.
    spans: Vec<(u32, u32)>,
    /// Bytes of the values in PLAIN.
    plain_bytes: usize,
    /// Index of all values, or empty.
    table: ValueHashTable,
    /// All values in PLAIN, once requested.
    plain: Vec<u8>,
    hasher: DefaultHashBuilder,
    layout: PlainValueLayout,
}

/// Memory that successive chunks reuse: the system zeroes fresh memory first.
#[derive(Default)]
pub(crate) struct InternerScratch {
    bytes: Vec<u8>,
    spans: Vec<(u32, u32)>,
    table: ValueTableScratch,
    plain: Vec<u8>,
}

#[derive(Clone, Copy)]
enum PlainValueLayout {
    /// Four bytes of length before each value.
    Prefixed,
    /// Fixed number of bytes per value.
    Fixed(usize),
}

impl PlainValueLayout {
    /// Returns the bytes before a value.
    fn prefix(self) -> usize {
        match self {
            Self::Prefixed => size_of::<u32>(),
            Self::Fixed(_) => 0,
        }
    }

    /// Returns the first value and the rest.
    #[inline(always)]
    fn split(self, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Prefixed => {
                let (length, rest) = bytes.split_first_chunk::<4>()?;
                rest.split_at_checked(u32::from_le_bytes(*length) as usize)
            }
            Self::Fixed(length) => bytes.split_at_checked(length),
        }
    }
}

impl ValueInterner {
    /// Creates an interner without values.
    pub(crate) fn new(descriptor: &ColumnDescPtr) -> Result<Self, String> {
        Self::within(InternerScratch::default(), descriptor, &[], 0, 0)
    }

    /// Creates an interner with the values of a dictionary, whose codes stay the same even if a value occurs twice. It
    /// will hold at most `most` values.
    pub(crate) fn within(
        room: InternerScratch,
        descriptor: &ColumnDescPtr,
        dictionary: &[u8],
        count: usize,
        most: usize,
    ) -> Result<Self, String> {
        let layout = match descriptor.physical_type() {
            PhysicalType::BYTE_ARRAY => PlainValueLayout::Prefixed,
            PhysicalType::INT32 | PhysicalType::FLOAT => PlainValueLayout::Fixed(4),
            PhysicalType::INT64 | PhysicalType::DOUBLE => PlainValueLayout::Fixed(8),
            PhysicalType::INT96 => PlainValueLayout::Fixed(12),
            PhysicalType::FIXED_LEN_BYTE_ARRAY => {
                PlainValueLayout::Fixed(descriptor.type_length().max(0) as usize)
            }
            PhysicalType::BOOLEAN => return Err("booleans have no dictionary".to_owned()),
        };
        // A count that exceeds the bytes is detected below.

        let values = count.min(dictionary.len());
        let InternerScratch { mut bytes, mut spans, table, plain } = room;
        bytes.clear();
        bytes.reserve(dictionary.len() + dictionary.len() / 8);
        spans.clear();
        spans.reserve(values);
        let table = ValueHashTable::within(table, values, most);
        let hasher = DefaultHashBuilder::default();
        let mut distinct = Self { bytes, spans, plain_bytes: 0, table, plain, hasher, layout };
        let mut rest = dictionary;

        for _ in 0..count {
            let (value, behind) = layout.split(rest).ok_or("the dictionary ends early")?;
            rest = behind;
            let hash = distinct.hash(value);
            let is_new = distinct.find(value, hash).is_none();
            distinct.add(value, hash, is_new)?;
        }

        Ok(distinct)
    }

    /// Returns its memory for reuse.
    pub(crate) fn into_room(self) -> InternerScratch {
        let Self { bytes, spans, table, plain, .. } = self;
        let room = InternerScratch { bytes, spans, table: table.into_room(), plain };
        let spans = room.spans.capacity() * size_of::<(u32, u32)>();
        let kept = room.bytes.capacity() + spans + room.table.memory() + room.plain.capacity();
        if kept > MAX_KEPT { InternerScratch::default() } else { room }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns the bytes of the value with this code.
    pub(crate) fn value(&self, code: u32) -> &[u8] {
        let (start, length) = self.spans.get(code as usize).copied().unwrap_or_default();
        self.bytes.get(start as usize..start as usize + length as usize).unwrap_or_default()
    }

    /// Returns the bytes of all values in PLAIN.
    pub(crate) fn bytes(&self) -> usize {
        self.plain_bytes
    }

    /// Reserves room for more values of `bytes` bytes in all. Unused room costs address space only.
    pub(crate) fn reserve(&mut self, values: usize, bytes: usize) {
        self.bytes.reserve((bytes + bytes / 8).min(MAX_RESERVED));
        self.spans.reserve(values.min(MAX_RESERVED / size_of::<(u32, u32)>()));
    }

    /// Frees the hash table, which is rebuilt on the next lookup.
    pub(crate) fn rest(&mut self) {
        self.table = ValueHashTable::for_values(0);
    }

    /// Rebuilds the hash table, if it was freed.
    fn wake(&mut self) {
        if !self.table.is_empty() || self.spans.is_empty() {
            return;
        }

        self.table = ValueHashTable::for_values(self.len());
        for (code, (start, length)) in (1..).zip(&self.spans) {
            let value = self.value(code - 1);
            let hash = self.hash(value);
            if self.find(value, hash).is_none() {
                self.table.insert(ValueSlot { hash, code, start: *start, length: *length });
            }
        }
    }

    /// Returns the bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<(u32, u32)>() + self.table.memory()
    }

    /// Emits the codes of the `count` values in `page`, in batches and in order.
    pub(crate) fn append(
        &mut self,
        page: &[u8],
        count: usize,
        append: impl FnMut(&[u32]),
    ) -> Result<(), String> {
        let mut rest = page;
        let layout = self.layout;
        let next = || {
            let (value, behind) = layout.split(rest).ok_or("a page of values ends early")?;
            rest = behind;
            Ok(value)
        };
        self.append_each::<false>(count, usize::MAX, next, append).map(|_| ())
    }

    /// Emits the codes of `count` values from an iterator, or stops once the interned values have more bytes than
    /// `most`, if `BOUNDED`; returns how many were consumed.
    #[inline(always)]
    pub(crate) fn append_each<'v, const BOUNDED: bool>(
        &mut self,
        count: usize,
        most: usize,
        mut next: impl FnMut() -> Result<&'v [u8], String>,
        mut append: impl FnMut(&[u32]),
    ) -> Result<usize, String> {
        self.wake();
        let mut left = count;
        let mut values = [([].as_slice(), 0); BATCH];
        let mut near = [ValueSlot::default(); BATCH];
        let mut codes = [0; BATCH];

        while left > 0 && (!BOUNDED || self.plain_bytes <= most) {
            let mut together = 0;
            let mut bytes = 0;
            for place in values.iter_mut().take(left) {
                if BOUNDED && bytes > BATCH_BYTES {
                    break;
                }

                let value = next()?;
                together += 1;
                bytes += value.len();
                let hash = self.hash(value);
                self.table.prefetch(hash);
                *place = (value, hash);
            }

            left -= together;
            let values = values.iter().take(together);
            for (near, (_, hash)) in near.iter_mut().zip(values.clone()) {
                *near = self.table.near(*hash);
                prefetch(&self.bytes, near.start as usize);
            }

            for ((code, (value, hash)), near) in codes.iter_mut().zip(values).zip(&near) {
                *code = match near.code.checked_sub(1) {
                    Some(code) if self.is(near, value) => code,
                    _ => match self.find(value, *hash) {
                        Some(code) => code,
                        None => self.add(value, *hash, true)?,
                    },
                };
            }

            append(codes.get(..together).unwrap_or_default());
        }

        Ok(count - left)
    }

    #[inline(always)]
    fn hash(&self, value: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(value);
        (hasher.finish() >> 32) as u32
    }

    /// Returns whether the interned value has these bytes.
    #[inline(always)]
    fn is(&self, known: &ValueSlot, value: &[u8]) -> bool {
        let start = known.start as usize;
        let bytes = self.bytes.get(start..start + known.length as usize);
        bytes == Some(value)
    }

    fn find(&self, value: &[u8], hash: u32) -> Option<u32> {
        self.table.find(hash, |known| self.is(known, value)).map(|known| known.code - 1)
    }

    /// Gives a value the next code. Only a new value is added to the table: the first of equal ones is found.
    fn add(&mut self, value: &[u8], hash: u32, is_new: bool) -> Result<u32, String> {
        let code = u32::try_from(self.spans.len()).ok().filter(|code| *code < u32::MAX);
        let code = code.ok_or("more values than a dictionary can have")?;
        let end = self.bytes.len() % LINE + value.len();
        if end > LINE && value.len() <= LINE {
            self.bytes.resize(self.bytes.len().next_multiple_of(LINE), 0);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        u32::try_from(self.bytes.len()).map_err(|_| "more bytes than a dictionary can have")?;
        let start = start as u32;
        let length = value.len() as u32;
        self.spans.push((start, length));
        self.plain_bytes += self.layout.prefix() + value.len();

        if is_new {
            self.table.insert(ValueSlot { hash, code: code + 1, start, length });
        }
        Ok(code)
    }

    /// Returns the values in the order of their codes, PLAIN-encoded.
    pub(crate) fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        self.append_plain(&mut plain);
        plain
    }

    /// Returns the same, in memory of its own.
    pub(crate) fn as_plain(&mut self) -> &[u8] {
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        self.append_plain(&mut plain);
        self.plain = plain;
        &self.plain
    }

    fn append_plain(&self, plain: &mut Vec<u8>) {
        plain.reserve(self.plain_bytes);
        for (start, length) in &self.spans {
            if matches!(self.layout, PlainValueLayout::Prefixed) {
                plain.extend_from_slice(&length.to_le_bytes());
            }
            let start = *start as usize;
            plain.extend_from_slice(self.bytes.get(start..start + *length as usize).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};

    use super::*;

    fn strings() -> ColumnDescPtr {
        let leaf = Type::primitive_type_builder("v", PhysicalType::BYTE_ARRAY).build().unwrap();
        Arc::new(ColumnDescriptor::new(Arc::new(leaf), 0, 0, ColumnPath::new(vec!["v".to_owned()])))
    }

    fn plain<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        let mut count = 0;
        for value in values {
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(value);
            count += 1;
        }
        (bytes, count)
    }

    fn distinct((dictionary, count): &(Vec<u8>, usize)) -> Result<ValueInterner, String> {
        ValueInterner::within(InternerScratch::default(), &strings(), dictionary, *count, 1 << 20)
    }

    fn codes(distinct: &mut ValueInterner, (values, count): &(Vec<u8>, usize)) -> Result<Vec<u32>, String> {
        let mut codes = Vec::new();
        distinct.append(values, *count, |some| codes.extend_from_slice(some))?;
        Ok(codes)
    }

    #[test]
    fn known_values_keep_their_codes_and_new_ones_follow() {
        let mut distinct = distinct(&plain([b"b".as_ref(), b"", b"b", b"aa"])).unwrap();
        let page = plain([b"aa".as_ref(), b"", b"b", b"ab", b"a", b"ab"]);
        assert_eq!(codes(&mut distinct, &page).unwrap(), [3, 1, 0, 4, 5, 4]);
        assert_eq!(distinct.plain(), plain([b"b".as_ref(), b"", b"b", b"aa", b"ab", b"a"]).0);
    }

    #[test]
    fn many_values_are_told_apart_while_the_table_grows() {
        let texts: Vec<String> = (0..40_000).map(|number| format!("{}", number * 7 % 30_011)).collect();
        let page = plain(texts.iter().map(String::as_bytes));
        let mut distinct = distinct(&plain([])).unwrap();
        let codes = codes(&mut distinct, &page).unwrap();
        let mut seen: std::collections::HashMap<&str, u32> = std::collections::HashMap::new();

        for (text, code) in texts.iter().zip(&codes) {
            let next = seen.len() as u32;
            assert_eq!(seen.entry(text).or_insert(next), code, "{text}");
        }

        assert_eq!(distinct.len(), seen.len());
    }

    #[test]
    fn values_are_found_after_a_rest() {
        let mut distinct = distinct(&plain([b"b".as_ref(), b"", b"b", b"aa"])).unwrap();
        let page = plain([b"aa".as_ref(), b"", b"b", b"ab"]);
        for _ in 0..2 {
            distinct.rest();
            assert_eq!(codes(&mut distinct, &page).unwrap(), [3, 1, 0, 4]);
        }
    }

    #[test]
    fn what_others_left_in_a_room_is_not_found() {
        let texts: Vec<String> = (0..10_000).map(|number| format!("{number}")).collect();
        let mut before = distinct(&plain(texts.iter().map(String::as_bytes))).unwrap();
        let all = before.plain();
        assert_eq!(before.as_plain(), all);
        let (dictionary, count) = plain([b"8".as_ref(), b"7"]);
        let mut next = ValueInterner::within(before.into_room(), &strings(), &dictionary, count, 5).unwrap();
        let page = plain([b"9".as_ref(), b"7", b"1234", b"8"]);
        assert_eq!(codes(&mut next, &page).unwrap(), [2, 1, 3, 0]);
        assert_eq!(next.as_plain(), plain([b"8".as_ref(), b"7", b"9", b"1234"]).0);
    }

    #[test]
    fn values_that_end_early_are_errors() {
        let whole = plain([b"abc".as_ref()]);
        assert!(codes(&mut distinct(&plain([])).unwrap(), &(whole.0[..5].to_vec(), 1)).is_err());
        assert!(distinct(&(whole.0, 2)).is_err());
    }
}
