//! The columns of a batch, as comparisons take them.

use arrow::{
    array::{Array, ArrayRef},
    buffer::NullBuffer,
};

use super::tokens::refuse;
use crate::Error;

/// A column of a batch.
pub(super) struct Input {
    pub(super) array: ArrayRef,
    /// Rows that are null in it or in a struct around it.
    pub(super) nulls: Option<NullBuffer>,
}

pub(super) fn unfit(array: &ArrayRef) -> Error {
    refuse(format!("it is not bound to a column of {}", array.data_type()))
}
