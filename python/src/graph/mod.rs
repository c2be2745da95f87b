//! `LocalGraph`, `LocalVertices` and `LocalEdges`: a GraphAr graph open in this process, and views of it.

pub(super) mod write;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, Int64Array},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use futures::{StreamExt, TryStreamExt};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyCapsule, PyDict, PyList},
};
use pyo3_arrow::{PyArray, error::PyArrowResult};
use stylobate_columnar::Source;
use stylobate_graph::{
    Direction, Error,
    graphar::{AdjacencyOrder, Edges, Graph, GraphOptions, LabelFilter, Side, Strictness, Vertices},
};

use crate::{
    cache::{PyCache, given_or_default},
    errors::{ErrorClass, ResultExt, UnraisedError},
    expression::filter,
    interop::{
        batches::{PyBatchIterator, PyBatches},
        exported::{PyArrowArray, PyRecordBatch, PySchema},
        json::to_python,
        source::StreamSource,
        stream::InterruptibleError,
    },
    location::location,
    process::{ProcessOwned, ProcessRuntime},
    scan::options,
};

/// A value of an open graph that belongs to the process that opened it.
pub(crate) struct GraphHandle<T>(ProcessOwned<T>);

impl<T: Clone> GraphHandle<T> {
    pub(crate) fn new(process: ProcessRuntime, value: T) -> Self {
        Self(ProcessOwned::new(process, value))
    }

    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<(ProcessRuntime, T)> {
        match self.0.get() {
            Some(value) => Ok((self.0.process().clone(), value.clone())),
            None => Err(InterruptibleError::forked().raised(py)),
        }
    }
}

/// Implements `stylobate.Graph`.
#[pyclass(frozen, module = "stylobate", name = "LocalGraph")]
pub(crate) struct PyLocalGraph {
    graph: GraphHandle<Graph>,
}

#[pymethods]
impl PyLocalGraph {
    #[new]
    #[pyo3(signature = (url, *, cache=None, prefix=None, strict=false, storage_options=None))]
    fn new(
        py: Python<'_>,
        url: &Bound<'_, PyAny>,
        cache: Option<Py<PyCache>>,
        prefix: Option<&Bound<'_, PyAny>>,
        strict: bool,
        storage_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let store = storage_options.map(options).transpose()?.unwrap_or_default();
        let source = |url: &Bound<'_, PyAny>| {
            Ok::<_, PyErr>(Source::Url { url: location(url)?, options: store.clone() })
        };
        let mut given = GraphOptions::default();
        if let Some(prefix) = prefix {
            given = given.with_prefix(source(prefix)?);
        }
        if strict {
            given = given.with_strictness(Strictness::Strict);
        }

        let file = source(url)?;
        let process = ProcessRuntime::current(py)?;
        let cache = given_or_default(py, cache)?.get().get(py)?;
        let graph = process.run(py, async move { Graph::open(&cache, file, given).await })?;

        Ok(Self { graph: GraphHandle::new(process, graph) })
    }

    /// Returns the contents of the graph's info files as dictionaries.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (_, graph) = self.graph.get(py)?;
        to_python(py, graph.info())
    }

    fn vertices(&self, py: Python<'_>, vertex_type: &str) -> PyResult<PyLocalVertices> {
        let (process, graph) = self.graph.get(py)?;
        let vertices = graph.vertices(vertex_type).or_raise(py)?;
        Ok(PyLocalVertices { vertices: GraphHandle::new(process, vertices), with_index: true })
    }

    #[pyo3(signature = (source, edge, destination, order=None))]
    fn edges(
        &self,
        py: Python<'_>,
        source: &str,
        edge: &str,
        destination: &str,
        order: Option<&str>,
    ) -> PyResult<PyLocalEdges> {
        let (process, graph) = self.graph.get(py)?;
        let order = order.map(|order| parsed::<AdjacencyOrder>(py, order)).transpose()?;
        let found = graph.edges(source, edge, destination);
        let edges = found.and_then(|edges| order.into_iter().try_fold(edges, Edges::by)).or_raise(py)?;
        Ok(PyLocalEdges { edges: GraphHandle::new(process, edges) })
    }
}

/// Implements `stylobate.Vertices`.
#[pyclass(frozen, module = "stylobate", name = "LocalVertices")]
pub(crate) struct PyLocalVertices {
    vertices: GraphHandle<Vertices>,
    with_index: bool,
}

impl PyLocalVertices {
    /// Returns another view of the same vertices.
    fn view(
        &self,
        py: Python<'_>,
        change: impl FnOnce(Vertices) -> Result<Vertices, Error>,
    ) -> PyResult<Self> {
        let (process, vertices) = self.vertices.get(py)?;
        let vertices = change(vertices).or_raise(py)?;
        Ok(Self { vertices: GraphHandle::new(process, vertices), with_index: self.with_index })
    }

    fn source(&self, py: Python<'_>, range: std::ops::Range<u64>) -> PyResult<StreamSource> {
        let (process, vertices) = self.vertices.get(py)?;
        let columns: Vec<usize> = (usize::from(!self.with_index)..vertices.schema().fields().len()).collect();
        let schema = vertices.schema().project(&columns);
        let schema = schema.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let begin = move || {
            let project = move |batch: arrow::array::RecordBatch| {
                batch
                    .project(&columns)
                    .map_err(|error| UnraisedError::new(ErrorClass::Stylobate, error.to_string()))
            };

            vertices
                .stream_range(range)
                .map_err(UnraisedError::from)
                .map(move |batch| batch.and_then(&project))
        };

        Ok(StreamSource::new(process, Arc::new(schema), begin))
    }
}

#[pymethods]
impl PyLocalVertices {
    /// Returns the number of vertices.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let (process, vertices) = self.vertices.get(py)?;
        process.run(py, async move { vertices.count().await })
    }

    /// The schema of the output.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        Ok(self.source(py, 0..0)?.schema().clone().into())
    }

    fn select(&self, py: Python<'_>, properties: Vec<String>) -> PyResult<Self> {
        self.view(py, |vertices| vertices.select(properties))
    }

    fn filter(&self, py: Python<'_>, condition: &Bound<'_, PyAny>) -> PyResult<Self> {
        let predicate = filter(condition)?;
        self.view(py, |vertices| vertices.filter(&predicate))
    }

    fn labels(&self, py: Python<'_>, names: Vec<String>, all: bool) -> PyResult<Self> {
        let wanted = if all { LabelFilter::All(names) } else { LabelFilter::Any(names) };
        self.view(py, |vertices| vertices.labels(&wanted))
    }

    /// Returns a view with or without the vertex index as its first column.
    fn indexed(&self, py: Python<'_>, with_index: bool) -> PyResult<Self> {
        Ok(Self { with_index, ..self.view(py, Ok)? })
    }

    fn take(&self, py: Python<'_>, indexes: &Bound<'_, PyAny>) -> PyResult<PyRecordBatch> {
        let (process, vertices) = self.vertices.get(py)?;
        let indexes = numbers(indexes)?;
        let taken = process.run(py, async move { vertices.take(indexes.values()).await })?;
        Ok(taken.into())
    }

    fn range(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<PyBatches> {
        self.source(py, start..end)?.collect(py)
    }

    fn collect(&self, py: Python<'_>) -> PyResult<PyBatches> {
        self.range(py, 0, u64::MAX)
    }

    fn batches(&self, py: Python<'_>) -> PyResult<PyBatchIterator> {
        Ok(self.source(py, 0..u64::MAX)?.batches())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        self.source(py, 0..u64::MAX)?.capsule(py, requested_schema)
    }
}

/// Implements `stylobate.Edges`.
#[pyclass(frozen, module = "stylobate", name = "LocalEdges")]
pub(crate) struct PyLocalEdges {
    edges: GraphHandle<Edges>,
}

impl PyLocalEdges {
    fn source(&self, py: Python<'_>) -> PyResult<StreamSource> {
        let (process, edges) = self.edges.get(py)?;
        let schema = edges.schema();
        Ok(StreamSource::new(process, schema, move || edges.stream()))
    }
}

#[pymethods]
impl PyLocalEdges {
    /// Returns the number of edges.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let (process, edges) = self.edges.get(py)?;
        process.run(py, async move { edges.count().await })
    }

    /// Returns the number of vertices on the side that edges are followed from; `None` without an adjacency list for
    /// that side.
    fn vertex_count(&self, py: Python<'_>, direction: &str) -> PyResult<Option<u64>> {
        let (process, edges) = self.edges.get(py)?;
        let side = match parse_direction(direction)? {
            Direction::Out => Side::Source,
            Direction::In => Side::Dest,
        };

        match edges.aligned_by(side) {
            Err(_) => Ok(None),
            Ok(edges) => process.run(py, async move { edges.vertex_count().await }).map(Some),
        }
    }

    /// The adjacency order in which edges are read.
    #[getter]
    fn order(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.edges.get(py)?.1.order().to_string())
    }

    /// The schema of the output.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<PySchema> {
        Ok(self.source(py)?.schema().clone().into())
    }

    fn select(&self, py: Python<'_>, properties: Vec<String>) -> PyResult<Self> {
        let (process, edges) = self.edges.get(py)?;
        let edges = edges.select(properties).or_raise(py)?;
        Ok(Self { edges: GraphHandle::new(process, edges) })
    }

    fn neighbors(
        &self,
        py: Python<'_>,
        vertices: &Bound<'_, PyAny>,
        direction: &str,
    ) -> PyResult<PyRecordBatch> {
        let (process, edges) = self.edges.get(py)?;
        let vertices = numbers(vertices)?;
        let direction = parse_direction(direction)?;
        let found = process.run(py, async move { edges.neighbors(vertices.values(), direction).await })?;
        Ok(found.into())
    }

    fn degrees(
        &self,
        py: Python<'_>,
        vertices: &Bound<'_, PyAny>,
        direction: &str,
    ) -> PyResult<PyArrowArray> {
        let (process, edges) = self.edges.get(py)?;
        let vertices = numbers(vertices)?;
        let direction = parse_direction(direction)?;
        let found = process.run(py, async move { edges.degrees(vertices.values(), direction).await })?;
        let found: ArrayRef = Arc::new(found);
        Ok(found.into())
    }

    /// Returns the offsets, the neighbors and the properties of all edges in CSR form.
    fn csr(
        &self,
        py: Python<'_>,
        direction: &str,
    ) -> PyResult<(PyArrowArray, PyArrowArray, Vec<PyArrowArray>)> {
        let (process, edges) = self.edges.get(py)?;
        let direction = parse_direction(direction)?;
        let csr = process.run(py, async move { edges.csr(direction).await })?;
        let array = |values| -> ArrayRef { Arc::new(Int64Array::new(values, None)) };
        let properties = csr.properties.into_iter().map(PyArrowArray::from).collect();
        Ok((array(csr.offsets).into(), array(csr.neighbors).into(), properties))
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

/// Parses the direction.
pub(crate) fn parse_direction(direction: &str) -> PyResult<Direction> {
    match direction {
        "out" => Ok(Direction::Out),
        "in" => Ok(Direction::In),
        other => Err(PyValueError::new_err(format!("direction: \"out\" or \"in\", not {other:?}"))),
    }
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(py: Python<'_>, text: &str) -> PyResult<T> {
    text.parse().map_err(|error: T::Err| ErrorClass::Config.error(py, error.to_string()))
}

/// Converts vertex indexes: an Arrow array of integers, or any sequence of integers.
pub(crate) fn numbers(given: &Bound<'_, PyAny>) -> PyResult<Int64Array> {
    if given.is_instance_of::<PyList>() || !given.hasattr("__arrow_c_array__")? {
        return Ok(given.extract::<Vec<i64>>()?.into());
    }

    let array = given.extract::<PyArray>()?.array().clone();
    let wrong = |reason: &str| PyValueError::new_err(format!("indexes of vertices: {reason}"));
    if !array.data_type().is_integer() {
        return Err(wrong(&format!("whole numbers, not {}", array.data_type())));
    }

    let array = cast(&array, &DataType::Int64).map_err(|error| wrong(&error.to_string()))?;
    let array = array.as_primitive::<Int64Type>().clone();

    match arrow::array::Array::null_count(&array) {
        0 => Ok(array),
        _ => Err(wrong("none of them may be null")),
    }
}
