//! Values of pages that gave up on the dictionary, looked up in it, and added where they are new.
//!
//! Many values are looked up together, one step for all of them after the other: hash, slot, first byte of the value
//! there, comparison. So the waits for memory of one step overlap, where a value at a time would wait for each.

use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;
use parquet::{basic::Type as PhysicalType, schema::types::ColumnDescPtr};

/// Values looked up together.
const BATCH: usize = 256;

/// The distinct values of a chunk, each with its code: its place in the order of arrival.
pub(super) struct Distinct {
    /// The values in the encoding PLAIN.
    bytes: Vec<u8>,
    count: u32,
    table: Table,
    hasher: DefaultHashBuilder,
    layout: Layout,
}

/// Open addressing: a value is at its home or behind it, with no free slot in between. Never full, and no smaller than
/// a batch.
struct Table {
    slots: Vec<Slot>,
    /// The home of a hash is in its highest bits.
    shift: u32,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u32,
    /// The code and one, or 0 where the slot is free.
    code: u32,
    /// Where the value begins, without the length before it.
    start: u32,
    length: u32,
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
    /// With room for as many values at half its size.
    fn for_values(values: usize) -> Self {
        let size = values.saturating_mul(2).clamp(BATCH, 1 << 31).next_power_of_two();
        Self { slots: vec![Slot::default(); size], shift: 32 - size.trailing_zeros() }
    }

    fn home(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    fn slot(&self, at: usize) -> Slot {
        self.slots.get(at).copied().unwrap_or_default()
    }

    /// The slots from the home of a hash up to the first free one, which is the last, with their places.
    fn probe(&self, hash: u32) -> impl Iterator<Item = (usize, Slot)> {
        let (home, last) = (self.home(hash), self.slots.len() - 1);
        let mut free = false;
        let slots = (home..).map(move |at| at & last).map(|at| (at, self.slot(at)));
        slots.take_while(move |(_, slot)| !std::mem::replace(&mut free, slot.code == 0))
    }

    /// Puts an entry behind those of its home.
    fn insert(&mut self, entry: Slot) {
        if let Some((at, _)) = self.probe(entry.hash).last()
            && let Some(slot) = self.slots.get_mut(at)
        {
            *slot = entry;
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
            count: 0,
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
        self.count as usize
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
        let mut batch: Vec<(&[u8], u32)> = Vec::with_capacity(BATCH);
        let mut slots: Vec<Slot> = Vec::with_capacity(BATCH);
        let mut firsts: Vec<u8> = Vec::with_capacity(BATCH);
        while left > 0 {
            batch.clear();
            for _ in 0..left.min(BATCH) {
                let (value, behind) = self.layout.split(rest).ok_or("a page of values ends early")?;
                rest = behind;
                batch.push((value, self.hash(value)));
            }
            left -= batch.len();
            slots.clear();
            slots.extend(batch.iter().map(|(_, hash)| self.table.slot(self.table.home(*hash))));
            firsts.clear();
            firsts.extend(slots.iter().map(|slot| self.bytes.get(slot.start as usize).copied().unwrap_or(0)));
            for (((value, hash), slot), first) in batch.iter().zip(&slots).zip(&firsts) {
                let likely = value.first().is_none_or(|byte| byte == first);
                let found = if likely && self.is(*slot, value, *hash) { Some(slot.code - 1) } else { None };
                code(match found.or_else(|| self.find(value, *hash)) {
                    Some(code) => code,
                    None => self.add(value, *hash)?,
                });
            }
        }
        Ok(())
    }

    fn hash(&self, value: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(value);
        (hasher.finish() >> 32) as u32
    }

    fn is(&self, slot: Slot, value: &[u8], hash: u32) -> bool {
        let start = slot.start as usize;
        slot.code != 0
            && slot.hash == hash
            && self.bytes.get(start..start + slot.length as usize) == Some(value)
    }

    fn find(&self, value: &[u8], hash: u32) -> Option<u32> {
        let mut slots = self.table.probe(hash);
        slots.find(|(_, slot)| self.is(*slot, value, hash)).map(|(_, slot)| slot.code - 1)
    }

    fn add(&mut self, value: &[u8], hash: u32) -> Result<u32, String> {
        let code = self.count;
        self.count = code.checked_add(1).ok_or("more values than a dictionary can have")?;
        if matches!(self.layout, Layout::Prefixed) {
            self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        }
        let start = u32::try_from(self.bytes.len()).map_err(|_| "more bytes than a dictionary can have")?;
        self.bytes.extend_from_slice(value);
        if self.len().saturating_mul(2) > self.table.slots.len() {
            let mut larger = Table::for_values(self.len().saturating_mul(2));
            // In the order of codes: of equal values the first stays in front.
            let mut entries: Vec<Slot> =
                self.table.slots.iter().filter(|slot| slot.code != 0).copied().collect();
            entries.sort_unstable_by_key(|slot| slot.code);
            entries.into_iter().for_each(|entry| larger.insert(entry));
            self.table = larger;
        }
        self.table.insert(Slot { hash, code: self.count, start, length: value.len() as u32 });
        Ok(code)
    }

    /// The values in the order of their codes, in the encoding PLAIN.
    pub(super) fn plain(&self) -> &[u8] {
        &self.bytes
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
