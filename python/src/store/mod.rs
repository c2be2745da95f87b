//! Graph stores for Python: stores, writers, versions and traversals.

mod data;
mod entry;
mod graph_store;
mod ids;
mod schema;
mod snapshot;
mod traversal;
mod views;
mod writer;

pub(crate) use self::{
    graph_store::PyLocalGraphStore,
    snapshot::{PyLocalSnapshot, PyLocalStoreScan},
    traversal::PyLocalTraversal,
    views::{PyLocalEdgeView, PyLocalVertexView},
    writer::PyLocalStoreWriter,
};
