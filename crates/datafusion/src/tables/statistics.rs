//! Statistics of scans for the optimizer, taken from footers: exact where the footers are.

use std::{cmp::Ordering, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef},
        datatypes::SchemaRef,
    },
    common::{ColumnStatistics, Result, ScalarValue, Statistics, stats::Precision},
    physical_expr::{PhysicalExpr, utils::conjunction},
    physical_plan::{ExecutionPlan, StatisticsArgs, empty::EmptyExec, filter::FilterExec},
};
use stylobate_columnar::{ColumnBounds, Scan};

/// Estimated size of a variable-length value, in bytes.
const VALUE_BYTES: usize = 32;

/// Returns the statistics of all rows in a scan's row groups, including those of the columns given by index.
pub(crate) fn scan_statistics(
    scan: &Scan,
    schema: &SchemaRef,
    columns: impl Fn(usize) -> Option<ColumnStatistics>,
) -> Statistics {
    let rows = usize::try_from(scan.estimated_rows()).unwrap_or(usize::MAX);
    let column_statistics = (0..schema.fields().len()).map(|column| columns(column).unwrap_or_default());
    Statistics {
        num_rows: Precision::Exact(rows),
        total_byte_size: estimated_bytes(Precision::Exact(rows), schema),
        column_statistics: column_statistics.collect(),
    }
}

/// Estimates the size of rows in memory, in bytes.
fn estimated_bytes(rows: Precision<usize>, schema: &SchemaRef) -> Precision<usize> {
    let widths =
        schema.fields().iter().map(|field| field.data_type().primitive_width().unwrap_or(VALUE_BYTES));
    let row_bytes: usize = widths.sum();
    rows.map(|rows| rows.saturating_mul(row_bytes)).to_inexact()
}

/// Restricts statistics to some columns, whose schema is given.
pub(crate) fn projected_statistics(
    statistics: Statistics,
    columns: &[usize],
    schema: &SchemaRef,
) -> Statistics {
    let total_byte_size = estimated_bytes(statistics.num_rows, schema);
    Statistics { total_byte_size, ..statistics.project(Some(&columns)) }
}

/// Returns the statistics of a column over all row groups of a scan, before its filter is applied.
pub(crate) fn column_statistics(scan: &Scan, schema: &SchemaRef, column: usize) -> ColumnStatistics {
    let Some(bounds) = scan.column_bounds(column) else { return ColumnStatistics::default() };
    let rows = scan.row_group_rows();
    let data_type = schema.field(column).data_type();

    let nulls = bounds.null_counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(count?));
    let bound = |of: Option<&ArrayRef>, side: Ordering| {
        let array = of.filter(|array| is_complete(array, &bounds, &rows));
        let value = array.and_then(|array| extreme(array, side)?.cast_to(data_type).ok());
        match value.filter(|value| !value.is_null()) {
            Some(value) if bounds.is_exact => Precision::Exact(value),
            Some(value) => Precision::Inexact(value),
            None => Precision::Absent,
        }
    };

    ColumnStatistics {
        null_count: nulls.map_or(Precision::Absent, |nulls| {
            Precision::Exact(usize::try_from(nulls).unwrap_or(usize::MAX))
        }),
        min_value: bound(bounds.min.as_ref(), Ordering::Less),
        max_value: bound(bounds.max.as_ref(), Ordering::Greater),
        ..ColumnStatistics::default()
    }
}

/// Returns the minimum or the maximum.
fn extreme(array: &ArrayRef, side: Ordering) -> Option<ScalarValue> {
    let mut found: Option<ScalarValue> = None;
    for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
        let value = ScalarValue::try_from_array(array, row).ok()?;
        if found.as_ref().is_none_or(|found| value.partial_cmp(found) == Some(side)) {
            found = Some(value);
        }
    }
    found
}

/// Returns whether each row group has a bound, or no values at all.
fn is_complete(array: &ArrayRef, bounds: &ColumnBounds, rows: &[u64]) -> bool {
    rows.iter().enumerate().all(|(at, rows)| {
        let has_no_values = || bounds.null_counts.is_valid(at) && bounds.null_counts.value(at) == *rows;
        at < array.len() && (array.is_valid(at) || has_no_values())
    })
}

/// Estimates the statistics of the rows that pass `filters`, in the same way as DataFusion's own filter.
pub(crate) fn filtered_statistics(
    statistics: Statistics,
    schema: &SchemaRef,
    filters: Vec<Arc<dyn PhysicalExpr>>,
) -> Result<Statistics> {
    let filter = FilterExec::try_new(conjunction(filters), Arc::new(EmptyExec::new(schema.clone())))?;
    let estimated = filter.statistics_from_inputs(&[Arc::new(statistics)], &StatisticsArgs::new())?;
    Ok(Arc::unwrap_or_clone(estimated))
}
