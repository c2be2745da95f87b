//! What a Rust crate counts, as Python's dictionaries.

use pyo3::{exceptions::PyValueError, prelude::*};
use serde::Serialize;

/// The value as dictionaries, lists, numbers and texts.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))?;
    py.import("json")?.getattr("loads")?.call1((text,))
}
