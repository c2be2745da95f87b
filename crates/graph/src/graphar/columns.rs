//! Columns that GraphAr gives names to, and how properties are read.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef},
    datatypes::{DataType, Field, FieldRef, TimeUnit},
    error::ArrowError,
};

use super::info::Property;
use crate::Error;

/// The index of a vertex.
pub(crate) const INDEX: &str = "_graphArVertexIndex";
/// The index of the vertex that an edge leaves.
pub(crate) const SOURCE: &str = "_graphArSrcIndex";
/// The index of the vertex that an edge enters.
pub(crate) const DESTINATION: &str = "_graphArDstIndex";
/// Where the edges of a vertex begin.
pub(crate) const OFFSET: &str = "_graphArOffset";

/// The column that a property is read as. Points in time are in microseconds: they are declared in milliseconds, and
/// official files have them in microseconds all the same.
pub(super) fn readable(property: &Property) -> FieldRef {
    Arc::new(Field::new(&property.name, fine(property.arrow()), true))
}

fn fine(data_type: DataType) -> DataType {
    match data_type {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone),
        DataType::List(item) => {
            let finer = fine(item.data_type().clone());
            DataType::List(Arc::new(item.as_ref().clone().with_data_type(finer)))
        }
        other => other,
    }
}

/// An error of a kernel that puts rows of chunks together.
pub(crate) fn gathering(source: ArrowError) -> Error {
    let context = "rows of chunks".to_owned();
    stylobate_columnar::Error::Arrow { context, source: Arc::new(source) }.into()
}

/// Whether all values of an array are there.
#[inline]
pub(crate) fn has_no_nulls(array: &ArrayRef) -> bool {
    array.null_count() == 0
}
