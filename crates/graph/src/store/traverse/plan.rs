//! Resolves the names of a traversal: types, edges, and the source of each output column.

use super::traversal::{Traversal, TraversalHop};
use crate::{
    Direction, Error, Result,
    store::{
        access::Access,
        log::alter::comma_separated,
        names::INDEX,
        read::{edge_view::EdgeView, vertex_view::VertexView},
        schema::EdgeType,
        write::changes::VertexIds,
    },
};

/// Traversal with resolved names.
pub(crate) struct TraversalPlan {
    pub(crate) start: VertexView,
    pub(crate) hops: Vec<PlannedHop>,
    pub(crate) names: TraversalNames,
    /// Column that `top` orders by.
    pub(crate) order_by: Option<TraversalColumnSource>,
    /// Names and sources of the output columns.
    pub(crate) output: Vec<(String, TraversalColumnSource)>,
    /// Views of one property each, for [`TraversalColumnSource::Property`].
    pub(crate) views: Vec<VertexView>,
}

/// Hop with a view of its edges.
pub(crate) struct PlannedHop {
    pub(crate) edges: EdgeView,
    pub(crate) direction: Direction,
}

/// Source of an output column, or of the column that `top` orders by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TraversalColumnSource {
    /// Position of the start vertex of a row.
    Position,
    /// Index of the vertex of a step.
    Index { step: usize },
    /// Column of the edges of a hop.
    Edge { hop: usize, column: usize },
    /// Property of the vertices of a step.
    Property { view: usize, step: usize },
}

impl TraversalPlan {
    pub(crate) async fn new(traversal: &Traversal) -> Result<Self> {
        let snapshot = &traversal.snapshot;
        let start = snapshot.vertices(&traversal.vertex_type, Some(&[])).await?;
        let mut hops = Vec::with_capacity(traversal.hops.len());
        let mut from = traversal.vertex_type.clone();
        let mut types = vec![from.clone()];
        for hop in &traversal.hops {
            let fits = |edges: &EdgeType| {
                let (own, other) = match hop.direction {
                    Direction::Out => (&edges.source, &edges.destination),
                    Direction::In => (&edges.destination, &edges.source),
                };
                *own == from && hop.vertex_type.as_ref().is_none_or(|wanted| wanted == other)
            };

            let record = snapshot.record();
            let at =
                record.edge_type_of(&hop.edge_type, fits).map_err(|error| with_hop(error, &from, hop))?;
            if let Some(edges) = record.edges.get(at).map(|state| &state.schema) {
                from = match hop.direction {
                    Direction::Out => edges.destination.clone(),
                    Direction::In => edges.source.clone(),
                };
                types.push(from.clone());
            }

            let columns: Vec<&str> = hop.columns.iter().map(String::as_str).collect();
            let edges = EdgeView::new(snapshot.clone(), snapshot.edge_parts(at).await?, Some(&columns))?;
            hops.push(PlannedHop { edges, direction: hop.direction });
        }

        let names = TraversalNames::new(traversal, types);
        let mut plan = Self { start, hops, names, order_by: None, output: Vec::new(), views: Vec::new() };
        if let Some(top) = &traversal.top {
            plan.order_by = Some(plan.resolve(traversal, &top.by).await?);
        }
        match &traversal.selected {
            Some(selected) => {
                for name in selected {
                    let source = plan.resolve(traversal, name).await?;
                    plan.output.push((name.clone(), source));
                }
            }
            None => plan.output = plan.default_output(traversal),
        }

        Ok(plan)
    }

    /// Resolves the start vertices to indexes.
    pub(crate) async fn start(&self, access: Access, ids: &VertexIds) -> Result<Vec<i64>> {
        match ids {
            VertexIds::Keys(keys) => self.start.find_all(access, keys).await,
            VertexIds::Indexes(indexes) => {
                let parts = self.start.parts();
                match indexes.iter().find(|index| !parts.is_there(**index)) {
                    None => Ok(indexes.clone()),
                    Some(index) => Err(parts.no_vertex(*index)),
                }
            }
        }
    }

    /// Returns the output without a selection: the position, the requested columns of edges, the index of the last
    /// step.
    fn default_output(&self, traversal: &Traversal) -> Vec<(String, TraversalColumnSource)> {
        let mut output = vec![("position".to_owned(), TraversalColumnSource::Position)];
        let all = || traversal.hops.iter().flat_map(|hop| &hop.columns);
        for (hop, (described, edge)) in traversal.hops.iter().zip(&self.names.edges).enumerate() {
            for (column, name) in described.columns.iter().enumerate() {
                let is_ambiguous = all().filter(|one| *one == name).count() > 1;
                let name = if is_ambiguous { format!("{edge}.{name}") } else { name.clone() };
                output.push((name, TraversalColumnSource::Edge { hop, column }));
            }
        }

        let last = self.names.steps.last().cloned().unwrap_or_default();
        output.push((format!("{last}._index"), TraversalColumnSource::Index { step: traversal.hops.len() }));
        output
    }

    /// Resolves the name of a column: `step.column`, `edge.column`, or a name alone, which is that of the last hop
    /// whose edges have it, otherwise a property of the last step.
    async fn resolve(&mut self, traversal: &Traversal, name: &str) -> Result<TraversalColumnSource> {
        if name == "position" {
            return Ok(TraversalColumnSource::Position);
        }
        if let Some((of, column)) = name.split_once('.') {
            if let Some(step) = self.names.steps.iter().position(|step| step == of) {
                return self.property(traversal, step, column).await;
            }
            if let Some(hop) = self.names.edges.iter().position(|edge| edge == of) {
                let columns = traversal.hops.get(hop).map(|hop| hop.columns.as_slice()).unwrap_or_default();
                return match columns.iter().position(|known| known == column) {
                    Some(column) => Ok(TraversalColumnSource::Edge { hop, column }),
                    None => Err(no_property(of, column, columns.iter().cloned())),
                };
            }

            let known = self.names.steps.iter().chain(&self.names.edges).cloned();
            return Err(no_property("the traversal", name, known));
        }

        for (hop, described) in traversal.hops.iter().enumerate().rev() {
            if let Some(column) = described.columns.iter().position(|known| known == name) {
                return Ok(TraversalColumnSource::Edge { hop, column });
            }
        }
        self.property(traversal, traversal.hops.len(), name).await
    }

    /// Opens a property of a step, or returns the index.
    async fn property(
        &mut self,
        traversal: &Traversal,
        step: usize,
        name: &str,
    ) -> Result<TraversalColumnSource> {
        if name == INDEX {
            return Ok(TraversalColumnSource::Index { step });
        }
        let vertex_type = self.names.types.get(step).cloned().unwrap_or_default();
        let view = traversal.snapshot.vertices(&vertex_type, Some(&[name])).await?;
        self.views.push(view);
        Ok(TraversalColumnSource::Property { view: self.views.len() - 1, step })
    }
}

/// Names of the steps, from the start vertices to those of the last hop, and of the edges between them.
pub(crate) struct TraversalNames {
    /// Vertex type of each step.
    types: Vec<String>,
    /// Given names, otherwise vertex types, numbered if a type occurs more than once.
    pub(crate) steps: Vec<String>,
    /// Edge type of each hop, numbered if it occurs more than once.
    pub(crate) edges: Vec<String>,
}

impl TraversalNames {
    fn new(traversal: &Traversal, types: Vec<String>) -> Self {
        let given = std::iter::once(&traversal.name).chain(traversal.hops.iter().map(|hop| &hop.name));
        let step = |(step, (given, of)): (usize, (&Option<String>, &String))| match given {
            Some(name) => name.clone(),
            None if types.iter().filter(|other| *other == of).count() > 1 => format!("{of}_{step}"),
            None => of.clone(),
        };
        let steps = given.zip(&types).enumerate().map(step).collect();
        let edge = |(at, hop): (usize, &TraversalHop)| {
            let same = traversal.hops.iter().filter(|other| other.edge_type == hop.edge_type).count();
            if same > 1 { format!("{}_{}", hop.edge_type, at + 1) } else { hop.edge_type.clone() }
        };

        let edges = traversal.hops.iter().enumerate().map(edge).collect();
        Self { types, steps, edges }
    }
}

/// Adds the direction and the vertex types of a hop to the error of an unknown edge type.
fn with_hop(error: Error, from: &str, hop: &TraversalHop) -> Error {
    match error {
        Error::NoSuchEdgeType { available, .. } => {
            let way = match hop.direction {
                Direction::Out => "out of",
                Direction::In => "into",
            };
            let to = hop
                .vertex_type
                .as_deref()
                .map(|to| format!(" with {to} at the other end"))
                .unwrap_or_default();

            Error::NoSuchEdgeType { name: format!("{} {way} {from}{to}", hop.edge_type), available }
        }
        other => other,
    }
}

fn no_property(of: &str, property: &str, available: impl Iterator<Item = String>) -> Error {
    Error::NoSuchProperty {
        of: of.to_owned(),
        property: property.to_owned(),
        available: comma_separated(available),
    }
}
