//! A graph store: immutable files in a folder or a bucket, and one log that says which of them each version is made of.
//!
//! ```text
//! StoreWriter ─ add, update, delete ─▶ Pending ─▶ Draft ─ put-if-absent ─▶ _log/{version}.json
//!                                                                            │ the whole state
//! GraphStore ─▶ Snapshot ─▶ VertexView ─▶ bases and deltas by ranges of indexes, under patches
//!                       └─▶ EdgeView ───▶ bases and deltas in both orders, without what was deleted
//! ```
//!
//! What is open is shared by all versions that need it, by the path or place in the log under which it never changes,
//! and dropped when the last of them is.

mod alter;
mod arriving;
mod base;
mod base_edges;
mod base_find;
mod base_list;
mod base_read;
#[cfg(test)]
mod base_tests;
mod base_vertices;
mod budgeted;
mod bulk;
mod bulk_edges;
mod bulk_vertices;
mod changes;
mod collect;
mod compact;
mod compact_edges;
mod compact_plan;
mod compact_vertices;
mod deletion;
mod delta;
mod draft;
mod edge_part;
mod edge_parts;
mod edge_view;
mod explain;
mod export;
mod gather;
mod gathered;
mod graph_store;
mod keys;
mod keys_sort;
mod lease;
mod live;
mod load;
mod log;
mod log_entry;
mod merge_edges;
mod merge_vertices;
mod names;
mod opened;
mod options;
mod pending;
mod plan;
mod prepared;
mod prewarm;
mod record;
mod rows;
mod scan;
mod schema;
mod schema_of;
mod segments;
mod snapshot;
mod stats;
mod top;
mod traversal;
mod verify;
mod vertex_delta;
mod vertex_part;
mod vertex_parts;
mod vertex_search;
mod vertex_view;
mod views;
mod writer;

pub use self::{
    changes::{Ends, VertexIds},
    collect::{CollectOptions, Collected},
    compact::{CompactOptions, Compacted},
    edge_view::{EdgeRows, EdgeView},
    graph_store::GraphStore,
    load::{BulkLoad, Loaded},
    log_entry::LogEntry,
    options::StoreOptions,
    prepared::PreparedTraversal,
    prewarm::{PrewarmOptions, Prewarmed},
    schema::{EdgeType, SchemaChange, StoreProperty, StoreSchema, VertexType},
    snapshot::Snapshot,
    stats::{OpenUse, StoreStats},
    traversal::Traversal,
    verify::Verification,
    vertex_view::VertexView,
    writer::StoreWriter,
};
