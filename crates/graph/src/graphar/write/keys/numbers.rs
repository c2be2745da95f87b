//! Integer keys: a range as long as they are consecutive, then a hash table.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use super::room::{KeyInsertError, table_bytes};

/// Keys in their order of arrival.
#[derive(Debug, Default)]
pub(crate) struct IntKeyIndex {
    first: i64,
    count: u64,
    table: Option<HashTable<IntKeyEntry>>,
    hasher: DefaultHashBuilder,
}

/// Key and its index, in words of 4 bytes, to avoid padding.
#[derive(Clone, Copy, Debug)]
struct IntKeyEntry {
    key: [u32; 2],
    index: u32,
}

/// Limit of the table's 4-byte indexes.
const MAX_KEYS: u64 = 1 << 32;

impl IntKeyEntry {
    fn new(key: i64, index: u64) -> Self {
        Self { key: [key as u32, (key >> 32) as u32], index: index as u32 }
    }

    fn key(&self) -> i64 {
        let [low, high] = self.key;
        (i64::from(high) << 32) | i64::from(low)
    }
}

impl IntKeyIndex {
    pub(crate) fn insert(&mut self, keys: &[i64], limit: usize) -> Result<(), KeyInsertError> {
        let in_range = match self.table {
            None => self.extend_range(keys),
            Some(_) => 0,
        };
        let rest = keys.get(in_range..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }

        self.make_room(rest.len(), limit)?;
        for (row, key) in rest.iter().enumerate() {
            self.insert_one(*key)
                .map_err(|earlier| KeyInsertError::Repeated { row: in_range + row, earlier })?;
        }
        Ok(())
    }

    /// Returns the number of keys that continue the range.
    fn extend_range(&mut self, keys: &[i64]) -> usize {
        if self.count == 0 {
            self.first = keys.first().copied().unwrap_or_default();
        }
        let next =
            |at: usize| self.first.checked_add(i64::try_from(self.count).ok()?.checked_add(at as i64)?);
        let fitting = keys.iter().enumerate().take_while(|(at, key)| next(*at) == Some(**key)).count();
        self.count += fitting as u64;
        fitting
    }

    fn make_room(&mut self, more: usize, limit: usize) -> Result<(), KeyInsertError> {
        let count = self.count + more as u64;
        let held = self.table.as_ref().map_or(0, HashTable::capacity) as u64;
        if count <= held {
            return Ok(());
        }
        // While the table grows, the old and the new one are both in memory.
        if count > MAX_KEYS || Self::needed(count) + self.memory() as u64 > limit as u64 {
            return Err(KeyInsertError::TooLarge);
        }

        let hasher = &self.hasher;
        let hash = |slot: &IntKeyEntry| hasher.hash_one(slot.key());
        match &mut self.table {
            Some(table) => table.reserve(more, hash),
            None => {
                let mut table = HashTable::with_capacity(count as usize);
                for index in 0..self.count {
                    let slot = IntKeyEntry::new(self.first.wrapping_add(index as i64), index);
                    table.insert_unique(hash(&slot), slot, hash);
                }
                self.table = Some(table);
            }
        }

        Ok(())
    }

    /// Inserts a key; fails with its index if it exists already.
    fn insert_one(&mut self, key: i64) -> Result<(), u64> {
        let Some(table) = &mut self.table else { return Ok(()) };
        let hasher = &self.hasher;
        let hash = |slot: &IntKeyEntry| hasher.hash_one(slot.key());
        let slot = IntKeyEntry::new(key, self.count);
        match table.entry(hash(&slot), |slot| slot.key() == key, hash) {
            Entry::Occupied(earlier) => return Err(u64::from(earlier.get().index)),
            Entry::Vacant(entry) => entry.insert(slot),
        };
        self.count += 1;
        Ok(())
    }

    pub(crate) fn find(&self, keys: &[i64]) -> Result<Vec<u64>, usize> {
        let find = |(row, key): (usize, &i64)| match &self.table {
            None => {
                let index = key.checked_sub(self.first).and_then(|index| u64::try_from(index).ok());
                index.filter(|index| *index < self.count).ok_or(row)
            }
            Some(table) => {
                let found = table.find(self.hasher.hash_one(*key), |slot| slot.key() == *key);
                found.map(|slot| u64::from(slot.index)).ok_or(row)
            }
        };

        keys.iter().enumerate().map(find).collect()
    }

    pub(crate) fn memory(&self) -> usize {
        self.table.as_ref().map_or(0, HashTable::allocation_size)
    }

    pub(crate) fn needed(count: u64) -> u64 {
        table_bytes(count, size_of::<IntKeyEntry>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_numbers_are_keys_like_others() {
        let mut keys = IntKeyIndex::default();
        keys.insert(&[i64::MAX - 1, i64::MAX], usize::MAX).unwrap();
        assert_eq!(keys.find(&[i64::MAX]), Ok(vec![1]));
        assert_eq!(keys.find(&[i64::MIN]), Err(0));
        keys.insert(&[i64::MIN, -1, 0], usize::MAX).unwrap();
        assert_eq!(keys.find(&[0, -1, i64::MIN, i64::MAX, i64::MAX - 1]), Ok(vec![4, 3, 2, 1, 0]));
        let again = keys.insert(&[5, i64::MAX], usize::MAX);
        assert_eq!(again, Err(KeyInsertError::Repeated { row: 1, earlier: 1 }));
    }
}
