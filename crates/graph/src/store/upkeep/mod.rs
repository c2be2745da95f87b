//! Upkeep of a store: compaction, garbage collection, verification and export.

pub(super) mod compact;
pub(super) mod export;
pub(super) mod merge_edges;
pub(super) mod merge_vertices;
pub(super) mod rewrite_edges;
pub(super) mod rewrite_vertices;
pub(super) mod verify;
