//! Statistics of a store's caches, by kind of data.

use serde::Serialize;
use stylobate_columnar::ColumnsUse;

use super::{
    budgeted::{Budgeted, MemoryFootprint},
    graph_store::GraphStore,
    segments::OpenSegments,
};

/// Memory and lookups of a store, by kind. All of this memory is charged to the budget of the cache.
///
/// The cache keeps and evicts columns; other open segments are held as long as a snapshot needs them. Segments that no
/// open version needs are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoreStats {
    /// Offsets of each vertex's edges.
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
    /// Added vertices and edges, and patches, with their lookup orders.
    pub deltas: OpenUse,
    /// Deletions.
    pub deletions: OpenUse,
}

/// Open segments of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpenUse {
    /// Number of open segments.
    pub open: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl GraphStore {
    /// Returns the memory in use, and the lookups, of the store's caches.
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
