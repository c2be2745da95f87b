//! YAML files of a GraphAr graph: its types, their properties and lists, and the paths of their files.
//!
//! ```text
//! friends.graph.yml               GraphInfo
//!   person.vertex.yml             VertexInfo ── groups: PropertyGroup ── properties: Property
//!   person_knows_person.edge.yml  EdgeInfo ──── groups, and adjacencies: Adjacency
//! ```
//!
//! Nothing here does I/O. [`GraphFile`] names the files to fetch and builds a [`GraphInfo`] from their contents.
//! The methods of [`GraphInfo`]'s types return the paths of data files; [`GraphInfo::yaml_files`] is the inverse.
//! Where the format specification is silent, this module follows the C++ library.

mod adjacency;
mod edge;
mod emit;
mod graph;
mod graph_file;
mod key_error;
mod prefix;
mod property;
mod read;
mod serial;
mod strictness;
#[cfg(test)]
mod tests;
mod vertex;
mod write;
mod yaml;

pub use adjacency::{Adjacency, AdjacencyOrder, Side};
pub use edge::EdgeInfo;
pub use graph::GraphInfo;
pub use graph_file::GraphFile;
pub use property::{Cardinality, FileType, Property, PropertyGroup};
pub use strictness::Strictness;
pub use vertex::VertexInfo;
