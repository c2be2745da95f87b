//! String keys: their bytes concatenated, and a hash table of their positions.

use std::hash::BuildHasher;

use arrow::array::{Array, StringArray};
use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use super::{
    indexes::make_room,
    room::{KeyInsertError, table_bytes, text_bytes},
};

/// Keys in their order of arrival.
#[derive(Debug, Default)]
pub(crate) struct StringKeyIndex {
    /// Concatenated strings.
    bytes: Vec<u8>,
    /// End of each string.
    ends: Vec<u64>,
    table: HashTable<StringKeyEntry>,
    hasher: DefaultHashBuilder,
}

/// Entry with half of the hash: a lookup compares few other strings, and growing the table compares none.
#[derive(Clone, Copy, Debug)]
struct StringKeyEntry {
    hash: u32,
    index: u32,
}

/// Limit of the table's 4-byte indexes.
const MAX_KEYS: u64 = 1 << 32;

impl StringKeyEntry {
    fn new(hash: u64, index: usize) -> Self {
        Self { hash: (hash >> 32) as u32, index: index as u32 }
    }

    /// Spreads the hash over all bits: tables use the lowest and the highest.
    fn mixed_hash(&self) -> u64 {
        u64::from(self.hash).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(20)
    }
}

impl StringKeyIndex {
    pub(crate) fn insert(&mut self, keys: &StringArray, limit: usize) -> Result<(), KeyInsertError> {
        self.make_room(keys, limit)?;
        for row in 0..keys.len() {
            let key = keys.value(row).as_bytes();
            let slot = StringKeyEntry::new(self.hasher.hash_one(key), self.ends.len());
            let Self { bytes, ends, table, .. } = self;
            let is_same =
                |other: &StringKeyEntry| other.hash == slot.hash && text(bytes, ends, other.index) == key;
            match table.entry(slot.mixed_hash(), is_same, StringKeyEntry::mixed_hash) {
                Entry::Occupied(earlier) => {
                    return Err(KeyInsertError::Repeated { row, earlier: u64::from(earlier.get().index) });
                }
                Entry::Vacant(entry) => entry.insert(slot),
            };

            bytes.extend_from_slice(key);
            ends.push(bytes.len() as u64);
        }

        Ok(())
    }

    fn make_room(&mut self, keys: &StringArray, limit: usize) -> Result<(), KeyInsertError> {
        let more = keys.len();
        let more_bytes = text_bytes(keys) as usize;
        let count = (self.ends.len() + more) as u64;
        let grows = count > self.table.capacity() as u64;
        let grown = if grows { table_bytes(count, size_of::<StringKeyEntry>()) } else { 0 };
        let texts = (more + self.ends.len() / 8) * size_of::<u64>() + more_bytes + self.bytes.len() / 8;
        if count > MAX_KEYS || grown + (texts + self.memory()) as u64 > limit as u64 {
            return Err(KeyInsertError::TooLarge);
        }

        make_room(&mut self.bytes, more_bytes);
        make_room(&mut self.ends, more);
        self.table.reserve(more, StringKeyEntry::mixed_hash);
        Ok(())
    }

    pub(crate) fn find(&self, keys: &StringArray) -> Result<Vec<u64>, usize> {
        let find = |row: usize| {
            let key = keys.value(row).as_bytes();
            let asked = StringKeyEntry::new(self.hasher.hash_one(key), 0);
            let is_same = |slot: &StringKeyEntry| {
                slot.hash == asked.hash && text(&self.bytes, &self.ends, slot.index) == key
            };
            self.table.find(asked.mixed_hash(), is_same).map(|slot| u64::from(slot.index)).ok_or(row)
        };
        (0..keys.len()).map(find).collect()
    }

    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u64>() + self.table.allocation_size()
    }

    pub(crate) fn needed(count: u64, text_bytes: u64) -> u64 {
        text_bytes + count * size_of::<u64>() as u64 + table_bytes(count, size_of::<StringKeyEntry>())
    }
}

/// Returns the string of an assigned index.
fn text<'a>(bytes: &'a [u8], ends: &[u64], index: u32) -> &'a [u8] {
    let index = index as usize;
    let end = ends.get(index).copied().unwrap_or_default();
    let start = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
    bytes.get(start as usize..end as usize).unwrap_or_default()
}
