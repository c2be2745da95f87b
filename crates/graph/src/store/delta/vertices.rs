//! Vertices that commits added, and new values of properties of vertices.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, StringArray},
    datatypes::{DataType, Field, FieldRef, Int32Type, Int64Type},
};
use stylobate_storage::Corrupt;

use super::rows::DeltaRows;
use crate::store::budgeted::MemoryFootprint;

/// Column of a patch with the indexes of its vertices.
pub(crate) const INDEX: &str = "_store_index";

/// Vertices with consecutive indexes, written by one commit or one compaction.
pub(crate) struct VertexDelta {
    first: u64,
    rows: DeltaRows,
    keys: VertexDeltaKeys,
}

/// Rows in key order.
enum VertexDeltaKeys {
    Ints { sorted: Vec<i64>, rows: Vec<u32> },
    Texts { texts: StringArray, rows: Vec<u32> },
}

/// Key of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum VertexKeyRef<'a> {
    Int(i64),
    Text(&'a str),
}

impl std::fmt::Display for VertexKeyRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// Reader of a key column, which has been cast to the type of the key.
pub(crate) enum KeyColumnReader<'a> {
    Ints(&'a [i64]),
    Narrow(&'a [i32]),
    Texts(&'a StringArray),
}

impl<'a> KeyColumnReader<'a> {
    /// Returns a reader; `None` if the column does not have a key type.
    pub(crate) fn new(array: &'a ArrayRef) -> Option<Self> {
        match array.data_type() {
            DataType::Int64 => Some(Self::Ints(array.as_primitive::<Int64Type>().values())),
            DataType::Int32 => Some(Self::Narrow(array.as_primitive::<Int32Type>().values())),
            DataType::Utf8 => Some(Self::Texts(array.as_string::<i32>())),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn at(&self, row: usize) -> VertexKeyRef<'a> {
        match self {
            Self::Ints(values) => VertexKeyRef::Int(values.get(row).copied().unwrap_or_default()),
            Self::Narrow(values) => VertexKeyRef::Int(values.get(row).copied().unwrap_or_default().into()),
            Self::Texts(texts) => VertexKeyRef::Text(texts.value(row)),
        }
    }
}

impl VertexDelta {
    /// Builds a delta of the vertices starting at `first`.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] with the reason if the rows are invalid.
    pub(crate) fn new(first: u64, rows: DeltaRows, keys: &ArrayRef) -> Result<Self, Corrupt> {
        if keys.null_count() > 0 || keys.len() != rows.len() || u32::try_from(keys.len()).is_err() {
            return Err("a vertex has no key".into());
        }
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        let keys = match KeyColumnReader::new(keys).ok_or_else(|| format!("keys are {}", keys.data_type()))? {
            KeyColumnReader::Texts(texts) => {
                order.sort_by_key(|row| texts.value(*row as usize));
                VertexDeltaKeys::Texts { texts: texts.clone(), rows: order }
            }
            ints => {
                let value = |row: &u32| match ints.at(*row as usize) {
                    VertexKeyRef::Int(value) => value,
                    VertexKeyRef::Text(_) => 0,
                };
                order.sort_by_key(value);
                VertexDeltaKeys::Ints { sorted: order.iter().map(value).collect(), rows: order }
            }
        };

        Ok(Self { first, rows, keys })
    }

    /// Returns the indexes of its vertices.
    pub(crate) fn range(&self) -> Range<u64> {
        self.first..self.first + self.rows.len() as u64
    }

    pub(crate) fn rows(&self) -> &DeltaRows {
        &self.rows
    }

    /// Returns the index of the last vertex that has the key and for which `is_there` holds.
    pub(crate) fn find(&self, key: VertexKeyRef<'_>, is_there: impl Fn(u64) -> bool) -> Option<i64> {
        let (start, rows) = match (&self.keys, key) {
            (VertexDeltaKeys::Ints { sorted, rows }, VertexKeyRef::Int(key)) => {
                (sorted.partition_point(|other| *other < key), rows)
            }
            (VertexDeltaKeys::Texts { texts, rows }, VertexKeyRef::Text(key)) => {
                (rows.partition_point(|row| texts.value(*row as usize) < key), rows)
            }
            _ => return None,
        };

        let same = |position: usize, row: u32| match (&self.keys, key) {
            (VertexDeltaKeys::Ints { sorted, .. }, VertexKeyRef::Int(key)) => {
                sorted.get(position) == Some(&key)
            }
            (VertexDeltaKeys::Texts { texts, .. }, VertexKeyRef::Text(key)) => {
                texts.value(row as usize) == key
            }
            _ => false,
        };
        let rest = rows.iter().enumerate().skip(start).take_while(|(position, row)| same(*position, **row));
        let indexes = rest.map(|(_, row)| self.first + u64::from(*row));

        indexes.filter(|index| is_there(*index)).last().map(|index| index as i64)
    }
}

impl MemoryFootprint for VertexDelta {
    fn bytes(&self) -> u64 {
        let keys = match &self.keys {
            VertexDeltaKeys::Ints { sorted, rows } => 8 * sorted.len() + 4 * rows.len(),
            VertexDeltaKeys::Texts { texts, rows } => texts.value_data().len() + (4 + 4) * rows.len(),
        };
        self.rows.bytes() + keys as u64
    }
}

/// New values of some properties, by index.
pub(crate) struct VertexPatch {
    rows: DeltaRows,
    /// Ascending, without duplicates.
    indexes: Int64Array,
}

/// Returns the columns of a patch of these properties.
pub(crate) fn patch_fields(properties: &[FieldRef]) -> Arc<[FieldRef]> {
    let index: FieldRef = Arc::new(Field::new(INDEX, DataType::Int64, false));
    std::iter::once(index).chain(properties.iter().cloned()).collect()
}

impl VertexPatch {
    /// Builds a patch of the vertices with these indexes.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] with the reason if the rows are invalid.
    pub(crate) fn new(rows: DeltaRows, indexes: &ArrayRef) -> Result<Self, Corrupt> {
        match indexes.as_primitive_opt::<Int64Type>() {
            Some(indexes)
                if indexes.null_count() == 0
                    && indexes.values().windows(2).all(|pair| pair.first() < pair.last()) =>
            {
                Ok(Self { rows, indexes: indexes.clone() })
            }
            _ => Err("its indexes do not ascend".into()),
        }
    }

    pub(crate) fn rows(&self) -> &DeltaRows {
        &self.rows
    }

    pub(crate) fn indexes(&self) -> &Int64Array {
        &self.indexes
    }

    /// Returns the row of a vertex.
    #[inline]
    pub(crate) fn row(&self, index: i64) -> Option<usize> {
        let indexes = self.indexes.values();
        if indexes.first().is_none_or(|first| index < *first)
            || indexes.last().is_none_or(|last| index > *last)
        {
            return None;
        }
        indexes.binary_search(&index).ok()
    }
}

impl MemoryFootprint for VertexPatch {
    fn bytes(&self) -> u64 {
        self.rows.bytes() + 8 * self.indexes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::RecordBatch;

    use super::*;

    fn delta(keys: ArrayRef) -> VertexDelta {
        let batch = RecordBatch::try_from_iter([("id", keys.clone())]).unwrap();
        VertexDelta::new(100, DeltaRows::Decoded(batch), &keys).unwrap()
    }

    #[test]
    fn the_last_vertex_of_a_key_that_is_there_is_found() {
        let ints = delta(Arc::new(Int64Array::from(vec![7, 3, 7, -1])));
        assert_eq!(ints.find(VertexKeyRef::Int(7), |_| true), Some(102));
        assert_eq!(ints.find(VertexKeyRef::Int(7), |index| index != 102), Some(100));
        assert_eq!(ints.find(VertexKeyRef::Int(7), |_| false), None);
        assert_eq!(ints.find(VertexKeyRef::Int(8), |_| true), None);
        assert_eq!(ints.find(VertexKeyRef::Text("7"), |_| true), None);
        let texts = delta(Arc::new(StringArray::from(vec!["b", "", "a", "b"])));
        assert_eq!(texts.find(VertexKeyRef::Text("b"), |_| true), Some(103));
        assert_eq!(texts.find(VertexKeyRef::Text(""), |_| true), Some(101));
        assert_eq!(texts.find(VertexKeyRef::Text("zz"), |_| true), None);
        assert_eq!(texts.range(), 100..104);
    }

    #[test]
    fn a_patch_knows_its_vertices() {
        let indexes: ArrayRef = Arc::new(Int64Array::from(vec![2, 5, 9]));
        let batch = RecordBatch::try_from_iter([(INDEX, indexes.clone())]).unwrap();
        let patch = VertexPatch::new(DeltaRows::Decoded(batch.clone()), &indexes).unwrap();
        assert_eq!(
            [1, 2, 5, 6, 9, 10].map(|index| patch.row(index)),
            [None, Some(0), Some(1), None, Some(2), None]
        );
        let twice: ArrayRef = Arc::new(Int64Array::from(vec![2, 2, 9]));
        assert!(VertexPatch::new(DeltaRows::Decoded(batch), &twice).is_err());
    }
}
