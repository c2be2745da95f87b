//! Errors of reading and writing graphs.

use stylobate_storage::BlockingWorkError;

/// Result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate. Cheap to clone, because all readers waiting for a chunk share its decode error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Storage I/O failed. The source says whether to retry.
    #[error(transparent)]
    Storage(#[from] stylobate_storage::Error),

    /// Columns could not be read or written. The source says what to do.
    #[error(transparent)]
    Columnar(#[from] stylobate_columnar::Error),

    /// A file that describes the graph is invalid. Correct the named key.
    #[error("{file}: {key}: {reason}")]
    Info {
        /// File.
        file: String,
        /// Key within the file, with dots and positions: `property_groups[1].file_type`.
        key: String,
        /// Reason.
        reason: String,
    },

    /// A folder has no file that describes a graph, or several. Name the file.
    #[error("{folder}: {reason}")]
    NoGraphFile {
        /// Folder.
        folder: String,
        /// Candidate files.
        reason: String,
    },

    /// A file of the graph is missing. Correct the graph's location, or write the graph again from its source.
    #[error("{file}: there is no such file")]
    Missing {
        /// File.
        file: String,
    },

    /// A file of the graph contradicts its description. Write the graph again from its source.
    #[error("{file}: {reason}")]
    Data {
        /// File.
        file: String,
        /// Reason.
        reason: String,
    },

    /// No vertices have this type. Correct its name.
    #[error("no vertex type {name}; available: {available}")]
    NoSuchVertexType {
        /// Requested type.
        name: String,
        /// Existing types, comma-separated.
        available: String,
    },

    /// No edges have this type between these vertex types. Correct the names.
    #[error("no edge type {name}; available: {available}")]
    NoSuchEdgeType {
        /// Requested type, with the types of its ends.
        name: String,
        /// Existing types, comma-separated.
        available: String,
    },

    /// Vertices or edges have no such property. Correct its name.
    #[error("{of} has no property {property}; available: {available}")]
    NoSuchProperty {
        /// Vertex or edge type.
        of: String,
        /// Requested property.
        property: String,
        /// Existing properties, comma-separated.
        available: String,
    },

    /// Vertices have no such label. Correct its name.
    #[error("{of} has no label {label}; available: {available}")]
    NoSuchLabel {
        /// Vertex type.
        of: String,
        /// Requested label.
        label: String,
        /// Existing labels, comma-separated.
        available: String,
    },

    /// Edges are not stored in the order that the request needs. Query from the other side, or write the graph with
    /// this order.
    #[error("{edge} has no list {wanted}; available: {available}")]
    NoSuchAdjacency {
        /// Edge type.
        edge: String,
        /// Required adjacency list.
        wanted: String,
        /// Existing adjacency lists, comma-separated.
        available: String,
    },

    /// No vertex has this index, or no chunk has this number.
    #[error("{of}: {index} is outside of 0..{count}")]
    OutOfRange {
        /// Type or file that the index refers to.
        of: String,
        /// Index or number.
        index: i64,
        /// Number of vertices or chunks.
        count: u64,
    },

    /// The graph, or a type of a store, cannot be written as GraphAr. Change the data, the schema or the options;
    /// nothing was written.
    #[error("{of}: {reason}")]
    Unwritable {
        /// Vertices, edges or file.
        of: String,
        /// Reason.
        reason: String,
    },

    /// No graph store exists at this location, or it no longer has this version. Correct the location or the version.
    #[error("{store}: {reason}")]
    NoSuchStore {
        /// Store.
        store: String,
        /// Missing store or version.
        reason: String,
    },

    /// A graph store already exists at this location. Open it, or choose another location.
    #[error("{store}: there is a graph store already")]
    StoreExists {
        /// Store.
        store: String,
    },

    /// Another writer committed this version first. Nothing of this commit is visible: refresh, and commit again.
    #[error("{object}: {reason}")]
    Conflict {
        /// Record of the log.
        object: String,
        /// Description of the record.
        reason: String,
    },

    /// A later writer took over. Nothing of this commit is visible: create a new writer to continue.
    #[error("{object}: the writer of epoch {epoch} is fenced by that of epoch {by}")]
    Fenced {
        /// Record of the log that holds the later epoch.
        object: String,
        /// Epoch of this writer.
        epoch: u64,
        /// Epoch of the later writer.
        by: u64,
    },

    /// The given schema is invalid. Correct it.
    #[error("{of}: {reason}")]
    Schema {
        /// Vertex or edge type.
        of: String,
        /// Reason.
        reason: String,
    },

    /// A row is invalid. Nothing of the batch was applied: correct it.
    #[error("{of}: column {column}, row {row}: {reason}")]
    Row {
        /// Vertex or edge type.
        of: String,
        /// Column.
        column: String,
        /// Row number within the batch, or within the whole load, from 0.
        row: usize,
        /// Reason.
        reason: String,
    },

    /// A column is missing or has the wrong type. Nothing of the batch was applied: correct it.
    #[error("{of}: column {column}: {reason}")]
    Column {
        /// Vertex or edge type.
        of: String,
        /// Column.
        column: String,
        /// Reason.
        reason: String,
    },

    /// The vertex never existed, or was deleted.
    #[error("there is no vertex {vertex} of type {vertex_type}")]
    NoSuchVertex {
        /// Vertex type.
        vertex_type: String,
        /// Key or index.
        vertex: String,
    },

    /// A background task ended without a result: it panicked, or the runtime is shutting down.
    #[error("the work was ended: {reason}")]
    Ended {
        /// Reason.
        reason: String,
    },
}

impl From<BlockingWorkError> for Error {
    fn from(error: BlockingWorkError) -> Self {
        Self::Ended { reason: error.to_string() }
    }
}
