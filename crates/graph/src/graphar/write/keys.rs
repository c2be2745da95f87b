//! Index from vertex keys to vertex indexes.

pub(super) mod ends;
pub(super) mod indexes;
pub(super) mod numbers;
pub(super) mod room;
pub(super) mod texts;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Int64Type},
};

use self::{numbers::IntKeyIndex, room::KeyInsertError, texts::StringKeyIndex};
use super::columns::first_null;
use crate::PropertyType;

/// Keys of all vertices of a type, in the order of their indexes.
#[derive(Debug)]
pub(crate) enum VertexKeyIndex {
    Numbers(IntKeyIndex),
    Texts(StringKeyIndex),
}

impl VertexKeyIndex {
    /// Returns an empty index for keys of this type; `None` if the type cannot be a key.
    pub(crate) fn of(property_type: &PropertyType) -> Option<Self> {
        match property_type {
            PropertyType::Int32 | PropertyType::Int64 => Some(Self::Numbers(IntKeyIndex::default())),
            PropertyType::String => Some(Self::Texts(StringKeyIndex::default())),
            _ => None,
        }
    }

    /// Returns the type that keys are cast to for insertion and lookup.
    pub(crate) fn arrow(&self) -> DataType {
        match self {
            Self::Numbers(_) => DataType::Int64,
            Self::Texts(_) => DataType::Utf8,
        }
    }

    /// Returns true if a column of this type can hold such keys.
    pub(crate) fn can_be(&self, from: &DataType) -> bool {
        match (self, from) {
            (_, DataType::Dictionary(_, values)) => self.can_be(values),
            (Self::Numbers(_), from) => from.is_integer(),
            (Self::Texts(_), from) => {
                matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
            }
        }
    }

    /// Adds the keys of the next vertices; if one is rejected, some may have been added. The index takes at most
    /// `limit` bytes, including while it grows.
    pub(crate) fn insert(&mut self, keys: &ArrayRef, limit: usize) -> Result<(), KeyInsertError> {
        let null = first_null(keys.as_ref());
        let whole = keys.slice(0, null.unwrap_or(keys.len()));
        match self {
            Self::Numbers(numbers) => numbers.insert(whole.as_primitive::<Int64Type>().values(), limit)?,
            Self::Texts(texts) => texts.insert(whole.as_string::<i32>(), limit)?,
        }
        null.map_or(Ok(()), |row| Err(KeyInsertError::Null { row }))
    }

    /// Returns the indexes of keys, or the first row whose key is null or unknown.
    pub(crate) fn find(&self, keys: &ArrayRef) -> Result<Vec<u64>, usize> {
        let null = first_null(keys.as_ref());
        let whole = keys.slice(0, null.unwrap_or(keys.len()));
        let found = match self {
            Self::Numbers(numbers) => numbers.find(whole.as_primitive::<Int64Type>().values())?,
            Self::Texts(texts) => texts.find(whole.as_string::<i32>())?,
        };
        null.map_or(Ok(found), Err)
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.memory(),
            Self::Texts(texts) => texts.memory(),
        }
    }

    /// Returns the memory that `count` keys would take, in bytes, given `text_bytes` bytes of strings.
    pub(crate) fn needed(&self, count: u64, text_bytes: u64) -> u64 {
        match self {
            Self::Numbers(_) => IntKeyIndex::needed(count),
            Self::Texts(_) => StringKeyIndex::needed(count, text_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::Arc};

    use arrow::array::{Int64Array, StringArray};
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    fn numbers(keys: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(keys.to_vec()))
    }

    fn texts(keys: &[Option<i64>]) -> ArrayRef {
        let text = |key: &Option<i64>| {
            key.map(|key| if key == 0 { String::new() } else { "é".repeat(3) + &key.to_string() })
        };
        Arc::new(keys.iter().map(text).collect::<StringArray>())
    }

    type MakeKeys = fn(&[Option<i64>]) -> ArrayRef;

    fn kinds() -> [(VertexKeyIndex, MakeKeys); 2] {
        [
            (VertexKeyIndex::of(&PropertyType::Int64).unwrap(), numbers),
            (VertexKeyIndex::of(&PropertyType::String).unwrap(), texts),
        ]
    }

    #[test]
    fn every_key_is_found_and_no_other() {
        for (mut keys, array) in kinds() {
            let mut random = StdRng::seed_from_u64(3);
            let mut known = HashMap::new();
            for round in 0..40 {
                let mut batch = Vec::new();
                for _ in 0..random.random_range(0..200) {
                    // First a range, then arbitrary keys.
                    let key =
                        if round < 3 { known.len() as i64 - 7 } else { random.random_range(-9999..9999) };
                    let next = known.len() as u64;
                    if let std::collections::hash_map::Entry::Vacant(entry) = known.entry(key) {
                        entry.insert(next);
                        batch.push(Some(key));
                    }
                }

                keys.insert(&array(&batch), usize::MAX).unwrap();
                let asked: Vec<Option<i64>> = known.keys().map(|key| Some(*key)).collect();
                let wanted: Vec<u64> = known.values().copied().collect();
                assert_eq!(keys.find(&array(&asked)), Ok(wanted));
                let missing = (-9999..9999).find(|key| !known.contains_key(key)).unwrap();
                assert_eq!(keys.find(&array(&[asked[0], Some(missing), None])), Err(1));
                assert_eq!(keys.find(&array(&[asked[0], None, Some(missing)])), Err(1));
            }
            assert!(keys.memory() > 0 && keys.needed(100, 100) > 100);
        }
    }

    #[test]
    fn the_first_row_that_is_wrong_is_named() {
        for (mut keys, array) in kinds() {
            keys.insert(&array(&[Some(1), Some(2), Some(3)]), usize::MAX).unwrap();
            let insert = |keys: &mut VertexKeyIndex, batch: &[Option<i64>]| {
                keys.insert(&array(batch), usize::MAX).unwrap_err()
            };
            assert_eq!(
                insert(&mut keys, &[Some(4), Some(2), None]),
                KeyInsertError::Repeated { row: 1, earlier: 1 }
            );
            assert_eq!(insert(&mut keys, &[Some(9), None, Some(9)]), KeyInsertError::Null { row: 1 });
            assert_eq!(
                insert(&mut keys, &[Some(7), Some(7)]),
                KeyInsertError::Repeated { row: 1, earlier: 5 }
            );
        }
    }

    #[test]
    fn keys_that_do_not_fit_are_refused_before_they_take_memory() {
        for (mut keys, array) in kinds() {
            let batch: Vec<Option<i64>> = (0..1000).map(|key| Some(key * 3)).collect();
            assert_eq!(keys.insert(&array(&batch), 1000), Err(KeyInsertError::TooLarge));
            assert!(keys.memory() <= 1000, "{}", keys.memory());
        }
        let mut range = VertexKeyIndex::of(&PropertyType::Int32).unwrap();
        let batch: Vec<Option<i64>> = (500..9000).map(Some).collect();
        range.insert(&numbers(&batch), 100).unwrap();
        assert_eq!(range.find(&numbers(&[Some(8999), Some(500)])), Ok(vec![8499, 0]));
    }
}
