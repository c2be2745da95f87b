//! The plan of an import, from the command line or a specification file.

use stylobate_graph::{
    PropertyType,
    graphar::{AdjacencyOrder, FileType},
};

/// A graph to create and its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::graph) struct ImportPlan {
    pub(in crate::graph) name: Option<String>,
    pub(in crate::graph) output: Option<String>,
    pub(in crate::graph) file_type: Option<FileType>,
    pub(in crate::graph) vertex_chunk_size: Option<u64>,
    pub(in crate::graph) edge_chunk_size: Option<u64>,
    pub(in crate::graph) lists: Option<Vec<AdjacencyOrder>>,
    pub(in crate::graph) vertices: Vec<VertexImportPlan>,
    pub(in crate::graph) edges: Vec<EdgeImportPlan>,
}

/// The import of a vertex type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::graph) struct VertexImportPlan {
    pub(in crate::graph) vertex_type: String,
    pub(in crate::graph) source: ImportSourcePlan,
    pub(in crate::graph) key: Option<String>,
    /// The labels of all vertices; with a labels column, the labels that may occur in it.
    pub(in crate::graph) labels: Vec<String>,
    pub(in crate::graph) labels_column: Option<String>,
    pub(in crate::graph) chunk_size: Option<u64>,
    pub(in crate::graph) file_type: Option<FileType>,
    pub(in crate::graph) groups: Vec<Vec<String>>,
}

/// The import of an edge type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::graph) struct EdgeImportPlan {
    pub(in crate::graph) src_type: String,
    pub(in crate::graph) edge_type: String,
    pub(in crate::graph) dst_type: String,
    pub(in crate::graph) source: ImportSourcePlan,
    pub(in crate::graph) source_column: String,
    pub(in crate::graph) destination_column: String,
    pub(in crate::graph) by_index: bool,
    pub(in crate::graph) directed: bool,
    pub(in crate::graph) lists: Option<Vec<AdjacencyOrder>>,
    pub(in crate::graph) chunk_size: Option<u64>,
    pub(in crate::graph) file_type: Option<FileType>,
    pub(in crate::graph) groups: Vec<Vec<String>>,
}

/// The location of a source, and the columns to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::graph) struct ImportSourcePlan {
    pub(in crate::graph) path: String,
    /// `None` to derive it from the file names.
    pub(in crate::graph) kind: Option<ImportSourceKind>,
    /// `None` for a comma, or for a tab if the file names imply it.
    pub(in crate::graph) delimiter: Option<u8>,
    /// `None` for all columns, unchanged.
    pub(in crate::graph) columns: Option<Vec<ImportColumnPlan>>,
}

/// The format of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::graph) enum ImportSourceKind {
    /// Parquet or ORC.
    Columnar,
    Csv,
    JsonLines,
}

/// A column to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::graph) struct ImportColumnPlan {
    /// Name in the source.
    pub(in crate::graph) column: String,
    /// Name in the graph.
    pub(in crate::graph) name: String,
    /// `None` to keep the type of the source.
    pub(in crate::graph) property_type: Option<PropertyType>,
    pub(in crate::graph) is_nullable: bool,
}

impl EdgeImportPlan {
    /// Returns the full name, such as `person_knows_person`.
    pub(in crate::graph) fn name(&self) -> String {
        format!("{}_{}_{}", self.src_type, self.edge_type, self.dst_type)
    }
}
