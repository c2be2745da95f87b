//! What the caches of a store hold and did, each for itself.

use serde::Serialize;
use stylobate_columnar::ColumnsUse;

use super::{
    budgeted::{Budgeted, MemoryFootprint},
    graph_store::GraphStore,
    segments::OpenSegments,
};

/// What a store holds in memory and what was asked of it, by kind. All of it counts in the one budget of the cache.
///
/// Columns are kept and dropped by the cache; what else is open is held as long as a snapshot needs it. What no version
/// that is open needs any more is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoreStats {
    /// Where the edges of each vertex are.
    pub offsets: ColumnsUse,
    /// Neighbours and properties of edges.
    pub edge_columns: ColumnsUse,
    /// Keys of vertices and their indexes.
    pub keys: ColumnsUse,
    /// Properties of vertices.
    pub vertex_columns: ColumnsUse,
    /// Columns of deltas that are in files.
    pub delta_columns: ColumnsUse,
    /// Descriptions of bases.
    pub bases: OpenUse,
    /// Vertices and edges that commits added, and new values, with the orders in which they are found.
    pub deltas: OpenUse,
    /// What was deleted.
    pub deletions: OpenUse,
}

/// What is open of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpenUse {
    /// How many are open.
    pub open: u64,
    /// Bytes of these.
    pub bytes: u64,
}

impl GraphStore {
    /// What is in memory, and what was asked of it.
    pub fn stats(&self) -> StoreStats {
        let core = self.core();
        let mut stats = StoreStats::default();
        let mut bases = OpenUse::default();
        core.vertex_bases.each(|base| {
            bases.add(base);
            add(&mut stats.vertex_columns, base.columns_use());
            add(&mut stats.keys, base.keys_use());
        });
        core.edge_bases.each(|base| {
            bases.add(base);
            add(&mut stats.offsets, base.offsets_use());
            add(&mut stats.edge_columns, base.columns_use());
        });
        let mut deltas = OpenUse::default();
        core.vertex_deltas.each(|delta| {
            deltas.add(delta);
            add(&mut stats.delta_columns, delta.rows().usage());
        });
        core.edge_deltas.each(|delta| {
            deltas.add(delta);
            add(&mut stats.delta_columns, delta.rows().usage());
        });
        core.patches.each(|patch| {
            deltas.add(patch);
            add(&mut stats.delta_columns, patch.rows().usage());
        });
        (stats.bases, stats.deltas, stats.deletions) = (bases, deltas, open_use(&core.deletions));
        stats
    }
}

impl OpenUse {
    fn add<T: MemoryFootprint>(&mut self, held: &Budgeted<T>) {
        self.open += 1;
        self.bytes += held.bytes();
    }
}

fn open_use<K: Eq + std::hash::Hash, T: MemoryFootprint>(shared: &OpenSegments<K, Budgeted<T>>) -> OpenUse {
    let mut found = OpenUse::default();
    shared.each(|one| found.add(one));
    found
}

fn add(sum: &mut ColumnsUse, more: ColumnsUse) {
    *sum = [*sum, more].into_iter().sum();
}
