//! Rows as tables of the Python package `datafusion`.

use pyo3::{prelude::*, types::PyCapsule};
use stylobate_datafusion::exported_table;

use super::table::GivenTable;
use crate::{interop::imported, process::ProcessRuntime};

/// The method of a session that returns its codec.
const CODEC: &str = "__datafusion_logical_extension_codec__";

/// Exports the source of rows as a table, to a session or codec of the package `datafusion`. The caller has checked that
/// package's version: another major version would crash the process.
#[pyfunction]
pub(crate) fn datafusion_table<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    session: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let process = ProcessRuntime::current(py)?;
    let table = GivenTable::of_rows(rows).provider(py, &process)?;
    let codec = if session.hasattr(CODEC)? { session.call_method0(CODEC)? } else { session.clone() };
    let codec = imported::datafusion_codec(&codec)?;
    let table = exported_table(table, codec, process.runtime().clone());
    PyCapsule::new_with_value(py, table, c"datafusion_table_provider")
}
