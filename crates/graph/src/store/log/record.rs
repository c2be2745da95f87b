//! Record of the log: the whole state of a version of a store.
//!
//! ```text
//! _log/00000000000000000007.json    format, version, epoch, commit id, time, operation
//!   vertices: schema, assigned indexes, bases, deltas, patches, deletions
//!   edges:    schema, bases and their deletions, deltas and their deletions
//!   inline:   small data of this commit; later records refer to it by version and slot
//!   crc32:    of all bytes before it
//! ```
//!
//! A record is the whole state, not a difference: opening a version reads its record, and any older ones whose inline
//! data it still refers to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::store::{
    base::{EdgeBaseInfo, VertexBaseInfo},
    schema::{EdgeType, VertexType},
};

/// Newest record format that this code supports.
pub(crate) const FORMAT: u32 = 1;

/// Location of immutable data.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DataLocation {
    /// In the record of a version.
    Inline {
        /// Version.
        version: u64,
        /// Index in its inline data.
        slot: u32,
    },
    /// In a separate file.
    File {
        /// Path within the store.
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

/// Returns the file of a record within the store.
pub(crate) fn file_name(version: u64) -> String {
    format!("_log/{version:020}.json")
}

/// Version of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VersionRecord {
    pub(crate) format: u32,
    pub(crate) version: u64,
    /// Epoch of the last writer, the only one that may commit.
    pub(crate) epoch: u64,
    /// Unique id of the commit.
    pub(crate) commit: String,
    /// Milliseconds since 1970, by the writer's clock.
    pub(crate) time_ms: i64,
    /// Operation of the commit: `create`, `writer`, `write`, `load`, `compact`, …
    pub(crate) operation: String,
    /// Last compaction up to this version. `None` if a release that does not record it has written a version since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) compaction: Option<LastCompaction>,
    pub(crate) vertices: Vec<VertexState>,
    pub(crate) edges: Vec<EdgeState>,
    /// Small data of this commit, in base64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) inline: Vec<String>,
}

/// Last compaction of a store, of any type. All zero before the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastCompaction {
    pub(crate) version: u64,
    /// Version whose deltas and patches it left unchanged; 0 if it may have replaced any.
    pub(crate) kept: u64,
    /// Vertex type, or full name of the edge type. `None` if it may be any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<String>,
}

impl LastCompaction {
    /// Returns true if it may have replaced parts of a type that a version has.
    pub(crate) fn may_replace(&self, name: &str, version: u64) -> bool {
        self.kept < version && self.of.as_ref().is_none_or(|of| of == name)
    }
}

/// All vertices of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VertexState {
    pub(crate) schema: VertexType,
    /// Number of assigned indexes, including those of deleted vertices.
    pub(crate) next: u64,
    /// Number of live vertices.
    pub(crate) count: u64,
    /// Disjoint ranges of indexes, ascending.
    #[serde(default)]
    pub(crate) bases: Vec<VertexBaseInfo>,
    /// Disjoint ranges of indexes, ascending.
    #[serde(default)]
    pub(crate) deltas: Vec<VertexDeltaInfo>,
    /// In order of commits: later ones take precedence.
    #[serde(default)]
    pub(crate) patches: Vec<VertexPatchInfo>,
    /// Deleted indexes: the union of these.
    #[serde(default)]
    pub(crate) deleted: Vec<DataLocation>,
}

/// Vertices that commits added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VertexDeltaInfo {
    pub(crate) at: DataLocation,
    /// Index of its first vertex.
    pub(crate) first: u64,
    pub(crate) rows: u64,
}

/// New values of some properties of some vertices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VertexPatchInfo {
    pub(crate) at: DataLocation,
    pub(crate) rows: u64,
    /// Properties that it updates.
    pub(crate) columns: Vec<String>,
}

/// All edges of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EdgeState {
    pub(crate) schema: EdgeType,
    /// Number of live edges.
    pub(crate) count: u64,
    #[serde(default)]
    pub(crate) bases: Vec<EdgeBaseState>,
    #[serde(default)]
    pub(crate) deltas: Vec<EdgeDeltaInfo>,
}

/// Base of edges, and its later deletions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EdgeBaseState {
    pub(crate) info: EdgeBaseInfo,
    #[serde(default)]
    pub(crate) deleted: Vec<EdgeDeletionPair>,
}

/// Deleted edges in both orders, and their number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EdgeDeletionPair {
    pub(crate) by_source: DataLocation,
    pub(crate) by_destination: DataLocation,
    pub(crate) count: u64,
}

/// Edges that commits added, and their later deletions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EdgeDeltaInfo {
    pub(crate) at: DataLocation,
    pub(crate) rows: u64,
    /// Ordinals in the order of sources: the union of these.
    #[serde(default)]
    pub(crate) deleted: Vec<DataLocation>,
    #[serde(default)]
    pub(crate) deleted_count: u64,
}

impl VersionRecord {
    /// Returns why the record is invalid as that of `version`; `None` if it is valid.
    pub(crate) fn invalid_reason(&self, version: u64) -> Option<String> {
        if self.format > FORMAT {
            return Some(format!(
                "its format is {}, and this program knows {FORMAT}: take a newer one",
                self.format
            ));
        }
        if self.version != version {
            return Some(format!("it says that it is version {}", self.version));
        }
        if let Some(LastCompaction { version, kept, .. }) = &self.compaction
            && (*version > self.version || kept > version)
        {
            return Some(format!("its last compaction is version {version}, which keeps version {kept}"));
        }

        self.vertices
            .iter()
            .find_map(VertexState::invalid_reason)
            .or_else(|| self.edges.iter().find_map(|edges| self.invalid_edge_reason(edges)))
    }

    fn invalid_edge_reason(&self, edges: &EdgeState) -> Option<String> {
        let wrong = |reason: String| Some(format!("edges {}: {reason}", edges.schema.full_name()));
        if let Err(error) = edges.schema.check() {
            return wrong(error.to_string());
        }
        for end in [&edges.schema.source, &edges.schema.destination] {
            if !self.vertices.iter().any(|vertices| &vertices.schema.name == end) {
                return wrong(format!("there are no vertices of type {end}"));
            }
        }

        if let Some(reason) = edges.bases.iter().find_map(|base| base.info.invalid_reason()) {
            return wrong(reason);
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

        if edges.deltas.iter().any(|delta| deleted(delta.deleted_count, delta.rows)) {
            wrong("more edges were deleted than there are".to_owned())
        } else {
            None
        }
    }

    /// Returns the maximum number of deltas, patches or sets of deletions over all types.
    pub(crate) fn loose(&self) -> usize {
        let vertices =
            self.vertices.iter().map(|of| of.deltas.len().max(of.patches.len()).max(of.deleted.len()));
        vertices.chain(self.edges.iter().map(|of| of.deltas.len())).max().unwrap_or(0)
    }

    /// Returns all data locations outside of bases that it refers to.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &DataLocation> {
        let vertices = self.vertices.iter().flat_map(VertexState::locations);
        vertices.chain(self.edges.iter().flat_map(EdgeState::locations))
    }
}

impl EdgeState {
    /// Returns all data locations outside of bases that it refers to.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &DataLocation> {
        let deltas = self.deltas.iter().flat_map(|delta| std::iter::once(&delta.at).chain(&delta.deleted));
        let pairs = self.bases.iter().flat_map(|base| &base.deleted);
        deltas.chain(pairs.flat_map(|pair| [&pair.by_source, &pair.by_destination]))
    }
}

impl VertexState {
    /// Returns all data locations outside of bases that it refers to.
    pub(crate) fn locations(&self) -> impl Iterator<Item = &DataLocation> {
        let deltas = self.deltas.iter().map(|delta| &delta.at);
        deltas.chain(self.patches.iter().map(|patch| &patch.at)).chain(&self.deleted)
    }

    fn invalid_reason(&self) -> Option<String> {
        let wrong = |reason: String| Some(format!("vertices {}: {reason}", self.schema.name));
        if let Err(error) = self.schema.check() {
            return wrong(error.to_string());
        }
        if self.next > i64::MAX as u64 || self.count > self.next {
            return wrong(format!("{} vertices with {} indexes", self.count, self.next));
        }
        if let Some(reason) = self.bases.iter().find_map(VertexBaseInfo::invalid_reason) {
            return wrong(reason);
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
