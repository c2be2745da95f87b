//! Immutable version of a store, with access to its vertices and edges.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use futures::FutureExt;
use tokio::sync::OnceCell;

use super::{
    log::{entry::LogEntry, record::VersionRecord},
    opened::StoreCore,
    parts::{edge_parts::EdgeParts, vertex_parts::VertexParts},
    schema::StoreSchema,
};
use crate::{Error, Result};

/// Version of a store. Cheap to create and to clone; later commits do not change its results. As long as it is
/// held, garbage collection of the same [`GraphStore`](crate::store::GraphStore) removes nothing that it needs.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<SnapshotInner>,
}

struct SnapshotInner {
    core: Arc<StoreCore>,
    record: Arc<VersionRecord>,
    vertices: Box<[OnceCell<Arc<VertexParts>>]>,
    edges: Box<[OnceCell<Arc<EdgeParts>>]>,
}

impl Drop for SnapshotInner {
    fn drop(&mut self) {
        self.core.live.remove(self.record.version);
    }
}

impl Snapshot {
    pub(crate) fn new(core: Arc<StoreCore>, record: Arc<VersionRecord>) -> Self {
        core.live.add(record.version);
        let vertices = record.vertices.iter().map(|_| OnceCell::new()).collect();
        let edges = record.edges.iter().map(|_| OnceCell::new()).collect();
        Self { inner: Arc::new(SnapshotInner { core, record, vertices, edges }) }
    }

    pub(crate) fn record(&self) -> &Arc<VersionRecord> {
        &self.inner.record
    }

    pub(crate) fn core(&self) -> &Arc<StoreCore> {
        &self.inner.core
    }

    /// Opens the types that another version has open, while that version holds the segments that both share. Failures
    /// are ignored: the first use tries again.
    #[boxed]
    pub(super) async fn open_as(&self, other: &Self) {
        let vertices = other.inner.vertices.iter().enumerate().filter(|(_, cell)| cell.initialized());
        let vertices = vertices.map(|(at, _)| async move { drop(self.vertex_parts(at).await) });
        let edges = other.inner.edges.iter().enumerate().filter(|(_, cell)| cell.initialized());
        let edges = edges.map(|(at, _)| async move { drop(self.edge_parts(at).await) });
        futures::join!(futures::future::join_all(vertices), futures::future::join_all(edges));
    }

    /// Opens the vertex type at this position in the record.
    #[boxed]
    pub(crate) async fn vertex_parts(&self, at: usize) -> Result<Arc<VertexParts>> {
        let (cell, state) =
            self.inner.vertices.get(at).zip(self.record().vertices.get(at)).ok_or_else(no_such)?;
        // Boxed, so that this is compiled once and not into each caller.
        let open = || async { self.core().vertices(state).await.map(Arc::new) }.boxed();
        cell.get_or_try_init(open).await.cloned()
    }

    /// Opens the edge type at this position in the record.
    #[boxed]
    pub(crate) async fn edge_parts(&self, at: usize) -> Result<Arc<EdgeParts>> {
        let (cell, state) = self.inner.edges.get(at).zip(self.record().edges.get(at)).ok_or_else(no_such)?;
        let open = || async { self.core().edges(self.record(), state).await.map(Arc::new) }.boxed();
        cell.get_or_try_init(open).await.cloned()
    }

    /// Returns the number of this version.
    pub fn version(&self) -> u64 {
        self.record().version
    }

    /// Returns the log's summary of this version.
    pub fn entry(&self) -> LogEntry {
        LogEntry::of(self.record())
    }

    /// Returns the types of vertices and edges in this version.
    pub fn schema(&self) -> StoreSchema {
        self.record().schema()
    }

    /// Returns the number of vertices of a type.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchVertexType`].
    pub fn vertex_count(&self, vertex_type: &str) -> Result<u64> {
        let at = self.record().vertex_type(vertex_type)?;
        Ok(self.record().vertices.get(at).map_or(0, |state| state.count))
    }

    /// Returns the number of indexes assigned to vertices of a type: those of deleted ones are never reused.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchVertexType`].
    pub fn index_count(&self, vertex_type: &str) -> Result<u64> {
        let at = self.record().vertex_type(vertex_type)?;
        Ok(self.record().vertices.get(at).map_or(0, |state| state.next))
    }

    /// Returns the number of edges of a type. Edge types are named as `KNOWS`, or as `Person_KNOWS_Person` if several
    /// share that name.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchEdgeType`].
    pub fn edge_count(&self, edge_type: &str) -> Result<u64> {
        let at = self.record().edge_type(edge_type)?;
        Ok(self.record().edges.get(at).map_or(0, |state| state.count))
    }
}

pub(super) fn no_such() -> Error {
    Error::Ended { reason: "a type that is in no record".to_owned() }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("version", &self.version()).finish_non_exhaustive()
    }
}
