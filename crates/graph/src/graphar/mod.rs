//! GraphAr: graphs as folders of chunk files, according to version 1 of the format and its C++ implementation.
//!
//! Selections and filters are views. The cache holds whole columns of whole files, so that no view evicts or duplicates
//! the reads of another.

mod ahead;
mod chunk_files;
mod columns;
mod csr;
mod distinct;
mod edge_list;
mod edges;
mod graph;
mod graph_folder;
mod info;
mod neighbors;
mod slots;
mod vertex_table;
mod vertices;
mod write;

/// Internals that the graph store uses.
pub(crate) use self::{
    ahead::ahead,
    chunk_files::{ChunkFiles, ExpectedRowCount},
    columns::{DESTINATION, OFFSET, SOURCE, gathering, has_no_nulls, with_microseconds},
    graph_folder::GraphFolder,
    write::{
        KeyInsertError, VertexKeyIndex, WrittenAdjacencyList, new_graph, plan_edges, plan_vertices,
        unwritable,
    },
};
pub use self::{
    csr::Csr,
    edges::{EdgeChunk, Edges},
    graph::{Graph, GraphOptions},
    info::{
        Adjacency, AdjacencyOrder, Cardinality, EdgeInfo, FileType, GraphFile, GraphInfo, Property,
        PropertyGroup, Side, Strictness, VertexInfo,
    },
    vertices::{LabelFilter, VertexChunk, Vertices},
    write::{EdgeWrite, GraphWriteOptions, GraphWriter, VertexWrite, WriteProgress, WrittenGraph},
};
