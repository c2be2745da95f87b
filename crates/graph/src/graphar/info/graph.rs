//! Description of a graph: its vertex types and edge types.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{
    edge::EdgeInfo,
    key_error::InfoKeyError,
    prefix,
    strictness::Strictness,
    vertex::{VertexInfo, check_distinct, check_name},
};

/// Graph: the types of its vertices and edges, and the location of their files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GraphInfo {
    /// Name of the graph.
    pub name: String,
    /// Location of the graph's files: empty for the folder of its YAML file, relative to that folder, or absolute. The
    /// graph may have moved since an absolute location was written.
    pub prefix: String,
    /// Vertex types, each once.
    pub vertices: Vec<VertexInfo>,
    /// Edge types, each once between two vertex types.
    pub edges: Vec<EdgeInfo>,
    /// Labels of the graph itself.
    pub labels: Vec<String>,
    /// Additional metadata of the graph: pairs of key and value.
    #[serde(rename = "extra_info")]
    pub extra: Vec<(String, String)>,
}

/// Part of a graph that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GraphInfoPart {
    Graph,
    Vertex(usize),
    Edge(usize),
}

impl GraphInfo {
    /// Returns the vertices of this type.
    pub fn vertex(&self, vertex_type: &str) -> Option<&VertexInfo> {
        self.vertices.iter().find(|vertex| vertex.vertex_type == vertex_type)
    }

    /// Returns the edges of this type between vertices of these types.
    pub fn edge(&self, src_type: &str, edge_type: &str, dst_type: &str) -> Option<&EdgeInfo> {
        self.edges.iter().find(|edge| names(edge) == (src_type, edge_type, dst_type))
    }

    /// Returns true if the prefix is absolute, such as `/data/` or `s3://bucket/`, rather than relative to the graph's
    /// YAML file. Often it is where the graph was written, not where it is now.
    pub fn has_absolute_prefix(&self) -> bool {
        prefix::is_absolute(&self.prefix)
    }

    /// Returns the first error, with its part of the graph and the key in that part's file.
    pub(super) fn check(&self, strictness: Strictness) -> Result<(), (GraphInfoPart, InfoKeyError)> {
        self.check_graph(strictness).map_err(|error| (GraphInfoPart::Graph, error))?;
        let mut vertices: HashMap<&str, &VertexInfo> = HashMap::new();
        for (i, vertex) in self.vertices.iter().enumerate() {
            vertex.check(strictness).map_err(|error| (GraphInfoPart::Vertex(i), error))?;
            if vertices.insert(&vertex.vertex_type, vertex).is_some() {
                let reason = format!("there is a vertex type {:?} already", vertex.vertex_type);
                return Err((GraphInfoPart::Vertex(i), InfoKeyError::new("type", reason)));
            }
        }

        let mut edges = HashSet::new();
        for (i, edge) in self.edges.iter().enumerate() {
            let wrong = |error| (GraphInfoPart::Edge(i), error);
            edge.check(strictness).map_err(wrong)?;
            check_end("src", &edge.src_type, edge.src_chunk_size, &vertices, strictness).map_err(wrong)?;
            check_end("dst", &edge.dst_type, edge.dst_chunk_size, &vertices, strictness).map_err(wrong)?;
            if !edges.insert(names(edge)) {
                let (src, name, dst) = names(edge);
                let reason = format!("there is an edge type {name:?} from {src:?} to {dst:?} already");
                return Err(wrong(InfoKeyError::new("edge_type", reason)));
            }
        }

        Ok(())
    }

    fn check_graph(&self, strictness: Strictness) -> Result<(), InfoKeyError> {
        check_name("name", &self.name)?;
        let usable = if self.has_absolute_prefix() { prefix::leads_up } else { prefix::usable };
        usable(&self.prefix).map_err(|reason| InfoKeyError::new("prefix", reason))?;
        if strictness.is_strict() {
            check_distinct("labels", self.labels.iter().map(String::as_str))?;
            check_distinct("extra_info", self.extra.iter().map(|(key, _)| key.as_str()))?;
        }
        Ok(())
    }
}

fn names(edge: &EdgeInfo) -> (&str, &str, &str) {
    (&edge.src_type, &edge.edge_type, &edge.dst_type)
}

/// Checks one end of an edge type: its vertices exist and, in strict mode, have the same chunk size.
fn check_end(
    end: &str,
    vertex_type: &str,
    chunk_size: u64,
    vertices: &HashMap<&str, &VertexInfo>,
    strictness: Strictness,
) -> Result<(), InfoKeyError> {
    let Some(vertex) = vertices.get(vertex_type) else {
        let mut types: Vec<&str> = vertices.keys().copied().collect();
        types.sort_unstable();
        let types = if types.is_empty() { "none".to_owned() } else { types.join(", ") };
        let reason = format!("no vertex type {vertex_type:?}; available: {types}");
        return Err(InfoKeyError::new(format!("{end}_type"), reason));
    };
    if strictness.is_strict() && chunk_size != vertex.chunk_size {
        let reason = format!("is {chunk_size}, but chunks of {vertex_type} have {}", vertex.chunk_size);
        return Err(InfoKeyError::new(format!("{end}_chunk_size"), reason));
    }

    Ok(())
}
