//! The summary of a graph, read from metadata without scanning vertices or edges.

use anyhow::Result;
use serde::Serialize;
use stylobate_graph::{
    Direction,
    graphar::{EdgeInfo, Edges, Graph, VertexInfo},
};

use super::degrees::{self, DegreeStats};
use crate::rows::ProgressDisplay;

/// Maximum number of vertices, and of edges, of a graph whose degrees are counted by default.
const MAX_COUNTED: u64 = 5_000_000;

/// The summary of a graph.
#[derive(Clone, Debug, Serialize)]
pub(super) struct GraphSummary {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) prefix: String,
    pub(super) labels: Vec<String>,
    pub(super) extra_info: Vec<(String, String)>,
    pub(super) vertices: Vec<VertexTypeSummary>,
    pub(super) edges: Vec<EdgeTypeSummary>,
}

/// The summary of a vertex type.
#[derive(Clone, Debug, Serialize)]
pub(super) struct VertexTypeSummary {
    #[serde(flatten)]
    pub(super) info: VertexInfo,
    pub(super) count: u64,
    pub(super) chunks: u64,
}

/// The summary of an edge type.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EdgeTypeSummary {
    #[serde(flatten)]
    pub(super) info: EdgeInfo,
    pub(super) count: u64,
    /// Number of parts of each adjacency list, in graph file order.
    pub(super) parts: Vec<u64>,
    /// `None` if they were not counted.
    pub(super) degrees: Option<Vec<DegreeStats>>,
}

impl GraphSummary {
    /// Reads the counts of all types.
    pub(super) async fn gather(graph: &Graph, file: String) -> Result<Self> {
        let info = graph.info();
        let mut vertices = Vec::with_capacity(info.vertices.len());
        for info in &info.vertices {
            let count = graph.vertices(&info.vertex_type)?.count().await?;
            vertices.push(VertexTypeSummary { info: info.clone(), count, chunks: info.chunks(count) });
        }

        let mut edges = Vec::with_capacity(info.edges.len());
        for info in &info.edges {
            let of_type = edges_of(graph, info)?;
            let mut parts = Vec::with_capacity(info.adjacencies.len());
            for list in &info.adjacencies {
                parts.push(of_type.clone().by(list.order)?.parts().await?);
            }
            let count = of_type.count().await?;
            edges.push(EdgeTypeSummary { info: info.clone(), count, parts, degrees: None });
        }

        Ok(Self {
            name: info.name.clone(),
            file,
            prefix: info.prefix.clone(),
            labels: info.labels.clone(),
            extra_info: info.extra.clone(),
            vertices,
            edges,
        })
    }

    pub(super) fn vertex_count(&self) -> u64 {
        self.vertices.iter().map(|vertices| vertices.count).sum()
    }

    pub(super) fn edge_count(&self) -> u64 {
        self.edges.iter().map(|edges| edges.count).sum()
    }

    /// Returns true if degrees are counted by default.
    pub(super) fn is_small(&self) -> bool {
        self.vertex_count() <= MAX_COUNTED && self.edge_count() <= MAX_COUNTED
    }

    /// Counts the edges of each vertex from all adjacency lists that provide degrees.
    pub(super) async fn count_degrees(&mut self, graph: &Graph) -> Result<()> {
        let mut questions: Vec<(Edges, Vec<Direction>)> = Vec::with_capacity(self.edges.len());
        let mut vertices = 0;
        for edges in &self.edges {
            let of_type = edges_of(graph, &edges.info)?;
            let directions = degrees::directions(&of_type);
            for direction in &directions {
                vertices += degrees::vertices(&of_type, *direction).await?;
            }
            questions.push((of_type, directions));
        }

        let progress = ProgressDisplay::of("vertices", Some(vertices), false)?;

        for (edges, (of_type, directions)) in self.edges.iter_mut().zip(questions) {
            let mut counted = Vec::with_capacity(directions.len());
            for direction in directions {
                counted.push(DegreeStats::count(&of_type, direction, &progress).await?);
            }
            edges.degrees = Some(counted);
        }

        Ok(())
    }
}

fn edges_of(graph: &Graph, info: &EdgeInfo) -> Result<Edges> {
    Ok(graph.edges(&info.src_type, &info.edge_type, &info.dst_type)?)
}
