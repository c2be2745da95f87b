//! Row groups of a scan that several streams read together, under a filter that may become stricter in the
//! meantime.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::plan::{PlannedRowGroup, Scan, ScanPlan};
use crate::{Predicate, cache::workers::DecodeWorkers, predicate::BoundPredicate};

/// Returns the current condition on the rows of a running scan, besides its own filter. Returning the same `Arc` means
/// that the condition is unchanged. Rows that fail the condition must be dispensable; a row group that was begun under
/// an earlier condition keeps the rows that pass that one.
pub type MovingFilter = Arc<dyn Fn() -> Option<Arc<Predicate>> + Send + Sync>;

/// The row groups of a scan, for several streams: each takes the next one when it has room, and each row group is read
/// by one of them. All streams share the scan's threads and its limit. Cheap to clone.
#[derive(Clone)]
pub struct ScanQueue {
    inner: Arc<ScanQueueInner>,
}

struct ScanQueueInner {
    scan: Scan,
    workers: DecodeWorkers,
    streams: usize,
    filter: Option<MovingFilter>,
    waiting: Mutex<VecDeque<PlannedRowGroup>>,
    bound: Mutex<Option<BoundMovingFilter>>,
    /// Rows that may still be returned, under a limit.
    left: Option<AtomicU64>,
    taken: AtomicU64,
    pruned: AtomicU64,
}

/// A condition, and the whole filter with it: `None` if it does not fit the columns.
struct BoundMovingFilter {
    condition: Arc<Predicate>,
    bound: Option<BoundPredicate>,
}

impl ScanQueue {
    /// Queues the row groups of a scan for this number of streams.
    pub fn new(scan: &Scan, streams: usize, filter: Option<MovingFilter>) -> Self {
        let inner = ScanQueueInner {
            workers: DecodeWorkers::new(scan.inner.threads),
            streams: streams.max(1),
            filter,
            waiting: Mutex::new(scan.inner.row_groups.iter().copied().collect()),
            bound: Mutex::new(None),
            left: scan.inner.limit.map(AtomicU64::new),
            taken: AtomicU64::new(0),
            pruned: AtomicU64::new(0),
            scan: scan.clone(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the number of row groups that streams have begun to read.
    pub fn taken(&self) -> u64 {
        self.inner.taken.load(Ordering::Relaxed)
    }

    /// Returns the number of row groups that the moving filter ruled out by their statistics.
    pub fn pruned(&self) -> u64 {
        self.inner.pruned.load(Ordering::Relaxed)
    }

    pub(super) fn plan(&self) -> &ScanPlan {
        &self.inner.scan.inner
    }

    pub(super) fn workers(&self) -> &DecodeWorkers {
        &self.inner.workers
    }

    /// Returns the number of row groups that a stream keeps in flight: its share of the threads, and one more that
    /// is prefetched if every stream can have one; under a limit, only one.
    pub(super) fn in_flight(&self) -> usize {
        match self.inner.streams {
            _ if self.inner.left.is_some() => 1,
            1 => self.plan().threads + 1,
            // If there is a waiting row group for every stream, fetching ahead takes nothing from idle streams.
            streams if self.inner.waiting.lock().len() >= streams => {
                (self.plan().threads / streams).max(1) + 1
            }
            streams => (self.plan().threads / streams).max(1),
        }
    }

    /// Returns whether the limit is reached.
    pub(super) fn is_satisfied(&self) -> bool {
        self.inner.left.as_ref().is_some_and(|left| left.load(Ordering::Acquire) == 0)
    }

    /// Takes up to `rows` of the limit, and returns the number taken.
    pub(super) fn take_rows(&self, rows: u64) -> u64 {
        let Some(left) = &self.inner.left else { return rows };
        let before =
            left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| Some(left.saturating_sub(rows)));
        before.unwrap_or(0).min(rows)
    }

    /// Returns the next row group, and the plan that it is read with.
    pub(super) fn next(&self) -> Option<(Arc<ScanPlan>, PlannedRowGroup)> {
        let inner = &self.inner;
        loop {
            let row_group = inner.waiting.lock().pop_front()?;
            let Some(filter) = self.current_filter() else {
                inner.taken.fetch_add(1, Ordering::Relaxed);
                return Some((inner.scan.inner.clone(), row_group));
            };

            match inner.scan.inner.refiltered(row_group, &filter) {
                Ok(Some(refiltered)) => {
                    inner.taken.fetch_add(1, Ordering::Relaxed);
                    return Some(refiltered);
                }
                Ok(None) => {
                    inner.pruned.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::debug!(%error, "a moving filter is ignored");
                    inner.taken.fetch_add(1, Ordering::Relaxed);
                    return Some((inner.scan.inner.clone(), row_group));
                }
            }
        }
    }

    /// Returns the scan's filter with the current condition; `None` if there is no such condition.
    fn current_filter(&self) -> Option<BoundPredicate> {
        let condition = (self.inner.filter.as_ref()?)()?;
        let mut bound = self.inner.bound.lock();
        if let Some(known) = bound.as_ref().filter(|known| Arc::ptr_eq(&known.condition, &condition)) {
            return known.bound.clone();
        }

        let plan = self.plan();
        let whole = match plan.predicate.clone() {
            Some(own) => own.and(condition.as_ref().clone()),
            None => condition.as_ref().clone(),
        };
        let fresh = plan.table.bind(&whole);
        let fresh = fresh.inspect_err(|error| tracing::debug!(%error, "a moving filter is ignored")).ok();
        *bound = Some(BoundMovingFilter { condition, bound: fresh.clone() });
        fresh
    }
}

impl fmt::Debug for ScanQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanQueue")
            .field("streams", &self.inner.streams)
            .field("taken", &self.taken())
            .field("pruned", &self.pruned())
            .finish_non_exhaustive()
    }
}
