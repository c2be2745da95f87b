//! A filter for rows in memory.

use arrow::{array::ArrayRef, buffer::BooleanBuffer, datatypes::Schema};

use super::BoundPredicate;
use crate::{Predicate, Result};

/// A [`Predicate`] bound to the columns of a schema. Cheap to clone.
///
/// ```
/// use std::sync::Arc;
/// use arrow::{array::{ArrayRef, Int64Array}, datatypes::{DataType, Field, Schema}};
/// use stylobate_columnar::{RowFilter, col};
///
/// let schema = Schema::new(vec![Field::new("name", DataType::Utf8, true), Field::new("age", DataType::Int64, true)]);
/// let filter = RowFilter::new(&col("age").gt_eq(18), &schema)?;
/// assert_eq!(filter.columns(), [1], "it looks at the second column alone");
///
/// let ages: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), Some(30), None]));
/// assert_eq!(filter.passing(&[ages], 3)?.iter().collect::<Vec<_>>(), [false, true, false]);
/// # Ok::<_, stylobate_columnar::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RowFilter {
    bound: BoundPredicate,
}

impl RowFilter {
    /// Resolves the predicate's columns in a schema, and types its literals.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchColumn`](crate::Error::NoSuchColumn), and [`Error::Predicate`](crate::Error::Predicate) if a
    /// column is not comparable with the other side.
    pub fn new(predicate: &Predicate, schema: &Schema) -> Result<Self> {
        Ok(Self { bound: predicate.bind(schema)? })
    }

    /// Returns the indices of the schema's fields that it reads.
    pub fn columns(&self) -> Vec<usize> {
        self.bound.roots().iter().map(|root| root.index).collect()
    }

    /// Returns the rows for which the predicate is true. `columns` are those of [`RowFilter::columns`], of `rows` rows.
    ///
    /// # Errors
    ///
    /// [`Error::Predicate`](crate::Error::Predicate) if an array does not have the type of its field.
    pub fn passing(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanBuffer> {
        self.bound.evaluator().evaluate(columns, rows)
    }
}
