//! Writes graphs as GraphAr: vertices and edges arrive as record batches and leave as chunk files.
//!
//! ```text
//! vertices -> exact casts -> keys: which index each has ------------------------> chunks
//! edges    -> exact casts -> ends: which indexes they name -> sort -> parts ----> chunks
//! chunks   -> encoders, many at a time -> output: files that appear together, the graph's own at last
//! ```
//!
//! Vertices are written as they arrive. Edges are sorted once for each adjacency list: in memory, or over runs on disk
//! where they do not fit. One number bounds what keys, edges and encoders take.

mod arriving_rows;
mod blocking;
mod buffer;
mod chunk_file;
mod columns;
mod csv_file;
mod edge_write;
mod edges;
mod encoders;
mod ends;
mod graph_writer;
mod indexes;
mod key_numbers;
mod key_room;
mod key_texts;
mod keys;
mod known;
mod labels;
mod list_writer;
mod merge;
mod names;
mod options;
mod order;
mod output;
mod progress;
mod runs;
mod shares;
mod sort;
mod vertex_write;
mod vertices;

/// What the graph store makes use of.
pub(crate) use self::{
    blocking::blocking,
    key_room::Refused,
    keys::Keys,
    list_writer::WrittenList,
    names::unwritable,
    runs::{Run, RunReader},
};
pub use self::{
    edge_write::EdgeWrite,
    graph_writer::{GraphWriter, WrittenGraph},
    options::GraphWriteOptions,
    progress::WriteProgress,
    vertex_write::VertexWrite,
};
