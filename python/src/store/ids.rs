//! Conversion of vertex keys and indexes from Python.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use pyo3::{exceptions::PyTypeError, prelude::*};
use pyo3_arrow::PyArray;
use stylobate_graph::store::VertexIds;

use crate::graph::numbers;

/// Converts keys: an Arrow array, or any sequence of integers or strings.
pub(super) fn keys(given: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if let Ok(numbers) = given.extract::<Vec<i64>>() {
        return Ok(Arc::new(Int64Array::from(numbers)));
    }
    if given.hasattr("__arrow_c_array__")? {
        return Ok(given.extract::<PyArray>()?.array().clone());
    }

    match given.extract::<Vec<String>>() {
        Ok(texts) => Ok(Arc::new(StringArray::from(texts))),
        Err(_) => {
            Err(PyTypeError::new_err("keys: a list of whole numbers or a list of texts, or an Arrow array"))
        }
    }
}

/// Converts indexes or keys; exactly one of the two must be given.
pub(super) fn vertex_ids(
    ids: Option<&Bound<'_, PyAny>>,
    keys: Option<&Bound<'_, PyAny>>,
) -> PyResult<VertexIds> {
    match (ids, keys) {
        (Some(ids), None) => Ok(VertexIds::Indexes(numbers(ids)?.values().to_vec())),
        (None, Some(keys)) => self::keys(keys).map(VertexIds::Keys),
        _ => Err(PyTypeError::new_err("name vertices by keys=[…] or by ids=[…]")),
    }
}
