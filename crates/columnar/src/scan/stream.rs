//! The batches of a scan, in order: a few row groups are read at a time, and none long before the reader reaches it.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use async_recursion::async_recursion as boxed;
use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use stylobate_storage::traced;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tracing::{Span, field::Empty};

use super::{plan::Scan, queue::ScanQueue, row_group, turn::RowGroupTurns};
use crate::{Error, Result};

/// Groups of batches that wait for the reader, for each row group in flight.
const READY: usize = 1;

/// The batches of a scan, in the order of files and rows. Dropping it ends the work.
pub struct ScanStream {
    schema: SchemaRef,
    batches: BoxStream<'static, Result<RecordBatch>>,
    rows: u64,
    span: Span,
}

impl ScanStream {
    /// Returns the schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Scan {
    /// Streams the batches in the order of files and rows. Work begins with the first poll and stays a few batches
    /// ahead; it ends when the stream is dropped. Must be polled within a tokio runtime.
    pub fn stream(&self) -> ScanStream {
        ScanQueue::new(self, 1, None).stream()
    }

    /// Collects all batches.
    #[boxed]
    pub async fn collect(&self) -> Result<Vec<RecordBatch>> {
        self.stream().try_collect().await
    }
}

impl ScanQueue {
    /// Streams batches of row groups that no other stream has taken, in the order of the scan. See [`Scan::stream`].
    pub fn stream(&self) -> ScanStream {
        start(self.clone())
    }
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { batches, rows, span, .. } = &mut *self;
        let polled = span.in_scope(|| batches.poll_next_unpin(context));

        match &polled {
            Poll::Ready(Some(Ok(batch))) => *rows += batch.num_rows() as u64,
            Poll::Ready(None) => {
                span.record("rows", *rows);
            }
            _ => {}
        }
        polled
    }
}

impl fmt::Debug for ScanStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// A row group that is being read.
struct InFlightRowGroup {
    /// Sender of the number of earlier row groups that are still being read.
    before: watch::Sender<usize>,
    batches: mpsc::Receiver<Result<Vec<RecordBatch>>>,
    task: JoinHandle<()>,
}

impl Drop for InFlightRowGroup {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct ScanStreamState {
    queue: ScanQueue,
    in_flight: VecDeque<InFlightRowGroup>,
    turns: RowGroupTurns,
    ready: VecDeque<RecordBatch>,
}

/// See [`ScanQueue::stream`].
pub(super) fn start(queue: ScanQueue) -> ScanStream {
    let planned = queue.plan();
    let schema = planned.schema.clone();
    let span = tracing::debug_span!(
        "scan",
        files = planned.files.len(),
        row_groups = planned.row_groups.len(),
        columns = planned.schema.fields().len(),
        rows = Empty,
    );

    let running = ScanStreamState {
        queue,
        in_flight: VecDeque::new(),
        turns: RowGroupTurns::default(),
        ready: VecDeque::new(),
    };
    let batches = futures::stream::try_unfold(running, |mut running| async move {
        Ok(running.next().await?.map(|batch| (batch, running)))
    });
    ScanStream { schema, batches: batches.fuse().boxed(), rows: 0, span }
}

impl ScanStreamState {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.queue.is_satisfied() {
                return Ok(None);
            }
            if let Some(batch) = self.ready.pop_front() {
                match self.queue.take_rows(batch.num_rows() as u64) as usize {
                    rows if rows == batch.num_rows() => return Ok(Some(batch)),
                    // Another stream reached the limit.
                    0 => return Ok(None),
                    rows => return Ok(Some(batch.slice(0, rows))),
                }
            }
            self.begin();
            let Some(first) = self.in_flight.front_mut() else { return Ok(None) };
            match first.batches.recv().await {
                Some(batches) => self.ready.extend(batches?),
                None => {
                    let ended = (&mut first.task).await;
                    ended.map_err(|error| Error::Ended { reason: error.to_string() })?;
                    self.in_flight.pop_front();
                    for (before, row_group) in self.in_flight.iter().enumerate() {
                        row_group.before.send_replace(before);
                    }
                }
            }
        }
    }

    /// Keeps as many row groups in flight as the queue allows.
    fn begin(&mut self) {
        while self.in_flight.len() < self.queue.in_flight() {
            let Some((planned, row_group)) = self.queue.next() else { return };
            let (sender, batches) = mpsc::channel(READY);
            let (turn, before) = self.turns.next(self.in_flight.len());
            let workers = self.queue.workers().clone();
            let task = tokio::spawn(traced(row_group::run(planned, workers, row_group, turn, sender)));
            self.in_flight.push_back(InFlightRowGroup { before, batches, task });
        }
    }
}
