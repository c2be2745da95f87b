//! Derives the record of the next version, and applies schema changes.

use super::record::{DataLocation, EdgeState, FORMAT, VersionRecord, VertexState};
use crate::{
    Error, Result,
    store::{
        base::write::{edges::check_edges, vertices::check_vertices},
        names::{now_ms, uuid7},
        schema::{EdgeType, SchemaChange, StoreProperty, StoreSchema, VertexType},
    },
};

impl VersionRecord {
    /// Returns a record of the next version with the same state, as a new commit.
    pub(crate) fn next(&self, operation: &str, epoch: u64) -> Self {
        Self {
            format: FORMAT,
            version: self.version + 1,
            epoch,
            commit: uuid7(),
            time_ms: now_ms().max(self.time_ms),
            operation: operation.to_owned(),
            compaction: self.compaction.clone(),
            vertices: self.vertices.clone(),
            edges: self.edges.clone(),
            inline: Vec::new(),
        }
    }

    pub(crate) fn schema(&self) -> StoreSchema {
        StoreSchema {
            vertices: self.vertices.iter().map(|state| state.schema.clone()).collect(),
            edges: self.edges.iter().map(|state| state.schema.clone()).collect(),
        }
    }

    /// Returns the position of a vertex type.
    pub(crate) fn vertex_type(&self, name: &str) -> Result<usize> {
        let found = self.vertices.iter().position(|state| state.schema.name == name);
        found.ok_or_else(|| Error::NoSuchVertexType {
            name: name.to_owned(),
            available: comma_separated(self.vertices.iter().map(|state| state.schema.name.clone())),
        })
    }

    /// Returns the position of an edge type: by its name, or by its full name if several share the name.
    pub(crate) fn edge_type(&self, name: &str) -> Result<usize> {
        self.edge_type_of(name, |edges| edges.full_name() == name)
            .or_else(|_| self.edge_type_of(name, |edges| edges.name == name))
    }

    /// Returns the position of the edge type with this name, or full name, for which `passes` holds.
    pub(crate) fn edge_type_of(&self, name: &str, passes: impl Fn(&EdgeType) -> bool) -> Result<usize> {
        let named = |edges: &EdgeType| (edges.name == name || edges.full_name() == name) && passes(edges);
        let mut found = self.edges.iter().enumerate().filter(|(_, state)| named(&state.schema));
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok(at),
            _ => Err(Error::NoSuchEdgeType {
                name: name.to_owned(),
                available: comma_separated(self.edges.iter().map(|state| state.schema.full_name())),
            }),
        }
    }

    /// Applies several schema changes in order, as [`Self::alter`].
    pub(crate) fn alter_all(&mut self, changes: &[SchemaChange]) -> Result<()> {
        changes.iter().try_for_each(|change| self.alter(change.clone()))
    }

    /// Applies a schema change. Types and properties must be such that bases and exports can have them: the error
    /// would otherwise come with a later compaction, when it is too late to rename anything. Existing properties are
    /// not checked again, since earlier programs did not check them: their data stays readable, and their types may
    /// grow.
    ///
    /// # Errors
    ///
    /// [`Error::Schema`], and [`Error::Unwritable`] as from writing a base.
    pub(crate) fn alter(&mut self, change: SchemaChange) -> Result<()> {
        match change {
            SchemaChange::AddVertexType(of) => {
                of.check()?;
                if self.vertices.iter().any(|state| state.schema.name == of.name) {
                    return Err(exists(format!("vertex type {}", of.name)));
                }
                check_vertices(&of.name, Some(&of.key), &of.fields())?;
                self.vertices.push(VertexState::new(of));
            }
            SchemaChange::AddEdgeType(of) => {
                of.check()?;
                self.vertex_type(&of.source)?;
                self.vertex_type(&of.destination)?;
                if self.edges.iter().any(|state| state.schema.full_name() == of.full_name()) {
                    return Err(exists(format!("edge type {}", of.full_name())));
                }
                let names = (of.source.as_str(), of.name.as_str(), of.destination.as_str());
                check_edges(names, &of.fields())?;
                self.edges.push(EdgeState { schema: of, count: 0, bases: Vec::new(), deltas: Vec::new() });
            }
            SchemaChange::AddVertexProperty { vertex_type, property } => {
                let at = self.vertex_type(&vertex_type)?;
                if let Some(state) = self.vertices.get_mut(at) {
                    let added = property.field();
                    let grown = VertexType {
                        properties: with(&state.schema.properties, property),
                        ..state.schema.clone()
                    };
                    grown.check()?;
                    check_vertices(&grown.name, None, &[added])?;
                    state.schema = grown;
                }
            }
            SchemaChange::AddEdgeProperty { edge_type, property } => {
                let at = self.edge_type(&edge_type)?;
                if let Some(state) = self.edges.get_mut(at) {
                    let added = property.field();
                    let grown = EdgeType {
                        properties: with(&state.schema.properties, property),
                        ..state.schema.clone()
                    };
                    grown.check()?;
                    let names = (grown.source.as_str(), grown.name.as_str(), grown.destination.as_str());
                    check_edges(names, &[added])?;
                    state.schema = grown;
                }
            }
        }

        Ok(())
    }

    /// Returns [`VersionRecord::locations`] mutably.
    pub(crate) fn locations_mut(&mut self) -> impl Iterator<Item = &mut DataLocation> {
        let vertices = self.vertices.iter_mut().flat_map(|state| {
            let deltas = state.deltas.iter_mut().map(|delta| &mut delta.at);
            deltas.chain(state.patches.iter_mut().map(|patch| &mut patch.at)).chain(&mut state.deleted)
        });
        let edges = self.edges.iter_mut().flat_map(|state| {
            let deltas = state
                .deltas
                .iter_mut()
                .flat_map(|delta| std::iter::once(&mut delta.at).chain(&mut delta.deleted));
            let pairs = state.bases.iter_mut().flat_map(|base| &mut base.deleted);
            deltas.chain(pairs.flat_map(|pair| [&mut pair.by_source, &mut pair.by_destination]))
        });

        vertices.chain(edges)
    }
}

impl VertexState {
    fn new(schema: VertexType) -> Self {
        Self {
            schema,
            next: 0,
            count: 0,
            bases: Vec::new(),
            deltas: Vec::new(),
            patches: Vec::new(),
            deleted: Vec::new(),
        }
    }
}

fn with(properties: &[StoreProperty], another: StoreProperty) -> Vec<StoreProperty> {
    properties.iter().cloned().chain([another]).collect()
}

fn exists(of: String) -> Error {
    Error::Schema { of, reason: "is there already".to_owned() }
}

pub(crate) fn comma_separated(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
