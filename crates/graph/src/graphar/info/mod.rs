//! What the YAML files of a graph in GraphAr say: its types, their properties and lists, and where their files are.
//!
//! ```text
//! friends.graph.yml               GraphInfo
//!   person.vertex.yml             VertexInfo ── groups: PropertyGroup ── properties: Property
//!   person_knows_person.edge.yml  EdgeInfo ──── groups, and adjacencies: Adjacency
//! ```
//!
//! Nothing here does I/O. [`GraphFile`] says which files to fetch and makes a [`GraphInfo`] of their texts, whose
//! functions say where data is; [`GraphInfo::yaml_files`] is the way back. Where the documents of the format are
//! silent, its C++ library is followed.

mod adjacency;
mod edge;
mod emit;
mod flaw;
mod graph;
mod graph_file;
mod prefix;
mod property;
mod property_type;
mod read;
mod serial;
mod strictness;
#[cfg(test)]
mod tests;
mod unknown_name;
mod vertex;
mod write;
mod yaml;

pub use adjacency::{Adjacency, AdjacencyOrder, Side};
pub use edge::EdgeInfo;
pub use graph::GraphInfo;
pub use graph_file::GraphFile;
pub use property::{Cardinality, FileType, Property, PropertyGroup};
pub use property_type::PropertyType;
pub use strictness::Strictness;
pub use unknown_name::UnknownNameError;
pub use vertex::VertexInfo;
