//! Writes a graph: first its vertices, then the edges between them, and finally the file that describes them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_recursion::async_recursion as boxed;
use futures::{Stream, StreamExt, future::BoxFuture, stream::BoxStream};
use stylobate_storage::Destination;

use super::{
    edges::{
        EdgeWriter, arrangements,
        list_writer::WrittenAdjacencyList,
        request::{EdgeWrite, EdgeWritePlan},
    },
    files::{encoders::ChunkEncoderPool, output::GraphOutput},
    keys::{
        VertexKeyIndex,
        ends::{EndpointResolver, EndpointVertices},
    },
    names::unwritable,
    options::GraphWriteOptions,
    progress::WriteProgressTracker,
    sort::{EdgeSortPlan, shares::WriterMemoryBudget},
    vertices::{
        VertexWriter, WrittenVertices,
        request::{VertexWrite, VertexWritePlan},
    },
};
use crate::{
    Error, Result,
    graphar::{EdgeInfo, GraphInfo, VertexInfo},
};

/// Writes a graph as GraphAr.
///
/// The files do not form a graph until [`GraphWriter::finish`]. Dropping the writer earlier removes them. After an
/// error they have been removed already, and the writer is unusable. Must be used within a tokio runtime.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch};
/// use futures::stream;
/// use stylobate_graph::graphar::{EdgeWrite, GraphWriteOptions, GraphWriter, VertexWrite};
/// use stylobate_storage::Destination;
///
/// fn numbers(numbers: &[i64]) -> ArrayRef {
///     Arc::new(Int64Array::from(numbers.to_vec()))
/// }
///
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let destination = Destination::File(folder.path().join("social"));
/// let mut writer = GraphWriter::create(destination, "social", GraphWriteOptions::default()).await?;
///
/// let persons = RecordBatch::try_from_iter([("id", numbers(&[70, 20, 90])), ("born", numbers(&[1999, 2001, 1984]))])?;
/// let vertices = VertexWrite::new("person", persons.schema()).with_key("id");
/// writer.vertices(vertices, stream::iter([Ok(persons)])).await?;
///
/// // The person with the key 20 knows those with the keys 90 and 70.
/// let known = RecordBatch::try_from_iter([("src", numbers(&[20, 20])), ("dst", numbers(&[90, 70]))])?;
/// let edges = EdgeWrite::new("person", "knows", "person", known.schema());
/// writer.edges(edges, stream::iter([Ok(known)])).await?;
///
/// let written = writer.finish().await?;
/// assert_eq!((written.vertices, written.edges, written.file.as_str()), (3, 2, "social.graph.yml"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct GraphWriter {
    name: String,
    options: GraphWriteOptions,
    /// `None` after an error.
    parts: Option<GraphWritePipeline>,
    progress: WriteProgressTracker,
    vertices: Vec<WrittenVertices>,
    edges: Vec<(EdgeInfo, u64)>,
    /// Lists of the last written edges.
    lists: Vec<WrittenAdjacencyList>,
    /// True after an error, or after an operation was dropped midway.
    is_broken: bool,
}

/// State of a writer without errors. Encoders come first, so that they are dropped first.
#[derive(Debug)]
struct GraphWritePipeline {
    encoders: ChunkEncoderPool,
    output: Arc<GraphOutput>,
}

/// Written graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenGraph {
    /// Description of the graph.
    pub info: GraphInfo,
    /// Name of the graph's own file.
    pub file: String,
    /// Number of vertices of all types.
    pub vertices: u64,
    /// Number of edges of all types.
    pub edges: u64,
    /// Total size of all its files, in bytes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
}

impl GraphWriter {
    /// Begins a graph of this name below a folder or a prefix of an object store.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`] if something exists there that must not be replaced; [`Error::Unwritable`] if a graph cannot
    /// have this name.
    pub fn create(
        destination: Destination,
        name: impl Into<String>,
        options: GraphWriteOptions,
    ) -> BoxFuture<'static, Result<Self>> {
        Self::create_named(destination, name.into(), options)
    }

    #[boxed]
    async fn create_named(
        destination: Destination,
        name: String,
        options: GraphWriteOptions,
    ) -> Result<Self> {
        new_graph(&name, &options)?;
        let output = GraphOutput::create(destination, options.overwrite, options.durability).await?;
        let output = Arc::new(output);
        let progress = WriteProgressTracker::new(options.listener.clone());
        let encoders = ChunkEncoderPool::new(output.clone(), &options, progress.clone());
        let parts = Some(GraphWritePipeline { encoders, output });

        Ok(Self {
            name,
            options,
            parts,
            progress,
            vertices: Vec::new(),
            edges: Vec::new(),
            lists: Vec::new(),
            is_broken: false,
        })
    }

    /// Writes the vertices of a type, with indexes from 0 in their order of arrival. Returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] with the column and the number of the row, counted from 0 over all batches, if GraphAr
    /// cannot represent a value, or a key is missing or repeated; also if the keys do not fit into memory.
    pub fn vertices<'a>(
        &'a mut self,
        vertices: VertexWrite,
        batches: impl Stream<Item = Result<RecordBatch>> + Send + 'a,
    ) -> BoxFuture<'a, Result<u64>> {
        let batches = batches.boxed();
        Box::pin(async move {
            self.begin()?;
            let written = self.write_vertices(vertices, batches).await;
            self.end(written).await
        })
    }

    /// Writes the edges of a type between vertices that were written. Returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`] with the column and the number of the row, counted from 0 over all batches, if GraphAr
    /// cannot represent a value, or no vertex has the key; [`Error::OutOfRange`] if no vertex has the index;
    /// [`Error::NoSuchVertexType`] if the vertices were not written.
    pub fn edges<'a>(
        &'a mut self,
        edges: EdgeWrite,
        batches: impl Stream<Item = Result<RecordBatch>> + Send + 'a,
    ) -> BoxFuture<'a, Result<u64>> {
        let batches = batches.boxed();
        Box::pin(async move {
            self.begin()?;
            let written = self.write_edges(edges, batches).await;
            self.end(written).await
        })
    }

    /// Returns the metadata of the lists of the last written edges.
    pub(crate) fn lists(&self) -> &[WrittenAdjacencyList] {
        &self.lists
    }

    /// Publishes all files under their names, the graph's own last.
    #[tracing::instrument(name = "graph_finish", level = "debug", skip_all, fields(graph = self.name))]
    #[boxed]
    pub async fn finish(mut self) -> Result<WrittenGraph> {
        self.begin()?;
        let info = self.info();
        let texts = match info.yaml_files() {
            Ok(texts) => texts,
            Err(error) => return Err(self.give_up(error).await),
        };
        let ended = || Error::Ended { reason: "files are still being written".to_owned() };
        let GraphWritePipeline { encoders, output } = self.parts.take().ok_or_else(ended)?;
        let sealed = encoders.into_sealed();
        let output = Arc::into_inner(output).ok_or_else(ended)?;
        let files = self.progress.so_far().files + texts.len() as u64;
        let file = texts.last().map(|(file, _)| file.clone()).unwrap_or_default();
        let bytes = self.progress.so_far().bytes + output.publish(sealed, texts).await?;
        let vertices = self.vertices.iter().map(|vertices| vertices.count).sum();
        let edges = self.edges.iter().map(|(_, count)| count).sum();

        Ok(WrittenGraph { info, file, vertices, edges, bytes, files })
    }

    /// Returns the description of the graph so far.
    fn info(&self) -> GraphInfo {
        let vertices: Vec<_> = self.vertices.iter().map(|vertices| vertices.info.clone()).collect();
        let mut labels: Vec<String> = Vec::new();
        for label in vertices.iter().flat_map(|vertices| &vertices.labels) {
            if !labels.contains(label) {
                labels.push(label.clone());
            }
        }

        GraphInfo {
            name: self.name.clone(),
            vertices,
            edges: self.edges.iter().map(|(info, _)| info.clone()).collect(),
            labels,
            extra: self.options.extra.clone(),
            ..GraphInfo::default()
        }
    }

    fn begin(&mut self) -> Result<()> {
        if self.is_broken {
            return Err(unwritable(&self.name, "an earlier write failed or was given up"));
        }
        self.is_broken = true;
        Ok(())
    }

    /// Ends a write: reports progress, or cleans up after an error.
    async fn end(&mut self, written: Result<u64>) -> Result<u64> {
        match written {
            Ok(count) => {
                self.is_broken = false;
                Ok(count)
            }
            Err(error) => Err(self.give_up(error).await),
        }
    }

    /// Removes what was written.
    async fn give_up(&mut self, error: Error) -> Error {
        if let Some(GraphWritePipeline { mut encoders, output }) = self.parts.take() {
            encoders.give_up().await;
            drop(encoders);
            if let Some(output) = Arc::into_inner(output) {
                output.remove().await;
            }
        }
        error
    }

    fn keys_memory(&self) -> usize {
        self.vertices.iter().filter_map(|vertices| vertices.keys.as_deref()).map(VertexKeyIndex::memory).sum()
    }

    #[tracing::instrument(name = "graph_write_vertices", level = "debug", skip_all, fields(graph = self.name))]
    async fn write_vertices(
        &mut self,
        vertices: VertexWrite,
        batches: BoxStream<'_, Result<RecordBatch>>,
    ) -> Result<u64> {
        let plan = plan_vertices(self.info(), vertices, &self.options)?;
        let memory = self.options.memory;
        let threads = self.options.threads;
        let used = self.keys_memory();
        let shares = WriterMemoryBudget::new(memory, used);
        let progress = self.progress.clone();
        let encoders = self.encoders()?;
        let groups = plan.info.groups.len();
        encoders.divide_memory(shares.encoders, plan.info.chunk_size, plan.columns.len() + groups, groups);

        let keys_share = shares.keys.saturating_sub(used);
        let mut writer = VertexWriter { encoders, progress, memory, keys_share, threads };
        let written = writer.write(plan, batches).await?;
        let count = written.count;
        self.vertices.push(written);
        Ok(count)
    }

    #[tracing::instrument(name = "graph_write_edges", level = "debug", skip_all, fields(graph = self.name))]
    async fn write_edges(
        &mut self,
        edges: EdgeWrite,
        batches: BoxStream<'_, Result<RecordBatch>>,
    ) -> Result<u64> {
        let by_index = edges.by_index;
        let (from, to) = edges.vertex_types();
        let from = self.written(from)?;
        let to = self.written(to)?;
        let counts = (from.count, to.count);
        let plan = plan_edges(self.info(), edges, (&from.info, &to.info), &self.options)?;

        let columns = (plan.source.as_str(), plan.destination.as_str());
        let ends = EndpointResolver::new(&plan.input, columns, (named(from), named(to)), by_index)?;
        let shares = WriterMemoryBudget::new(self.options.memory, self.keys_memory());
        let threads = self.options.threads;
        let sort = EdgeSortPlan {
            schema: plan.schema(),
            properties: plan.properties(),
            arrangements: arrangements(&plan, counts),
            vertices: counts,
            memory: shares.sort,
            threads,
            folder: self.options.temporary_folder.clone().unwrap_or_else(std::env::temp_dir),
        };

        let progress = self.progress.clone();
        let encoders = self.encoders()?;
        let files = plan.info.groups.len() + 1;
        encoders.divide_memory(shares.encoders, plan.info.chunk_size, plan.columns.len() + 2, files);
        let mut writer = EdgeWriter { encoders, progress, threads };
        let (count, lists) = writer.write(&plan, ends, sort, batches).await?;
        self.lists = lists;
        self.edges.push((plan.info, count));

        Ok(count)
    }

    fn encoders(&mut self) -> Result<&mut ChunkEncoderPool> {
        let ended = || unwritable("the graph", "an earlier write failed or was given up");
        self.parts.as_mut().map(|parts| &mut parts.encoders).ok_or_else(ended)
    }

    fn written(&self, vertex_type: &str) -> Result<&WrittenVertices> {
        let found = self.vertices.iter().find(|vertices| vertices.info.vertex_type == vertex_type);
        found.ok_or_else(|| {
            let available: Vec<&str> =
                self.vertices.iter().map(|vertices| vertices.info.vertex_type.as_str()).collect();
            Error::NoSuchVertexType { name: vertex_type.to_owned(), available: available.join(", ") }
        })
    }
}

/// Returns a graph without types, if a graph can have this name.
pub(crate) fn new_graph(name: &str, options: &GraphWriteOptions) -> Result<GraphInfo> {
    let graph = GraphInfo { name: name.to_owned(), extra: options.extra.clone(), ..GraphInfo::default() };
    graph.validate()?;
    Ok(graph)
}

/// Plans vertices, and checks that `graph` can be written with them. Does no I/O.
pub(crate) fn plan_vertices(
    mut graph: GraphInfo,
    vertices: VertexWrite,
    options: &GraphWriteOptions,
) -> Result<VertexWritePlan> {
    let plan = vertices.plan(options)?;
    graph.vertices.push(plan.info.clone());
    graph.validate()?;
    Ok(plan)
}

/// Plans edges between vertices of two types of `graph`, and checks that the graph can be written with them. Does no
/// I/O.
pub(crate) fn plan_edges(
    mut graph: GraphInfo,
    edges: EdgeWrite,
    (from, to): (&VertexInfo, &VertexInfo),
    options: &GraphWriteOptions,
) -> Result<EdgeWritePlan> {
    let plan = edges.plan(options, from, to)?;
    graph.edges.push(plan.info.clone());
    graph.validate()?;
    Ok(plan)
}

fn named(vertices: &WrittenVertices) -> EndpointVertices {
    EndpointVertices {
        vertex_type: vertices.info.vertex_type.clone(),
        count: vertices.count,
        keys: vertices.keys.clone(),
    }
}
