//! `LocalTraversal`: a prepared traversal, run from any start vertices.

use pyo3::prelude::*;
use stylobate_graph::store::{PreparedTraversal, Traversal, VertexIds};

use super::{ids::vertex_ids, snapshot::PyLocalSnapshot, views::answered};
use crate::{
    errors::ErrorClass,
    graph::GraphHandle,
    interop::exported::{PyRecordBatch, PySchema},
};

/// A hop: direction, edge type, optional vertex type, columns, optional name.
type HopTuple = (String, String, Option<String>, Vec<String>, Option<String>);

/// Implements `stylobate.Traversal`.
#[pyclass(frozen, module = "stylobate", name = "LocalTraversal")]
pub(crate) struct PyLocalTraversal {
    traversal: GraphHandle<Traversal>,
    prepared: GraphHandle<PreparedTraversal>,
}

#[pymethods]
impl PyLocalTraversal {
    #[new]
    #[pyo3(signature = (snapshot, start, hops, name=None, top=None, select=None))]
    fn new(
        py: Python<'_>,
        snapshot: &PyLocalSnapshot,
        start: &str,
        hops: Vec<HopTuple>,
        name: Option<String>,
        top: Option<(usize, String, bool)>,
        select: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let (process, snapshot) = snapshot.snapshot.get(py)?;
        let mut traversal = snapshot.start(start, VertexIds::Indexes(Vec::new()));
        if let Some(name) = name {
            traversal = traversal.named(name);
        }

        for (direction, edge, to, columns, name) in hops {
            traversal = match direction.as_str() {
                "out" => traversal.out(&edge, to.as_deref()),
                "in" => traversal.in_(&edge, to.as_deref()),
                other => return Err(ErrorClass::Config.error(py, format!("{other}: a hop is out or in"))),
            };

            traversal = traversal.columns(columns);
            if let Some(name) = name {
                traversal = traversal.named(name);
            }
        }

        if let Some((rows, by, descending)) = top {
            traversal = traversal.top(rows, &by, descending);
        }
        if let Some(select) = select {
            traversal = traversal.select(select);
        }

        let planned = traversal.clone();
        let prepared = process.run(py, async move { planned.prepare().await })?;

        Ok(Self {
            traversal: GraphHandle::new(process.clone(), traversal),
            prepared: GraphHandle::new(process, prepared),
        })
    }

    /// The schema of the output.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        Ok(self.prepared.get(py)?.1.schema().clone().into())
    }

    /// Runs the traversal from these vertices.
    #[pyo3(signature = (ids=None, keys=None))]
    fn run(
        &self,
        py: Python<'_>,
        ids: Option<&Bound<'_, PyAny>>,
        keys: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyRecordBatch> {
        let (process, prepared) = self.prepared.get(py)?;
        let ids = &vertex_ids(ids, keys)?;
        answered(py, &process, || prepared.run_cached(ids), prepared.run(ids)).map(Into::into)
    }

    /// Describes the plan in words.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        let (process, traversal) = self.traversal.get(py)?;
        process.run(py, async move { traversal.explain().await })
    }
}
