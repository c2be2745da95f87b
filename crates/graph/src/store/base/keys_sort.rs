//! Sorts keys with their indexes: in memory if they fit, otherwise over sorted runs on disk.

use std::{path::PathBuf, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, StringBuilder},
    compute::concat_batches,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};
use smallvec::SmallVec;

use super::keys::{INDEX, KEY};
use crate::{
    Result,
    graphar::gathering,
    sort::{RunOrder, SpilledRuns},
};

/// Approximate total length of the strings of a chunk, in bytes.
const CHUNK_BYTES: usize = 512 << 10;

/// Sorter of vertex keys, which arrive in the order of their indexes, from 0.
pub(crate) struct KeySorter {
    held: KeySortBuffer,
    next: u64,
    taken: u64,
    runs: SpilledRuns<KeyOrder>,
    schema: SchemaRef,
    /// Memory for keys, in bytes.
    share: usize,
}

enum KeySortBuffer {
    Numbers(Vec<(i64, u64)>),
    Texts {
        all: String,
        /// Start and end of each string, and its index.
        entries: Vec<(usize, usize, u64)>,
    },
}

impl KeySortBuffer {
    fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Int64 => Self::Numbers(Vec::new()),
            _ => Self::Texts { all: String::new(), entries: Vec::new() },
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Numbers(keys) => keys.len(),
            Self::Texts { entries, .. } => entries.len(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Numbers(keys) => keys.capacity() * size_of::<(i64, u64)>(),
            Self::Texts { all, entries } => {
                all.capacity() + entries.capacity() * size_of::<(usize, usize, u64)>()
            }
        }
    }

    fn push(&mut self, keys: &ArrayRef, first: u64, is_there: &dyn Fn(u64) -> bool) {
        match self {
            Self::Numbers(held) => {
                let keys = keys.as_primitive::<Int64Type>().values();
                held.extend(keys.iter().copied().zip(first..).filter(|(_, index)| is_there(*index)));
            }
            Self::Texts { all, entries } => {
                let texts = keys.as_string::<i32>().iter().zip(first..);
                for (text, index) in texts.filter(|(_, index)| is_there(*index)) {
                    let start = all.len();
                    all.push_str(text.unwrap_or_default());
                    entries.push((start, all.len(), index));
                }
            }
        }
    }

    /// Sorts, and returns batches of at most `max_rows` rows and about [`CHUNK_BYTES`] of strings.
    fn sorted(
        mut self,
        schema: SchemaRef,
        max_rows: usize,
    ) -> impl Iterator<Item = Result<RecordBatch>> + Send {
        match &mut self {
            Self::Numbers(keys) => keys.sort_unstable(),
            Self::Texts { all, entries } => {
                let text = |(start, end, index): &(usize, usize, u64)| (all.get(*start..*end), *index);
                entries.sort_unstable_by(|a, b| text(a).cmp(&text(b)));
            }
        }

        let mut at = 0;
        std::iter::from_fn(move || {
            let (keys, indexes) = self.columns(at, max_rows);
            at += indexes.len();
            if indexes.is_empty() {
                return None;
            }
            let columns: Vec<ArrayRef> = vec![keys, Arc::new(indexes)];
            Some(RecordBatch::try_new(schema.clone(), columns).map_err(gathering))
        })
    }

    /// Returns the keys starting at position `at`, and their indexes.
    fn columns(&self, at: usize, max_rows: usize) -> (ArrayRef, Int64Array) {
        match self {
            Self::Numbers(keys) => {
                let rows = keys.iter().skip(at).take(max_rows);
                let (keys, indexes): (Vec<i64>, Vec<i64>) =
                    rows.map(|(key, index)| (*key, *index as i64)).unzip();
                (Arc::new(Int64Array::from(keys)), indexes.into())
            }
            Self::Texts { all, entries } => {
                let mut texts = StringBuilder::new();
                let mut indexes = Vec::new();
                for (start, end, index) in entries.iter().skip(at).take(max_rows) {
                    if texts.values_slice().len() >= CHUNK_BYTES {
                        break;
                    }
                    texts.append_value(all.get(*start..*end).unwrap_or_default());
                    indexes.push(*index as i64);
                }
                (Arc::new(texts.finish()), indexes.into())
            }
        }
    }
}

/// Order of keys in runs: equal ones by index.
#[derive(Clone, Copy)]
struct KeyOrder;

/// Key of a run.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum KeyRunValue {
    Number(i64),
    /// Most strings are short, and need no allocation.
    Text(SmallVec<[u8; 24]>),
}

impl RunOrder for KeyOrder {
    type Key = (KeyRunValue, i64);

    const OF: &'static str = "keys";

    fn row_key(&self, batch: &RecordBatch, row: usize) -> Option<Self::Key> {
        let [keys, indexes] = batch.columns() else { return None };
        let key = match keys.as_primitive_opt::<Int64Type>() {
            Some(keys) => KeyRunValue::Number(*keys.values().get(row)?),
            None => {
                let text = keys.as_string_opt::<i32>()?.value(row);
                KeyRunValue::Text(SmallVec::from_slice(text.as_bytes()))
            }
        };
        Some((key, *indexes.as_primitive_opt::<Int64Type>()?.values().get(row)?))
    }
}

/// Iterator that splits batches of sorted keys into chunks of at most `max_rows` rows and about [`CHUNK_BYTES`] of
/// strings.
struct KeyChunkIterator<I> {
    batches: I,
    /// Rows of the last batch that are not in a chunk yet.
    rest: Option<RecordBatch>,
    max_rows: usize,
    schema: SchemaRef,
}

impl<I: Iterator<Item = Result<RecordBatch>>> KeyChunkIterator<I> {
    fn chunk(&mut self) -> Result<Option<RecordBatch>> {
        let mut slices = Vec::new();
        let mut rows = self.max_rows;
        let mut bytes = CHUNK_BYTES;
        while rows > 0 && bytes > 0 {
            let next = self.rest.take().map(Ok).or_else(|| self.batches.next());
            let Some(batch) = next.transpose()? else { break };
            let (taken, taken_bytes) = rows_within(&batch, rows, bytes);
            rows -= taken;
            bytes = bytes.saturating_sub(taken_bytes);

            slices.push(batch.slice(0, taken));
            let left = batch.num_rows() - taken;
            self.rest = (left > 0).then(|| batch.slice(taken, left));
        }

        if slices.is_empty() {
            return Ok(None);
        }
        concat_batches(&self.schema, &slices).map(Some).map_err(gathering)
    }
}

impl<I: Iterator<Item = Result<RecordBatch>>> Iterator for KeyChunkIterator<I> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.chunk().transpose()
    }
}

/// Returns the number of rows that a chunk takes from the start of a batch, and the bytes of their strings: at
/// most `max_rows` rows, and none after the one that reaches `max_bytes`.
fn rows_within(batch: &RecordBatch, max_rows: usize, max_bytes: usize) -> (usize, usize) {
    let rows = batch.num_rows().min(max_rows);
    let Some(texts) = batch.column(0).as_string_opt::<i32>() else { return (rows, 0) };
    let offsets = texts.value_offsets();
    let start = offsets.first().copied().unwrap_or_default();
    let bytes = |end: &i32| (end - start) as usize;

    let ends = offsets.get(1..=rows).unwrap_or_default();
    let taken = rows.min(ends.partition_point(|end| bytes(end) < max_bytes) + 1);
    (taken, ends.iter().take(taken).next_back().map(bytes).unwrap_or_default())
}

impl KeySorter {
    /// Returns a sorter of keys of this type, [`DataType::Int64`] or [`DataType::Utf8`], with `share` bytes of memory.
    pub(crate) fn new(data_type: &DataType, share: usize, folder: PathBuf) -> Self {
        let fields =
            vec![Field::new(KEY, data_type.clone(), false), Field::new(INDEX, DataType::Int64, false)];
        let schema = Arc::new(Schema::new(fields));
        let runs = SpilledRuns::new(KeyOrder, schema.clone(), share, folder);
        Self { held: KeySortBuffer::new(data_type), next: 0, taken: 0, runs, schema, share }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of vertices so far.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of keys taken.
    pub(crate) fn count(&self) -> u64 {
        self.taken
    }

    /// Adds the keys of the next vertices, none of them null, skipping those of absent vertices.
    pub(crate) fn push(&mut self, keys: &ArrayRef, is_there: &dyn Fn(u64) -> bool) -> Result<()> {
        let before = self.held.len();
        self.held.push(keys, self.next, is_there);
        self.next += keys.len() as u64;
        self.taken += (self.held.len() - before) as u64;
        if self.held.bytes() > self.share { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        let rows = self.held.len();
        if rows == 0 {
            return Ok(());
        }
        let fresh = KeySortBuffer::new(self.schema.field(0).data_type());
        let full = std::mem::replace(&mut self.held, fresh);
        let schema = self.schema.clone();
        self.runs.spill(full.bytes() / rows, |max_rows| full.sorted(schema, max_rows))
    }

    /// Returns all keys in order, equal ones by index, in batches of at most `max_rows` rows.
    pub(crate) fn finish(
        mut self,
        max_rows: usize,
    ) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>> + Send>> {
        if self.runs.is_empty() {
            return Ok(Box::new(self.held.sorted(self.schema, max_rows)));
        }
        self.spill()?;
        let batches = self.runs.merge()?;
        Ok(Box::new(KeyChunkIterator { batches, rest: None, max_rows, schema: self.schema }))
    }
}

/// Returns a repeated key and its two rows, if any, in this batch or across the end of the previous batch.
pub(crate) fn repeated(before: Option<&RecordBatch>, batch: &RecordBatch) -> Option<(String, u64, u64)> {
    let at = |batch: &RecordBatch, row: usize| {
        let key = match batch.column(0).as_primitive_opt::<Int64Type>() {
            Some(keys) => keys.value(row).to_string(),
            None => format!("{:?}", text(batch).value(row)),
        };
        (key, batch.column(1).as_primitive::<Int64Type>().value(row) as u64)
    };
    if let Some(before) = before.filter(|before| before.num_rows() > 0 && batch.num_rows() > 0) {
        let (last, earlier) = at(before, before.num_rows() - 1);
        let (first, later) = at(batch, 0);
        if last == first {
            return Some((first, earlier, later));
        }
    }

    let is_same: Box<dyn Fn(usize) -> bool> = match batch.column(0).as_primitive_opt::<Int64Type>() {
        Some(keys) => {
            let keys = keys.values().clone();
            Box::new(move |row| keys.get(row) == keys.get(row + 1))
        }
        None => {
            let keys = text(batch).clone();
            Box::new(move |row| keys.value(row) == keys.value(row + 1))
        }
    };

    let row = (0..batch.num_rows().saturating_sub(1)).find(|row| is_same(*row))?;
    let (key, earlier) = at(batch, row);
    let (_, later) = at(batch, row + 1);
    Some((key, earlier, later))
}

fn text(batch: &RecordBatch) -> &StringArray {
    batch.column(0).as_string::<i32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(keys: ArrayRef, share: usize, max_rows: usize) -> Vec<RecordBatch> {
        let mut sorter = KeySorter::new(keys.data_type(), share, std::env::temp_dir());
        for start in (0..keys.len()).step_by(100) {
            sorter.push(&keys.slice(start, 100.min(keys.len() - start)), &|_| true).unwrap();
        }
        sorter.finish(max_rows).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn keys_come_in_their_order_whether_they_fit_into_memory_or_not() {
        let mixed: Vec<i64> = (0..20_000).map(|n: i64| (n * 7_919) % 20_011 - 10_000).collect();
        let mut wanted: Vec<(i64, i64)> = mixed.iter().copied().zip(0..).collect();
        wanted.sort_unstable();
        let texts: StringArray = mixed.iter().map(|n| Some(n.to_string())).collect();
        let mut wanted_texts: Vec<(String, i64)> = mixed.iter().map(|n| n.to_string()).zip(0..).collect();
        wanted_texts.sort_unstable();

        for share in [usize::MAX, 40_000, 3_000] {
            let batches = sorted(Arc::new(Int64Array::from(mixed.clone())), share, 300);
            assert!(batches.iter().all(|batch| batch.num_rows() <= 300));
            let pairs = batches.iter().flat_map(|batch| {
                let keys = batch.column(0).as_primitive::<Int64Type>();
                let indexes = batch.column(1);
                keys.values().to_vec().into_iter().zip(indexes.as_primitive::<Int64Type>().values().to_vec())
            });
            assert_eq!(pairs.collect::<Vec<_>>(), wanted);

            let batches = sorted(Arc::new(texts.clone()), share, 300);
            let pairs = batches.iter().flat_map(|batch| {
                let keys: Vec<String> = text(batch).iter().map(|key| key.unwrap().to_owned()).collect();
                keys.into_iter().zip(batch.column(1).as_primitive::<Int64Type>().values().to_vec())
            });
            assert_eq!(pairs.collect::<Vec<_>>(), wanted_texts);
        }
    }

    #[test]
    fn chunks_of_long_texts_are_the_same_whether_they_fit_into_memory_or_not() {
        let keys: StringArray = (0..300).map(|n| Some(format!("{:0>20000}", n * 7_919 % 300))).collect();
        let keys: ArrayRef = Arc::new(keys);
        let chunks = sorted(keys.clone(), usize::MAX, 100);
        assert_eq!(chunks.len(), 12);
        assert!(chunks[..11].iter().all(|chunk| chunk.num_rows() == 27));
        assert_eq!(sorted(keys, 1 << 20, 100), chunks);
    }

    #[test]
    fn a_key_that_comes_twice_is_found_with_both_rows() {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![5, 3, 9, 3]));
        let batches = sorted(keys.clone(), usize::MAX, 9);
        assert_eq!(repeated(None, &batches[0]), Some(("3".to_owned(), 1, 3)));
        let batches = sorted(keys, usize::MAX, 1);
        assert_eq!(repeated(None, &batches[1]), None);
        assert_eq!(repeated(Some(&batches[0]), &batches[1]), Some(("3".to_owned(), 1, 3)));
    }
}
