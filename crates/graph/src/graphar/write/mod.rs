//! Writes graphs as GraphAr: vertices and edges arrive as record batches and leave as chunk files.
//!
//! ```text
//! vertices -> exact casts -> keys: the index of each ---------------------------> chunks
//! edges    -> exact casts -> ends: indexes of vertices -----> sort -> parts ----> chunks
//! chunks   -> encoders, many at a time -> output: files that appear together, the graph's own last
//! ```
//!
//! Vertices are written as they arrive. Edges are sorted once per adjacency list: in memory, or over runs on disk
//! if they do not fit. One limit bounds the memory of keys, edges and encoders.

mod arriving_rows;
mod columns;
mod edges;
mod files;
mod graph_writer;
mod keys;
mod names;
mod options;
mod progress;
mod sort;
mod vertices;

/// Internals that the graph store uses.
pub(crate) use self::{
    edges::list_writer::WrittenAdjacencyList,
    graph_writer::{new_graph, plan_edges, plan_vertices},
    keys::{VertexKeyIndex, room::KeyInsertError},
    names::unwritable,
};
pub use self::{
    edges::request::EdgeWrite,
    graph_writer::{GraphWriter, WrittenGraph},
    options::GraphWriteOptions,
    progress::WriteProgress,
    vertices::request::VertexWrite,
};
