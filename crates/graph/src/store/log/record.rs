//! A record of the log: all that a version of a store is made of.
//!
//! ```text
//! _log/00000000000000000007.json    format, version, epoch, commit id, time, operation
//!   vertices: schema, indexes given out, bases, deltas, patches, deletions
//!   edges:    schema, bases and their deletions, deltas and their deletions
//!   inline:   what this commit brought that is small; later records refer to it by version and slot
//!   crc32:    of all bytes before it
//! ```
//!
//! A record is the whole state, not a difference: to open a version is to read its record, and those older ones whose
//! inline data it still refers to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::store::{
    base::{EdgeBaseInfo, VertexBaseInfo},
    schema::{EdgeType, VertexType},
};

/// The newest form of records that this code knows.
pub(crate) const FORMAT: u32 = 1;

/// Where immutable data is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DataLocation {
    /// In the record of a version.
    Inline {
        /// The version.
        version: u64,
        /// Which of its inline data.
        slot: u32,
    },
    /// In a file of its own.
    File {
        /// Its path within the store.
        path: String,
    },
}

impl DataLocation {
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self, Self::Inline { .. })
    }
}

impl fmt::Display for DataLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline { version, slot } => write!(f, "{} slot {slot}", file_name(*version)),
            Self::File { path } => f.write_str(path),
        }
    }
}

/// The file of a record within the store.
pub(crate) fn file_name(version: u64) -> String {
    format!("_log/{version:020}.json")
}

/// A version of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VersionRecord {
    pub(crate) format: u32,
    pub(crate) version: u64,
    /// Of the writer that is the last one: only it may commit.
    pub(crate) epoch: u64,
    /// Which commit this is: nobody else has the same id.
    pub(crate) commit: String,
    /// Milliseconds since 1970, by the writer's clock.
    pub(crate) time_ms: i64,
    /// What the commit did: `create`, `writer`, `write`, `load`, `compact`, …
    pub(crate) operation: String,
    pub(crate) vertices: Vec<VertexState>,
    pub(crate) edges: Vec<EdgeState>,
    /// Small data of this commit, in base64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) inline: Vec<String>,
}

/// All vertices of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VertexState {
    pub(crate) schema: VertexType,
    /// Indexes that were given out: 0 up to this, deleted vertices included.
    pub(crate) next: u64,
    /// Vertices that are there.
    pub(crate) count: u64,
    /// Disjoint ranges of indexes, ascending.
    #[serde(default)]
    pub(crate) bases: Vec<VertexBaseInfo>,
    /// Disjoint ranges of indexes, ascending.
    #[serde(default)]
    pub(crate) deltas: Vec<VertexDeltaInfo>,
    /// Later ones win.
    #[serde(default)]
    pub(crate) patches: Vec<VertexPatchInfo>,
    /// Indexes that were deleted: all of these together.
    #[serde(default)]
    pub(crate) deleted: Vec<DataLocation>,
}

/// Vertices that commits added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VertexDeltaInfo {
    pub(crate) at: DataLocation,
    /// The index of its first vertex.
    pub(crate) first: u64,
    pub(crate) rows: u64,
}

/// New values of some properties of some vertices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VertexPatchInfo {
    pub(crate) at: DataLocation,
    pub(crate) rows: u64,
    /// The properties that it has.
    pub(crate) columns: Vec<String>,
}

/// All edges of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EdgeState {
    pub(crate) schema: EdgeType,
    /// Edges that are there.
    pub(crate) count: u64,
    #[serde(default)]
    pub(crate) bases: Vec<EdgeBaseState>,
    #[serde(default)]
    pub(crate) deltas: Vec<EdgeDeltaInfo>,
}

/// A base of edges, and what was deleted of it since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EdgeBaseState {
    pub(crate) info: EdgeBaseInfo,
    #[serde(default)]
    pub(crate) deleted: Vec<EdgeDeletionPair>,
}

/// The same deleted edges in both orders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EdgeDeletionPair {
    pub(crate) by_source: DataLocation,
    pub(crate) by_destination: DataLocation,
    pub(crate) count: u64,
}

/// Edges that commits added, and what was deleted of them since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EdgeDeltaInfo {
    pub(crate) at: DataLocation,
    pub(crate) rows: u64,
    /// Ordinals in the order of sources: all of these together.
    #[serde(default)]
    pub(crate) deleted: Vec<DataLocation>,
    #[serde(default)]
    pub(crate) deleted_count: u64,
}

impl VersionRecord {
    /// What is wrong with it, if it was read as the record of `version`.
    pub(crate) fn flaw(&self, version: u64) -> Option<String> {
        if self.format > FORMAT {
            return Some(format!(
                "its format is {}, and this program knows {FORMAT}: take a newer one",
                self.format
            ));
        }
        if self.version != version {
            return Some(format!("it says that it is version {}", self.version));
        }
        self.vertices
            .iter()
            .find_map(VertexState::flaw)
            .or_else(|| self.edges.iter().find_map(|edges| self.edge_flaw(edges)))
    }

    fn edge_flaw(&self, edges: &EdgeState) -> Option<String> {
        let wrong = |reason: String| Some(format!("edges {}: {reason}", edges.schema.full_name()));
        if let Err(error) = edges.schema.check() {
            return wrong(error.to_string());
        }
        for end in [&edges.schema.source, &edges.schema.destination] {
            if !self.vertices.iter().any(|vertices| &vertices.schema.name == end) {
                return wrong(format!("there are no vertices of type {end}"));
            }
        }
        if let Some(flaw) = edges.bases.iter().find_map(|base| base.info.flaw()) {
            return wrong(flaw);
        }
        let deleted = |count: u64, of: u64| count > of;
        for base in &edges.bases {
            if deleted(
                base.deleted.iter().map(|pair| pair.count).fold(0, u64::saturating_add),
                base.info.count,
            ) {
                return wrong("more edges were deleted than there are".to_owned());
            }
        }
        match edges.deltas.iter().any(|delta| deleted(delta.deleted_count, delta.rows)) {
            true => wrong("more edges were deleted than there are".to_owned()),
            false => None,
        }
    }

    /// Deltas, patches or sets of deletions of one type, where there are most.
    pub(crate) fn loose(&self) -> usize {
        let vertices =
            self.vertices.iter().map(|of| of.deltas.len().max(of.patches.len()).max(of.deleted.len()));
        vertices.chain(self.edges.iter().map(|of| of.deltas.len())).max().unwrap_or(0)
    }

    /// All places outside of bases that it refers to.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &DataLocation> {
        let vertices = self.vertices.iter().flat_map(VertexState::locations);
        vertices.chain(self.edges.iter().flat_map(EdgeState::locations))
    }
}

impl EdgeState {
    /// All places outside of bases that it refers to.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &DataLocation> {
        let deltas = self.deltas.iter().flat_map(|delta| std::iter::once(&delta.at).chain(&delta.deleted));
        let pairs = self.bases.iter().flat_map(|base| &base.deleted);
        deltas.chain(pairs.flat_map(|pair| [&pair.by_source, &pair.by_destination]))
    }
}

impl VertexState {
    /// All places outside of bases that it refers to.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &DataLocation> {
        let deltas = self.deltas.iter().map(|delta| &delta.at);
        deltas.chain(self.patches.iter().map(|patch| &patch.at)).chain(&self.deleted)
    }

    fn flaw(&self) -> Option<String> {
        let wrong = |reason: String| Some(format!("vertices {}: {reason}", self.schema.name));
        if let Err(error) = self.schema.check() {
            return wrong(error.to_string());
        }
        if self.next > i64::MAX as u64 || self.count > self.next {
            return wrong(format!("{} vertices with {} indexes", self.count, self.next));
        }
        if let Some(flaw) = self.bases.iter().find_map(VertexBaseInfo::flaw) {
            return wrong(flaw);
        }
        let bases = self.bases.iter().map(|base| (base.first, base.count));
        let deltas = self.deltas.iter().map(|delta| (delta.first, delta.rows));
        let mut ranges: Vec<(u64, u64)> = bases.chain(deltas).collect();
        ranges.sort_unstable();
        let mut end = 0;
        for (first, count) in ranges {
            if first != end {
                return wrong(format!("its parts leave or share indexes at {end}"));
            }
            match first.checked_add(count) {
                Some(next) => end = next,
                None => return wrong("indexes are too large".to_owned()),
            }
        }
        (end != self.next).then(|| wrong(format!("its parts end at {end}, not at {}", self.next))).flatten()
    }
}
