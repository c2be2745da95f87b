//! What a file says of the values in its parts, whatever the parts are: files, row groups, pages, stripes or strides.

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};

use crate::predicate::{Column, Literal};

/// Statistics of a number of parts of one kind. Every answer has one row per part; a null row, or `None` for all of
/// them, means "not known".
///
/// Bounds may be wider than the values (truncated strings), never narrower. An implementation answers "not known"
/// where bounds cannot be relied on (NaN, deprecated statistics of unsigned or string columns, and the like).
pub(crate) trait PruningStatistics {
    /// How many parts there are.
    fn parts(&self) -> usize;

    /// A lower bound of the values of the column that are not null; its type is the column's Arrow type.
    fn min(&self, column: &Column) -> Option<ArrayRef>;

    /// An upper bound of the values of the column that are not null; its type is the column's Arrow type.
    fn max(&self, column: &Column) -> Option<ArrayRef>;

    /// How many rows are null in the column.
    fn null_counts(&self, column: &Column) -> Option<UInt64Array>;

    /// How many rows there are.
    fn row_counts(&self) -> Option<UInt64Array>;

    /// Whether any row of the column may equal any of the literals: false only if a bloom filter rules all of them
    /// out.
    fn may_contain(&self, column: &Column, literals: &[Literal]) -> Option<BooleanArray> {
        let _ = (column, literals);
        None
    }
}
