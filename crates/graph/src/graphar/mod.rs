//! GraphAr: graphs as folders of chunk files.

mod info;

pub use info::{
    Adjacency, AdjacencyOrder, Cardinality, EdgeInfo, FileType, GraphFile, GraphInfo, Property,
    PropertyGroup, PropertyType, Side, Strictness, UnknownNameError, VertexInfo,
};
