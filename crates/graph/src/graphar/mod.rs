//! GraphAr: graphs as folders of chunk files.

mod info;
mod write;

pub use info::{
    Adjacency, AdjacencyOrder, Cardinality, EdgeInfo, FileType, GraphFile, GraphInfo, Property,
    PropertyGroup, PropertyType, Side, Strictness, UnknownNameError, VertexInfo,
};
pub use write::{EdgeWrite, GraphWriteOptions, GraphWriter, VertexWrite, WriteProgress, WrittenGraph};
