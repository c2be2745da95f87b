//! Pending changes of a writer: rows with their indexes, and deletions.
//!
//! They refer to vertices, never to locations in files, so that they apply to any version: a concurrent commit may have
//! moved the same rows.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::{concat, filter};
use arrow::datatypes::FieldRef;
use roaring::RoaringTreemap;

use crate::{
    Result,
    store::{
        delta::{rows::arrow_error, vertices::VertexKeyRef},
        log::record::VersionRecord,
        schema::SchemaChange,
    },
};

/// Owned key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnedVertexKey {
    Int(i64),
    Text(Box<str>),
}

impl From<VertexKeyRef<'_>> for OwnedVertexKey {
    fn from(key: VertexKeyRef<'_>) -> Self {
        match key {
            VertexKeyRef::Int(value) => Self::Int(value),
            VertexKeyRef::Text(text) => Self::Text(text.into()),
        }
    }
}

/// Changes to commit.
#[derive(Clone, Default)]
pub(crate) struct PendingChanges {
    pub(crate) changes: Vec<SchemaChange>,
    /// Keyed by the position of the type in the record.
    pub(crate) vertices: BTreeMap<usize, PendingVertices>,
    pub(crate) edges: BTreeMap<usize, PendingEdges>,
}

/// Vertices of a type.
#[derive(Clone, Default)]
pub(crate) struct PendingVertices {
    /// Index of the first new vertex.
    pub(crate) first: u64,
    pub(crate) rows: u64,
    pub(crate) batches: Vec<RecordBatch>,
    /// Keys of live new vertices.
    pub(crate) keys: HashMap<OwnedVertexKey, i64>,
    /// Deleted vertices, both new and committed.
    pub(crate) deleted: RoaringTreemap,
    /// Later ones take precedence; each has the column of indexes first.
    pub(crate) patches: Vec<RecordBatch>,
}

/// Edges of a type.
#[derive(Clone, Default)]
pub(crate) struct PendingEdges {
    pub(crate) sources: Vec<i64>,
    pub(crate) destinations: Vec<i64>,
    /// Liveness of new edges.
    pub(crate) is_there: Vec<bool>,
    pub(crate) batches: Vec<RecordBatch>,
    /// Ends of committed edges to delete.
    pub(crate) pairs: HashSet<(i64, i64)>,
}

impl PendingChanges {
    pub(crate) fn is_empty(&self) -> bool {
        let no_vertices = |pending: &PendingVertices| {
            pending.rows == 0 && pending.deleted.is_empty() && pending.patches.is_empty()
        };
        let no_edges = |pending: &PendingEdges| pending.sources.is_empty() && pending.pairs.is_empty();
        self.changes.is_empty()
            && self.vertices.values().all(no_vertices)
            && self.edges.values().all(no_edges)
    }

    /// Returns the vertices of a type. New ones follow those of the record.
    pub(crate) fn vertices_of(&mut self, at: usize, record: &VersionRecord) -> &mut PendingVertices {
        let first = record.vertices.get(at).map_or(0, |state| state.next);
        self.vertices.entry(at).or_insert_with(|| PendingVertices { first, ..PendingVertices::default() })
    }

    pub(crate) fn edges_of(&mut self, at: usize) -> &mut PendingEdges {
        self.edges.entry(at).or_default()
    }

    /// Drops new edges of a type for which `passes` holds.
    pub(crate) fn drop_edges(&mut self, at: usize, passes: impl Fn(i64, i64) -> bool) {
        let Some(edges) = self.edges.get_mut(&at) else { return };
        let ends = edges.sources.iter().zip(&edges.destinations);
        for ((source, destination), is_there) in ends.zip(&mut edges.is_there) {
            if *is_there && passes(*source, *destination) {
                *is_there = false;
            }
        }
    }

    /// Deletes vertices, and the new edges that begin or end there.
    pub(crate) fn delete_vertices(&mut self, at: usize, record: &VersionRecord, indexes: &[i64]) {
        let vertices = self.vertices_of(at, record);
        vertices.deleted.extend(indexes.iter().map(|index| *index as u64));
        let deleted = vertices.deleted.clone();
        vertices.keys.retain(|_, index| !deleted.contains(*index as u64));
        let Some(name) = record.vertices.get(at).map(|state| &state.schema.name) else { return };
        for (edges, state) in record.edges.iter().enumerate() {
            let from = &state.schema.source == name;
            let to = &state.schema.destination == name;
            if from || to {
                let gone = |end: i64| deleted.contains(end as u64);
                self.drop_edges(edges, |source, destination| from && gone(source) || to && gone(destination));
            }
        }
    }
}

impl PendingVertices {
    /// Returns all new vertices, including deleted ones, which keep their indexes.
    pub(crate) fn rows(&self, fields: &[FieldRef]) -> Result<Vec<ArrayRef>> {
        concat_columns(&self.batches, fields)
    }
}

impl PendingEdges {
    /// Returns the live new edges: ends, and columns of properties.
    pub(crate) fn rows(&self, fields: &[FieldRef]) -> Result<(Vec<i64>, Vec<i64>, Vec<ArrayRef>)> {
        let columns = concat_columns(&self.batches, fields)?;
        if self.is_there.iter().all(|is_there| *is_there) {
            return Ok((self.sources.clone(), self.destinations.clone(), columns));
        }
        let left = |ends: &[i64]| {
            ends.iter().zip(&self.is_there).filter(|(_, is_there)| **is_there).map(|(end, _)| *end).collect()
        };
        let rows = self.is_there.clone().into();
        let columns =
            columns.iter().map(|column| filter(column, &rows)).collect::<std::result::Result<_, _>>();
        let columns = columns.map_err(|error| arrow_error("edges of a commit", error))?;

        Ok((left(&self.sources), left(&self.destinations), columns))
    }
}

/// Concatenates columns of all batches, null for batches without the column.
fn concat_columns(batches: &[RecordBatch], fields: &[FieldRef]) -> Result<Vec<ArrayRef>> {
    let of = |field: &FieldRef| {
        let part = |batch: &RecordBatch| match batch.column_by_name(field.name()) {
            Some(column) => column.clone(),
            None => new_null_array(field.data_type(), batch.num_rows()),
        };
        let parts: Vec<ArrayRef> = batches.iter().map(part).collect();
        match parts.as_slice() {
            [] => Ok(arrow::array::new_empty_array(field.data_type())),
            [one] => Ok(one.clone()),
            several => {
                let several: Vec<_> = several.iter().map(AsRef::as_ref).collect();
                concat(&several).map_err(|error| arrow_error("batches of a commit", error))
            }
        }
    };

    fields.iter().map(of).collect()
}
