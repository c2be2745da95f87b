//! Sorted runs of one order, merged level by level while rows arrive.

use std::path::PathBuf;

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use super::{
    FAN_IN, batch_rows, max_batch_bytes,
    merge::{RunMerge, RunOrder},
    run::SortRun,
};
use crate::Result;

/// Sorted runs on disk so far. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct SpilledRuns<O> {
    order: O,
    schema: SchemaRef,
    /// Memory for rows, in bytes.
    memory: usize,
    /// Maximum rows of a batch.
    max_rows: usize,
    folder: PathBuf,
    /// At most [`FAN_IN`] runs per level, in order of arrival; runs of higher levels precede all others.
    levels: Vec<Vec<SortRun>>,
    /// Rows written to runs; a merge counts its rows again.
    pub(super) written_rows: u64,
}

impl<O: RunOrder> SpilledRuns<O> {
    /// Returns an empty set of runs, which are kept in unnamed files in this folder and merged within half of `memory`
    /// bytes.
    pub(crate) fn new(order: O, schema: SchemaRef, memory: usize, folder: PathBuf) -> Self {
        Self { order, schema, memory, max_rows: usize::MAX, folder, levels: Vec::new(), written_rows: 0 }
    }

    pub(crate) fn order(&self) -> &O {
        &self.order
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// Writes a run of sorted rows of about `row_bytes` bytes each, in batches of at most the given number of rows.
    pub(crate) fn spill<I: Iterator<Item = Result<RecordBatch>>>(
        &mut self,
        row_bytes: usize,
        sorted: impl FnOnce(usize) -> I,
    ) -> Result<()> {
        self.max_rows = self.max_rows.min(batch_rows(self.memory, row_bytes));
        let run = self.write(sorted(self.max_rows))?;
        self.add(run, 0)
    }

    /// Returns all rows in order, in batches that are not empty.
    pub(crate) fn merge(mut self) -> Result<RunMerge<O>> {
        self.reduce()?;
        tracing::debug!(of = O::OF, written_rows = self.written_rows, "merging what was sorted on disk");
        let runs = std::mem::take(&mut self.levels).into_iter().rev().flatten().collect();
        self.merge_of(runs)
    }

    /// Merges runs until at most [`FAN_IN`] are left.
    pub(crate) fn reduce(&mut self) -> Result<()> {
        let mut level = 0;
        while let Some(runs) = self.levels.get(level).map(Vec::len) {
            let left: usize = self.levels().sum();
            if left <= FAN_IN {
                break;
            }
            self.merge_oldest(level, runs.min(left - FAN_IN + 1))?;
            level += 1;
        }

        Ok(())
    }

    /// Returns the number of runs of each level.
    pub(super) fn levels(&self) -> impl Iterator<Item = usize> {
        self.levels.iter().map(Vec::len)
    }

    fn add(&mut self, run: SortRun, level: usize) -> Result<()> {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Vec::new);
        }
        if self.levels.get(level).is_some_and(|runs| runs.len() >= FAN_IN) {
            self.merge_oldest(level, FAN_IN)?;
        }
        if let Some(runs) = self.levels.get_mut(level) {
            runs.push(run);
        }
        Ok(())
    }

    /// Merges the oldest runs of a level into one of the next level. A single run moves up unchanged.
    fn merge_oldest(&mut self, level: usize, count: usize) -> Result<()> {
        let Some(runs) = self.levels.get_mut(level) else { return Ok(()) };
        let mut oldest: Vec<SortRun> = runs.drain(..count).collect();
        if oldest.len() > 1 {
            let merge = self.merge_of(oldest)?;
            oldest = vec![self.write(merge)?];
        }
        oldest.into_iter().try_for_each(|run| self.add(run, level + 1))
    }

    fn merge_of(&self, runs: Vec<SortRun>) -> Result<RunMerge<O>> {
        let schema = self.schema.clone();
        RunMerge::new(runs, self.order, schema, self.max_rows, max_batch_bytes(self.memory))
    }

    fn write(&mut self, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<SortRun> {
        let run = SortRun::write(O::OF, &self.folder, &self.schema, batches)?;
        self.written_rows += run.rows;
        Ok(run)
    }
}
