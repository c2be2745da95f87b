//! Builder of traversals of several hops.
//!
//! ```text
//! start ─▶ hop ─▶ hop ─▶ … ─▶ top ─▶ select
//!            rows: vertex at the end, row of the hop before, columns of the edge
//! ```
//!
//! Hops read neighbours and the named columns of edges. Properties of vertices are gathered for the remaining rows
//! at the end, except for the one that `top` orders by.

use crate::{
    Direction,
    store::{snapshot::Snapshot, write::changes::VertexIds},
};

/// Requested hop.
#[derive(Clone, Debug)]
pub(crate) struct TraversalHop {
    pub(crate) edge_type: String,
    pub(crate) direction: Direction,
    /// `None` if the edge type determines it.
    pub(crate) vertex_type: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) name: Option<String>,
}

/// Rows to keep: the first ones by a column.
#[derive(Clone, Debug)]
pub(crate) struct TraversalTopK {
    pub(crate) rows: usize,
    pub(crate) by: String,
    pub(crate) descending: bool,
}

/// Hops from some vertices, evaluated when the traversal is collected. Cheap to build.
///
/// The vertices of each step are named by their type, or as `Person_0`, `Person_2` by their type and the number of
/// the step if several steps share it, or as [`Self::named`] sets. Edges are named in the same way, with hops
/// numbered from 1. Columns are `name` for a requested column of edges, or else for a property of the last
/// vertices; `Person.name` for properties of the vertices of any step, `Person._index` for their indexes;
/// `LIKES.name` for a column of edges.
#[derive(Clone, Debug)]
pub struct Traversal {
    pub(crate) snapshot: Snapshot,
    pub(crate) vertex_type: String,
    pub(crate) ids: VertexIds,
    pub(crate) name: Option<String>,
    pub(crate) hops: Vec<TraversalHop>,
    pub(crate) top: Option<TraversalTopK>,
    pub(crate) selected: Option<Vec<String>>,
}

impl Snapshot {
    /// Begins a traversal at these vertices.
    pub fn start(&self, vertex_type: &str, ids: VertexIds) -> Traversal {
        Traversal {
            snapshot: self.clone(),
            vertex_type: vertex_type.to_owned(),
            ids,
            name: None,
            hops: Vec::new(),
            top: None,
            selected: None,
        }
    }
}

impl Traversal {
    /// Follows edges to the vertices that they enter. The vertex type is required only if edges of several types
    /// share the name.
    pub fn out<'a>(self, edge_type: &str, vertex_type: impl Into<Option<&'a str>>) -> Self {
        self.hop(Direction::Out, edge_type, vertex_type.into())
    }

    /// Follows edges back to the vertices that they leave.
    pub fn in_<'a>(self, edge_type: &str, vertex_type: impl Into<Option<&'a str>>) -> Self {
        self.hop(Direction::In, edge_type, vertex_type.into())
    }

    fn hop(mut self, direction: Direction, edge_type: &str, vertex_type: Option<&str>) -> Self {
        let edge_type = edge_type.to_owned();
        let vertex_type = vertex_type.map(str::to_owned);
        self.hops.push(TraversalHop { edge_type, direction, vertex_type, columns: Vec::new(), name: None });
        self
    }

    /// Requests columns of the edges of the last hop.
    pub fn columns<N: Into<String>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        if let Some(hop) = self.hops.last_mut() {
            hop.columns = columns.into_iter().map(Into::into).collect();
        }
        self
    }

    /// Names the vertices of the last step.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        match self.hops.last_mut() {
            Some(hop) => hop.name = Some(name.into()),
            None => self.name = Some(name.into()),
        }
        self
    }

    /// Keeps the first rows by a column; nulls come last, and rows with equal values keep the order of the hops.
    pub fn top(mut self, rows: usize, by: &str, descending: bool) -> Self {
        self.top = Some(TraversalTopK { rows, by: by.to_owned(), descending });
        self
    }

    /// Selects the columns of the result. Default: `position`, the number of the row's start vertex, then the requested
    /// columns of edges, then the index of the last vertex.
    pub fn select<N: Into<String>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        self.selected = Some(columns.into_iter().map(Into::into).collect());
        self
    }
}
