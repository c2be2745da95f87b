//! Description of a base in the log: a GraphAr tree of one type, written in bulk and immutable.
//!
//! ```text
//! vertices/<type>-<uuid>/          edges/<source>_<edge>_<destination>-<uuid>/
//!   <type>.graph.yml, …yml           <name>.graph.yml, …yml
//!   vertex/<type>/<group>/chunk<n>   edge/<name>/ordered_by_{source,dest}/{adj_list,offset,<group>}/…
//!   keys/chunk<n>                    vertex/<type>/vertex_count
//! ```
//!
//! Counts that GraphAr keeps in separate small files (vertices, edges of each part) are also in the description,
//! so that opening a base takes no request.
//!
//! Lookups come in pairs: `x_cached` is synchronous, since most warm lookups are one such call of about 90 ns; `x`
//! tries it first, then loads chunks, and keeps only the requested rows of each.

pub(super) mod edges;
pub(super) mod find;
pub(super) mod keys;
pub(super) mod keys_sort;
pub(super) mod list;
pub(super) mod read;
#[cfg(test)]
mod tests;
pub(super) mod vertices;
pub(super) mod write;

use arrow::{array::ArrayRef, datatypes::FieldRef};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use self::keys::KeysInfo;
use crate::graphar::{ChunkFiles, FileType, GraphFolder};

/// Vertices of one type, with indexes starting at `first`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VertexBaseInfo {
    /// Path below the store's root, without leading or trailing slashes.
    pub(crate) path: String,
    pub(crate) type_name: String,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) chunk_size: u64,
    /// Folder of its chunks below `path`.
    pub(crate) prefix: String,
    pub(crate) groups: Vec<BaseGroupInfo>,
    pub(crate) keys: Option<KeysInfo>,
    pub(crate) bytes: u64,
}

/// Edges of one type, listed by both ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EdgeBaseInfo {
    /// Path below the store's root, without leading or trailing slashes.
    pub(crate) path: String,
    pub(crate) source_type: String,
    pub(crate) edge_type: String,
    pub(crate) destination_type: String,
    pub(crate) count: u64,
    /// Number of source vertices: vertices with higher indexes, assigned later, have no edges in this base.
    pub(crate) sources: u64,
    pub(crate) destinations: u64,
    pub(crate) source_chunk_size: u64,
    pub(crate) destination_chunk_size: u64,
    pub(crate) edge_chunk_size: u64,
    /// Folder of its lists below `path`.
    pub(crate) prefix: String,
    pub(crate) groups: Vec<BaseGroupInfo>,
    pub(crate) by_source: AdjacencyListInfo,
    pub(crate) by_destination: AdjacencyListInfo,
    pub(crate) bytes: u64,
}

/// Properties that are stored together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BaseGroupInfo {
    pub(crate) prefix: String,
    pub(crate) properties: Vec<String>,
}

/// Adjacency list of a base of edges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AdjacencyListInfo {
    /// Number of edges per part.
    pub(crate) parts: Vec<u64>,
    /// Neighbour of the first edge of each chunk, part by part, so that a lookup reads one chunk regardless of the
    /// vertex's degree.
    pub(crate) firsts: Vec<i64>,
    /// Chunks whose first edge is parallel to the last of the previous chunk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) continued: Vec<u64>,
}

/// Maximum number of chunks of a list or of a base's vertices, which bounds the open files.
const MAX_CHUNKS: u64 = 1 << 22;
/// Maximum rows of a chunk.
const MAX_ROWS: u64 = 1 << 32;

/// Returns the number of chunks of `rows` rows; `None` if it is out of bounds.
fn chunks_of(rows: u64, size: u64) -> Option<u64> {
    let is_size = (1..=MAX_ROWS).contains(&size);
    is_size.then(|| rows.div_ceil(size)).filter(|chunks| *chunks <= MAX_CHUNKS)
}

impl VertexBaseInfo {
    /// Returns why a record's description is invalid; `None` if it is valid.
    pub(super) fn invalid_reason(&self) -> Option<String> {
        let keys = self.keys.as_ref();
        // Chunks of long strings have fewer keys than the chunk size.
        let has_keys = keys.is_none_or(|keys| {
            let chunks = keys.fences.chunks() as u64;
            chunks_of(keys.count, keys.chunk_size)
                .is_some_and(|min_chunks| (min_chunks..=keys.count.min(MAX_CHUNKS)).contains(&chunks))
        });

        match chunks_of(self.count, self.chunk_size) {
            Some(_) if has_keys => None,
            _ => Some(format!("{} has {} vertices in chunks of {}", self.path, self.count, self.chunk_size)),
        }
    }
}

impl EdgeBaseInfo {
    /// Returns why a record's description is invalid; `None` if it is valid.
    pub(super) fn invalid_reason(&self) -> Option<String> {
        let is_right = |list: &AdjacencyListInfo, vertices: u64, size: u64| {
            let parts = chunks_of(vertices, size)?;
            let edges = list.parts.iter().try_fold(0_u64, |sum, edges| sum.checked_add(*edges))?;
            let chunks = list
                .parts
                .iter()
                .try_fold(0, |sum: u64, edges| sum.checked_add(chunks_of(*edges, self.edge_chunk_size)?))?;
            let is_whole = parts == list.parts.len() as u64 && edges == self.count;
            (is_whole && chunks == list.firsts.len() as u64 && chunks <= MAX_CHUNKS).then_some(())
        };

        let by_source = is_right(&self.by_source, self.sources, self.source_chunk_size);
        let by_destination = is_right(&self.by_destination, self.destinations, self.destination_chunk_size);
        match by_source.and(by_destination) {
            Some(()) => None,
            None => Some(format!(
                "the parts and chunks of {} are not those of its {} edges",
                self.path, self.count
            )),
        }
    }
}

/// Columns resolved in one base, to be read from it repeatedly.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseColumnSelection {
    pub(super) columns: SmallVec<[SelectedBaseColumn; 4]>,
}

#[derive(Clone, Debug)]
pub(super) struct SelectedBaseColumn {
    pub(super) field: FieldRef,
    /// Group, and column within it; `None` if the base is older than the property.
    pub(super) stored: Option<(usize, usize)>,
}

impl BaseColumnSelection {
    pub(super) fn new(groups: &[PropertyGroupFiles], fields: &[FieldRef]) -> Self {
        let stored = |name: &str| {
            groups.iter().enumerate().find_map(|(at, group)| {
                let column = group.fields.iter().position(|field| field.name() == name)?;
                Some((at, column))
            })
        };
        let column =
            |field: &FieldRef| SelectedBaseColumn { field: field.clone(), stored: stored(field.name()) };
        Self { columns: fields.iter().map(column).collect() }
    }

    /// Returns the selected columns of a group, and their positions in the selection.
    pub(super) fn of_group(&self, wanted: usize) -> (Vec<usize>, Vec<usize>) {
        let columns = self.columns.iter().enumerate();
        let of_group = columns.filter_map(|(at, column)| match column.stored {
            Some((group, column)) if group == wanted => Some((column, at)),
            _ => None,
        });
        of_group.unzip()
    }

    /// Returns nulls for a column that the base does not have.
    pub(super) fn missing(&self, at: usize, rows: usize) -> Option<ArrayRef> {
        let column = self.columns.get(at).filter(|column| column.stored.is_none())?;
        Some(arrow::array::new_null_array(column.field.data_type(), rows))
    }
}

/// Files of a group of properties.
pub(crate) struct PropertyGroupFiles {
    /// Folder below the list or the vertices.
    pub(super) prefix: String,
    pub(super) fields: Vec<FieldRef>,
    pub(super) files: ChunkFiles,
}

impl PropertyGroupFiles {
    /// Opens stored groups for reading these fields. Other properties are not read.
    pub(super) fn open_all(folder: &GraphFolder, groups: &[BaseGroupInfo], fields: &[FieldRef]) -> Vec<Self> {
        let field = |name: &String| fields.iter().find(|field| field.name() == name).cloned();
        let group = |group: &BaseGroupInfo| {
            let fields: Vec<FieldRef> = group.properties.iter().filter_map(field).collect();
            let files = ChunkFiles::new(folder.clone(), FileType::Parquet, fields.clone().into());
            Self { prefix: group.prefix.clone(), fields, files }
        };
        groups.iter().map(group).collect()
    }
}

/// Chunk size as a divisor: a shift if it is a power of two, as in most stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkSize {
    size: u64,
    shift: Option<u32>,
}

impl ChunkSize {
    pub(super) fn new(size: u64) -> Self {
        let size = size.max(1);
        Self { size, shift: size.is_power_of_two().then(|| size.trailing_zeros()) }
    }

    pub(super) fn get(self) -> u64 {
        self.size
    }

    /// Returns the chunk of an index, and the row in it.
    #[inline]
    pub(super) fn split(self, index: u64) -> (u64, u64) {
        match self.shift {
            Some(shift) => (index >> shift, index & (self.size - 1)),
            None => (index / self.size, index % self.size),
        }
    }
}
