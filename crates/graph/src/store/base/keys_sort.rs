//! Sorts keys with their indexes: in memory if they fit, otherwise over sorted runs on disk.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, StringBuilder},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};

use super::keys::{INDEX, KEY};
use crate::{
    Result,
    graphar::{SortRun, SortRunReader, gathering, unwritable},
};

/// Runs merged at a time.
const FAN_IN: usize = 64;
/// Keys per batch of a run.
const RUN_ROWS: usize = 1 << 13;
/// Approximate bytes of the texts of a chunk.
pub(crate) const CHUNK_BYTES: usize = 512 << 10;

/// Takes the keys of vertices in the order of their indexes, which are counted from 0.
pub(crate) struct KeySorter {
    held: KeySortBuffer,
    next: u64,
    taken: u64,
    runs: Vec<SortRun>,
    schema: SchemaRef,
    /// Memory for keys, in bytes.
    share: usize,
    folder: PathBuf,
}

enum KeySortBuffer {
    Numbers(Vec<(i64, u64)>),
    Texts {
        all: String,
        /// Start and end of each text, and its index.
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

    /// Sorts, and returns batches of at most `max_rows` rows.
    fn sorted(
        mut self,
        schema: SchemaRef,
        max_rows: usize,
    ) -> Box<dyn Iterator<Item = Result<RecordBatch>> + Send> {
        match &mut self {
            Self::Numbers(keys) => keys.sort_unstable(),
            Self::Texts { all, entries } => {
                let text = |(start, end, index): &(usize, usize, u64)| (all.get(*start..*end), *index);
                entries.sort_unstable_by(|a, b| text(a).cmp(&text(b)));
            }
        }
        let mut at = 0;
        Box::new(std::iter::from_fn(move || {
            let mut batch = KeyBatchBuilder::new(&schema);
            while !batch.is_full(max_rows) {
                let is_there = match &self {
                    Self::Numbers(keys) => {
                        keys.get(at).map(|(key, index)| batch.push(KeyRunValue::Number(*key), *index))
                    }
                    Self::Texts { all, entries } => entries.get(at).map(|(start, end, index)| {
                        batch.push_text(all.get(*start..*end).unwrap_or_default(), *index)
                    }),
                };

                if is_there.is_none() {
                    break;
                }
                at += 1;
            }

            batch.finish(&schema)
        }))
    }
}

/// Key of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyRunValue {
    Number(i64),
    Text(String),
}

/// Batch that is being filled.
struct KeyBatchBuilder {
    numbers: Option<Vec<i64>>,
    texts: StringBuilder,
    bytes: usize,
    indexes: Vec<i64>,
}

impl KeyBatchBuilder {
    fn new(schema: &Schema) -> Self {
        let is_number = schema.fields().first().is_some_and(|field| *field.data_type() == DataType::Int64);
        let numbers = is_number.then(Vec::new);
        Self { numbers, texts: StringBuilder::new(), bytes: 0, indexes: Vec::new() }
    }

    fn is_full(&self, max_rows: usize) -> bool {
        self.indexes.len() >= max_rows || self.bytes >= CHUNK_BYTES
    }

    fn push(&mut self, key: KeyRunValue, index: u64) {
        match key {
            KeyRunValue::Number(key) => {
                self.numbers.get_or_insert_default().push(key);
                self.indexes.push(index as i64);
            }
            KeyRunValue::Text(key) => self.push_text(&key, index),
        }
    }

    fn push_text(&mut self, key: &str, index: u64) {
        self.bytes += key.len();
        self.texts.append_value(key);
        self.indexes.push(index as i64);
    }

    fn finish(mut self, schema: &SchemaRef) -> Option<Result<RecordBatch>> {
        if self.indexes.is_empty() {
            return None;
        }
        let keys: ArrayRef = match self.numbers {
            Some(numbers) => Arc::new(Int64Array::from(numbers)),
            None => Arc::new(self.texts.finish()),
        };
        let indexes: ArrayRef = Arc::new(Int64Array::from(self.indexes));
        Some(RecordBatch::try_new(schema.clone(), vec![keys, indexes]).map_err(gathering))
    }
}

impl KeySorter {
    /// Returns a sorter of keys of this type, [`DataType::Int64`] or [`DataType::Utf8`], with `share` bytes of memory.
    pub(crate) fn new(data_type: &DataType, share: usize, folder: PathBuf) -> Self {
        let fields =
            vec![Field::new(KEY, data_type.clone(), false), Field::new(INDEX, DataType::Int64, false)];
        let schema = Arc::new(Schema::new(fields));
        Self {
            held: KeySortBuffer::new(data_type),
            next: 0,
            taken: 0,
            runs: Vec::new(),
            schema,
            share,
            folder,
        }
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
        if self.held.len() == 0 {
            return Ok(());
        }
        let fresh = KeySortBuffer::new(self.schema.field(0).data_type());
        let sorted = std::mem::replace(&mut self.held, fresh).sorted(self.schema.clone(), RUN_ROWS);
        self.runs.push(SortRun::write(&self.folder, &self.schema, sorted)?);
        if self.runs.len() >= FAN_IN {
            let runs = std::mem::take(&mut self.runs);
            let merge = KeyMergeIterator::new(runs, self.schema.clone(), RUN_ROWS)?;
            self.runs.push(SortRun::write(&self.folder, &self.schema, merge)?);
        }

        Ok(())
    }

    /// Returns all keys in order, equal ones by index, in batches of at most `max_rows` rows.
    pub(crate) fn finish(
        mut self,
        max_rows: usize,
    ) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>> + Send>> {
        if self.runs.is_empty() {
            return Ok(self.held.sorted(self.schema, max_rows));
        }
        self.spill()?;
        Ok(Box::new(KeyMergeIterator::new(self.runs, self.schema, max_rows)?))
    }
}

/// Merged keys of some runs.
struct KeyMergeIterator {
    runs: Vec<KeyRunCursor>,
    next: BinaryHeap<Reverse<(KeyRunValue, u64, usize)>>,
    schema: SchemaRef,
    max_rows: usize,
}

struct KeyRunCursor {
    reader: SortRunReader,
    batch: Option<RecordBatch>,
    at: usize,
}

impl KeyRunCursor {
    fn next(&mut self) -> Result<Option<(KeyRunValue, u64)>> {
        let is_used_up = |batch: &RecordBatch| self.at >= batch.num_rows();
        if self.batch.as_ref().is_none_or(is_used_up) {
            let read = self.reader.next().transpose();
            self.batch =
                read.map_err(|error| unwritable("keys", format!("what was sorted on disk: {error}")))?;
            self.at = 0;
        }
        let Some(batch) = &self.batch else { return Ok(None) };
        let at = self.at;
        self.at += 1;

        let keys = batch.column(0);
        let key = match keys.as_primitive_opt::<Int64Type>() {
            Some(keys) => KeyRunValue::Number(keys.value(at)),
            None => KeyRunValue::Text(keys.as_string::<i32>().value(at).to_owned()),
        };
        Ok(Some((key, batch.column(1).as_primitive::<Int64Type>().value(at) as u64)))
    }
}

impl KeyMergeIterator {
    fn new(runs: Vec<SortRun>, schema: SchemaRef, max_rows: usize) -> Result<Self> {
        let cursor = |run: SortRun| Ok(KeyRunCursor { reader: run.read()?, batch: None, at: 0 });
        let runs = runs.into_iter().map(cursor).collect::<Result<Vec<_>>>()?;
        let mut merge = Self { next: BinaryHeap::with_capacity(runs.len()), runs, schema, max_rows };
        for run in 0..merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, run: usize) -> Result<()> {
        if let Some(cursor) = self.runs.get_mut(run)
            && let Some((key, index)) = cursor.next()?
        {
            self.next.push(Reverse((key, index, run)));
        }
        Ok(())
    }
}

impl Iterator for KeyMergeIterator {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = KeyBatchBuilder::new(&self.schema);
        while !batch.is_full(self.max_rows) {
            let Some(Reverse((key, index, run))) = self.next.pop() else { break };
            batch.push(key, index);
            if let Err(error) = self.advance(run) {
                return Some(Err(error));
            }
        }
        batch.finish(&self.schema)
    }
}

/// Returns two rows with the same key, if any: in this batch, or at its start and the end of the batch before.
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

/// Returns the folder for keys that do not fit into memory.
pub(crate) fn sort_folder(given: Option<&Path>) -> PathBuf {
    given.map_or_else(std::env::temp_dir, Path::to_owned)
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
    fn a_key_that_comes_twice_is_found_with_both_rows() {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![5, 3, 9, 3]));
        let batches = sorted(keys.clone(), usize::MAX, 9);
        assert_eq!(repeated(None, &batches[0]), Some(("3".to_owned(), 1, 3)));
        let batches = sorted(keys, usize::MAX, 1);
        assert_eq!(repeated(None, &batches[1]), None);
        assert_eq!(repeated(Some(&batches[0]), &batches[1]), Some(("3".to_owned(), 1, 3)));
    }
}
