//! Sums of integers, and numbers of rows, by group.

use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::NullBuffer,
    datatypes::{DataType, Decimal128Type, Int64Type},
};

use super::integers::IntegerValues;

/// Number of groups up to which a batch is summed in 64 bits before it is added to the totals.
const MAX_LANE_GROUPS: usize = 1024;
/// Partial sums per group: independent accumulators hide the latency of dependent additions.
const LANES: usize = 4;
/// Number of columns that are summed in one pass over the groups.
const COLUMNS_PER_PASS: usize = 4;
/// Partial sums per group of columns that are summed in one pass.
const LANES_PER_PASS: usize = 2;

/// The number of rows of each group.
#[derive(Debug, Default)]
pub(super) struct GroupCounts {
    pub(super) rows: Vec<i64>,
    /// Counts of the current batch: [`LANES`] per group.
    lanes: Vec<i64>,
}

impl GroupCounts {
    /// Makes room for this number of groups.
    pub(super) fn resize(&mut self, groups: usize) {
        self.rows.resize(groups, 0);
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn size(&self) -> usize {
        (self.rows.capacity() + self.lanes.capacity()) * size_of::<i64>()
    }

    /// Counts the rows of a batch by their groups.
    pub(super) fn add(&mut self, groups: &[u32]) {
        if self.rows.len() > MAX_LANE_GROUPS {
            for group in groups {
                if let Some(rows) = self.rows.get_mut(*group as usize) {
                    *rows += 1;
                }
            }
            return;
        }

        self.lanes.clear();
        self.lanes.resize(self.rows.len() * LANES, 0);

        let lanes = self.lanes.as_mut_slice();
        let (groups_of_four, groups_left) = groups.as_chunks::<LANES>();
        for groups in groups_of_four {
            for (lane, group) in groups.iter().enumerate() {
                add_to_lane(lanes, *group, lane, 1);
            }
        }
        for group in groups_left {
            add_to_lane(lanes, *group, 0, 1);
        }

        let (lanes, _) = self.lanes.as_chunks::<LANES>();
        for (rows, lanes) in self.rows.iter_mut().zip(lanes) {
            *rows += lanes.iter().sum::<i64>();
        }
    }
}

/// Adds a value to one of the [`LANES`] partial sums of a group.
#[inline]
fn add_to_lane(lanes: &mut [i64], group: u32, lane: usize, value: i64) {
    if let Some(sum) = lanes.get_mut(group as usize * LANES + lane) {
        *sum += value;
    }
}

/// Adds the values of columns of a batch to the groups of its rows.
pub(super) fn add_columns(groups: &[u32], columns: Vec<(&mut GroupSums, IntegerValues<'_>)>) {
    let mut fitting = Vec::with_capacity(columns.len());
    for (sums, mut values) in columns {
        values.nulls = values.nulls.filter(|nulls| nulls.null_count() > 0);
        if sums.fits_lanes(groups.len(), &values) {
            fitting.push((sums, values.rows));
        } else {
            sums.add(groups, values);
        }
    }

    let (together, rest) = fitting.as_chunks_mut::<COLUMNS_PER_PASS>();
    together.iter_mut().for_each(|columns| add_together(groups, columns));
    rest.iter_mut().for_each(|(sums, values)| sums.add_in_lanes(groups, values));
}

/// Adds columns in one pass over the groups: the sums of a group lie side by side.
fn add_together(groups: &[u32], columns: &mut [(&mut GroupSums, &[i64]); COLUMNS_PER_PASS]) {
    let [(first, a), (_, b), (_, c), (_, d)] = columns;

    let mut lanes = std::mem::take(&mut first.lanes);
    lanes.clear();
    lanes.resize(first.sums.len() * LANES_PER_PASS * COLUMNS_PER_PASS, 0);

    let (sums, _) = lanes.as_chunks_mut::<COLUMNS_PER_PASS>();
    let values = a.iter().zip(b.iter()).zip(c.iter()).zip(d.iter());
    for (row, (group, (((a, b), c), d))) in groups.iter().zip(values).enumerate() {
        if let Some(sums) = sums.get_mut(*group as usize * LANES_PER_PASS + row % LANES_PER_PASS) {
            sums[0] += a;
            sums[1] += b;
            sums[2] += c;
            sums[3] += d;
        }
    }

    for (column, (totals, _)) in columns.iter_mut().enumerate() {
        for (total, lanes) in totals.sums.iter_mut().zip(lanes.chunks(LANES_PER_PASS * COLUMNS_PER_PASS)) {
            let lanes = lanes.iter().skip(column).step_by(COLUMNS_PER_PASS);
            *total = total.wrapping_add(lanes.map(|lane| i128::from(*lane)).sum());
        }
    }

    if let Some((first, _)) = columns.first_mut() {
        first.lanes = lanes;
    }
}

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

    /// Returns the memory in use, in bytes.
    pub(super) fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>()
            + self.nulls.capacity() * size_of::<u64>()
            + self.lanes.capacity() * size_of::<i64>()
    }

    /// Returns whether the sums of a batch's values fit 64 bits, in lanes.
    fn fits_lanes(&self, rows: usize, values: &IntegerValues<'_>) -> bool {
        let bits = values.bits + usize::BITS - rows.leading_zeros();
        values.nulls.is_none() && self.sums.len() <= MAX_LANE_GROUPS && bits < i64::BITS
    }

    /// Adds the values of a batch, one by one in 128 bits.
    fn add(&mut self, groups: &[u32], values: IntegerValues<'_>) {
        let rows = values.rows.iter().map(|value| i128::from(*value));
        match values.nulls {
            Some(nulls) => self.add_valid(groups, rows, nulls),
            None => self.add_all(groups, rows),
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

    /// Adds values without nulls, summed in 64-bit lanes first: they must [fit](Self::fits_lanes).
    fn add_in_lanes(&mut self, groups: &[u32], values: &[i64]) {
        self.lanes.clear();
        self.lanes.resize(self.sums.len() * LANES, 0);

        let lanes = self.lanes.as_mut_slice();
        let (groups_of_four, groups_left) = groups.as_chunks::<LANES>();
        let (values_of_four, values_left) = values.as_chunks::<LANES>();
        for (groups, values) in groups_of_four.iter().zip(values_of_four) {
            for (lane, (group, value)) in groups.iter().zip(values).enumerate() {
                add_to_lane(lanes, *group, lane, *value);
            }
        }
        for (group, value) in groups_left.iter().zip(values_left) {
            add_to_lane(lanes, *group, 0, *value);
        }

        let (lanes, _) = self.lanes.as_chunks::<LANES>();
        for (sum, lanes) in self.sums.iter_mut().zip(lanes) {
            *sum = sum.wrapping_add(lanes.iter().map(|lane| i128::from(*lane)).sum());
        }
    }

    /// Adds values without nulls.
    fn add_all(&mut self, groups: &[u32], values: impl Iterator<Item = i128>) {
        for (group, value) in groups.iter().zip(values) {
            if let Some(sum) = self.sums.get_mut(*group as usize) {
                *sum = sum.wrapping_add(value);
            }
        }
    }

    /// Adds the values that are not null, and counts the nulls.
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
