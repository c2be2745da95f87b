//! Sorts edges in the orders of their lists: in memory if they fit, otherwise over sorted runs on disk.
//!
//! ```text
//! edges -> EdgeSortBuffer -> full: sorted once per list -> SpilledRuns of each list
//!                         -> fits: sorted when a list is written
//! ```

pub(super) mod buffer;
pub(super) mod order;
pub(super) mod shares;

use std::{path::PathBuf, sync::Arc};

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use futures::{Stream, StreamExt, stream::BoxStream};
use stylobate_storage::{run_blocking, stream_from_thread};

use self::{
    buffer::{BufferedEdges, EdgeSortBuffer},
    order::AdjacencyLayout,
};
use crate::{
    Error, Result,
    sort::{SpilledRuns, batch_rows},
};

/// Batches gathered ahead of the consumer.
const BATCHES_AHEAD: usize = 2;

/// Sorter of edges, in the order of each of their lists.
#[derive(Debug)]
pub(super) struct EdgeSorter {
    buffer: EdgeSortBuffer,
    lists: Vec<SpilledRuns<AdjacencyLayout>>,
    /// Memory for edges, in bytes.
    share: usize,
    threads: usize,
}

/// All edges of a list.
#[derive(Debug)]
pub(super) enum SortedEdges {
    Buffered { edges: Arc<BufferedEdges>, arrangement: AdjacencyLayout, rows: usize, threads: usize },
    Spilled(SpilledRuns<AdjacencyLayout>),
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
        let list = |arrangement| SpilledRuns::new(arrangement, schema.clone(), memory, folder.clone());
        let lists = arrangements.into_iter().map(list).collect();
        Self { buffer, lists, share: memory, threads }
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
        for list in &mut self.lists {
            let order = list.order().sort(&edges, self.threads);
            list.spill(edges.row_bytes(), |rows| order.chunks(rows).map(|rows| edges.gather(rows)))?;
        }

        tracing::debug!(edges = edges.len(), "sorted on disk");
        Ok(())
    }

    /// Ends the input. Returns the edges of each list.
    pub(super) fn finish(mut self) -> Result<Vec<SortedEdges>> {
        let has_runs = self.lists.iter().any(|list| !list.is_empty());
        if has_runs {
            self.spill()?;
            // Lists are streamed one after another, so waiting ones must keep few files open.
            self.lists.iter_mut().try_for_each(SpilledRuns::reduce)?;
            return Ok(self.lists.into_iter().map(SortedEdges::Spilled).collect());
        }

        let edges = Arc::new(self.buffer.take()?);
        let rows = batch_rows(self.share, edges.row_bytes());
        let threads = self.threads;
        let buffered = |list: SpilledRuns<AdjacencyLayout>| {
            let arrangement = *list.order();
            SortedEdges::Buffered { edges: edges.clone(), arrangement, rows, threads }
        };
        Ok(self.lists.into_iter().map(buffered).collect())
    }
}

impl SortedEdges {
    /// Streams the edges in the order of the list. Batches are not empty.
    pub(super) async fn stream(self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        match self {
            Self::Buffered { edges, arrangement, rows, threads } => {
                let (edges, order) = run_blocking(move || {
                    let order = arrangement.sort(&edges, threads);
                    (edges, order)
                })
                .await?;
                Ok(stream_sorted(edges, order, rows, threads).boxed())
            }
            Self::Spilled(runs) => Ok(merged(runs)),
        }
    }
}

/// Streams buffered edges, gathered by several threads and yielded in order.
fn stream_sorted(
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

    futures::stream::iter(batches).buffered(threads.max(BATCHES_AHEAD))
}

/// Streams edges merged from runs by a dedicated thread.
fn merged(runs: SpilledRuns<AdjacencyLayout>) -> BoxStream<'static, Result<RecordBatch>> {
    let merge = move |give: &mut dyn FnMut(RecordBatch) -> bool| {
        for batch in runs.merge()? {
            if !give(batch?) {
                break;
            }
        }
        Ok(())
    };
    stream_from_thread(BATCHES_AHEAD, merge, |reason| Error::Ended {
        reason: format!("a merge of edges: {reason}"),
    })
}
