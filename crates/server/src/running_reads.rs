//! Scans and queries that are sending rows, to be listed and cancelled.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Maximum reads that are listed. Further reads still run, but are only counted.
const MAX_LISTED: usize = 1_000;
/// Maximum characters of a description.
const MAX_TEXT_CHARS: usize = 500;

/// The running reads of a node. Cheap to clone: all clones share one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningReads {
    list: Arc<Mutex<ReadList>>,
}

#[derive(Debug, Default)]
struct ReadList {
    last_id: u64,
    reads: BTreeMap<u64, Arc<RunningRead>>,
    unlisted: u64,
}

/// Description of a read that begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewRead {
    /// `scan`, `query` or `preview`.
    pub(crate) kind: &'static str,
    /// Human-readable description.
    pub(crate) text: String,
    /// The access key of the caller.
    pub(crate) access_key: Option<String>,
    /// Total number of rows of the result, if known.
    pub(crate) total_rows: Option<u64>,
}

#[derive(Debug)]
struct RunningRead {
    new: NewRead,
    started: Instant,
    rows: AtomicU64,
    bytes: AtomicU64,
    cancelled: CancellationToken,
}

/// Running reads, as `GET /api/reads` returns them.
#[derive(Debug, Serialize)]
pub(crate) struct ReadsReport {
    pub(crate) reads: Vec<ReadStatus>,
    /// Number of running reads that are not listed, since there are too many.
    pub(crate) unlisted: u64,
}

/// A running read.
#[derive(Debug, Serialize)]
pub(crate) struct ReadStatus {
    pub(crate) id: u64,
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    pub(crate) access_key: Option<String>,
    /// Seconds since it began.
    pub(crate) seconds: f64,
    /// Rows sent.
    pub(crate) rows: u64,
    /// Bytes sent.
    pub(crate) bytes: u64,
    /// Total number of rows of the result, if known.
    pub(crate) total_rows: Option<u64>,
}

impl RunningReads {
    /// Lists a read until the guard is dropped.
    pub(crate) fn begin(&self, mut new: NewRead) -> RunningReadGuard {
        if let Some((end, _)) = new.text.char_indices().nth(MAX_TEXT_CHARS) {
            new.text.truncate(end);
            new.text.push('…');
        }
        let read = Arc::new(RunningRead {
            new,
            started: Instant::now(),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            cancelled: CancellationToken::new(),
        });

        let mut list = self.list.lock();
        let id = if list.reads.len() < MAX_LISTED {
            list.last_id += 1;
            let id = list.last_id;
            list.reads.insert(id, read.clone());
            Some(id)
        } else {
            list.unlisted += 1;
            None
        };

        let cancelled = Box::pin(read.cancelled.clone().cancelled_owned());
        RunningReadGuard { id, list: self.list.clone(), read, cancelled }
    }

    /// Cancels a read. Returns false if no read has this id.
    pub(crate) fn cancel(&self, id: u64) -> bool {
        let read = self.list.lock().reads.get(&id).cloned();
        if let Some(read) = &read {
            read.cancelled.cancel();
        }
        read.is_some()
    }

    /// Returns the running reads, oldest first.
    pub(crate) fn report(&self) -> ReadsReport {
        let list = self.list.lock();
        let status = |(id, read): (&u64, &Arc<RunningRead>)| ReadStatus {
            id: *id,
            kind: read.new.kind,
            text: read.new.text.clone(),
            access_key: read.new.access_key.clone(),
            seconds: read.started.elapsed().as_secs_f64(),
            rows: read.rows.load(Ordering::Relaxed),
            bytes: read.bytes.load(Ordering::Relaxed),
            total_rows: read.new.total_rows,
        };
        ReadsReport { reads: list.reads.iter().map(status).collect(), unlisted: list.unlisted }
    }
}

/// Guard of a running read, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct RunningReadGuard {
    id: Option<u64>,
    list: Arc<Mutex<ReadList>>,
    read: Arc<RunningRead>,
    cancelled: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl RunningReadGuard {
    /// Counts rows and bytes that were sent.
    pub(crate) fn sent(&self, rows: u64, bytes: u64) {
        self.read.rows.fetch_add(rows, Ordering::Relaxed);
        self.read.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes sent.
    pub(crate) fn bytes(&self) -> u64 {
        self.read.bytes.load(Ordering::Relaxed)
    }

    /// Returns true if the read was cancelled; otherwise wakes the task on cancellation.
    pub(crate) fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> bool {
        self.read.cancelled.is_cancelled() || self.cancelled.as_mut().poll(cx) == Poll::Ready(())
    }

    /// Waits until the read is cancelled.
    pub(crate) async fn cancelled(&self) {
        self.read.cancelled.cancelled().await;
    }
}

impl Drop for RunningReadGuard {
    fn drop(&mut self) {
        let mut list = self.list.lock();
        match self.id {
            Some(id) => {
                list.reads.remove(&id);
            }
            None => list.unlisted -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str) -> NewRead {
        NewRead { kind: "scan", text: text.to_owned(), total_rows: Some(10), ..NewRead::default() }
    }

    #[test]
    fn a_read_is_listed_until_its_guard_is_dropped() {
        let running = RunningReads::default();
        let first = running.begin(scan("lake/a"));
        let second = running.begin(scan("lake/b"));
        second.sent(3, 300);
        let report = running.report();
        let listed: Vec<_> =
            report.reads.iter().map(|read| (read.id, read.text.as_str(), read.rows)).collect();
        assert_eq!(listed, [(1, "lake/a", 0), (2, "lake/b", 3)]);
        assert_eq!((report.reads[1].bytes, report.reads[1].total_rows), (300, Some(10)));
        drop(first);
        assert_eq!(running.report().reads.len(), 1);
        assert!(!running.cancel(1));
    }

    #[tokio::test]
    async fn a_cancelled_read_is_told() {
        let running = RunningReads::default();
        let mut read = running.begin(scan("lake/a"));
        let is_cancelled = std::future::poll_fn(|cx| Poll::Ready(read.poll_cancelled(cx))).await;
        assert!(!is_cancelled);
        assert!(running.cancel(1));
        read.cancelled().await;
        assert!(std::future::poll_fn(|cx| Poll::Ready(read.poll_cancelled(cx))).await);
        assert_eq!(running.report().reads.len(), 1, "it ends when its guard is dropped");
    }

    #[test]
    fn the_list_and_its_texts_are_bounded() {
        let running = RunningReads::default();
        let reads: Vec<_> = (0..MAX_LISTED + 2).map(|_| running.begin(scan(&"é".repeat(9_999)))).collect();
        let report = running.report();
        assert_eq!((report.reads.len(), report.unlisted), (MAX_LISTED, 2));
        assert_eq!(report.reads[0].text.chars().count(), MAX_TEXT_CHARS + 1);
        drop(reads);
        assert_eq!((running.report().reads.len(), running.report().unlisted), (0, 0));
    }
}
