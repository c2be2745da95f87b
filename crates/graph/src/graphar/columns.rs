//! Column names reserved by GraphAr, and the types that properties are read as.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef},
    datatypes::{DataType, Field, FieldRef, TimeUnit},
    error::ArrowError,
};

use super::info::Property;
use crate::Error;

/// Vertex index.
pub(crate) const INDEX: &str = "_graphArVertexIndex";
/// Index of an edge's source.
pub(crate) const SOURCE: &str = "_graphArSrcIndex";
/// Index of an edge's destination.
pub(crate) const DESTINATION: &str = "_graphArDstIndex";
/// Start of a vertex's edges.
pub(crate) const OFFSET: &str = "_graphArOffset";

/// Returns the field that a property is read as. Timestamps are declared in milliseconds, but read in microseconds, as
/// official files store them.
pub(super) fn readable(property: &Property) -> FieldRef {
    Arc::new(Field::new(&property.name, with_microseconds(property.arrow()), true))
}

/// Converts timestamp types to microseconds, including those in lists.
pub(crate) fn with_microseconds(data_type: DataType) -> DataType {
    match data_type {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone),
        DataType::List(item) => {
            let finer = with_microseconds(item.data_type().clone());
            DataType::List(Arc::new(item.as_ref().clone().with_data_type(finer)))
        }
        other => other,
    }
}

/// Wraps an Arrow error raised while gathering rows of chunks.
pub(crate) fn gathering(source: ArrowError) -> Error {
    let context = "rows of chunks".to_owned();
    stylobate_columnar::Error::Arrow { context, source: Arc::new(source) }.into()
}

/// Returns true if an array has no nulls.
#[inline]
pub(crate) fn has_no_nulls(array: &ArrayRef) -> bool {
    array.null_count() == 0
}
