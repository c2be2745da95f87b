//! K-way merge of sorted runs: yields the least of the runs' first edges; equal edges come from the earliest run first.

use std::{cmp::Reverse, collections::BinaryHeap};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::interleave,
    datatypes::{Int64Type, SchemaRef},
};

use super::{
    buffer::failed,
    order::AdjacencyLayout,
    runs::{SortRun, SortRunReader, unread},
};
use crate::Result;

/// Sort key of an edge: its key, and the number of its run.
type EdgeMergeKey = (u64, u64, usize);

/// Merged edges of some runs, in batches about as long as those of the runs.
pub(crate) struct EdgeMergeIterator {
    arrangement: AdjacencyLayout,
    schema: SchemaRef,
    max_rows: usize,
    runs: Vec<EdgeRunCursor>,
    /// First edge of each run with edges left.
    next: BinaryHeap<Reverse<EdgeMergeKey>>,
    /// Edges of the batch that is being gathered: run, and position in the run's batch.
    taken: Vec<(usize, usize)>,
    is_broken: bool,
}

struct EdgeRunCursor {
    reader: SortRunReader,
    batch: RecordBatch,
    at: usize,
}

impl EdgeMergeIterator {
    /// Takes runs in the order in which their edges arrived.
    pub(crate) fn new(
        runs: Vec<SortRun>,
        arrangement: AdjacencyLayout,
        schema: &SchemaRef,
        max_rows: usize,
    ) -> Result<Self> {
        let empty = RecordBatch::new_empty(schema.clone());
        let cursor = |run: SortRun| Ok(EdgeRunCursor { reader: run.read()?, batch: empty.clone(), at: 0 });
        let mut merge = Self {
            arrangement,
            schema: schema.clone(),
            max_rows: max_rows.max(1),
            runs: runs.into_iter().map(cursor).collect::<Result<_>>()?,
            next: BinaryHeap::new(),
            taken: Vec::new(),
            is_broken: false,
        };

        for run in 0..merge.runs.len() {
            merge.read(run)?;
        }
        Ok(merge)
    }

    /// Replaces the used-up batch of a run by its next.
    fn read(&mut self, run: usize) -> Result<()> {
        let Some(cursor) = self.runs.get_mut(run) else { return Ok(()) };
        // A run has no empty batches.
        if let Some(batch) = cursor.reader.next() {
            (cursor.batch, cursor.at) = (batch.map_err(unread)?, 0);
            self.next.extend(cursor.place(&self.arrangement, run).map(Reverse));
        }
        Ok(())
    }

    /// Takes edges until a batch is full, or that of a run is used up.
    fn fill(&mut self) -> Result<Option<RecordBatch>> {
        let mut used_up = None;
        while let Some(Reverse((_, _, run))) = self.next.pop() {
            let Some(cursor) = self.runs.get_mut(run) else { continue };
            let limit = self.next.peek().map(|Reverse(limit)| *limit);
            let mut next;
            // Consecutive edges of one run bypass the heap.
            loop {
                self.taken.push((run, cursor.at));
                cursor.at += 1;
                next = cursor.place(&self.arrangement, run);
                let is_next = next.is_some_and(|next| limit.is_none_or(|limit| next < limit));
                if !is_next || self.taken.len() >= self.max_rows {
                    break;
                }
            }

            self.next.extend(next.map(Reverse));
            if next.is_none() {
                used_up = Some(run);
            }
            if used_up.is_some() || self.taken.len() >= self.max_rows {
                break;
            }
        }

        if self.taken.is_empty() {
            return Ok(None);
        }
        let batch = self.put_together()?;
        if let Some(run) = used_up {
            self.read(run)?;
        }

        Ok(Some(batch))
    }

    fn put_together(&mut self) -> Result<RecordBatch> {
        let columns = (0..self.schema.fields().len()).map(|column| {
            let arrays = self.runs.iter().filter_map(|run| run.batch.columns().get(column));
            let arrays: Vec<&dyn Array> = arrays.map(AsRef::as_ref).collect();
            interleave(&arrays, &self.taken).map_err(failed)
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        self.taken.clear();
        RecordBatch::try_new(self.schema.clone(), columns).map_err(failed)
    }
}

impl EdgeRunCursor {
    /// Returns the key of its next edge; `None` if its batch is used up.
    fn place(&self, arrangement: &AdjacencyLayout, run: usize) -> Option<EdgeMergeKey> {
        let end = |column: usize| {
            let ends = self.batch.columns().get(column)?.as_primitive_opt::<Int64Type>()?;
            ends.values().get(self.at).map(|index| *index as u64)
        };
        let (major, minor) = arrangement.key(end(0)?, end(1)?);
        Some((major, minor, run))
    }
}

impl Iterator for EdgeMergeIterator {
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
