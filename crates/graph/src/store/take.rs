//! Gathers rows of several chunks into one array. Numbers and strings are copied directly, so that scattered rows
//! cost little more than the memory that they touch.

use std::ops::Range;

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, MutableArrayData, PrimitiveArray,
        StringBuilder, downcast_primitive, make_array, new_empty_array,
    },
    buffer::{BooleanBuffer, NullBuffer},
    compute::interleave,
    datatypes::DataType,
};
use smallvec::SmallVec;

use crate::{Result, graphar::gathering};

/// Chunks read concurrently.
pub(super) const MAX_CONCURRENT_CHUNKS: usize = 16;
/// Chunks read ahead of a consumer that reads all of them.
pub(super) const CHUNKS_AHEAD: usize = 4;

/// Consecutive rows of a chunk.
#[derive(Clone, Debug)]
pub(crate) struct ChunkRun {
    /// Position among the loaded chunks.
    pub(super) chunk: usize,
    pub(super) rows: Range<usize>,
}

/// Row: position among the loaded chunks, and row of the chunk.
pub(super) type ChunkRow = (u32, u32);

/// Required chunks, without duplicates, in the order of their first request.
pub(crate) struct ChunkInterner {
    numbers: SmallVec<[u64; 8]>,
    /// Position of each chunk, by its number; not allocated for few requests.
    positions: Vec<u32>,
}

/// Maximum number of chunks for a linear search.
const MAX_LINEAR_SEARCH: usize = 16;
const NONE: u32 = u32::MAX;

impl ChunkInterner {
    /// Returns an interner for `names` requests of chunks with numbers below `end`.
    pub(super) fn new(names: usize, end: u64) -> Self {
        let positions = if names > MAX_LINEAR_SEARCH && end > 1 {
            vec![NONE; usize::try_from(end).unwrap_or(0)]
        } else {
            Vec::new()
        };
        Self { numbers: SmallVec::new(), positions }
    }

    /// Returns the position of a chunk among those requested, appending it if it is new.
    #[inline]
    pub(super) fn insert(&mut self, number: u64) -> usize {
        if let Some(position) = self.positions.get_mut(number as usize) {
            if *position == NONE {
                *position = self.numbers.len() as u32;
                self.numbers.push(number);
            }
            return *position as usize;
        }

        match self.numbers.iter().position(|known| *known == number) {
            Some(position) => position,
            None => {
                self.numbers.push(number);
                self.numbers.len() - 1
            }
        }
    }

    pub(super) fn numbers(&self) -> &[u64] {
        &self.numbers
    }
}

/// Groups rows by chunk, so that a chunk can be dropped once its rows are copied. Returns the rows of each chunk, and
/// the position of each row among the copies.
pub(super) fn rows_by_chunk(rows: &[ChunkRow], chunks: usize) -> (Vec<Vec<ChunkRow>>, Vec<ChunkRow>) {
    let mut shares: Vec<Vec<ChunkRow>> = vec![Vec::new(); chunks];
    let left = rows.iter().map(|(chunk, row)| {
        let share = shares.get_mut(*chunk as usize);
        let position = share.map_or(0, |share| {
            share.push((0, *row));
            share.len() - 1
        });
        (*chunk, position as u32)
    });

    let left = left.collect();
    (shares, left)
}

/// Groups runs by chunk, as [`rows_by_chunk`] does rows.
pub(super) fn runs_by_chunk(runs: &[ChunkRun], chunks: usize) -> (Vec<Vec<ChunkRun>>, Vec<ChunkRun>) {
    let mut shares: Vec<(Vec<ChunkRun>, usize)> = vec![(Vec::new(), 0); chunks];
    let left = runs.iter().map(|run| {
        let start = shares.get_mut(run.chunk).map_or(0, |(share, rows)| {
            share.push(ChunkRun { chunk: 0, rows: run.rows.clone() });
            *rows += run.rows.len();
            *rows - run.rows.len()
        });
        ChunkRun { chunk: run.chunk, rows: start..start + run.rows.len() }
    });

    let left = left.collect();
    (shares.into_iter().map(|(share, _)| share).collect(), left)
}

/// Gathers single rows by chunk and row, which must exist.
pub(super) fn gather_rows(
    chunks: &[ArrayRef],
    rows: &[(u32, u32)],
    data_type: &DataType,
) -> Result<ArrayRef> {
    macro_rules! numbers {
        ($t:ty) => {
            primitive_rows::<$t>(chunks, rows, data_type)
        };
    }
    if chunks.is_empty() || rows.is_empty() {
        return Ok(new_empty_array(data_type));
    }

    let direct = downcast_primitive! {
        data_type => (numbers),
        DataType::Utf8 => text_rows(chunks, rows),
        DataType::Boolean => boolean_rows(chunks, rows),
        _ => None
    };

    match direct {
        Some(array) => Ok(array),
        None => {
            let arrays: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
            let rows: Vec<(usize, usize)> =
                rows.iter().map(|(chunk, row)| (*chunk as usize, *row as usize)).collect();
            interleave(&arrays, &rows).map_err(gathering)
        }
    }
}

type ChunkSlices<T> = SmallVec<[T; 16]>;

/// Returns the validity of rows; `None` if none can be null.
fn valid_rows(chunks: &[ArrayRef], rows: &[(u32, u32)]) -> Option<NullBuffer> {
    if chunks.iter().all(|chunk| chunk.null_count() == 0) {
        return None;
    }
    let nulls: ChunkSlices<Option<&NullBuffer>> = chunks.iter().map(|chunk| chunk.nulls()).collect();
    let is_valid = |at: usize| {
        let Some((chunk, row)) = rows.get(at) else { return false };
        match nulls.get(*chunk as usize) {
            Some(Some(nulls)) => nulls.is_valid(*row as usize),
            Some(None) => true,
            None => false,
        }
    };

    Some(NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), is_valid)))
}

fn primitive_rows<T: ArrowPrimitiveType>(
    chunks: &[ArrayRef],
    rows: &[(u32, u32)],
    data_type: &DataType,
) -> Option<ArrayRef> {
    let mut values: ChunkSlices<&[T::Native]> = SmallVec::with_capacity(chunks.len());
    for chunk in chunks {
        values.push(chunk.as_primitive_opt::<T>()?.values());
    }
    let value = |(chunk, row): &(u32, u32)| {
        let value = values.get(*chunk as usize).and_then(|values| values.get(*row as usize));
        value.copied().unwrap_or_default()
    };

    let gathered: Vec<T::Native> = match values.as_slice() {
        [only] => rows.iter().map(|(_, row)| only.get(*row as usize).copied().unwrap_or_default()).collect(),
        _ => rows.iter().map(value).collect(),
    };
    let array = PrimitiveArray::<T>::new(gathered.into(), valid_rows(chunks, rows));
    Some(std::sync::Arc::new(array.with_data_type(data_type.clone())))
}

fn text_rows(chunks: &[ArrayRef], rows: &[(u32, u32)]) -> Option<ArrayRef> {
    let mut texts: ChunkSlices<_> = SmallVec::with_capacity(chunks.len());
    for chunk in chunks {
        texts.push(chunk.as_string_opt::<i32>()?);
    }
    let length = |(chunk, row): &(u32, u32)| {
        let offsets = texts.get(*chunk as usize).map(|texts| texts.value_offsets());
        let bounds = offsets.and_then(|offsets| offsets.get(*row as usize..*row as usize + 2));
        bounds.map_or(0, |bounds| (bounds.iter().sum::<i32>() - 2 * bounds.first().unwrap_or(&0)) as usize)
    };

    let bytes: usize = rows.iter().map(length).sum();
    if i32::try_from(bytes).is_err() {
        return None;
    }

    let has_nulls = chunks.iter().any(|chunk| chunk.null_count() > 0);
    let mut gathered = StringBuilder::with_capacity(rows.len(), bytes);
    for (chunk, row) in rows {
        let texts = texts.get(*chunk as usize)?;
        if has_nulls && texts.is_null(*row as usize) {
            gathered.append_null();
        } else {
            gathered.append_value(texts.value(*row as usize));
        }
    }

    Some(std::sync::Arc::new(gathered.finish()))
}

fn boolean_rows(chunks: &[ArrayRef], rows: &[(u32, u32)]) -> Option<ArrayRef> {
    let mut values: ChunkSlices<&BooleanBuffer> = SmallVec::with_capacity(chunks.len());
    for chunk in chunks {
        values.push(chunk.as_boolean_opt()?.values());
    }
    let value = |at: usize| {
        let Some((chunk, row)) = rows.get(at) else { return false };
        values.get(*chunk as usize).is_some_and(|values| values.value(*row as usize))
    };
    let gathered = BooleanBuffer::collect_bool(rows.len(), value);
    Some(std::sync::Arc::new(BooleanArray::new(gathered, valid_rows(chunks, rows))))
}

/// Gathers runs of chunks, which must exist.
pub(super) fn gather_runs(
    chunks: &[ArrayRef],
    runs: &[ChunkRun],
    rows: usize,
    data_type: &DataType,
) -> Result<ArrayRef> {
    macro_rules! numbers {
        ($t:ty) => {
            primitive_runs::<$t>(chunks, runs, rows, data_type)
        };
    }
    if chunks.is_empty() || rows == 0 {
        return Ok(new_empty_array(data_type));
    }

    // A slice keeps the whole chunk alive, so a run of less than half of it is copied instead.
    if let ([chunk], [run]) = (chunks, runs)
        && run.rows.len() >= chunk.len() / 2
    {
        return Ok(chunk.slice(run.rows.start, run.rows.len()));
    }

    let direct = downcast_primitive! {
        data_type => (numbers),
        _ => None
    };
    match direct {
        Some(array) => Ok(array),
        None => {
            let data: Vec<_> = chunks.iter().map(|chunk| chunk.to_data()).collect();
            let mut made = MutableArrayData::new(data.iter().collect(), false, rows);
            for run in runs {
                made.try_extend(run.chunk, run.rows.start, run.rows.end).map_err(gathering)?;
            }
            Ok(make_array(made.freeze()))
        }
    }
}

fn primitive_runs<T: ArrowPrimitiveType>(
    chunks: &[ArrayRef],
    runs: &[ChunkRun],
    rows: usize,
    data_type: &DataType,
) -> Option<ArrayRef> {
    // Nulls in runs are rare: the generic kernel handles them.
    if chunks.iter().any(|chunk| chunk.null_count() > 0) {
        return None;
    }
    let mut values: ChunkSlices<&[T::Native]> = SmallVec::with_capacity(chunks.len());
    for chunk in chunks {
        values.push(chunk.as_primitive_opt::<T>()?.values());
    }

    let mut gathered: Vec<T::Native> = Vec::with_capacity(rows);
    for run in runs {
        gathered.extend_from_slice(values.get(run.chunk)?.get(run.rows.clone())?);
    }
    let array = PrimitiveArray::<T>::new(gathered.into(), None);
    Some(std::sync::Arc::new(array.with_data_type(data_type.clone())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, ListArray, StringArray, TimestampMicrosecondArray};

    use super::*;

    fn check(chunks: &[ArrayRef]) {
        let data_type = chunks[0].data_type();
        let rows = [(1, 2), (0, 0), (1, 0), (1, 2), (0, 3)];
        let arrays: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
        let pairs: Vec<(usize, usize)> = rows.iter().map(|(c, r)| (*c as usize, *r as usize)).collect();
        assert_eq!(&gather_rows(chunks, &rows, data_type).unwrap(), &interleave(&arrays, &pairs).unwrap());
        let runs = [
            ChunkRun { chunk: 0, rows: 1..4 },
            ChunkRun { chunk: 1, rows: 0..0 },
            ChunkRun { chunk: 1, rows: 1..3 },
        ];

        let pairs = [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)];
        assert_eq!(&gather_runs(chunks, &runs, 5, data_type).unwrap(), &interleave(&arrays, &pairs).unwrap());
        assert_eq!(gather_rows(&[], &[], data_type).unwrap().len(), 0);
        assert_eq!(gather_runs(chunks, &[], 0, data_type).unwrap().data_type(), data_type);
    }

    #[test]
    fn rows_and_stretches_of_every_type_come_together_as_they_were() {
        let ints = |values: &[Option<i64>]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        check(&[ints(&[Some(1), Some(2), Some(3), Some(4)]), ints(&[Some(5), Some(6), Some(7)])]);
        check(&[ints(&[Some(1), None, Some(3), None]), ints(&[Some(5), Some(6), None])]);
        let times = |values: Vec<i64>| Arc::new(TimestampMicrosecondArray::from(values)) as ArrayRef;
        check(&[times(vec![1, 2, 3, 4]), times(vec![9, 8, 7])]);
        let texts = |values: &[Option<&str>]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
        check(&[
            texts(&[Some("a"), Some(""), Some("ccc"), Some("é")]),
            texts(&[Some("x"), None, Some("zz")]),
        ]);

        let flags = |values: &[Option<bool>]| Arc::new(BooleanArray::from(values.to_vec())) as ArrayRef;
        check(&[
            flags(&[Some(true), None, Some(false), Some(true)]),
            flags(&[None, Some(true), Some(false)]),
        ]);
        let list = |values: Vec<Option<Vec<Option<i64>>>>| {
            Arc::new(ListArray::from_iter_primitive::<arrow::datatypes::Int64Type, _, _>(values)) as ArrayRef
        };

        let one = || Some(vec![Some(1), None]);
        check(&[list(vec![one(), None, Some(vec![]), one()]), list(vec![None, one(), Some(vec![Some(7)])])]);
    }

    #[test]
    fn rows_are_the_same_once_only_they_are_left_of_their_chunks() {
        let chunks: Vec<ArrayRef> = (0..3_i64)
            .map(|chunk| {
                Arc::new(Int64Array::from_iter_values((0..10).map(|row| chunk * 10 + row))) as ArrayRef
            })
            .collect();
        let rows = [(2, 1), (0, 3), (2, 0), (2, 1), (1, 9)];
        let (shares, left) = rows_by_chunk(&rows, 3);
        let pieces: Vec<ArrayRef> = chunks
            .iter()
            .zip(&shares)
            .map(|(chunk, rows)| gather_rows(std::slice::from_ref(chunk), rows, chunk.data_type()).unwrap())
            .collect();

        assert_eq!(pieces.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [1, 1, 3]);
        let gathered = |chunks, rows: &[(u32, u32)]| gather_rows(chunks, rows, &DataType::Int64).unwrap();
        assert_eq!(&gathered(&pieces, &left), &gathered(&chunks, &rows));
        let runs = [
            ChunkRun { chunk: 2, rows: 1..4 },
            ChunkRun { chunk: 0, rows: 0..0 },
            ChunkRun { chunk: 2, rows: 0..9 },
        ];

        let (shares, left) = runs_by_chunk(&runs, 3);
        let pieces: Vec<ArrayRef> = chunks
            .iter()
            .zip(&shares)
            .map(|(chunk, runs)| {
                let rows = runs.iter().map(|run| run.rows.len()).sum();
                gather_runs(std::slice::from_ref(chunk), runs, rows, chunk.data_type()).unwrap()
            })
            .collect();

        let gathered = |chunks, runs: &[ChunkRun]| gather_runs(chunks, runs, 12, &DataType::Int64).unwrap();
        assert_eq!(&gathered(&pieces, &left), &gathered(&chunks, &runs));
    }

    #[test]
    fn chunks_are_numbered_as_they_are_first_named_whether_few_or_many() {
        for names in [4, 400] {
            let mut chunks = ChunkInterner::new(names, 100);
            let positions: Vec<usize> =
                [7, 3, 7, 99, 3].into_iter().map(|chunk| chunks.insert(chunk)).collect();
            assert_eq!((positions, chunks.numbers()), (vec![0, 1, 0, 2, 1], &[7, 3, 99][..]));
        }
    }
}
