//! Graph store: immutable files in a folder or a bucket, and one log that lists the files of each version.
//!
//! ```text
//! StoreWriter ─ changes ─▶ PendingChanges ─▶ CommitBuilder ─ put-if-absent ─▶ _log/{version}.json
//!                                                                               │ the whole state
//! GraphStore ─▶ Snapshot ─▶ VertexView ─▶ bases and deltas by ranges of indexes, under patches
//!                       └─▶ EdgeView ───▶ bases and deltas in both orders, without deleted edges
//! ```
//!
//! Open segments are shared by all versions that need them, keyed by a path or log location whose data never changes,
//! and dropped with the last of these versions.

mod access;
mod base;
mod budgeted;
mod delta;
mod graph_store;
mod lease;
mod log;
mod names;
mod opened;
mod options;
mod parts;
mod read;
mod schema;
mod segments;
mod snapshot;
mod stats;
mod take;
mod traverse;
mod upkeep;
mod write;

/// Used by benchmarks.
pub(crate) use self::access::Access;
/// Used by fuzzing.
pub(crate) use self::log::record_survives_rewrite;
pub use self::{
    graph_store::GraphStore,
    log::entry::LogEntry,
    options::StoreOptions,
    read::{
        edge_view::{EdgeRows, EdgeView},
        prewarm::{PrewarmOptions, Prewarmed},
        vertex_view::VertexView,
    },
    schema::{EdgeType, SchemaChange, StoreProperty, StoreSchema, VertexType},
    snapshot::Snapshot,
    stats::{OpenUse, StoreStats},
    traverse::{run::PreparedTraversal, traversal::Traversal},
    upkeep::{
        compact::{CompactOptions, Compacted},
        verify::Verification,
    },
    write::{
        changes::{Ends, VertexIds},
        gc::{CollectOptions, GcReport},
        load::{BulkLoad, Loaded},
        writer::StoreWriter,
    },
};
