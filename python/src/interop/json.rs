//! Conversion of serializable Rust values to Python dictionaries.

use pyo3::{exceptions::PyValueError, prelude::*};
use serde::Serialize;

/// Converts the value to dictionaries, lists, numbers and strings.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))?;
    py.import("json")?.getattr("loads")?.call1((text,))
}
