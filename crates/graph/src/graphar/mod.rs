//! GraphAr: graphs as folders of chunk files, after the format's version 1 and what its C++ code makes of that.
//!
//! Selecting and filtering are views. What is cached are whole columns of whole files, so that no view drops or doubles
//! what another has read.

mod ahead;
mod chunk_files;
mod columns;
mod csr;
mod direction;
mod distinct;
mod edge_list;
mod edges;
mod graph;
mod graph_file;
mod info;
mod neighbors;
mod offsets;
mod place;
mod slots;
mod vertex_table;
mod vertices;
mod write;

/// What the graph store makes use of.
pub(crate) use self::{
    ahead::ahead,
    chunk_files::{ChunkFiles, ExpectedRowCount},
    columns::{DESTINATION, OFFSET, SOURCE, gathering, has_no_nulls},
    place::GraphFolder,
    write::{
        KeyInsertError, SortRun, SortRunReader, VertexKeyIndex, WrittenAdjacencyList, blocking, unwritable,
    },
};
pub use self::{
    csr::Csr,
    direction::Direction,
    edges::{EdgeChunk, Edges},
    graph::{Graph, GraphOptions},
    info::{
        Adjacency, AdjacencyOrder, Cardinality, EdgeInfo, FileType, GraphFile, GraphInfo, Property,
        PropertyGroup, PropertyType, Side, Strictness, UnknownNameError, VertexInfo,
    },
    vertices::{LabelFilter, VertexChunk, Vertices},
    write::{EdgeWrite, GraphWriteOptions, GraphWriter, VertexWrite, WriteProgress, WrittenGraph},
};
