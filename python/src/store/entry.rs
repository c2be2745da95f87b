//! Log entries of a store as Python tuples.

use stylobate_graph::store::LogEntry;

/// Version, epoch, commit, milliseconds since 1970, operation, vertices, edges.
pub(super) type LogEntryTuple = (u64, u64, String, i64, String, u64, u64);

pub(super) fn entry(entry: LogEntry) -> LogEntryTuple {
    let LogEntry { version, epoch, commit, time_ms, operation, vertices, edges } = entry;
    (version, epoch, commit, time_ms, operation, vertices, edges)
}
