//! `LocalVertexView` and `LocalEdgeView`: vertices and edges of a type in a version, whose names were found already.

use std::sync::Arc;

use arrow::array::ArrayRef;
use pyo3::prelude::*;
use stylobate_graph::{Direction, EdgeView, VertexView};

use super::ids::keys;
use crate::{
    exported::{PyArrowArray, PyRecordBatch, PySchema},
    graph::{Open, numbers, way},
};

/// The vertices of a type, found by index or by key.
#[pyclass(frozen, module = "stylobate", name = "LocalVertexView")]
pub(crate) struct PyLocalVertexView {
    pub(super) view: Open<VertexView>,
}

#[pymethods]
impl PyLocalVertexView {
    /// The columns of answers.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        Ok(self.view.get(py)?.1.schema().clone().into())
    }

    fn take(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<PyRecordBatch> {
        let (process, view) = self.view.get(py)?;
        let ids = numbers(ids)?;
        Ok(process.run(py, async move { view.take(ids.values()).await })?.into())
    }

    fn by_keys(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<PyRecordBatch> {
        let (process, view) = self.view.get(py)?;
        let keys = self::keys(keys)?;
        Ok(process.run(py, async move { view.by_keys(&keys).await })?.into())
    }

    /// The index of the vertex of each key, null where there is none.
    fn find(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<PyArrowArray> {
        let (process, view) = self.view.get(py)?;
        let keys = self::keys(keys)?;
        let found: ArrayRef = Arc::new(process.run(py, async move { view.indexes_of(&keys).await })?);
        Ok(found.into())
    }

    /// The index of the vertex of each key, all of which are there.
    fn indexes(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
        let (process, view) = self.view.get(py)?;
        let keys = self::keys(keys)?;
        process.run(py, async move { view.indexes_of_all(&keys).await })
    }
}

/// The edges of a type.
#[pyclass(frozen, module = "stylobate", name = "LocalEdgeView")]
pub(crate) struct PyLocalEdgeView {
    pub(super) view: Open<EdgeView>,
}

#[pymethods]
impl PyLocalEdgeView {
    /// The columns of the edges of one vertex.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        Ok(self.view.get(py)?.1.schema().clone().into())
    }

    /// The edges of one vertex.
    fn around(&self, py: Python<'_>, vertex: i64, direction: &str) -> PyResult<PyRecordBatch> {
        let (process, view) = self.view.get(py)?;
        let direction = way(direction)?;
        let found = process.run(py, async move {
            let rows = view.of(direction, vertex).await?;
            view.batch(rows)
        });
        Ok(found?.into())
    }

    /// The edges between two vertices.
    fn lookup(&self, py: Python<'_>, source: i64, destination: i64) -> PyResult<PyRecordBatch> {
        let (process, view) = self.view.get(py)?;
        let found = process.run(py, async move {
            let rows = view.lookup(source, destination).await?;
            view.batch(rows)
        });
        Ok(found?.into())
    }

    /// The edges of many vertices.
    fn expand(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, direction: &str) -> PyResult<PyRecordBatch> {
        let (process, view) = self.view.get(py)?;
        let (ids, direction): (_, Direction) = (numbers(ids)?, way(direction)?);
        Ok(process.run(py, async move { view.expand(direction, ids.values()).await })?.into())
    }

    fn degrees(&self, py: Python<'_>, ids: &Bound<'_, PyAny>, direction: &str) -> PyResult<PyArrowArray> {
        let (process, view) = self.view.get(py)?;
        let (ids, direction) = (numbers(ids)?, way(direction)?);
        let found = process.run(py, async move { view.degrees(direction, ids.values()).await })?;
        let found: ArrayRef = Arc::new(found);
        Ok(found.into())
    }
}
