//! One decoded column of one row group or stripe: whole and unfiltered, as the dictionary of the file if it has one.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use crate::file::schema::ProjectedColumn;

/// Rows of one segment of a dense chunk; the last may be shorter.
pub(crate) const SEGMENT_ROWS: usize = 65_536;

/// The representation of the rows of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChunkRepresentation {
    /// As in the file: a dictionary if all of the chunk is encoded with one, else dense.
    Native,
    /// A dictionary, even if the file fell back to plain values.
    Dictionary,
    /// All rows of all row groups or stripes in one array, whose name and type have this id of
    /// [`ChunkCache::column_id`](crate::cache::chunk_cache::ChunkCache::column_id).
    Whole(u32),
}

impl ChunkRepresentation {
    /// Returns a number for it, unique among representations.
    pub(crate) fn bits(self) -> u64 {
        match self {
            Self::Native => 0,
            Self::Dictionary => 1,
            Self::Whole(column) => 2 + u64::from(column),
        }
    }
}

/// A column to load, and the representation of its rows.
pub(crate) type ChunkRequest = (ProjectedColumn, ChunkRepresentation);

/// Returns whether a column with this number of distinct values is read as a dictionary by default: engines group
/// dictionaries of few values faster, and of many values slower.
pub(crate) fn is_worth_a_dictionary(values: u64, rows: u64) -> bool {
    const MAX_VALUES: u64 = 65_536;
    const ROWS_PER_VALUE: u64 = 8;
    values <= MAX_VALUES && values.saturating_mul(ROWS_PER_VALUE) <= rows
}

/// Columns of some rows, and the number of rows.
pub(crate) type ColumnBatch = (Vec<ArrayRef>, usize);

/// The rows of one column within one row group or stripe. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Chunk {
    /// One dictionary array of all rows, with the narrowest codes for its values.
    Dictionary(ArrayRef),
    /// Plain values in segments of [`SEGMENT_ROWS`] rows.
    Dense(Arc<[ArrayRef]>),
    /// Plain values in one array.
    Whole(ArrayRef),
}

impl Chunk {
    /// Returns the bytes in memory, by the capacity of the buffers.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Dictionary(array) | Self::Whole(array) => array.get_array_memory_size(),
            Self::Dense(segments) => segments.iter().map(|segment| segment.get_array_memory_size()).sum(),
        }
    }

    /// Slices the rows `start..start + rows` without a copy; `None` if they do not lie within one segment.
    pub(crate) fn slice(&self, start: usize, rows: usize) -> Option<ArrayRef> {
        let (array, start) = match self {
            Self::Dictionary(array) | Self::Whole(array) => (array, start),
            Self::Dense(segments) => (segments.get(start / SEGMENT_ROWS)?, start % SEGMENT_ROWS),
        };
        if start.checked_add(rows)? > array.len() {
            return None;
        }

        Some(if start == 0 && rows == array.len() { array.clone() } else { array.slice(start, rows) })
    }
}
