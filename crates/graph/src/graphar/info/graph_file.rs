//! Parser of the YAML files of a graph, which the caller fetches.

use super::{
    graph::{GraphInfo, GraphInfoPart},
    key_error::InfoKeyError,
    prefix,
    read::{self, check_unknown, check_version, each, missing, required},
    strictness::Strictness,
    yaml::{self, GraphInfoYaml},
};
use crate::Result;

/// Suffix of the file names of a graph.
const ENDING: &str = ".yml";

/// Parsed `*.graph.yml`, which names the files of the types.
///
/// ```
/// use stylobate_graph::graphar::{GraphFile, Strictness};
///
/// let graph = "name: friends\nvertices:\n  - person.vertex.yml\nversion: gar/v1\n";
/// let file = GraphFile::parse("friends.graph.yml", graph, Strictness::Tolerant)?;
/// assert_eq!(file.vertex_files(), ["person.vertex.yml"]);
///
/// // Names are relative to the folder of the first file: fetch each.
/// let person = "type: person\nchunk_size: 100\nversion: gar/v1\n";
/// let info = file.with(vec![("person.vertex.yml".into(), person.into())], vec![])?;
/// assert_eq!(info.vertex("person").map(|person| person.count_path()).as_deref(), Some("person/vertex_count"));
/// # Ok::<(), stylobate_graph::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GraphFile {
    file: String,
    strictness: Strictness,
    /// Everything but the types.
    graph: GraphInfo,
    vertices: Vec<String>,
    edges: Vec<String>,
}

impl GraphFile {
    /// Parses the graph's own file.
    ///
    /// # Errors
    ///
    /// [`Error::Info`](crate::Error::Info) for `file`. The key is the line and column if the text is not YAML, or has a
    /// list in place of text or text in place of a list.
    pub fn parse(file: &str, text: &str, strictness: Strictness) -> Result<Self> {
        let yaml: GraphInfoYaml = yaml::read(file, text)?;
        if strictness.is_strict() && !file.ends_with(ENDING) {
            return Err(InfoKeyError::new("file name", format!("does not end with {ENDING}")).in_file(file));
        }
        Self::make(file, yaml, strictness).map_err(|error| error.in_file(file))
    }

    /// Returns the files of the vertex types as written, relative to the folder of the graph's file.
    pub fn vertex_files(&self) -> &[String] {
        &self.vertices
    }

    /// Returns the files of the edge types as written, relative to the folder of the graph's file.
    pub fn edge_files(&self) -> &[String] {
        &self.edges
    }

    /// Returns the prefix of the graph's files, as [`GraphInfo::prefix`].
    pub fn prefix(&self) -> &str {
        &self.graph.prefix
    }

    /// Builds the whole graph from the files of its types, each given by name and content.
    ///
    /// # Errors
    ///
    /// [`Error::Info`](crate::Error::Info) with the file of the first error and the key within it.
    pub fn with(self, vertices: Vec<(String, String)>, edges: Vec<(String, String)>) -> Result<GraphInfo> {
        let Self { file, strictness, graph: mut info, .. } = self;
        for (file, text) in &vertices {
            let vertex =
                read::vertex(yaml::read(file, text)?, strictness).map_err(|error| error.in_file(file))?;
            info.vertices.push(vertex);
        }

        for (file, text) in &edges {
            let edge =
                read::edge(yaml::read(file, text)?, strictness).map_err(|error| error.in_file(file))?;
            info.edges.push(edge);
        }
        info.check(strictness).map_err(|(part, error)| {
            let of_type = match part {
                GraphInfoPart::Graph => None,
                GraphInfoPart::Vertex(i) => vertices.get(i),
                GraphInfoPart::Edge(i) => edges.get(i),
            };
            error.in_file(of_type.map_or(&file, |(file, _)| file))
        })?;
        Ok(info)
    }

    fn make(file: &str, yaml: GraphInfoYaml, strictness: Strictness) -> Result<Self, InfoKeyError> {
        check_unknown(&yaml.unknown, strictness)?;
        check_version(yaml.version.as_deref(), strictness)?;
        let extra = each("extra_info", yaml.extra_info.unwrap_or_default(), |entry| {
            check_unknown(&entry.unknown, strictness)?;
            Ok((required("key", entry.key)?, entry.value.unwrap_or_default()))
        })?;
        let name = match yaml.name.filter(|name| !name.is_empty()) {
            Some(name) => name,
            None if strictness.is_strict() => return Err(missing("name")),
            None => "graph".to_owned(),
        };

        let graph = GraphInfo {
            name,
            prefix: graph_prefix(yaml.prefix.unwrap_or_default(), strictness)?,
            labels: yaml.labels.unwrap_or_default(),
            extra,
            ..GraphInfo::default()
        };
        let vertices = files("vertices", yaml.vertices.unwrap_or_default(), strictness)?;
        let edges = files("edges", yaml.edges.unwrap_or_default(), strictness)?;

        Ok(Self { file: file.to_owned(), strictness, graph, vertices, edges })
    }
}

/// Normalizes the prefix of the graph; an absolute one changes only by a trailing slash.
fn graph_prefix(written: String, strictness: Strictness) -> Result<String, InfoKeyError> {
    prefix::leads_up(&written)
        .map_err(|reason| InfoKeyError::new("prefix", format!("{written:?} {reason}")))?;
    if written.is_empty() {
        return Ok(written);
    }
    let relative = read::slashed(&written, strictness)?;

    Ok(if !prefix::is_absolute(&written) {
        relative
    } else if written.ends_with('/') {
        written
    } else {
        written + "/"
    })
}

/// Checks file names, which must be in the folder of the graph's own file or below.
fn files(key: &str, names: Vec<String>, strictness: Strictness) -> Result<Vec<String>, InfoKeyError> {
    for (i, name) in names.iter().enumerate() {
        let key = format!("{key}[{i}]");
        if name.is_empty() {
            return Err(InfoKeyError::new(key, "is empty"));
        }
        prefix::leads_out(name).map_err(|reason| InfoKeyError::new(&key, format!("{name:?} {reason}")))?;
        if strictness.is_strict() && (name.starts_with("./") || !name.ends_with(ENDING)) {
            return Err(InfoKeyError::new(
                key,
                format!("{name:?} begins with ./ or does not end with {ENDING}"),
            ));
        }
    }

    Ok(names)
}
