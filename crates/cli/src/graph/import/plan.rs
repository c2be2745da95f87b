//! What is to be imported, however it was said.

use stylobate_graph::{AdjacencyOrder, FileType, PropertyType};

/// A graph and its sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) name: Option<String>,
    pub(super) output: Option<String>,
    pub(super) file_type: Option<FileType>,
    pub(super) vertex_chunk_size: Option<u64>,
    pub(super) edge_chunk_size: Option<u64>,
    pub(super) lists: Option<Vec<AdjacencyOrder>>,
    pub(super) vertices: Vec<VertexPlan>,
    pub(super) edges: Vec<EdgePlan>,
}

/// Vertices of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VertexPlan {
    pub(super) vertex_type: String,
    pub(super) source: SourcePlan,
    pub(super) key: Option<String>,
    /// All vertices have these; or those that the column can name.
    pub(super) labels: Vec<String>,
    pub(super) labels_column: Option<String>,
    pub(super) chunk_size: Option<u64>,
    pub(super) file_type: Option<FileType>,
    pub(super) groups: Vec<Vec<String>>,
}

/// Edges of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EdgePlan {
    pub(super) src_type: String,
    pub(super) edge_type: String,
    pub(super) dst_type: String,
    pub(super) source: SourcePlan,
    pub(super) source_column: String,
    pub(super) destination_column: String,
    pub(super) by_index: bool,
    pub(super) directed: bool,
    pub(super) lists: Option<Vec<AdjacencyOrder>>,
    pub(super) chunk_size: Option<u64>,
    pub(super) file_type: Option<FileType>,
    pub(super) groups: Vec<Vec<String>>,
}

/// Where rows are, and what is taken of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourcePlan {
    pub(super) path: String,
    /// `None`: the names of its files tell.
    pub(super) kind: Option<SourceKind>,
    /// `None`: a comma, or a tab where the names say so.
    pub(super) delimiter: Option<u8>,
    /// `None`: all columns as they are.
    pub(super) columns: Option<Vec<ColumnPlan>>,
}

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceKind {
    /// Parquet or ORC.
    Columnar,
    Csv,
    JsonLines,
}

/// A column that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColumnPlan {
    /// Its name in the source.
    pub(super) column: String,
    /// Its name in the graph.
    pub(super) name: String,
    /// `None`: its own.
    pub(super) property_type: Option<PropertyType>,
    pub(super) is_nullable: bool,
}

impl EdgePlan {
    /// `person_knows_person`.
    pub(super) fn name(&self) -> String {
        format!("{}_{}_{}", self.src_type, self.edge_type, self.dst_type)
    }
}
