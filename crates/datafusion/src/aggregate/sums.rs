//! Sums of integers by group.

use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::NullBuffer,
    datatypes::{DataType, Decimal128Type, Int64Type},
};

use super::integers::IntegerValues;

/// Number of groups up to which a batch is summed in 64 bits before it is added to the totals.
const FEW_GROUPS: usize = 1024;
/// Number of sums that are kept per group: additions to one of them wait for each other.
const LANES: usize = 4;

/// The sum and the number of nulls of a column for each group.
#[derive(Debug, Default)]
pub(super) struct GroupSums {
    pub(super) sums: Vec<i128>,
    pub(super) nulls: Vec<u64>,
    /// Sums of the current batch: [`LANES`] per group.
    lanes: Vec<i64>,
}

impl GroupSums {
    /// Makes room for this number of groups.
    pub(super) fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        self.nulls.resize(groups, 0);
    }

    /// Returns the bytes held.
    pub(super) fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>()
            + self.nulls.capacity() * size_of::<u64>()
            + self.lanes.capacity() * size_of::<i64>()
    }

    /// Adds the values of a batch to the groups of its rows.
    pub(super) fn add(&mut self, groups: &[u32], values: IntegerValues<'_>) {
        if let Some(nulls) = values.nulls.filter(|nulls| nulls.null_count() > 0) {
            let values = values.rows.iter().map(|value| i128::from(*value));
            self.add_valid(groups, values, nulls);
            return;
        }

        let bits = values.bits + usize::BITS - groups.len().leading_zeros();
        if self.sums.len() <= FEW_GROUPS && bits < i64::BITS {
            self.add_in_lanes(groups, values.rows);
        } else {
            self.add_all(groups, values.rows.iter().map(|value| i128::from(*value)));
        }
    }

    /// Adds the decimals or integers of an array to the groups of its rows; other types are ignored.
    pub(super) fn add_array(&mut self, groups: &[u32], array: &ArrayRef) {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        match (array.data_type(), nulls) {
            (DataType::Decimal128(..), None) => {
                self.add_all(groups, array.as_primitive::<Decimal128Type>().values().iter().copied());
            }
            (DataType::Decimal128(..), Some(nulls)) => {
                let values = array.as_primitive::<Decimal128Type>().values().iter().copied();
                self.add_valid(groups, values, nulls);
            }
            (DataType::Int64, None) => {
                let values = array.as_primitive::<Int64Type>().values().iter();
                self.add_all(groups, values.map(|value| i128::from(*value)));
            }
            (DataType::Int64, Some(nulls)) => {
                let values = array.as_primitive::<Int64Type>().values().iter();
                self.add_valid(groups, values.map(|value| i128::from(*value)), nulls);
            }
            _ => {}
        }
    }

    fn add_in_lanes(&mut self, groups: &[u32], values: &[i64]) {
        self.lanes.clear();
        self.lanes.resize(self.sums.len() * LANES, 0);
        let lanes = self.lanes.as_mut_slice();
        let mut add = |group: u32, lane: usize, value: i64| {
            if let Some(sum) = lanes.get_mut(group as usize * LANES + lane) {
                *sum += value;
            }
        };

        let (groups_of_four, groups_left) = groups.as_chunks::<LANES>();
        let (values_of_four, values_left) = values.as_chunks::<LANES>();
        for (groups, values) in groups_of_four.iter().zip(values_of_four) {
            for (lane, (group, value)) in groups.iter().zip(values).enumerate() {
                add(*group, lane, *value);
            }
        }
        for (group, value) in groups_left.iter().zip(values_left) {
            add(*group, 0, *value);
        }

        let (lanes, _) = self.lanes.as_chunks::<LANES>();
        for (sum, lanes) in self.sums.iter_mut().zip(lanes) {
            *sum = sum.wrapping_add(lanes.iter().map(|lane| i128::from(*lane)).sum());
        }
    }

    fn add_all(&mut self, groups: &[u32], values: impl Iterator<Item = i128>) {
        for (group, value) in groups.iter().zip(values) {
            if let Some(sum) = self.sums.get_mut(*group as usize) {
                *sum = sum.wrapping_add(value);
            }
        }
    }

    fn add_valid(&mut self, groups: &[u32], values: impl Iterator<Item = i128>, nulls: &NullBuffer) {
        for ((group, value), is_valid) in groups.iter().zip(values).zip(nulls) {
            let group = *group as usize;
            if !is_valid {
                if let Some(count) = self.nulls.get_mut(group) {
                    *count += 1;
                }
            } else if let Some(sum) = self.sums.get_mut(group) {
                *sum = sum.wrapping_add(value);
            }
        }
    }
}
