//! What is to be imported, however it was said.

use stylobate_graph::{AdjacencyOrder, FileType, PropertyType};

/// A graph and its sources.
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

/// Vertices of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::graph) struct VertexImportPlan {
    pub(in crate::graph) vertex_type: String,
    pub(in crate::graph) source: ImportSourcePlan,
    pub(in crate::graph) key: Option<String>,
    /// All vertices have these; or those that the column can name.
    pub(in crate::graph) labels: Vec<String>,
    pub(in crate::graph) labels_column: Option<String>,
    pub(in crate::graph) chunk_size: Option<u64>,
    pub(in crate::graph) file_type: Option<FileType>,
    pub(in crate::graph) groups: Vec<Vec<String>>,
}

/// Edges of a type.
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

/// Where rows are, and what is taken of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::graph) struct ImportSourcePlan {
    pub(in crate::graph) path: String,
    /// `None`: the names of its files tell.
    pub(in crate::graph) kind: Option<ImportSourceKind>,
    /// `None`: a comma, or a tab where the names say so.
    pub(in crate::graph) delimiter: Option<u8>,
    /// `None`: all columns as they are.
    pub(in crate::graph) columns: Option<Vec<ImportColumnPlan>>,
}

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::graph) enum ImportSourceKind {
    /// Parquet or ORC.
    Columnar,
    Csv,
    JsonLines,
}

/// A column that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::graph) struct ImportColumnPlan {
    /// Its name in the source.
    pub(in crate::graph) column: String,
    /// Its name in the graph.
    pub(in crate::graph) name: String,
    /// `None`: its own.
    pub(in crate::graph) property_type: Option<PropertyType>,
    pub(in crate::graph) is_nullable: bool,
}

impl EdgeImportPlan {
    /// `person_knows_person`.
    pub(in crate::graph) fn name(&self) -> String {
        format!("{}_{}_{}", self.src_type, self.edge_type, self.dst_type)
    }
}
