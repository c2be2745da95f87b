//! `LocalVertexView` and `LocalEdgeView`: the vertices and edges of a type in a version, with resolved names.

use std::sync::Arc;

use arrow::array::ArrayRef;
use pyo3::prelude::*;
use stylobate_graph::{
    Result,
    store::{EdgeView, VertexView},
};

use super::ids::keys;
use crate::{
    errors::ResultExt,
    graph::{GraphHandle, numbers, parse_direction},
    interop::exported::{PyArrowArray, PyRecordBatch, PySchema},
    process::ProcessRuntime,
};

/// Returns the cached result without entering the runtime, or runs the work.
pub(super) fn answered<T: Send>(
    py: Python<'_>,
    process: &ProcessRuntime,
    cached: impl FnOnce() -> Option<Result<T>> + Send,
    work: impl Future<Output = Result<T>> + Send,
) -> PyResult<T> {
    match py.detach(cached) {
        Some(answer) => answer.or_raise(py),
        None => process.run(py, work),
    }
}

/// The vertices of a type, looked up by index or key.
#[pyclass(frozen, module = "stylobate", name = "LocalVertexView")]
pub(crate) struct PyLocalVertexView {
    pub(super) view: GraphHandle<VertexView>,
}

#[pymethods]
impl PyLocalVertexView {
    /// The schema of answers.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        Ok(self.view.get(py)?.1.schema().clone().into())
    }

    fn take(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<PyRecordBatch> {
        let (process, view) = self.view.get(py)?;
        let ids = numbers(ids)?;
        let ids = ids.values().as_ref();
        answered(py, &process, || view.take_cached(ids), view.take(ids)).map(Into::into)
    }

    fn by_keys(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<PyRecordBatch> {
        let (process, view) = self.view.get(py)?;
        let keys = &self::keys(keys)?;
        answered(py, &process, || view.by_keys_cached(keys), view.by_keys(keys)).map(Into::into)
    }

    /// Returns the vertex index of each key; null if there is no such vertex.
    fn find(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<PyArrowArray> {
        let (process, view) = self.view.get(py)?;
        let keys = &self::keys(keys)?;
        let found = answered(py, &process, || view.indexes_of_cached(keys), view.indexes_of(keys))?;
        let found: ArrayRef = Arc::new(found);
        Ok(found.into())
    }

    /// Returns the vertex index of each key; fails if one is missing.
    fn indexes(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
        let (process, view) = self.view.get(py)?;
        let keys = &self::keys(keys)?;
        answered(py, &process, || view.indexes_of_all_cached(keys), view.indexes_of_all(keys))
    }
}

/// The edges of a type.
#[pyclass(frozen, module = "stylobate", name = "LocalEdgeView")]
pub(crate) struct PyLocalEdgeView {
    pub(super) view: GraphHandle<EdgeView>,
}

#[pymethods]
impl PyLocalEdgeView {
    /// The schema of the edges of one vertex.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        Ok(self.view.get(py)?.1.schema().clone().into())
    }

    /// Returns the edges of one vertex.
    fn around(&self, py: Python<'_>, vertex: i64, direction: &str) -> PyResult<PyRecordBatch> {
        let (process, view) = self.view.get(py)?;
        let direction = parse_direction(direction)?;
        let rows = answered(py, &process, || view.of_cached(direction, vertex), view.of(direction, vertex));
        let batch = rows.map(|rows| view.batch(rows))?;
        batch.map(Into::into).or_raise(py)
    }

    /// Returns the edges between two vertices.
    fn lookup(&self, py: Python<'_>, source: i64, destination: i64) -> PyResult<PyRecordBatch> {
        let (process, view) = self.view.get(py)?;
        let cached = || view.lookup_cached(source, destination);
        let rows = answered(py, &process, cached, view.lookup(source, destination));
        let batch = rows.map(|rows| view.batch(rows))?;
        batch.map(Into::into).or_raise(py)
    }

    /// Returns the edges of many vertices.
    fn expand(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, direction: &str) -> PyResult<PyRecordBatch> {
        let (process, view) = self.view.get(py)?;
        let ids = numbers(ids)?;
        let direction = parse_direction(direction)?;
        let ids = ids.values().as_ref();
        answered(py, &process, || view.expand_cached(direction, ids), view.expand(direction, ids))
            .map(Into::into)
    }

    fn degrees(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, direction: &str) -> PyResult<PyArrowArray> {
        let (process, view) = self.view.get(py)?;
        let ids = numbers(ids)?;
        let direction = parse_direction(direction)?;
        let ids = ids.values().as_ref();
        let found =
            answered(py, &process, || view.degrees_cached(direction, ids), view.degrees(direction, ids))?;
        let found: ArrayRef = Arc::new(found);
        Ok(found.into())
    }
}
