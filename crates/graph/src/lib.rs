//! Graphs in object storage.
//!
//! [`Graph::open`] opens a graph in the GraphAr format, in a folder or an object store. Its chunks are read through the
//! cache that scans use, as whole columns, so that every reader finds columns that were decoded once, whatever it
//! selects.

mod error;
#[doc(hidden)]
pub mod fuzzing;
mod graphar;
#[doc(hidden)]
pub mod measure;
mod slice_bytes;
mod sort;
mod store;

pub use error::{Error, Result};
pub use graphar::{
    Adjacency, AdjacencyOrder, Cardinality, Csr, Direction, EdgeChunk, EdgeInfo, EdgeWrite, Edges, FileType,
    Graph, GraphFile, GraphInfo, GraphOptions, GraphWriteOptions, GraphWriter, LabelFilter, Property,
    PropertyGroup, PropertyType, Side, Strictness, UnknownNameError, VertexChunk, VertexInfo, VertexWrite,
    Vertices, WriteProgress, WrittenGraph,
};
pub use store::{
    BulkLoad, CollectOptions, Collected, CompactOptions, Compacted, EdgeRows, EdgeType, EdgeView, Ends,
    GraphStore, Loaded, LogEntry, OpenUse, PreparedTraversal, PrewarmOptions, Prewarmed, SchemaChange,
    Snapshot, StoreOptions, StoreProperty, StoreSchema, StoreStats, StoreWriter, Traversal, Verification,
    VertexIds, VertexType, VertexView,
};
