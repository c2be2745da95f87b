//! What can go wrong between a graph and the files that it is in.

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. Cheap to clone, since all who wait for one chunk get the error of the one decode.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes could not be had or kept. The source says whether to retry.
    #[error(transparent)]
    Storage(#[from] stylobate_storage::Error),

    /// Columns could not be read or written. The source says what to do.
    #[error(transparent)]
    Columnar(#[from] stylobate_columnar::Error),

    /// A file that describes the graph is wrong. Correct the key that is named.
    #[error("{file}: {key}: {reason}")]
    Info {
        /// The file.
        file: String,
        /// The key within it, with dots and positions: `property_groups[1].file_type`.
        key: String,
        /// What is wrong with it.
        reason: String,
    },

    /// A folder has no file that describes a graph, or several. Name the file.
    #[error("{folder}: {reason}")]
    NoGraphFile {
        /// The folder.
        folder: String,
        /// Which files there are.
        reason: String,
    },

    /// A file of the graph is not there. Say where the graph is, or write it again from its source.
    #[error("{file}: there is no such file")]
    Missing {
        /// The file.
        file: String,
    },

    /// A file of the graph does not fit what is said of it. Write the graph again from its source.
    #[error("{file}: {reason}")]
    Data {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },

    /// No vertices have this type. Correct its name.
    #[error("there is no vertex type {name}: there are {available}")]
    NoSuchVertexType {
        /// The type asked for.
        name: String,
        /// The types there are, with commas.
        available: String,
    },

    /// No edges have this type between these types of vertices. Correct the names.
    #[error("there is no edge type {name}: there are {available}")]
    NoSuchEdgeType {
        /// The type asked for, with the types of its ends.
        name: String,
        /// The types there are, with commas.
        available: String,
    },

    /// Vertices or edges have no such property. Correct its name.
    #[error("{of} has no property {property}: there are {available}")]
    NoSuchProperty {
        /// The type of vertex or edge.
        of: String,
        /// The property asked for.
        property: String,
        /// The properties there are, with commas.
        available: String,
    },

    /// Vertices have no such label. Correct its name.
    #[error("{of} has no label {label}: there are {available}")]
    NoSuchLabel {
        /// The type of vertex.
        of: String,
        /// The label asked for.
        label: String,
        /// The labels there are, with commas.
        available: String,
    },

    /// Edges are not kept in the order that the question needs. Ask from the other side, or write the graph with it.
    #[error("{edge} has no list {wanted}: there are {available}")]
    NoSuchAdjacency {
        /// The type of edge.
        edge: String,
        /// The adjacency list that was needed.
        wanted: String,
        /// The adjacency lists there are, with commas.
        available: String,
    },

    /// There is no vertex of this index, or no chunk of this number.
    #[error("{of}: {index} is outside of 0..{count}")]
    OutOfRange {
        /// What was asked for one.
        of: String,
        /// The index or number.
        index: i64,
        /// How many there are.
        count: u64,
    },

    /// Such a graph cannot be written. Change the data or the options; there is no graph.
    #[error("{of}: {reason}")]
    Unwritable {
        /// The vertices, the edges or the file.
        of: String,
        /// What is wrong.
        reason: String,
    },

    /// There is no graph store at this place, or no such version of it any more. Correct the place or the version.
    #[error("{store}: {reason}")]
    NoSuchStore {
        /// The store.
        store: String,
        /// What is not there.
        reason: String,
    },

    /// There is a graph store at this place already. Open it, or choose another place.
    #[error("{store}: there is a graph store already")]
    StoreExists {
        /// The store.
        store: String,
    },

    /// Somebody else committed this version first. Nothing of this commit is visible: refresh, and commit again.
    #[error("{object}: {reason}")]
    Conflict {
        /// The record of the log.
        object: String,
        /// What it is.
        reason: String,
    },

    /// A later writer took over. Nothing of this commit is visible: make a new writer if this one shall go on.
    #[error("{object}: the writer of epoch {epoch} is fenced by that of epoch {by}")]
    Fenced {
        /// The record of the log that says so.
        object: String,
        /// The epoch of this writer.
        epoch: u64,
        /// The epoch of the later one.
        by: u64,
    },

    /// A schema cannot be as it was given. Correct it.
    #[error("{of}: {reason}")]
    Schema {
        /// The type.
        of: String,
        /// What is wrong.
        reason: String,
    },

    /// Rows cannot be taken as they were given. Nothing of the batch was taken: correct it.
    #[error("{of}: column {column}, row {row}: {reason}")]
    Row {
        /// The type of vertex or edge.
        of: String,
        /// The column.
        column: String,
        /// The row of the batch, or of all that is loaded, from 0.
        row: usize,
        /// What is wrong with it.
        reason: String,
    },

    /// A column is not there, or has not the type that it should have. Nothing of the batch was taken: correct it.
    #[error("{of}: column {column}: {reason}")]
    Column {
        /// The type of vertex or edge.
        of: String,
        /// The column.
        column: String,
        /// What is wrong with it.
        reason: String,
    },

    /// There is no such vertex: it was never there, or it was deleted.
    #[error("there is no vertex {vertex} of type {vertex_type}")]
    NoSuchVertex {
        /// The type.
        vertex_type: String,
        /// Its key or index.
        vertex: String,
    },

    /// Work in the background was ended before it had an answer: it panicked, or the runtime is shutting down.
    #[error("the work was ended: {reason}")]
    Ended {
        /// Why.
        reason: String,
    },
}
