//! Sorts edges in the orders of their lists: in memory if they fit, otherwise over sorted runs on disk.
//!
//! ```text
//! edges -> EdgeSortBuffer -> full: sorted once per list -> SortRun, SortRun, … -> FAN_IN of a level: one of the next
//!                         -> fits: sorted when a list is written
//! ```

pub(super) mod buffer;
pub(super) mod merge;
pub(super) mod order;
pub(super) mod runs;
pub(super) mod shares;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use futures::{Stream, StreamExt, stream::BoxStream};
use stylobate_storage::{run_blocking, stream_from_thread};

use self::{
    buffer::{BufferedEdges, EdgeSortBuffer},
    merge::EdgeMergeIterator,
    order::AdjacencyLayout,
    runs::SortRun,
};
use crate::{Error, Result};

/// Runs merged at a time.
const FAN_IN: usize = 64;
/// Maximum rows of a batch.
const ROWS: usize = 1 << 16;
/// Maximum bytes of a batch.
const BATCH: usize = 4 << 20;
/// Batches gathered ahead of the consumer.
const AHEAD: usize = 2;

/// Takes edges in their order of arrival.
#[derive(Debug)]
pub(super) struct EdgeSorter {
    buffer: EdgeSortBuffer,
    schema: SchemaRef,
    lists: Vec<ListSortRuns>,
    /// Memory for edges, in bytes.
    share: usize,
    /// Rows per batch of a run.
    rows: usize,
    threads: usize,
    folder: PathBuf,
}

/// Sorted runs of a list so far.
#[derive(Debug)]
struct ListSortRuns {
    arrangement: AdjacencyLayout,
    /// Runs of each level, in the order in which their edges arrived; those of higher levels precede all others.
    levels: Vec<Vec<SortRun>>,
}

/// All edges, available in the order of each list.
#[derive(Debug)]
pub(super) struct SortedEdges {
    held: Option<Arc<BufferedEdges>>,
    lists: Vec<ListSortRuns>,
    schema: SchemaRef,
    share: usize,
    rows: usize,
    threads: usize,
}

/// Plan of sorting the edges of a type.
#[derive(Debug)]
pub(super) struct EdgeSortPlan {
    /// Columns of edges: both ends, and properties.
    pub(super) schema: SchemaRef,
    pub(super) properties: Schema,
    pub(super) arrangements: Vec<AdjacencyLayout>,
    /// Numbers of source and destination vertices.
    pub(super) vertices: (u64, u64),
    pub(super) memory: usize,
    pub(super) threads: usize,
    /// Folder of runs that do not fit into memory.
    pub(super) folder: PathBuf,
}

impl EdgeSorter {
    pub(super) fn new(plan: EdgeSortPlan) -> Self {
        let EdgeSortPlan { schema, properties, arrangements, vertices, memory, threads, folder } = plan;
        let buffer = EdgeSortBuffer::new(schema.clone(), &properties, vertices, memory);
        let list = |arrangement| ListSortRuns { arrangement, levels: Vec::new() };
        let lists = arrangements.into_iter().map(list).collect();
        Self { buffer, schema, lists, share: memory, rows: ROWS, threads, folder }
    }

    /// Adds edges: their ends, and their properties group by group.
    pub(super) fn push(
        &mut self,
        source: &[u64],
        destination: &[u64],
        properties: &RecordBatch,
    ) -> Result<()> {
        if self.buffer.is_full(source.len()) {
            self.spill()?;
        }
        self.buffer.push(source, destination, properties)?;
        if self.buffer.bytes() > self.share { self.spill() } else { Ok(()) }
    }

    /// Writes the buffered edges to runs of all lists.
    fn spill(&mut self) -> Result<()> {
        if self.buffer.len() == 0 {
            return Ok(());
        }
        let edges = self.buffer.take()?;
        self.rows = self.rows.min(batch_rows(self.share, edges.row_bytes()));

        let rows = self.rows;
        for list in &mut self.lists {
            let order = list.arrangement.sort(&edges, self.threads);
            let batches = order.chunks(rows).map(|rows| edges.gather(rows));
            let run = SortRun::write(&self.folder, &self.schema, batches)?;
            list.add(run, 0);
            list.merge_full(&self.folder, &self.schema, rows)?;
        }

        tracing::debug!(edges = edges.len(), "sorted on disk");
        Ok(())
    }

    /// Ends the input.
    pub(super) fn finish(mut self) -> Result<SortedEdges> {
        let has_runs = self.lists.iter().any(|list| !list.levels.is_empty());
        let held = if has_runs {
            self.spill()?;
            None
        } else {
            Some(Arc::new(self.buffer.take()?))
        };
        let Self { schema, mut lists, share, rows, threads, folder, .. } = self;

        for list in &mut lists {
            list.merge_to(FAN_IN, &folder, &schema, rows)?;
        }
        Ok(SortedEdges { held, lists, schema, share, rows, threads })
    }
}

impl ListSortRuns {
    fn add(&mut self, run: SortRun, level: usize) {
        while self.levels.len() <= level {
            self.levels.push(Vec::new());
        }
        if let Some(runs) = self.levels.get_mut(level) {
            runs.push(run);
        }
    }

    /// Merges levels that have [`FAN_IN`] runs.
    fn merge_full(&mut self, folder: &Path, schema: &SchemaRef, rows: usize) -> Result<()> {
        let mut level = 0;
        while let Some(runs) = self.levels.get_mut(level).filter(|runs| runs.len() >= FAN_IN) {
            let merge = EdgeMergeIterator::new(std::mem::take(runs), self.arrangement, schema, rows)?;
            let run = SortRun::write(folder, schema, merge)?;
            level += 1;
            self.add(run, level);
        }
        Ok(())
    }

    /// Merges until at most `most` runs are left.
    fn merge_to(&mut self, most: usize, folder: &Path, schema: &SchemaRef, rows: usize) -> Result<()> {
        let mut level = 0;
        while self.levels.iter().map(Vec::len).sum::<usize>() > most {
            let Some(runs) = self.levels.get_mut(level) else { break };
            let runs = std::mem::take(runs);
            level += 1;
            if !runs.is_empty() {
                let merge = EdgeMergeIterator::new(runs, self.arrangement, schema, rows)?;
                self.add(SortRun::write(folder, schema, merge)?, level);
            }
        }

        Ok(())
    }
}

impl SortedEdges {
    /// Returns the edges in the order of a list; once per list. Batches are not empty.
    pub(super) async fn take(&mut self, list: usize) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let Some(list) = self.lists.get_mut(list) else { return Ok(futures::stream::empty().boxed()) };
        let arrangement = list.arrangement;
        let levels = std::mem::take(&mut list.levels);
        let threads = self.threads;
        if let Some(edges) = self.held.clone() {
            let (edges, order) = run_blocking(move || {
                let order = arrangement.sort(&edges, threads);
                (edges, order)
            })
            .await?;
            let rows = batch_rows(self.share, edges.row_bytes());
            return Ok(gathered(edges, order, rows, threads).boxed());
        }

        let runs: Vec<SortRun> = levels.into_iter().rev().flatten().collect();
        Ok(merged(runs, arrangement, self.schema.clone(), self.rows))
    }
}

/// Streams buffered edges, gathered by several threads and yielded in order.
fn gathered(
    edges: Arc<BufferedEdges>,
    order: Vec<u32>,
    rows: usize,
    threads: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let order = Arc::new(order);
    let starts = (0..order.len()).step_by(rows);
    let batches = starts.map(move |start| {
        let edges = edges.clone();
        let order = order.clone();
        let gather = move || {
            let end = order.len().min(start + rows);
            edges.gather(order.get(start..end).unwrap_or_default())
        };
        async move { run_blocking(gather).await? }
    });

    futures::stream::iter(batches).buffered(threads.max(AHEAD))
}

/// Streams edges of runs, merged by a thread of their own.
fn merged(
    runs: Vec<SortRun>,
    arrangement: AdjacencyLayout,
    schema: SchemaRef,
    rows: usize,
) -> BoxStream<'static, Result<RecordBatch>> {
    let merge = move |give: &mut dyn FnMut(RecordBatch) -> bool| {
        for batch in EdgeMergeIterator::new(runs, arrangement, &schema, rows)? {
            if !give(batch?) {
                break;
            }
        }
        Ok(())
    };
    stream_from_thread(AHEAD, merge, |reason| Error::Ended { reason: format!("a merge of edges: {reason}") })
}

/// Returns the number of rows per batch, so that [`FAN_IN`] batches fit into half of the memory.
fn batch_rows(share: usize, row_bytes: usize) -> usize {
    let bytes = (share / 2 / FAN_IN).min(BATCH);
    (bytes / row_bytes.max(1)).clamp(1, ROWS)
}
