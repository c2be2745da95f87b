//! Graphs in object storage.

mod error;
mod graphar;

pub use error::{Error, Result};
pub use graphar::{
    Adjacency, AdjacencyOrder, Cardinality, EdgeInfo, EdgeWrite, FileType, GraphFile, GraphInfo,
    GraphWriteOptions, GraphWriter, Property, PropertyGroup, PropertyType, Side, Strictness,
    UnknownNameError, VertexInfo, VertexWrite, WriteProgress, WrittenGraph,
};
