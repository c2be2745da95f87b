//! `write_graph`: writes Arrow data of vertices and edges as a GraphAr graph.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListBuilder, RecordBatch, StringBuilder},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyDict};
use stylobate_graph::{
    Error, Result,
    graphar::{
        AdjacencyOrder, EdgeWrite, FileType, GraphWriteOptions, GraphWriter, VertexWrite, WriteProgress,
        WrittenGraph,
    },
};
use stylobate_storage::{Destination, Durability, Overwrite};

use crate::{
    batch_input::PythonBatchInput,
    cache::byte_size,
    errors::{ErrorClass, ResultExt},
    interop::stream::InterruptibleError,
    location::location,
    options::write::{parsed, positive},
    process::{ProcessRuntime, SignalPoller},
    progress::ProgressCallback,
    scan::options,
};

/// The column that collects labels given as boolean columns.
const LABELS: &str = "_labels";

/// The graph file; vertices, edges, bytes, files.
type GraphWriteTuple = (String, u64, u64, u64, u64);

/// Source type, edge type, destination type.
type GraphArEdgeName = (String, String, String);

/// Implements `stylobate.write_graph`.
#[pyfunction]
#[pyo3(signature = (path, name, vertices, edges, given, storage_options=None, progress=None))]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of stylobate.write_graph")]
pub(crate) fn write_graph(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
    name: String,
    vertices: Vec<(String, Bound<'_, PyAny>, Bound<'_, PyDict>)>,
    edges: Vec<(GraphArEdgeName, Bound<'_, PyAny>, Bound<'_, PyDict>)>,
    given: &Bound<'_, PyDict>,
    storage_options: Option<&Bound<'_, PyDict>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<GraphWriteTuple> {
    let location = location(path)?;
    let store = storage_options.map(options).transpose()?.unwrap_or_default();
    let destination = Destination::parse(&location, &store).or_raise(py)?;
    let process = ProcessRuntime::current(py)?;
    let so_far = Arc::new(Mutex::new(WriteProgress::default()));
    let heard = so_far.clone();
    let options = graph_options(given)?.with_progress(move |now| *heard.lock() = now);
    let vertices =
        vertices.into_iter().map(|(name, data, given)| VertexWriteInput::of(name, &data, &given, &process));
    let vertices = vertices.collect::<PyResult<Vec<_>>>()?;
    let edges =
        edges.into_iter().map(|(name, data, given)| EdgeWriteInput::of(name, &data, &given, &process));
    let edges = edges.collect::<PyResult<Vec<_>>>()?;
    let reporter = GraphWriteReporter {
        progress: Mutex::new(ProgressCallback::new(progress)),
        so_far,
        broken: Mutex::default(),
    };

    let reporter = Arc::new(reporter);
    let work = async {
        let written = write(destination, name, options, vertices, edges, &reporter).await;
        written.map_err(|error| {
            reporter.broken.lock().take().unwrap_or_else(|| InterruptibleError::Failed(error.into()))
        })
    };

    let written = py.detach(|| process.wait_detached(work, &mut SignalPoller::new()));
    let written = written?.map_err(|broken| broken.raised(py))?;

    Ok((written.file, written.vertices, written.edges, written.bytes, written.files))
}

/// Reports the progress of a write, and keeps the Python exception that ended it.
struct GraphWriteReporter {
    progress: Mutex<ProgressCallback>,
    so_far: Arc<Mutex<WriteProgress>>,
    broken: Mutex<Option<InterruptibleError>>,
}

impl GraphWriteReporter {
    /// Calls the progress function if it is due or `always` is set. An exception in it ends the write.
    fn report(&self, always: bool) -> Result<()> {
        let mut progress = self.progress.lock();
        if !always && !progress.is_due() {
            return Ok(());
        }
        let WriteProgress { rows, bytes, .. } = *self.so_far.lock();
        progress.report(rows, bytes).map_err(|broken| self.end(broken))
    }

    fn end(&self, broken: InterruptibleError) -> Error {
        *self.broken.lock() = Some(broken);
        Error::Ended { reason: "by its caller".to_owned() }
    }

    /// Reports progress between the batches.
    fn batches(
        self: &Arc<Self>,
        input: PythonBatchInput,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        let reporter = self.clone();
        input.batches.map(move |batch| {
            reporter.report(false)?;
            batch.map_err(|failure| reporter.end(InterruptibleError::Failed(failure)))
        })
    }
}

async fn write(
    destination: Destination,
    name: String,
    options: GraphWriteOptions,
    vertices: Vec<VertexWriteInput>,
    edges: Vec<EdgeWriteInput>,
    reporter: &Arc<GraphWriteReporter>,
) -> Result<WrittenGraph> {
    let mut writer = GraphWriter::create(destination, name, options).await?;
    for VertexWriteInput { write, input, labels } in vertices {
        let batches = reporter.batches(input).map(move |batch| with_labels(&batch?, &labels));
        writer.vertices(write, batches).await?;
    }

    for EdgeWriteInput { write, input } in edges {
        writer.edges(write, reporter.batches(input)).await?;
    }

    reporter.report(true)?;
    writer.finish().await
}

fn graph_options(given: &Bound<'_, PyDict>) -> PyResult<GraphWriteOptions> {
    let mut options = GraphWriteOptions::default();
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        options = match name.as_str() {
            "format" => options.with_file_type(parsed::<FileType>(&name, &value)?),
            "vertex_chunk_size" => options.with_vertex_chunk_size(positive(&name, &value)? as u64),
            "edge_chunk_size" => options.with_edge_chunk_size(positive(&name, &value)? as u64),
            "compression" => options.with_compression(parsed(&name, &value)?),
            "orc_compression" => options.with_orc_compression(parsed(&name, &value)?),
            "memory" => options.with_memory(byte_size(&name, &value)?),
            "threads" => options.with_threads(positive(&name, &value)?),
            "durability" => options.with_durability(parsed::<Durability>(&name, &value)?),
            "temporary_folder" => options.with_temporary_folder(location(&value)?),
            "overwrite" => {
                options.with_overwrite(if value.extract()? { Overwrite::Replace } else { Overwrite::Refuse })
            }
            other => return Err(unknown(&value, other)),
        };
    }

    Ok(options)
}

/// Input vertices of one type.
struct VertexWriteInput {
    write: VertexWrite,
    input: PythonBatchInput,
    /// Boolean columns that are labels.
    labels: Vec<String>,
}

impl VertexWriteInput {
    fn of(
        vertex_type: String,
        data: &Bound<'_, PyAny>,
        given: &Bound<'_, PyDict>,
        process: &ProcessRuntime,
    ) -> PyResult<Self> {
        let input = PythonBatchInput::of(data, process)?;
        let labels: Vec<String> = match given.get_item("labels")? {
            Some(value) if value.extract::<String>().is_err() => value.extract()?,
            _ => Vec::new(),
        };

        let schema = labelled_schema(&input.schema, &labels).or_raise(data.py())?;
        let mut write = VertexWrite::new(vertex_type, schema);
        for (name, value) in given.iter() {
            let name: String = name.extract()?;
            write = match name.as_str() {
                "key" => write.with_key(value.extract::<String>()?),
                "primary" => write.with_primary(value.extract::<String>()?),
                "chunk_size" => write.with_chunk_size(positive(&name, &value)? as u64),
                "format" => write.with_file_type(parsed(&name, &value)?),
                "groups" => write.with_groups(value.extract::<Vec<Vec<String>>>()?),
                "labels" => match value.extract::<String>() {
                    Ok(column) => write.with_labels_column(column),
                    Err(_) if labels.is_empty() => write,
                    Err(_) => write.with_labels(labels.clone()).with_labels_column(LABELS),
                },
                other => return Err(unknown(&value, other)),
            };
        }

        Ok(Self { write, input, labels })
    }
}

/// Input edges of one type.
struct EdgeWriteInput {
    write: EdgeWrite,
    input: PythonBatchInput,
}

impl EdgeWriteInput {
    fn of(
        (source, edge, destination): GraphArEdgeName,
        data: &Bound<'_, PyAny>,
        given: &Bound<'_, PyDict>,
        process: &ProcessRuntime,
    ) -> PyResult<Self> {
        let input = PythonBatchInput::of(data, process)?;
        let mut write = EdgeWrite::new(source, edge, destination, input.schema.clone());
        for (name, value) in given.iter() {
            let name: String = name.extract()?;
            write = match name.as_str() {
                "source" => write.with_source(value.extract::<String>()?),
                "destination" => write.with_destination(value.extract::<String>()?),
                "by" => match value.extract::<String>()?.as_str() {
                    "index" => write.by_index(),
                    "key" => write,
                    other => {
                        let message = format!("by: \"key\" or \"index\", not {other:?}");
                        return Err(ErrorClass::Config.error(value.py(), message));
                    }
                },
                "directed" => write.with_directed(value.extract()?),
                "chunk_size" => write.with_chunk_size(positive(&name, &value)? as u64),
                "format" => write.with_file_type(parsed(&name, &value)?),
                "groups" => write.with_groups(value.extract::<Vec<Vec<String>>>()?),
                "lists" => {
                    let lists = value.try_iter()?.map(|list| parsed::<AdjacencyOrder>(&name, &list?));
                    write.with_adjacencies(lists.collect::<PyResult<Vec<_>>>()?)
                }
                other => return Err(unknown(&value, other)),
            };
        }

        Ok(Self { write, input })
    }
}

fn unknown(value: &Bound<'_, PyAny>, option: &str) -> PyErr {
    ErrorClass::Config.error(value.py(), format!("{option}: no such option"))
}

/// Returns the schema with the label columns replaced by one list column.
fn labelled_schema(schema: &SchemaRef, labels: &[String]) -> Result<SchemaRef> {
    if labels.is_empty() {
        return Ok(schema.clone());
    }

    for label in labels {
        let found = schema.column_with_name(label).map(|(_, field)| field.data_type());
        let reason = match found {
            Some(DataType::Boolean) => continue,
            Some(other) => format!("its column is {other}, not true or false"),
            None => "there is no such column".to_owned(),
        };
        return Err(Error::Unwritable { of: format!("label {label}"), reason });
    }

    let others = schema.fields().iter().filter(|field| !labels.contains(field.name())).cloned();
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let of_labels = Arc::new(Field::new(LABELS, DataType::List(item), false));

    Ok(Arc::new(Schema::new(others.chain([of_labels]).collect::<Vec<_>>())))
}

/// Collects the label columns into one list column.
fn with_labels(batch: &RecordBatch, labels: &[String]) -> Result<RecordBatch> {
    if labels.is_empty() {
        return Ok(batch.clone());
    }

    let schema = labelled_schema(&batch.schema(), labels)?;
    let given: Vec<_> = labels
        .iter()
        .filter_map(|label| Some((label, batch.column_by_name(label)?.as_boolean_opt()?)))
        .collect();

    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..batch.num_rows() {
        for (label, has) in &given {
            if has.is_valid(row) && has.value(row) {
                lists.values().append_value(label);
            }
        }
        lists.append(true);
    }

    let kept = batch.schema();
    let kept = kept.fields().iter().zip(batch.columns());
    let kept = kept.filter(|(field, _)| !labels.contains(field.name())).map(|(_, column)| column.clone());
    let columns: Vec<ArrayRef> = kept.chain([Arc::new(lists.finish()) as ArrayRef]).collect();

    RecordBatch::try_new(schema, columns).map_err(|error| Error::Ended { reason: error.to_string() })
}
