//! Summary of a version in the log.

use super::record::VersionRecord;

/// Summary of a version in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Version.
    pub version: u64,
    /// Epoch of the last writer at that version.
    pub epoch: u64,
    /// Id of the commit.
    pub commit: String,
    /// Milliseconds since 1970, by the writer's clock.
    pub time_ms: i64,
    /// Operation of the commit: `create`, `writer`, `write`, `load`, `compact`.
    pub operation: String,
    /// Number of vertices of all types.
    pub vertices: u64,
    /// Number of edges of all types.
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
