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
mod schema_of;
mod segments;
mod snapshot;
mod stats;
mod take;
mod traverse;
mod upkeep;
mod write;

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
        gc::{CollectOptions, Collected},
        load::{BulkLoad, Loaded},
        writer::StoreWriter,
    },
};
