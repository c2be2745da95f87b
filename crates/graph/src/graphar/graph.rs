//! Open graph: its description, and readers of its vertices and edges.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use futures::{StreamExt, TryStreamExt, future::BoxFuture};
use object_store::{Error as ObjectError, ListResult, path::Path};
use stylobate_columnar::{Cache, Source};
use stylobate_storage::{Error as StorageError, ReadThrough};

use super::{
    edge_list::EdgeList,
    edges::{EdgeTable, Edges},
    graph_folder::GraphFolder,
    info::{Adjacency, EdgeInfo, GraphFile, GraphInfo, Side, Strictness},
    vertex_table::VertexTable,
    vertices::Vertices,
};
use crate::{Error, Result};

/// Files read concurrently.
const MAX_CONCURRENT_READS: usize = 16;

/// Options of opening a graph.
#[derive(Clone, Debug, Default)]
pub struct GraphOptions {
    prefix: Option<Source>,
    strictness: Strictness,
}

impl GraphOptions {
    /// Overrides the location of vertices and edges. Default: the prefix in the graph's file, or else the folder of
    /// that file.
    pub fn with_prefix(mut self, prefix: impl Into<Source>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets how deviations from the format are handled. Default: [`Strictness::Tolerant`].
    pub fn with_strictness(mut self, strictness: Strictness) -> Self {
        self.strictness = strictness;
        self
    }
}

/// Open graph. Each of its files is pinned to the version at its first use: open the graph again to see later versions.
/// Cheap to clone.
#[derive(Clone)]
pub struct Graph {
    inner: Arc<GraphInner>,
}

struct GraphInner {
    file_name: String,
    info: GraphInfo,
    vertices: Vec<Arc<VertexTable>>,
    edges: Vec<Arc<EdgeTable>>,
}

impl Graph {
    /// Opens the graph described by a file such as `social.graph.yml`, or by the only such file in a folder: reads that
    /// file and the files that it names.
    ///
    /// # Errors
    ///
    /// [`Error::NoGraphFile`] if a folder has no such file or several, [`Error::Missing`] if one of the files is
    /// missing, [`Error::Info`] if one is invalid.
    pub fn open(
        cache: &Cache,
        file: impl Into<Source>,
        options: GraphOptions,
    ) -> BoxFuture<'_, Result<Self>> {
        Self::open_source(cache, file.into(), options)
    }

    #[tracing::instrument(name = "graph_open", level = "debug", skip_all, fields(source = %file))]
    #[boxed]
    async fn open_source(cache: &Cache, file: Source, options: GraphOptions) -> Result<Self> {
        let (store, path) = file.literal(cache)?;
        let path = graph_file(&store, path).await?;
        let folder = folder_of(&path);
        let strictness = options.strictness;
        let here = GraphFolder { cache: cache.clone(), store, base: folder, strictness };
        let name = path.filename().unwrap_or_default().to_owned();
        let text = text_of(&here, &name).await?;
        let file = GraphFile::parse(&here.name(&name), &text, strictness)?;
        let read = |files: &[String]| {
            let files = files.to_vec();
            let here = here.clone();
            async move {
                let read = files.into_iter().map(|file| {
                    let here = here.clone();
                    async move {
                        let relative = file.trim_start_matches("./");
                        let text = text_of(&here, relative).await?;
                        Ok::<_, Error>((here.name(relative), text))
                    }
                });
                futures::stream::iter(read).buffered(MAX_CONCURRENT_READS).try_collect::<Vec<_>>().await
            }
        };

        let (vertices, edges) =
            futures::future::try_join(read(file.vertex_files()), read(file.edge_files())).await?;
        let info = file.with(vertices, edges)?;
        let data_folder = here.data(&info, options.prefix).await?;
        Ok(Self { inner: Arc::new(GraphInner::new(name, data_folder, info)) })
    }

    /// Returns the name of the graph's file.
    pub fn file_name(&self) -> &str {
        &self.inner.file_name
    }

    /// Returns the description of the graph.
    pub fn info(&self) -> &GraphInfo {
        &self.inner.info
    }

    /// Returns the vertices of a type.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchVertexType`].
    pub fn vertices(&self, vertex_type: &str) -> Result<Vertices> {
        let mut tables = self.inner.vertices.iter();
        let found = tables.find(|table| table.info().vertex_type == vertex_type);
        let found = found.ok_or_else(|| Error::NoSuchVertexType {
            name: vertex_type.to_owned(),
            available: comma_separated(self.inner.info.vertices.iter().map(|info| info.vertex_type.clone())),
        })?;
        Ok(Vertices::new(found.clone()))
    }

    /// Returns the edges of a type between vertices of two types.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchEdgeType`]; [`Error::NoSuchAdjacency`] if no list stores them.
    pub fn edges(&self, source: &str, edge: &str, destination: &str) -> Result<Edges> {
        let mut tables = self.inner.edges.iter();
        let found = tables.find(|table| {
            let info = &table.info;
            info.src_type == source && info.edge_type == edge && info.dst_type == destination
        });
        let found = found.ok_or_else(|| Error::NoSuchEdgeType {
            name: format!("{source}_{edge}_{destination}"),
            available: comma_separated(self.inner.info.edges.iter().map(|info| info.name())),
        })?;
        Edges::new(found.clone())
    }
}

impl GraphInner {
    fn new(file_name: String, folder: GraphFolder, info: GraphInfo) -> Self {
        let vertices = info.vertices.iter().map(|info| VertexTable::new(folder.clone(), info.clone()));
        let vertices: Vec<Arc<VertexTable>> = vertices.map(Arc::new).collect();
        let table = |info: &_| {
            let info = Arc::new(Clone::clone(info));
            let lists = lists_of(&folder, &info, &vertices);
            Arc::new(EdgeTable { info, lists })
        };
        let edges = info.edges.iter().map(table).collect();
        Self { file_name, info, vertices, edges }
    }
}

fn lists_of(folder: &GraphFolder, info: &Arc<EdgeInfo>, vertices: &[Arc<VertexTable>]) -> Vec<Arc<EdgeList>> {
    let list = |list: &Adjacency| {
        let aligned_by = match list.order.aligned_by() {
            Side::Source => &info.src_type,
            Side::Dest => &info.dst_type,
        };
        let vertices = vertices.iter().find(|table| table.info().vertex_type == *aligned_by).cloned();
        Arc::new(EdgeList::new(folder.clone(), info.clone(), list.clone(), vertices))
    };
    info.adjacencies.iter().map(list).collect()
}

impl GraphFolder {
    /// Locates the files of vertices and edges. The graph may have moved since its prefix was written, so data beside
    /// the graph's file takes precedence.
    async fn data(&self, info: &GraphInfo, given: Option<Source>) -> Result<Self> {
        if let Some(given) = given {
            return self.at(given);
        }
        let relative = info.prefix.trim_start_matches("./");
        let is_absolute = relative.starts_with('/') || relative.contains("://");
        if !is_absolute {
            let base = format!("{}{relative}", self.base);
            let slash = if base.is_empty() || base.ends_with('/') { "" } else { "/" };
            return Ok(Self { base: format!("{base}{slash}"), ..self.clone() });
        }
        if self.strictness == Strictness::Tolerant
            && let Some(first) = info.vertices.first()
            && !matches!(self.read(&first.count_path()).await, Err(Error::Missing { .. }))
        {
            return Ok(self.clone());
        }

        self.at(Source::from(relative))
    }

    fn at(&self, source: Source) -> Result<Self> {
        let (store, path) = source.literal(&self.cache)?;
        let slash = if path.as_ref().is_empty() { "" } else { "/" };
        Ok(Self { store, base: format!("{path}{slash}"), ..self.clone() })
    }
}

async fn text_of(folder: &GraphFolder, file: &str) -> Result<String> {
    let text = String::from_utf8(folder.read(file).await?);
    let not_text = |_| Error::Data { file: folder.name(file), reason: "text that is not UTF-8".to_owned() };
    text.map_err(not_text)
}

fn folder_of(path: &Path) -> String {
    match path.as_ref().rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/"),
        None => String::new(),
    }
}

/// Lists names for an error.
fn comma_separated(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// Resolves the path of the graph's file: `path` itself if it may be one, otherwise the only one in that folder.
async fn graph_file(store: &ReadThrough, path: Path) -> Result<Path> {
    let origin = store.origin();
    // Web servers cannot list folders.
    let may_be_folder = !is_yaml(&path) && !origin.name().starts_with("http");
    if !may_be_folder {
        return Ok(path);
    }

    let listed = match origin.store().list_with_delimiter(Some(&path)).await {
        Ok(listed) => listed,
        Err(ObjectError::NotFound { .. }) => ListResult { objects: Vec::new(), common_prefixes: Vec::new() },
        Err(error) => return Err(StorageError::from_origin(path.as_ref(), error).into()),
    };
    let is_empty = listed.objects.is_empty() && listed.common_prefixes.is_empty();
    if is_empty && !origin.folder().is_some_and(|folder| folder.has_directory(&path)) {
        return Ok(path);
    }

    let mut found: Vec<Path> = listed.objects.into_iter().map(|object| object.location).collect();
    found.retain(|file| file.filename().is_some_and(is_graph));
    let folder = || origin.name_of(&path);
    match found.as_mut_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Error::NoGraphFile {
            folder: folder(),
            reason: "this folder holds no graph: no file there ends in .graph.yml".to_owned(),
        }),
        several => {
            several.sort();
            let names: Vec<&str> = several.iter().filter_map(Path::filename).collect();
            Err(Error::NoGraphFile { folder: folder(), reason: format!("name one of {}", names.join(", ")) })
        }
    }
}

/// Returns true if a file name is that of a graph's description.
pub(super) fn is_graph(name: &str) -> bool {
    name.ends_with(".graph.yml") || name.ends_with(".graph.yaml")
}

fn is_yaml(path: &Path) -> bool {
    matches!(path.extension(), Some("yml" | "yaml"))
}
