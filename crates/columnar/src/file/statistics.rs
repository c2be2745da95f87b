//! Statistics of the parts of a file: row groups, pages, stripes or strides.

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};

use crate::predicate::{Column, Literal};

/// Statistics of parts of one kind. Every result has one row per part; a null row, or `None` for all parts, means "not
/// known".
///
/// Bounds may be wider than the values (truncated strings), never narrower. Implementations return "not known" if
/// bounds are unreliable, such as NaN, or deprecated statistics of unsigned or string columns.
pub(crate) trait PruningStatistics {
    /// Returns the number of parts.
    fn parts(&self) -> usize;

    /// Returns a lower bound of the non-null values of the column, in the column's Arrow type.
    fn min(&self, column: &Column) -> Option<ArrayRef>;

    /// Returns an upper bound of the non-null values of the column, in the column's Arrow type.
    fn max(&self, column: &Column) -> Option<ArrayRef>;

    /// Returns the number of nulls in the column.
    fn null_counts(&self, column: &Column) -> Option<UInt64Array>;

    /// Returns the number of rows.
    fn row_counts(&self) -> Option<UInt64Array>;

    /// Returns whether any row of the column may equal any of the literals: false only if a bloom filter rules out all
    /// of them.
    fn may_contain(&self, column: &Column, literals: &[Literal]) -> Option<BooleanArray> {
        let _ = (column, literals);
        None
    }
}
