//! Traversals of several hops, as they are said.
//!
//! ```text
//! start ─▶ hop ─▶ hop ─▶ … ─▶ top ─▶ select
//!            rows: vertex at the end, row of the hop before, columns of the edge
//! ```
//!
//! Hops read neighbours and the columns of edges that are named. Properties of vertices are gathered for the rows that
//! are left in the end, but for the one that `top` orders by.

use crate::{
    Direction,
    store::{snapshot::Snapshot, write::changes::VertexIds},
};

/// A hop, as it is said.
#[derive(Clone, Debug)]
pub(crate) struct TraversalHop {
    pub(crate) edge_type: String,
    pub(crate) direction: Direction,
    /// Nothing where the edges say it.
    pub(crate) vertex_type: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) name: Option<String>,
}

/// The rows that are left of all: the first ones by a column.
#[derive(Clone, Debug)]
pub(crate) struct TraversalTopK {
    pub(crate) rows: usize,
    pub(crate) by: String,
    pub(crate) descending: bool,
}

/// Hops from some vertices on, which are followed when the traversal is collected. Cheap to make.
///
/// The vertices of each step are called by their type, and as `Person_0`, `Person_2` by their type and the number of
/// the step where several steps have it, or as [`Self::named`] says. So are edges, whose hops are numbered from 1.
/// Columns are `name` for the columns of edges that were asked for and else for the properties of the last vertices;
/// `Person.name` for properties of the vertices of any step, `Person._index` for their indexes; `LIKES.name` for a
/// column of edges.
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
    /// Follows edges to the vertices that they enter. Of what type these are need only be said where edges of several
    /// types have the name.
    pub fn out<'a>(self, edge_type: &str, vertex_type: impl Into<Option<&'a str>>) -> Self {
        self.hop(Direction::Out, edge_type, vertex_type.into())
    }

    /// Follows edges back to the vertices that they leave.
    pub fn in_<'a>(self, edge_type: &str, vertex_type: impl Into<Option<&'a str>>) -> Self {
        self.hop(Direction::In, edge_type, vertex_type.into())
    }

    fn hop(mut self, direction: Direction, edge_type: &str, vertex_type: Option<&str>) -> Self {
        let (edge_type, vertex_type) = (edge_type.to_owned(), vertex_type.map(str::to_owned));
        self.hops.push(TraversalHop { edge_type, direction, vertex_type, columns: Vec::new(), name: None });
        self
    }

    /// Columns of the edges of the last hop.
    pub fn columns<N: Into<String>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        if let Some(hop) = self.hops.last_mut() {
            hop.columns = columns.into_iter().map(Into::into).collect();
        }
        self
    }

    /// What the vertices of the last step are called.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        match self.hops.last_mut() {
            Some(hop) => hop.name = Some(name.into()),
            None => self.name = Some(name.into()),
        }
        self
    }

    /// Leaves the first rows by a column; nulls come last, and rows of equal values in the order of the hops.
    pub fn top(mut self, rows: usize, by: &str, descending: bool) -> Self {
        self.top = Some(TraversalTopK { rows, by: by.to_owned(), descending });
        self
    }

    /// The columns of the answer. Default: `position`, the number of the vertex that the row began at, then the columns
    /// of edges that were asked for, then the index of the last vertex.
    pub fn select<N: Into<String>>(mut self, columns: impl IntoIterator<Item = N>) -> Self {
        self.selected = Some(columns.into_iter().map(Into::into).collect());
        self
    }
}
