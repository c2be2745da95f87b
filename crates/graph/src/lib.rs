//! Graphs in object storage.

mod error;
mod graphar;

pub use error::{Error, Result};
pub use graphar::{
    Adjacency, AdjacencyOrder, Cardinality, EdgeInfo, FileType, GraphFile, GraphInfo, Property,
    PropertyGroup, PropertyType, Side, Strictness, UnknownNameError, VertexInfo, EdgeWrite, GraphWriteOptions, GraphWriter, VertexWrite, WriteProgress, WrittenGraph,
};
