//! Values of pages that gave up on the dictionary, looked up in it, and added where they are new.
//!
//! Many values are looked up together, one step for all of them after the other: hash, slot, place of the value, its
//! bytes, comparison. So the waits for memory of one step overlap, where a value at a time would wait for each.

use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;
use parquet::{basic::Type as PhysicalType, schema::types::ColumnDescPtr};

/// Values looked up together.
const BATCH: usize = 256;
/// Slots from its home on in which a value is looked for at once; few are farther away.
const NEAR: usize = 4;
/// A table is made anew where more than this share of its slots would be taken.
const MOST_TAKEN: (usize, usize) = (5, 8);

/// The distinct values of a chunk, each with its code: its place in the order of arrival.
pub(super) struct Distinct {
    /// The values in the encoding PLAIN.
    bytes: Vec<u8>,
    /// Where each value begins and ends in them, without the length before it.
    spans: Vec<(u32, u32)>,
    table: Table,
    hasher: DefaultHashBuilder,
    layout: Layout,
}

/// Open addressing: a value is at its home or behind it, with no free slot in between.
struct Table {
    /// The first [`NEAR`] slots are there a second time at the end.
    slots: Vec<Slot>,
    /// The home of a hash is in its highest bits.
    shift: u32,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u32,
    /// The code and one, or 0 where the slot is free.
    code: u32,
}

#[derive(Clone, Copy)]
enum Layout {
    /// Four bytes of length before each value.
    Prefixed,
    /// So many bytes each.
    Fixed(usize),
}

impl Layout {
    /// The first value and what lies behind it.
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

impl Table {
    /// With room for as many values.
    fn for_values(values: usize) -> Self {
        let size = values.saturating_mul(MOST_TAKEN.1).div_ceil(MOST_TAKEN.0).clamp(BATCH, 1 << 31);
        let size = size.next_power_of_two();
        Self { slots: vec![Slot::default(); size + NEAR], shift: 32 - size.trailing_zeros() }
    }

    fn size(&self) -> usize {
        self.slots.len() - NEAR
    }

    fn home(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    /// The code, and one, of a value with this hash that is near its home; 0 if there is none.
    #[inline(always)]
    fn near(&self, hash: u32) -> u32 {
        let home = self.home(hash);
        let near = self.slots.get(home..home + NEAR).and_then(|near| near.first_chunk::<NEAR>());
        let near = near.copied().unwrap_or_default();
        // The nearest wins, so it is looked at last.
        near.iter().rev().fold(0, |found, slot| if slot.hash == hash { slot.code } else { found })
    }

    /// The slots from the home of a hash up to the first free one, which is the last, with their places.
    fn probe(&self, hash: u32) -> impl Iterator<Item = (usize, Slot)> {
        let (home, last) = (self.home(hash), self.size() - 1);
        let mut free = false;
        let slots = (home..).map(move |at| at & last);
        let slots = slots.map(|at| (at, self.slots.get(at).copied().unwrap_or_default()));
        slots.take_while(move |(_, slot)| !std::mem::replace(&mut free, slot.code == 0))
    }

    /// Puts an entry behind those of its home.
    fn insert(&mut self, entry: Slot) {
        let Some((at, _)) = self.probe(entry.hash).last() else { return };
        let again = if at < NEAR { Some(self.size() + at) } else { None };
        for at in [Some(at), again].into_iter().flatten() {
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = entry;
            }
        }
    }
}

impl Distinct {
    /// The values of a dictionary, whose codes stay what they are, even where it has a value twice.
    pub(super) fn new(descriptor: &ColumnDescPtr, dictionary: &[u8], count: usize) -> Result<Self, String> {
        let layout = match descriptor.physical_type() {
            PhysicalType::BYTE_ARRAY => Layout::Prefixed,
            PhysicalType::INT32 | PhysicalType::FLOAT => Layout::Fixed(4),
            PhysicalType::INT64 | PhysicalType::DOUBLE => Layout::Fixed(8),
            PhysicalType::INT96 => Layout::Fixed(12),
            PhysicalType::FIXED_LEN_BYTE_ARRAY => Layout::Fixed(descriptor.type_length().max(0) as usize),
            PhysicalType::BOOLEAN => return Err("booleans have no dictionary".to_owned()),
        };
        let mut distinct = Self {
            bytes: Vec::with_capacity(dictionary.len()),
            spans: Vec::with_capacity(count.min(dictionary.len())),
            // A count that the bytes cannot hold is found out below.
            table: Table::for_values(count.min(dictionary.len())),
            hasher: DefaultHashBuilder::default(),
            layout,
        };
        let mut rest = dictionary;
        for _ in 0..count {
            let (value, behind) = layout.split(rest).ok_or("the dictionary ends early")?;
            rest = behind;
            let hash = distinct.hash(value);
            distinct.add(value, hash)?;
        }
        Ok(distinct)
    }

    /// Number of values.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Hands out the codes of the `count` values in `page`, in order.
    pub(super) fn append(
        &mut self,
        page: &[u8],
        count: usize,
        mut code: impl FnMut(u32),
    ) -> Result<(), String> {
        let mut rest = page;
        let mut left = count;
        let mut values: Vec<(&[u8], u32)> = Vec::with_capacity(BATCH);
        let mut near: Vec<u32> = Vec::with_capacity(BATCH);
        let mut spans: Vec<(u32, u32)> = Vec::with_capacity(BATCH);
        let mut ends: Vec<[u8; 2]> = Vec::with_capacity(BATCH);
        while left > 0 {
            values.clear();
            for _ in 0..left.min(BATCH) {
                let (value, behind) = self.layout.split(rest).ok_or("a page of values ends early")?;
                rest = behind;
                values.push((value, self.hash(value)));
            }
            left -= values.len();
            near.clear();
            near.extend(values.iter().map(|(_, hash)| self.table.near(*hash)));
            spans.clear();
            spans.extend(near.iter().map(|code| self.span(code.wrapping_sub(1)).unwrap_or_default()));
            // Both ends of a value, which may lie in two lines of the processor's cache.
            let byte = |at: u32| self.bytes.get(at as usize).copied().unwrap_or(0);
            ends.clear();
            ends.extend(spans.iter().map(|(start, end)| [byte(*start), byte(end.wrapping_sub(1))]));
            for ((((value, hash), near), span), ends) in values.iter().zip(&near).zip(&spans).zip(&ends) {
                let likely = match value {
                    [first, .., last] => [*first, *last] == *ends,
                    _ => true,
                };
                if *near > 0 && likely && self.is(*span, value) {
                    code(*near - 1);
                    continue;
                }
                code(match self.find(value, *hash) {
                    Some(code) => code,
                    None => self.add(value, *hash)?,
                });
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn hash(&self, value: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(value);
        (hasher.finish() >> 32) as u32
    }

    #[inline(always)]
    fn span(&self, code: u32) -> Option<(u32, u32)> {
        self.spans.get(code as usize).copied()
    }

    /// Whether the bytes between the two places are the value.
    #[inline(always)]
    fn is(&self, (start, end): (u32, u32), value: &[u8]) -> bool {
        self.bytes.get(start as usize..end as usize).is_some_and(|known| same(known, value))
    }

    fn find(&self, value: &[u8], hash: u32) -> Option<u32> {
        let is = |slot: Slot| {
            slot.hash == hash && self.span(slot.code.wrapping_sub(1)).is_some_and(|span| self.is(span, value))
        };
        self.table.probe(hash).find(|(_, slot)| is(*slot)).map(|(_, slot)| slot.code - 1)
    }

    fn add(&mut self, value: &[u8], hash: u32) -> Result<u32, String> {
        let too_many = "more values than a dictionary can have";
        let code = u32::try_from(self.spans.len()).ok().filter(|code| *code < u32::MAX).ok_or(too_many)?;
        if matches!(self.layout, Layout::Prefixed) {
            self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let end = u32::try_from(self.bytes.len()).map_err(|_| "more bytes than a dictionary can have")?;
        self.spans.push((start as u32, end));
        if self.len().saturating_mul(MOST_TAKEN.1) > self.table.size().saturating_mul(MOST_TAKEN.0) {
            let mut larger = Table::for_values(self.len().saturating_mul(2));
            // In the order of codes: of equal values the first stays in front.
            let slots = self.table.slots.get(..self.table.size()).unwrap_or_default();
            let mut entries: Vec<Slot> = slots.iter().filter(|slot| slot.code != 0).copied().collect();
            entries.sort_unstable_by_key(|slot| slot.code);
            entries.into_iter().for_each(|entry| larger.insert(entry));
            self.table = larger;
        }
        self.table.insert(Slot { hash, code: code + 1 });
        Ok(code)
    }

    /// The values in the order of their codes, in the encoding PLAIN.
    pub(super) fn plain(&self) -> &[u8] {
        &self.bytes
    }
}

/// Compares short values without a call.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() || a.len() > 128 {
        return a == b;
    }
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let differ = |a: &[u8; 8], b: &[u8; 8]| u64::from_ne_bytes(*a) ^ u64::from_ne_bytes(*b);
    let whole = a.iter().zip(b).fold(0, |different, (a, b)| different | differ(a, b));
    let rest = a_rest.iter().zip(b_rest).fold(0, |different, (a, b)| different | (a ^ b));
    whole == 0 && rest == 0
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

    fn distinct((dictionary, count): &(Vec<u8>, usize)) -> Result<Distinct, String> {
        Distinct::new(&strings(), dictionary, *count)
    }

    fn codes(distinct: &mut Distinct, (values, count): &(Vec<u8>, usize)) -> Result<Vec<u32>, String> {
        let mut codes = Vec::new();
        distinct.append(values, *count, |code| codes.push(code))?;
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
    fn values_that_end_early_are_errors() {
        let whole = plain([b"abc".as_ref()]);
        assert!(codes(&mut distinct(&plain([])).unwrap(), &(whole.0[..5].to_vec(), 1)).is_err());
        assert!(distinct(&(whole.0, 2)).is_err());
    }
}
