//! `LocalSnapshot` and `LocalStoreScan`: a version of a graph store, and scans of it.

use arrow::datatypes::SchemaRef;
use futures::{StreamExt, TryStreamExt};
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyDict},
};
use pyo3_arrow::error::PyArrowResult;
use stylobate_columnar::Predicate;
use stylobate_graph::{Error, graphar::GraphWriteOptions, store::Snapshot};
use stylobate_storage::{Destination, Overwrite};

use super::{
    entry::{LogEntryTuple, entry},
    schema::{EdgeTypeTuple, VertexTypeTuple, shown},
    views::{PyLocalEdgeView, PyLocalVertexView},
};
use crate::{
    errors::{ResultExt, UnraisedError},
    expression::filter,
    graph::GraphHandle,
    interop::{
        batches::{PyBatchIterator, PyBatches},
        exported::PySchema,
        source::StreamSource,
        stream::PythonBatchStream,
    },
    location::location,
    scan::options,
};

/// Version, bases and deltas, chunks, flaws.
type VerificationTuple = (u64, u64, u64, Vec<String>);

/// Implements `stylobate.Snapshot`.
#[pyclass(frozen, module = "stylobate", name = "LocalSnapshot")]
pub(crate) struct PyLocalSnapshot {
    pub(super) snapshot: GraphHandle<Snapshot>,
}

/// Borrows the names as the graph crate takes them.
fn names(columns: Option<&[String]>) -> Option<Vec<&str>> {
    columns.map(|columns| columns.iter().map(String::as_str).collect())
}

#[pymethods]
impl PyLocalSnapshot {
    /// The version number.
    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.snapshot.get(py)?.1.version())
    }

    /// Returns the log entry of the version.
    fn entry(&self, py: Python<'_>) -> PyResult<LogEntryTuple> {
        Ok(entry(self.snapshot.get(py)?.1.entry()))
    }

    /// Returns the vertex types and edge types.
    fn schema(&self, py: Python<'_>) -> PyResult<(Vec<VertexTypeTuple>, Vec<EdgeTypeTuple>)> {
        Ok(shown(&self.snapshot.get(py)?.1.schema()))
    }

    fn vertex_count(&self, py: Python<'_>, vertex_type: &str) -> PyResult<u64> {
        self.snapshot.get(py)?.1.vertex_count(vertex_type).or_raise(py)
    }

    fn index_count(&self, py: Python<'_>, vertex_type: &str) -> PyResult<u64> {
        self.snapshot.get(py)?.1.index_count(vertex_type).or_raise(py)
    }

    fn edge_count(&self, py: Python<'_>, edge_type: &str) -> PyResult<u64> {
        self.snapshot.get(py)?.1.edge_count(edge_type).or_raise(py)
    }

    #[pyo3(signature = (vertex_type, columns=None))]
    fn vertices(
        &self,
        py: Python<'_>,
        vertex_type: String,
        columns: Option<Vec<String>>,
    ) -> PyResult<PyLocalVertexView> {
        let (process, snapshot) = self.snapshot.get(py)?;
        let view = process.run(py, async move {
            snapshot.vertices(&vertex_type, names(columns.as_deref()).as_deref()).await
        })?;
        Ok(PyLocalVertexView { view: GraphHandle::new(process, view) })
    }

    #[pyo3(signature = (edge_type, columns=None))]
    fn edges(
        &self,
        py: Python<'_>,
        edge_type: String,
        columns: Option<Vec<String>>,
    ) -> PyResult<PyLocalEdgeView> {
        let (process, snapshot) = self.snapshot.get(py)?;
        let view = process
            .run(py, async move { snapshot.edges(&edge_type, names(columns.as_deref()).as_deref()).await })?;
        Ok(PyLocalEdgeView { view: GraphHandle::new(process, view) })
    }

    /// Scans all vertices or edges of a type that match the filter.
    #[pyo3(signature = (kind, name, columns=None, filter=None))]
    fn scan(
        &self,
        py: Python<'_>,
        kind: &str,
        name: String,
        columns: Option<Vec<String>>,
        filter: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyLocalStoreScan> {
        let (process, snapshot) = self.snapshot.get(py)?;
        let predicate = filter.map(self::filter).transpose()?;
        let scan = StoreScanRequest { snapshot, is_of_edges: kind == "edges", name, columns, predicate };
        let first = scan.clone();
        let schema = process.run(py, async move { first.run().await.map(|(schema, _)| schema) })?;
        Ok(PyLocalStoreScan { scan: GraphHandle::new(process, scan), schema })
    }

    /// Reads and checks the whole version.
    fn verify(&self, py: Python<'_>) -> PyResult<VerificationTuple> {
        let (process, snapshot) = self.snapshot.get(py)?;
        let found = process.wait(py, async move { snapshot.verify().await })?;
        Ok((found.version, found.parts, found.chunks, found.flaws))
    }

    /// Writes the version as a GraphAr graph; returns the graph file, vertices, edges, bytes and files.
    #[pyo3(signature = (path, name, overwrite=false, storage_options=None))]
    fn export(
        &self,
        py: Python<'_>,
        path: &Bound<'_, PyAny>,
        name: String,
        overwrite: bool,
        storage_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(String, u64, u64, u64, u64)> {
        let (process, snapshot) = self.snapshot.get(py)?;
        let store = storage_options.map(options).transpose()?.unwrap_or_default();
        let destination = Destination::parse(&location(path)?, &store).or_raise(py)?;
        let mut given = GraphWriteOptions::default();
        if overwrite {
            given = given.with_overwrite(Overwrite::Replace);
        }

        let written =
            process.run(py, async move { snapshot.export_graphar(destination, &name, given).await })?;
        Ok((written.file, written.vertices, written.edges, written.bytes, written.files))
    }
}

/// A scan that has not started.
#[derive(Clone)]
struct StoreScanRequest {
    snapshot: Snapshot,
    is_of_edges: bool,
    name: String,
    columns: Option<Vec<String>>,
    predicate: Option<Predicate>,
}

impl StoreScanRequest {
    async fn run(self) -> Result<(SchemaRef, PythonBatchStream), Error> {
        let columns = names(self.columns.as_deref());
        let columns = columns.as_deref();
        let predicate = self.predicate.as_ref();

        if self.is_of_edges {
            let (schema, batches) = self.snapshot.scan_edges(&self.name, columns, predicate).await?;
            Ok((schema, batches.map_err(UnraisedError::from).boxed()))
        } else {
            let (schema, batches) = self.snapshot.scan_vertices(&self.name, columns, predicate).await?;
            Ok((schema, batches.map_err(UnraisedError::from).boxed()))
        }
    }
}

/// A scan of a version, read on demand.
#[pyclass(frozen, module = "stylobate", name = "LocalStoreScan")]
pub(crate) struct PyLocalStoreScan {
    scan: GraphHandle<StoreScanRequest>,
    schema: SchemaRef,
}

impl PyLocalStoreScan {
    fn source(&self, py: Python<'_>) -> PyResult<StreamSource> {
        let (process, scan) = self.scan.get(py)?;
        let batches =
            async move { scan.run().await.map(|(_, batches)| batches).map_err(UnraisedError::from) };
        let begin = move || futures::stream::once(batches).try_flatten();
        Ok(StreamSource::new(process, self.schema.clone(), begin))
    }
}

#[pymethods]
impl PyLocalStoreScan {
    /// The schema of the output.
    #[getter]
    fn schema(&self) -> PySchema {
        self.schema.clone().into()
    }

    fn collect(&self, py: Python<'_>) -> PyResult<PyBatches> {
        self.source(py)?.collect(py)
    }

    fn batches(&self, py: Python<'_>) -> PyResult<PyBatchIterator> {
        Ok(self.source(py)?.batches())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        self.source(py)?.capsule(py, requested_schema)
    }
}
