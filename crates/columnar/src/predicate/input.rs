//! The columns of a batch, as the input of comparisons.

use arrow::{
    array::{Array, ArrayRef, AsArray, new_null_array},
    buffer::NullBuffer,
    compute::take,
};

use super::tokens::refuse;
use crate::{Error, Result};

/// A column of a batch.
#[derive(Clone)]
pub(super) struct PredicateInput {
    pub(super) array: ArrayRef,
    /// Nulls of the column and of the structs around it.
    pub(super) nulls: Option<NullBuffer>,
}

impl PredicateInput {
    /// Expands a dictionary, and merges the nulls of its values into the column's.
    pub(super) fn dense(self) -> Result<Self> {
        let array = dense(&self.array)?;
        let nulls = NullBuffer::union(self.nulls.as_ref(), array.logical_nulls().as_ref());
        Ok(Self { array, nulls })
    }
}

/// Expands a dictionary into its values, row by row.
pub(super) fn dense(array: &ArrayRef) -> Result<ArrayRef> {
    match array.as_any_dictionary_opt() {
        None => Ok(array.clone()),
        Some(dictionary) if dictionary.values().is_empty() => {
            Ok(new_null_array(dictionary.values().data_type(), array.len()))
        }
        Some(dictionary) => {
            take(dictionary.values(), dictionary.keys(), None).map_err(Error::arrow("reading a dictionary"))
        }
    }
}

pub(super) fn unbound(array: &ArrayRef) -> Error {
    refuse(format!("it is not bound to a column of {}", array.data_type()))
}
