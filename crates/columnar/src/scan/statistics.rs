//! Statistics of the columns of a planned scan, from the footers of its files.

use arrow::{
    array::{Array, ArrayRef, UInt64Array, new_null_array},
    compute::{concat, kernels::cmp, nullif},
    datatypes::DataType,
};

use super::{
    batches::repeated,
    plan::{PlannedScanFile, Scan},
};
use crate::{
    Error, Result,
    file::{schema::value_type, statistics::PruningStatistics},
    format::ColumnarFile,
    predicate::{Column, TypeClass},
    table::{FileColumn, statistics::of_file},
};

/// Statistics of a column, with one row for each row group of the scan, in its order; null if unknown.
#[derive(Clone, Debug)]
pub struct ColumnBounds {
    /// Lower bounds of the values, in the type of the values; `None` if none is known.
    pub min: Option<ArrayRef>,
    /// Upper bounds.
    pub max: Option<ArrayRef>,
    /// Numbers of nulls.
    pub null_counts: UInt64Array,
    /// True if the known bounds are values of the column. Otherwise they may be wider, or not cover NaN.
    pub is_exact: bool,
}

impl Scan {
    /// Returns the statistics of a column, by position in the schema, before the filter is applied; `None` if there are
    /// none for its type.
    pub fn column_bounds(&self, column: usize) -> Option<ColumnBounds> {
        let planned = &self.inner;
        let output = planned.outputs.get(column)?;
        let field = planned.table.schema().field(output.projected.root);
        let values = value_type(field.data_type());
        let class = TypeClass::of(values);
        if matches!(class, TypeClass::Other | TypeClass::Null) || output.projected.leaves.is_some() {
            return None;
        }
        planned.table.check_named(output.projected.root).ok()?;

        let name = Column::new(field.name());
        let mut min = Vec::new();
        let mut max = Vec::new();
        let mut null_counts: Vec<Option<u64>> = Vec::with_capacity(planned.row_groups.len());
        let mut is_exact = true;

        for (file, row_groups) in planned.row_groups_by_file() {
            let statistics =
                of_file(&planned.table, &file.located, &file.metadata, file.metadata.statistics(&row_groups));
            let count = row_groups.len();
            let lower = of_type(statistics.min(&name), values, count);
            let upper = of_type(statistics.max(&name), values, count);
            let (lower, upper) = in_order(lower, upper);
            min.push(lower);
            max.push(upper);
            match statistics.null_counts(&name).filter(|counts| counts.len() == count) {
                Some(counts) => null_counts.extend(counts.iter()),
                None => null_counts.extend(std::iter::repeat_n(None, count)),
            }
            is_exact &= has_exact_bounds(class, file, column);
        }

        Some(ColumnBounds {
            min: joined(&min),
            max: joined(&max),
            null_counts: null_counts.into_iter().collect(),
            is_exact,
        })
    }

    /// Returns the value of a column, by position in the schema, in each row group of the scan, in its order; `None`
    /// unless the paths of all files determine it, as they do for the columns of partition folders.
    ///
    /// # Errors
    ///
    /// If a value does not have the column's type.
    pub fn path_values(&self, column: usize) -> Result<Option<ArrayRef>> {
        let planned = &self.inner;
        let Some(output) = planned.outputs.get(column) else { return Ok(None) };

        let mut values = Vec::with_capacity(planned.row_groups.len());
        for row_group in &planned.row_groups {
            let of_file = planned.files.get(row_group.file).and_then(|file| file.outputs.get(column));
            let Some(FileColumn::Value(value)) = of_file else { return Ok(None) };
            values.push(repeated(value, 1, output.field.data_type())?);
        }

        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        if values.is_empty() {
            return Ok(None);
        }
        concat(&values).map(Some).map_err(Error::arrow("values of paths"))
    }
}

/// Returns bounds of a type; nulls if there are none.
fn of_type(bounds: Option<ArrayRef>, values: &DataType, count: usize) -> ArrayRef {
    let fits = |bounds: &ArrayRef| bounds.data_type() == values && bounds.len() == count;
    bounds.filter(fits).unwrap_or_else(|| new_null_array(values, count))
}

/// Nulls both bounds of each row group whose minimum exceeds its maximum: they were not computed in our order.
fn in_order(min: ArrayRef, max: ArrayRef) -> (ArrayRef, ArrayRef) {
    // Types without an order are kept.
    let Ok(wrong) = cmp::gt(&min, &max) else { return (min, max) };
    match (nullif(&min, &wrong), nullif(&max, &wrong)) {
        (Ok(min), Ok(max)) => (min, max),
        _ => (min, max),
    }
}

fn joined(arrays: &[ArrayRef]) -> Option<ArrayRef> {
    if arrays.iter().all(|array| array.null_count() == array.len()) {
        return None;
    }
    let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    concat(&arrays).ok()
}

/// Returns whether the bounds of a column in a file are exact: writers truncate strings and leave out NaN, and in ORC
/// they round timestamps.
fn has_exact_bounds(class: TypeClass, file: &PlannedScanFile, column: usize) -> bool {
    let is_parquet = matches!(file.metadata.file, ColumnarFile::Parquet(_));
    match file.outputs.get(column) {
        Some(FileColumn::Read(_)) => match class {
            TypeClass::Integer | TypeClass::Date { .. } => true,
            TypeClass::Decimal { .. } | TypeClass::Timestamp { .. } | TypeClass::Time { .. } => is_parquet,
            _ => false,
        },
        Some(FileColumn::Value(_)) => class != TypeClass::Float,
        Some(FileColumn::RowNumber) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn a_minimum_above_the_maximum_is_unknown_with_it() {
        let of = |values: [Option<i64>; 3]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
        let (min, max) = in_order(of([Some(1), Some(5), None]), of([Some(1), Some(4), Some(2)]));
        assert_eq!(&min, &of([Some(1), None, None]));
        assert_eq!(&max, &of([Some(1), None, Some(2)]));
    }
}
