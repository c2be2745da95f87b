//! Positions of the columns of a schema by name.

use std::{
    hash::{BuildHasher, RandomState},
    sync::OnceLock,
};

use arrow::datatypes::Fields;
use hashbrown::HashTable;

/// Positions of the columns of one schema by name, hashed by the first lookup.
#[derive(Debug, Default)]
pub(crate) struct ColumnPositions {
    /// The position of the first column of each name.
    first: OnceLock<HashTable<u32>>,
    hasher: RandomState,
}

impl ColumnPositions {
    /// Bytes in memory per column: at most 16 slots of 5 bytes for each 7 columns.
    const BYTES_PER_COLUMN: usize = 12;

    /// Returns the position of the first column of this name. Each call must pass the same fields.
    pub(crate) fn first(&self, fields: &Fields, name: &str) -> Option<usize> {
        let positions = self.first.get_or_init(|| self.hashed(fields));
        let is_same = |at: &u32| is_named(fields, *at, name);
        positions.find(self.hasher.hash_one(name), is_same).map(|at| *at as usize)
    }

    /// Returns the position of a column of this name: `near` if it is one, else the first. The files of a table mostly
    /// have their columns in the same order, in which case no hash table is built.
    pub(crate) fn near(&self, fields: &Fields, name: &str, near: usize) -> Option<usize> {
        match fields.get(near) {
            Some(field) if field.name() == name => Some(near),
            _ => self.first(fields, name),
        }
    }

    /// Returns the maximum bytes in memory for this number of columns.
    pub(crate) fn weight(columns: usize) -> usize {
        columns * Self::BYTES_PER_COLUMN
    }

    fn hashed(&self, fields: &Fields) -> HashTable<u32> {
        let hash = |at: &u32| {
            let name = fields.get(*at as usize).map_or("", |field| field.name().as_str());
            self.hasher.hash_one(name)
        };

        let mut positions: HashTable<u32> = HashTable::with_capacity(fields.len());
        for (at, field) in (0_u32..).zip(fields) {
            let name = field.name().as_str();
            positions
                .entry(self.hasher.hash_one(name), |known| is_named(fields, *known, name), hash)
                .or_insert(at);
        }
        positions
    }
}

fn is_named(fields: &Fields, at: u32, name: &str) -> bool {
    fields.get(at as usize).is_some_and(|field| field.name() == name)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn fields<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Fields {
        names.into_iter().map(|name| Field::new(name, DataType::Int32, true)).collect()
    }

    #[test]
    fn of_several_columns_of_one_name_the_near_one_is_found_or_else_the_first() {
        let fields = fields(["a", "b", "a", "c"]);
        let positions = ColumnPositions::default();
        assert_eq!(positions.first(&fields, "a"), Some(0));
        assert_eq!(positions.near(&fields, "a", 2), Some(2));
        assert_eq!(positions.near(&fields, "a", 1), Some(0));
        assert_eq!(positions.near(&fields, "c", 9), Some(3));
        assert_eq!(positions.near(&fields, "x", 0), None);
    }

    /// No column has the position that it has in the other file: linear searches would compare a billion names.
    #[test]
    fn columns_that_are_shifted_by_one_are_found_in_time_that_grows_with_their_number() {
        let count = 50_000;
        let names: Vec<String> =
            (0..count).map(|at| format!("a_column_with_a_rather_long_name_{at}")).collect();
        let fields = fields(names.iter().skip(1).chain(names.first()).map(String::as_str));
        let positions = ColumnPositions::default();

        for (at, name) in names.iter().enumerate() {
            let expected = if at == 0 { count - 1 } else { at - 1 };
            assert_eq!(positions.near(&fields, name, at), Some(expected));
        }
    }
}
