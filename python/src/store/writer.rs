//! `LocalStoreWriter`: changes to a graph store, and their commits.

use std::sync::Arc;

use pyo3::{prelude::*, types::PyDict};
use stylobate_graph::store::{BulkLoad, EdgeType, Ends, SchemaChange, StoreSchema, StoreWriter, VertexType};
use tokio::sync::Mutex;

use super::{
    data::{ColumnRenames, LoadReporter, renamed, rows},
    ids::vertex_ids,
    schema::{EdgeTypeTuple, StoreEdgeName, VertexTypeTuple, edge_type, property, vertex_type},
    snapshot::PyLocalSnapshot,
};
use crate::{
    batch_input::PythonBatchInput,
    errors::{ErrorClass, UnraisedError},
    graph::GraphHandle,
    process::{ProcessRuntime, SignalPoller},
};

/// Version, vertices, edges, bytes.
type BulkLoadTuple = (u64, u64, u64, u64);

/// Implements `stylobate.StoreWriter`.
#[pyclass(frozen, module = "stylobate", name = "LocalStoreWriter")]
pub(crate) struct PyLocalStoreWriter {
    pub(super) writer: GraphHandle<Arc<Mutex<StoreWriter>>>,
}

fn ends(py: Python<'_>, by: &str) -> PyResult<Ends> {
    match by {
        "key" => Ok(Ends::Keys),
        "index" => Ok(Ends::Indexes),
        other => Err(ErrorClass::Config.error(py, format!("by: \"key\" or \"index\", not {other:?}"))),
    }
}

#[pymethods]
impl PyLocalStoreWriter {
    #[getter]
    fn epoch(&self, py: Python<'_>) -> PyResult<u64> {
        let (process, writer) = self.writer.get(py)?;
        process.wait(py, async move { writer.lock().await.epoch() })
    }

    #[getter]
    fn has_pending(&self, py: Python<'_>) -> PyResult<bool> {
        let (process, writer) = self.writer.get(py)?;
        process.wait(py, async move { writer.lock().await.has_pending() })
    }

    /// Returns the last committed version.
    fn snapshot(&self, py: Python<'_>) -> PyResult<PyLocalSnapshot> {
        let (process, writer) = self.writer.get(py)?;
        let snapshot = process.wait(py, async move { writer.lock().await.snapshot().clone() })?;
        Ok(PyLocalSnapshot { snapshot: GraphHandle::new(process, snapshot) })
    }

    /// Adds vertices; returns their index range as start and exclusive end.
    fn add_vertices(&self, py: Python<'_>, name: String, data: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
        let (process, writer) = self.writer.get(py)?;
        let batch = rows(data, &process)?;
        let work = async move { writer.lock().await.add_vertices(&name, &batch).await };
        process.run(py, work).map(|added| (added.start, added.end))
    }

    fn update_vertices(&self, py: Python<'_>, name: String, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let (process, writer) = self.writer.get(py)?;
        let batch = rows(data, &process)?;
        process.run(py, async move { writer.lock().await.update_vertices(&name, &batch).await })
    }

    #[pyo3(signature = (name, ids=None, keys=None))]
    fn delete_vertices(
        &self,
        py: Python<'_>,
        name: String,
        ids: Option<&Bound<'_, PyAny>>,
        keys: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (process, writer) = self.writer.get(py)?;
        let ids = vertex_ids(ids, keys)?;
        process.run(py, async move { writer.lock().await.delete_vertices(&name, &ids).await })
    }

    fn add_edges(&self, py: Python<'_>, name: String, data: &Bound<'_, PyAny>, by: &str) -> PyResult<u64> {
        let (process, writer) = self.writer.get(py)?;
        let ends = ends(py, by)?;
        let batch = rows(data, &process)?;
        process.run(py, async move { writer.lock().await.add_edges(&name, &batch, ends).await })
    }

    fn delete_edges(&self, py: Python<'_>, name: String, data: &Bound<'_, PyAny>, by: &str) -> PyResult<()> {
        let (process, writer) = self.writer.get(py)?;
        let ends = ends(py, by)?;
        let batch = rows(data, &process)?;
        process.run(py, async move { writer.lock().await.delete_edges(&name, &batch, ends).await })
    }

    /// Adds types, and properties of existing vertex and edge types.
    fn alter(
        &self,
        py: Python<'_>,
        vertices: Vec<VertexTypeTuple>,
        edges: Vec<EdgeTypeTuple>,
        of_vertices: Vec<(String, String, String)>,
        of_edges: Vec<(String, String, String)>,
    ) -> PyResult<()> {
        let (process, writer) = self.writer.get(py)?;
        let mut changes = Vec::new();
        for of_type in vertices {
            changes.push(SchemaChange::AddVertexType(vertex_type(py, of_type)?));
        }

        for of_type in edges {
            changes.push(SchemaChange::AddEdgeType(edge_type(py, of_type)?));
        }

        for (vertex_type, name, of) in of_vertices {
            let property = property(py, &vertex_type, name, of)?;
            changes.push(SchemaChange::AddVertexProperty { vertex_type, property });
        }

        for (edge_type, name, of) in of_edges {
            let property = property(py, &edge_type, name, of)?;
            changes.push(SchemaChange::AddEdgeProperty { edge_type, property });
        }

        process.run(py, async move { writer.lock().await.alter(changes) })
    }

    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        let (process, writer) = self.writer.get(py)?;
        process.run(py, async move { writer.lock().await.commit().await })
    }

    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        let (process, writer) = self.writer.get(py)?;
        process.wait(py, async move { writer.lock().await.rollback() })
    }

    /// Loads vertices and edges as one commit. Types that do not exist yet are created from the schema of their data.
    #[pyo3(signature = (vertices, edges, progress=None))]
    fn load(
        &self,
        py: Python<'_>,
        vertices: Vec<(String, Bound<'_, PyAny>, Bound<'_, PyDict>)>,
        edges: Vec<(StoreEdgeName, Bound<'_, PyAny>, Bound<'_, PyDict>)>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<BulkLoadTuple> {
        let (process, writer) = self.writer.get(py)?;
        let vertices = vertices
            .into_iter()
            .map(|(name, data, given)| VertexLoadInput::of(name, &data, &given, &process));
        let vertices = vertices.collect::<PyResult<Vec<_>>>()?;
        let edges =
            edges.into_iter().map(|(name, data, given)| EdgeLoadInput::of(name, &data, &given, &process));
        let edges = edges.collect::<PyResult<Vec<_>>>()?;
        let reporter = Arc::new(LoadReporter::new(progress));
        let work = async {
            let mut writer = writer.lock().await;
            let changes = changes(&writer.snapshot().schema(), &vertices, &edges)
                .map_err(|error| reporter.why(error))?;
            let mut load = BulkLoad::new().with_changes(changes);
            for VertexLoadInput { name, input, .. } in vertices {
                load = load.with_vertices(name, reporter.batches(input, &ColumnRenames::new()));
            }

            for EdgeLoadInput { name: (source, edge, destination), input, names, ends } in edges {
                let name = EdgeType::new(source, edge, destination).full_name();
                load = load.with_edges(name, ends, reporter.batches(input, &names));
            }

            let done = async {
                let loaded = writer.bulk_load(load).await?;
                reporter.done(loaded.bytes).map(|()| loaded)
            };

            done.await.map_err(|error| reporter.why(error))
        };

        let loaded = py.detach(|| process.wait_detached(work, &mut SignalPoller::new()));
        let loaded = loaded?.map_err(|broken| broken.raised(py))?;

        Ok((loaded.version, loaded.vertices, loaded.edges, loaded.bytes))
    }
}

/// Input vertices of one type.
struct VertexLoadInput {
    name: String,
    input: PythonBatchInput,
    key: Option<String>,
}

impl VertexLoadInput {
    fn of(
        name: String,
        data: &Bound<'_, PyAny>,
        given: &Bound<'_, PyDict>,
        process: &ProcessRuntime,
    ) -> PyResult<Self> {
        let mut key = None;
        for (option, value) in given.iter() {
            match option.extract::<String>()?.as_str() {
                "key" => key = Some(value.extract()?),
                other => return Err(unknown(&value, other)),
            }
        }
        Ok(Self { name, input: PythonBatchInput::of(data, process)?, key })
    }
}

/// Input edges of one type.
struct EdgeLoadInput {
    name: StoreEdgeName,
    input: PythonBatchInput,
    /// Renames of the columns that hold `src` and `dst`.
    names: ColumnRenames,
    ends: Ends,
}

impl EdgeLoadInput {
    fn of(
        name: StoreEdgeName,
        data: &Bound<'_, PyAny>,
        given: &Bound<'_, PyDict>,
        process: &ProcessRuntime,
    ) -> PyResult<Self> {
        let mut it =
            Self { name, input: PythonBatchInput::of(data, process)?, names: Vec::new(), ends: Ends::Keys };

        for (option, value) in given.iter() {
            match option.extract::<String>()?.as_str() {
                "source" => it.names.push((value.extract()?, "src".to_owned())),
                "destination" => it.names.push((value.extract()?, "dst".to_owned())),
                "by" => it.ends = ends(value.py(), &value.extract::<String>()?)?,
                other => return Err(unknown(&value, other)),
            }
        }

        Ok(it)
    }
}

fn unknown(value: &Bound<'_, PyAny>, option: &str) -> PyErr {
    UnraisedError::new(ErrorClass::Config, format!("{option}: no such option")).raised(value.py())
}

/// Returns the changes that create the missing types from the schemas of their data.
fn changes(
    known: &StoreSchema,
    vertices: &[VertexLoadInput],
    edges: &[EdgeLoadInput],
) -> stylobate_graph::Result<Vec<SchemaChange>> {
    let mut changes = Vec::new();
    for VertexLoadInput { name, input, key } in vertices {
        if known.vertices.iter().any(|of_type| of_type.name == *name) {
            continue;
        }
        let key = key.clone().ok_or_else(|| stylobate_graph::Error::Schema {
            of: format!("vertex type {name}"),
            reason: "it is new: say which column is its key".to_owned(),
        })?;
        changes.push(SchemaChange::AddVertexType(VertexType::of_columns(name, key, &input.schema)?));
    }

    for EdgeLoadInput { name: (source, name, destination), input, names, .. } in edges {
        let is_known = |of_type: &EdgeType| {
            of_type.source == *source && of_type.name == *name && of_type.destination == *destination
        };
        if known.edges.iter().any(is_known) {
            continue;
        }
        let columns = renamed(&input.schema, names);
        changes.push(SchemaChange::AddEdgeType(EdgeType::of_columns(source, name, destination, &columns)?));
    }

    Ok(changes)
}
