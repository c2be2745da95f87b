//! Values of pages that gave up on the dictionary, looked up in it, and added where they are new.
//!
//! Hashes of many values are computed before the first is looked up, so that the waits for memory overlap.

use std::hash::BuildHasher;

use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashTable};
use parquet::{basic::Type as PhysicalType, schema::types::ColumnDescPtr};

use super::plain::PlainValues;

/// Values looked up together.
const BATCH: usize = 256;

/// The distinct values of a chunk, each with its code: its place in the order of arrival.
pub(super) struct Distinct {
    /// The values in the encoding PLAIN.
    bytes: Vec<u8>,
    count: u32,
    table: HashTable<Entry>,
    hasher: DefaultHashBuilder,
    layout: Layout,
}

#[derive(Clone, Copy)]
struct Entry {
    hash: u32,
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

impl Distinct {
    /// The values of a dictionary, whose codes stay what they are, even where it has a value twice.
    pub(super) fn new(descriptor: &ColumnDescPtr, dictionary: &PlainValues) -> Result<Self, String> {
        let layout = match descriptor.physical_type() {
            PhysicalType::BYTE_ARRAY => Layout::Prefixed,
            PhysicalType::INT32 | PhysicalType::FLOAT => Layout::Fixed(4),
            PhysicalType::INT64 | PhysicalType::DOUBLE => Layout::Fixed(8),
            PhysicalType::INT96 => Layout::Fixed(12),
            PhysicalType::FIXED_LEN_BYTE_ARRAY => Layout::Fixed(descriptor.type_length().max(0) as usize),
            PhysicalType::BOOLEAN => return Err("booleans have no dictionary".to_owned()),
        };
        let mut distinct = Self {
            bytes: Vec::with_capacity(dictionary.bytes.len()),
            count: 0,
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            layout,
        };
        let mut rest = dictionary.bytes.as_ref();
        for _ in 0..dictionary.count {
            let (value, behind) = layout.split(rest).ok_or("the dictionary ends early")?;
            rest = behind;
            let hash = distinct.hasher.hash_one(value);
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
        page: &Bytes,
        count: usize,
        mut code: impl FnMut(u32),
    ) -> Result<(), String> {
        let mut rest = page.as_ref();
        let mut left = count;
        let mut batch: Vec<(&[u8], u64)> = Vec::with_capacity(BATCH);
        while left > 0 {
            batch.clear();
            for _ in 0..left.min(BATCH) {
                let (value, behind) = self.layout.split(rest).ok_or("a page of values ends early")?;
                rest = behind;
                batch.push((value, self.hasher.hash_one(value)));
            }
            left -= batch.len();
            for (value, hash) in &batch {
                code(match self.find(value, *hash) {
                    Some(code) => code,
                    None => self.add(value, *hash)?,
                });
            }
        }
        Ok(())
    }

    fn find(&self, value: &[u8], hash: u64) -> Option<u32> {
        let same = |entry: &Entry| {
            let start = entry.start as usize;
            entry.hash == hash as u32 && self.bytes.get(start..start + entry.length as usize) == Some(value)
        };
        self.table.find(hash, same).map(|entry| entry.code)
    }

    fn add(&mut self, value: &[u8], hash: u64) -> Result<u32, String> {
        let code = self.count;
        self.count = code.checked_add(1).ok_or("more values than a dictionary can have")?;
        if matches!(self.layout, Layout::Prefixed) {
            self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        }
        let start = u32::try_from(self.bytes.len()).map_err(|_| "more bytes than a dictionary can have")?;
        self.bytes.extend_from_slice(value);
        let entry = Entry { hash: hash as u32, code, start, length: value.len() as u32 };
        let (bytes, hasher) = (&self.bytes, &self.hasher);
        let rehash = |entry: &Entry| {
            let start = entry.start as usize;
            hasher.hash_one(bytes.get(start..start + entry.length as usize).unwrap_or_default())
        };
        self.table.insert_unique(hash, entry, rehash);
        Ok(code)
    }

    /// The values in the order of their codes.
    pub(super) fn into_plain(self) -> PlainValues {
        PlainValues { count: self.count as usize, bytes: Bytes::from(self.bytes) }
    }
}
