//! One column of one row group or stripe, decoded: whole and unfiltered, as the dictionary that the file has for it
//! wherever it has one.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use crate::file::schema::ProjectedColumn;

/// Rows of one segment of a dense chunk; the last may be shorter.
pub(crate) const SEGMENT_ROWS: usize = 65_536;

/// How the rows of a chunk are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChunkRepresentation {
    /// As the file has them: a dictionary if all of the chunk is encoded with one, else dense.
    Native,
    /// As a dictionary, even where the file gave up on its own.
    Dictionary,
    /// All rows of all row groups or stripes in one array, of the name and type of which
    /// [`ChunkCache::column_id`](crate::cache::chunk_cache::ChunkCache::column_id) gave this number.
    Whole(u32),
}

impl ChunkRepresentation {
    /// A number for it.
    pub(crate) fn bits(self) -> u64 {
        match self {
            Self::Native => 0,
            Self::Dictionary => 1,
            Self::Whole(column) => 2 + u64::from(column),
        }
    }
}

/// A column that is to be loaded, and how its rows are to be held.
pub(crate) type ChunkRequest = (ProjectedColumn, ChunkRepresentation);

/// Whether a column of so many distinct values is better read as a dictionary by whoever does not say: engines group by
/// few values faster, and by many slower.
pub(crate) fn is_worth_a_dictionary(values: u64, rows: u64) -> bool {
    const MOST_VALUES: u64 = 65_536;
    const ROWS_PER_VALUE: u64 = 8;
    values <= MOST_VALUES && values.saturating_mul(ROWS_PER_VALUE) <= rows
}

/// Columns of some rows, and how many rows these are.
pub(crate) type ColumnBatch = (Vec<ArrayRef>, usize);

/// The rows of one column within one row group or stripe. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Chunk {
    /// One dictionary array of all rows, with the narrowest codes that its values allow.
    Dictionary(ArrayRef),
    /// Values one by one, in segments of [`SEGMENT_ROWS`] rows.
    Dense(Arc<[ArrayRef]>),
    /// Values one by one, all in one array.
    Whole(ArrayRef),
}

impl Chunk {
    /// Bytes that it holds, by the capacity of its buffers.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Dictionary(array) | Self::Whole(array) => array.get_array_memory_size(),
            Self::Dense(segments) => segments.iter().map(|segment| segment.get_array_memory_size()).sum(),
        }
    }

    /// The rows `start..start + rows`, which lie within one segment, without a copy; `None` if they do not.
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
