//! What the log says of a version, in short.

use super::record::VersionRecord;

/// What the log says of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The version.
    pub version: u64,
    /// The epoch of the writer that was the last one then.
    pub epoch: u64,
    /// Which commit it was.
    pub commit: String,
    /// Milliseconds since 1970, by the writer's clock.
    pub time_ms: i64,
    /// What the commit did: `create`, `writer`, `write`, `load`, `compact`.
    pub operation: String,
    /// Vertices of all types.
    pub vertices: u64,
    /// Edges of all types.
    pub edges: u64,
}

impl LogEntry {
    pub(crate) fn of(record: &VersionRecord) -> Self {
        Self {
            version: record.version,
            epoch: record.epoch,
            commit: record.commit.clone(),
            time_ms: record.time_ms,
            operation: record.operation.clone(),
            vertices: record.vertices.iter().map(|state| state.count).sum(),
            edges: record.edges.iter().map(|state| state.count).sum(),
        }
    }
}
