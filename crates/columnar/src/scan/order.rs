//! The order of the rows of a planned scan, as the writers of its files declare it.

use std::cmp::Ordering;

use arrow::{
    array::{Array, ArrayRef, make_comparator},
    compute::SortOptions,
};

use super::{
    plan::{PlannedScanFile, Scan},
    statistics::ColumnBounds,
};
use crate::{file::schema::value_type, predicate::TypeClass, table::FileColumn};

/// A column that rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortedColumn {
    /// Position of the column in the schema of the scan.
    pub column: usize,
    /// True if the greatest values come first.
    pub descending: bool,
    /// True if nulls come before all values.
    pub nulls_first: bool,
}

impl Scan {
    /// Returns the columns that the rows are sorted by, the most significant first; empty if no order is known. Any
    /// subset of the row groups, in the order of the scan, has the same order.
    ///
    /// The order within a row group is the one that the writer of a Parquet file declared in its footer; floating-point
    /// columns end it. Several row groups are sorted if their bounds do not overlap.
    pub fn sort_order(&self) -> Vec<SortedColumn> {
        let planned = &self.inner;
        let mut groups = planned.row_groups.iter().map(|row_group| match planned.files.get(row_group.file) {
            Some(file) => self.declared(file, row_group.index),
            None => Vec::new(),
        });
        let Some(mut order) = groups.next() else { return Vec::new() };

        for declared in groups {
            let common = order.iter().zip(&declared).take_while(|(one, other)| one == other).count();
            order.truncate(common);
            if order.is_empty() {
                return order;
            }
        }

        if planned.row_groups.len() > 1
            && let Some(first) = order.first().copied()
        {
            match self
                .column_bounds(first.column)
                .map_or(Succession::Unknown, |bounds| succession(&bounds, first))
            {
                Succession::Apart => {}
                Succession::Touching => order.truncate(1),
                Succession::Unknown => order.clear(),
            }
        }
        order
    }

    /// Returns the order that the footer declares for a row group, up to the first column that is not part of the scan
    /// or does not keep its order.
    fn declared(&self, file: &PlannedScanFile, row_group: usize) -> Vec<SortedColumn> {
        let sorted = file.metadata.sorted_columns(row_group).into_iter();
        let columns = sorted.map_while(|(root, descending, nulls_first)| {
            let column = file.outputs.iter().position(|output| match output {
                FileColumn::Read(read) => read.root == root && read.leaves.is_none(),
                FileColumn::Value(_) | FileColumn::RowNumber => false,
            })?;
            self.keeps_order(column).then_some(SortedColumn { column, descending, nulls_first })
        });
        columns.collect()
    }

    /// Returns whether the values of a column are returned in the order in which they compare in its files.
    fn keeps_order(&self, column: usize) -> bool {
        let planned = &self.inner;
        let Some(output) = planned.outputs.get(column) else { return false };
        let root = output.projected.root;
        let class = TypeClass::of(value_type(planned.table.schema().field(root).data_type()));
        let is_ordered = !matches!(class, TypeClass::Other | TypeClass::Null | TypeClass::Float);
        is_ordered && !planned.table.is_cast(root)
    }
}

/// Relation of the values of each row group of a scan to those of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Succession {
    /// No two row groups share a value.
    Apart,
    /// A row group may begin with the last value of the previous one.
    Touching,
    /// Row groups may overlap.
    Unknown,
}

/// Compares the bounds of each row group with those of the next one.
fn succession(bounds: &ColumnBounds, sorted: SortedColumn) -> Succession {
    let (Some(min), Some(max)) = (&bounds.min, &bounds.max) else { return Succession::Unknown };
    let has_all = |array: &ArrayRef| array.null_count() == 0;
    let has_no_nulls = bounds.null_counts.iter().all(|count| count == Some(0));
    if !has_all(min) || !has_all(max) || !has_no_nulls {
        return Succession::Unknown;
    }

    let (ends, begins) = if sorted.descending { (min, max) } else { (max, min) };
    let steps = ends.len().saturating_sub(1);
    let options = SortOptions { descending: sorted.descending, nulls_first: false };
    let Ok(compare) = make_comparator(ends, begins, options) else { return Succession::Unknown };

    let mut found = Succession::Apart;
    for at in 0..steps {
        match compare(at, at + 1) {
            Ordering::Less => {}
            Ordering::Equal => found = Succession::Touching,
            Ordering::Greater => return Succession::Unknown,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, UInt64Array};

    use super::*;

    fn follow(min: [Option<i32>; 3], max: [Option<i32>; 3], nulls: [u64; 3], descending: bool) -> Succession {
        let bounds = ColumnBounds {
            min: Some(Arc::new(Int32Array::from_iter(min))),
            max: Some(Arc::new(Int32Array::from_iter(max))),
            null_counts: UInt64Array::from_iter_values(nulls),
            is_exact: true,
        };
        succession(&bounds, SortedColumn { column: 0, descending, nulls_first: false })
    }

    #[test]
    fn row_groups_follow_each_other_if_their_bounds_do_not_overlap() {
        let ones = [Some(0), Some(10), Some(20)];
        let nines = [Some(9), Some(19), Some(29)];
        assert_eq!(follow(ones, nines, [0; 3], false), Succession::Apart);
        assert_eq!(follow(ones, [Some(9), Some(20), Some(29)], [0; 3], false), Succession::Touching);
        assert_eq!(follow(ones, [Some(9), Some(21), Some(29)], [0; 3], false), Succession::Unknown);

        assert_eq!(follow(ones, nines, [0; 3], true), Succession::Unknown);
        let falling = |[a, b, c]: [Option<i32>; 3]| [c, b, a];
        assert_eq!(follow(falling(ones), falling(nines), [0; 3], true), Succession::Apart);

        assert_eq!(follow(ones, nines, [0, 1, 0], false), Succession::Unknown);
        assert_eq!(follow(ones, [Some(9), None, Some(29)], [0; 3], false), Succession::Unknown);
    }
}
