//! One decoded column of one row group or stripe: whole and unfiltered, as the dictionary of the file if it has one.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder},
    buffer::BooleanBuffer,
    compute::{concat, filter},
    error::ArrowError,
};

use crate::{file::schema::ProjectedColumn, kernels::byte_segment::ARRAY_TOO_LONG};

/// Rows of one segment of a dense chunk; the last may be shorter.
pub(crate) const SEGMENT_ROWS: usize = 65_536;

/// The representation of the rows of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ChunkRepresentation {
    /// As in the file: a dictionary if all of the chunk is encoded with one, else dense.
    Native,
    /// A dictionary, even if the file fell back to plain values.
    Dictionary,
    /// All rows of all row groups or stripes in one array. The id identifies the column's name and type, see
    /// [`ChunkCache::column_id`](crate::cache::chunk_cache::ChunkCache::column_id).
    Whole(u32),
}

impl ChunkRepresentation {
    /// Returns a number that is unique among representations.
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
    /// Returns the memory in use, in bytes, by the capacity of the buffers.
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

/// Rows of a row group or stripe that pass the filter, as a mask of each segment. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct PassingRows {
    segments: Arc<[BooleanBuffer]>,
    count: usize,
}

impl PassingRows {
    /// Takes the mask of each segment.
    pub(crate) fn new(segments: Vec<BooleanBuffer>) -> Self {
        let count = segments.iter().map(BooleanBuffer::count_set_bits).sum();
        Self { segments: segments.into(), count }
    }

    /// Returns the number of rows that pass.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the mask of a segment.
    pub(crate) fn segment(&self, at: usize) -> Option<&BooleanBuffer> {
        self.segments.get(at)
    }

    /// Returns the rows of a whole chunk that pass.
    pub(crate) fn of_chunk(&self, chunk: &Chunk) -> Result<Chunk, ArrowError> {
        match chunk {
            Chunk::Dictionary(array) => Ok(Chunk::Dictionary(filter(array, &self.mask())?)),
            Chunk::Whole(array) => Ok(Chunk::Whole(filter(array, &self.mask())?)),
            Chunk::Dense(segments) => {
                let mut passing = SegmentCollector::new(Some(self));
                segments.iter().try_for_each(|segment| passing.push(segment.clone()))?;
                passing.finish()
            }
        }
    }

    fn mask(&self) -> BooleanArray {
        let rows = self.segments.iter().map(BooleanBuffer::len).sum();
        let mut mask = BooleanBufferBuilder::new(rows);
        self.segments.iter().for_each(|segment| mask.append_buffer(segment));
        BooleanArray::new(mask.finish(), None)
    }
}

/// Collector of the segments of a dense chunk as they are decoded: all their rows, or only those that pass the filter,
/// so that the others are never in memory together.
pub(crate) struct SegmentCollector<'a> {
    passing: Option<&'a PassingRows>,
    segments: Vec<ArrayRef>,
    /// Passing rows, fewer than a segment has.
    partial: Vec<ArrayRef>,
    /// Number of segments that were pushed.
    pushed: usize,
}

impl<'a> SegmentCollector<'a> {
    /// Creates a collector of all rows, or of the passing ones.
    pub(crate) fn new(passing: Option<&'a PassingRows>) -> Self {
        Self { passing, segments: Vec::new(), partial: Vec::new(), pushed: 0 }
    }

    /// Returns the number of segments that were pushed.
    pub(crate) fn pushed(&self) -> usize {
        self.pushed
    }

    /// Takes the next segment of the column.
    pub(crate) fn push(&mut self, segment: ArrayRef) -> Result<(), ArrowError> {
        let at = self.pushed;
        self.pushed += 1;
        let Some(passing) = self.passing else {
            self.segments.push(segment);
            return Ok(());
        };

        let mask = passing.segment(at).filter(|mask| mask.len() == segment.len());
        let mask = mask.ok_or_else(|| ArrowError::ComputeError("a segment without its mask".to_owned()))?;
        let mut rest = filter(&segment, &BooleanArray::new(mask.clone(), None))?;
        let mut room = SEGMENT_ROWS - self.partial.iter().map(|part| part.len()).sum::<usize>();
        while rest.len() >= room {
            self.partial.push(rest.slice(0, room));
            rest = rest.slice(room, rest.len() - room);
            self.join_partial()?;
            room = SEGMENT_ROWS;
        }
        if !rest.is_empty() {
            self.partial.push(rest);
        }

        Ok(())
    }

    /// Returns the chunk.
    pub(crate) fn finish(mut self) -> Result<Chunk, ArrowError> {
        if !self.partial.is_empty() {
            self.join_partial()?;
        }
        Ok(Chunk::Dense(self.segments.into()))
    }

    fn join_partial(&mut self) -> Result<(), ArrowError> {
        let parts: Vec<&dyn Array> = self.partial.iter().map(AsRef::as_ref).collect();
        let joined = concat(&parts)?;
        self.segments.push(joined);
        self.partial.clear();
        Ok(())
    }
}

/// Returns the reason of an error of a [`SegmentCollector`]. Passing rows of several segments may together exceed the
/// offsets of one array, though each segment fits: that is not an error of the file.
pub(crate) fn collector_reason(error: &ArrowError) -> String {
    match error {
        ArrowError::OffsetOverflowError(_) => ARRAY_TOO_LONG.to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{AsArray, Int64Array},
        datatypes::Int64Type,
    };

    use super::*;

    #[test]
    fn passing_rows_fill_segments_again() {
        let rows = SEGMENT_ROWS * 3 + 5;
        let passes = |row: usize| !row.is_multiple_of(3);
        let starts = (0..rows).step_by(SEGMENT_ROWS);
        let ranges = starts.map(|start| start..rows.min(start + SEGMENT_ROWS)).collect::<Vec<_>>();
        let masks = ranges.iter().map(|range| range.clone().map(passes).collect()).collect();
        let passing = PassingRows::new(masks);
        let expected: Vec<i64> = (0..rows).filter(|row| passes(*row)).map(|row| row as i64).collect();
        assert_eq!(passing.count(), expected.len());

        let segment = |range: &std::ops::Range<usize>| -> ArrayRef {
            Arc::new(range.clone().map(|row| row as i64).collect::<Int64Array>())
        };
        let chunk = Chunk::Dense(ranges.iter().map(segment).collect());
        let Chunk::Dense(segments) = passing.of_chunk(&chunk).unwrap() else { panic!("not dense") };
        let lengths: Vec<usize> = segments.iter().map(|segment| segment.len()).collect();
        assert_eq!(lengths, [SEGMENT_ROWS, SEGMENT_ROWS, expected.len() - 2 * SEGMENT_ROWS]);
        let values =
            segments.iter().flat_map(|segment| segment.as_primitive::<Int64Type>().values().to_vec());
        assert_eq!(values.collect::<Vec<i64>>(), expected);
    }
}
