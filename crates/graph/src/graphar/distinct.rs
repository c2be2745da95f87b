//! Set that numbers values in the order of their first appearance.

use std::{collections::HashMap, hash::Hash};

/// Distinct values, and the position of each.
pub(super) struct InsertionOrderSet<T> {
    values: Vec<T>,
    positions: HashMap<T, usize>,
}

impl<T> Default for InsertionOrderSet<T> {
    fn default() -> Self {
        Self { values: Vec::new(), positions: HashMap::new() }
    }
}

impl<T: Copy + Eq + Hash> InsertionOrderSet<T> {
    /// Returns the position of a value, appending it if it is new.
    pub(super) fn insert(&mut self, value: T) -> usize {
        // Consecutive lookups often repeat a value.
        if self.values.last() == Some(&value) {
            return self.values.len() - 1;
        }
        let next = self.values.len();
        let position = *self.positions.entry(value).or_insert(next);
        if position == next {
            self.values.push(value);
        }
        position
    }

    pub(super) fn values(&self) -> &[T] {
        &self.values
    }
}
