//! `inspect`: the metadata of a file.

use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{self as columnar, Source};

use crate::{
    cache::{PyCache, given_or_default},
    interop::json::to_python,
    location::location,
    process::ProcessRuntime,
    scan::options,
};

/// Reads the footer of a Parquet or ORC file: format, size, rows, schema, columns with their encodings and statistics,
/// and row groups or stripes. For a folder or pattern, the first file is inspected. No values are read.
///
/// >>> import stylobate as st
/// >>> found = st.inspect("trips.parquet")
/// >>> found["format"], found["rows"], [column["name"] for column in found["columns"]]
/// ('parquet', 5, ['city', 'fare', 'day'])
#[pyfunction]
#[pyo3(signature = (path, storage_options=None, cache=None))]
pub(crate) fn inspect<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
    storage_options: Option<&Bound<'py, PyDict>>,
    cache: Option<Py<PyCache>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = storage_options.map(options).transpose()?.unwrap_or_default();
    let source = Source::Url { url: location(path)?, options };
    let cache = given_or_default(py, cache)?.get().get(py)?;
    let process = ProcessRuntime::current(py)?;
    let inspected = process.run(py, async move { columnar::inspect(&source, &cache).await })?;
    to_python(py, &inspected)
}
