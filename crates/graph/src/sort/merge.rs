//! K-way merge of sorted runs. Of equal rows, those of the earliest run come first.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, binary_heap::PeekMut},
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch},
    compute::interleave,
    datatypes::SchemaRef,
    error::ArrowError,
};

use super::run::{SortRun, SortRunReader, unread};
use crate::{Result, slice_bytes::slice_bytes};

/// Order of the rows of runs.
pub(crate) trait RunOrder: Copy {
    /// Sort key of a row. Rows with equal keys keep the order in which they arrived.
    type Key: Ord;

    /// Name of the rows in errors, such as `edges`.
    const OF: &'static str;

    /// Returns the sort key of a row; `None` if the batch lacks the columns that decide the order.
    fn row_key(&self, batch: &RecordBatch, row: usize) -> Option<Self::Key>;
}

/// Merged rows of some runs, in batches that are not empty.
pub(crate) struct RunMerge<O: RunOrder> {
    order: O,
    schema: SchemaRef,
    max_rows: usize,
    /// Approximate maximum bytes of a batch.
    max_bytes: usize,
    runs: Vec<SortRunCursor>,
    /// Key of the next row of each run that has rows left, and the number of the run.
    heads: BinaryHeap<Reverse<(O::Key, usize)>>,
    /// Rows of the batch that is being gathered: run, and position in the run's batch.
    taken: Vec<(usize, usize)>,
    is_broken: bool,
}

struct SortRunCursor {
    reader: SortRunReader,
    batch: RecordBatch,
    at: usize,
    /// Average bytes of a row of the batch.
    row_bytes: usize,
}

impl SortRunCursor {
    /// Returns the key of the next row; `None` if the batch is exhausted.
    fn key<O: RunOrder>(&self, order: &O) -> Result<Option<O::Key>> {
        if self.at >= self.batch.num_rows() {
            return Ok(None);
        }
        let key = order.row_key(&self.batch, self.at);
        key.map(Some).ok_or_else(|| unread(O::OF, "columns are missing"))
    }
}

impl<O: RunOrder> RunMerge<O> {
    /// Takes runs in the order in which their rows arrived.
    pub(super) fn new(
        runs: Vec<SortRun>,
        order: O,
        schema: SchemaRef,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Self> {
        let empty = RecordBatch::new_empty(schema.clone());
        let cursor = |run: SortRun| {
            let reader = run.read(O::OF)?;
            Ok(SortRunCursor { reader, batch: empty.clone(), at: 0, row_bytes: 0 })
        };
        let runs = runs.into_iter().map(cursor).collect::<Result<Vec<_>>>()?;
        let count = runs.len();
        let mut merge = Self {
            order,
            schema,
            max_rows: max_rows.max(1),
            max_bytes: max_bytes.max(1),
            runs,
            heads: BinaryHeap::with_capacity(count),
            taken: Vec::new(),
            is_broken: false,
        };

        for run in 0..count {
            merge.read(run)?;
        }
        Ok(merge)
    }

    /// Replaces a run's exhausted batch with its next one.
    fn read(&mut self, run: usize) -> Result<()> {
        let Some(cursor) = self.runs.get_mut(run) else { return Err(no_run::<O>(run)) };
        if let Some(batch) = cursor.reader.next() {
            cursor.batch = batch.map_err(|error| unread(O::OF, error))?;
            cursor.at = 0;
            cursor.row_bytes = slice_bytes(&cursor.batch) / cursor.batch.num_rows().max(1);
            // Batches of a run are never empty, so that this does not drop the run.
            self.heads.extend(cursor.key(&self.order)?.map(|key| Reverse((key, run))));
        }
        Ok(())
    }

    /// Takes rows until the output batch is full or a run's batch is exhausted.
    fn fill(&mut self) -> Result<Option<RecordBatch>> {
        let mut used_up = None;
        let mut bytes = 0;
        while used_up.is_none() && self.taken.len() < self.max_rows && bytes < self.max_bytes {
            let Some(mut head) = self.heads.peek_mut() else { break };
            let run = head.0.1;
            let Some(cursor) = self.runs.get_mut(run) else { return Err(no_run::<O>(run)) };
            self.taken.push((run, cursor.at));
            bytes += cursor.row_bytes;
            cursor.at += 1;

            // The key is replaced in place: consecutive rows of one run cost two comparisons each.
            match cursor.key(&self.order)? {
                Some(key) => head.0.0 = key,
                None => {
                    PeekMut::pop(head);
                    used_up = Some(run);
                }
            }
        }

        if self.taken.is_empty() {
            return Ok(None);
        }
        let batch = self.gather().map_err(|error| unread(O::OF, error))?;
        if let Some(run) = used_up {
            self.read(run)?;
        }

        Ok(Some(batch))
    }

    fn gather(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns = (0..self.schema.fields().len()).map(|column| {
            let arrays = self.runs.iter().filter_map(|run| run.batch.columns().get(column));
            let arrays: Vec<&dyn Array> = arrays.map(AsRef::as_ref).collect();
            interleave(&arrays, &self.taken)
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        self.taken.clear();
        RecordBatch::try_new(self.schema.clone(), columns)
    }
}

impl<O: RunOrder> Iterator for RunMerge<O> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_broken {
            return None;
        }
        let batch = self.fill();
        self.is_broken = batch.is_err();
        batch.transpose()
    }
}

fn no_run<O: RunOrder>(run: usize) -> crate::Error {
    unread(O::OF, format!("there is no run {run}"))
}
