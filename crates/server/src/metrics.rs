//! Counts requests as they are answered: a few atomic additions each, and no locks that writers share.
//!
//! What the cache and the readers count themselves is read from them when somebody asks.

mod flight;
mod latency;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use serde::Serialize;

pub use self::flight::FlightStats;
use self::{flight::FlightMetrics, latency::Latency};

/// The counters of a node's doors.
#[derive(Debug)]
pub struct Metrics {
    operations: RwLock<HashMap<&'static str, Arc<Operation>>>,
    flight: FlightMetrics,
    in_flight: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
    started: Instant,
}

/// The counters of one operation.
#[derive(Debug, Default)]
struct Operation {
    /// Answers by status code. A code's counter is born with its first answer.
    codes: RwLock<BTreeMap<u16, AtomicU64>>,
    bytes_out: AtomicU64,
    latency: Latency,
}

impl Operation {
    fn count(&self, code: u16) {
        if let Some(counter) = self.codes.read().get(&code) {
            counter.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.codes.write().entry(code).or_default().fetch_add(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counters that stand at zero.
    pub fn new() -> Self {
        Self {
            operations: RwLock::default(),
            flight: FlightMetrics::default(),
            in_flight: Arc::default(),
            connections: Arc::default(),
            started: Instant::now(),
        }
    }

    /// Counts an answer: the S3 operation's name such as `GetObject`, the HTTP status, the time until the answer
    /// was ready, and the bytes of its body.
    pub fn request(&self, operation: &'static str, code: u16, seconds: f64, bytes_out: u64) {
        let known = self.operations.read().get(operation).cloned();
        let operation =
            known.unwrap_or_else(|| self.operations.write().entry(operation).or_default().clone());
        operation.count(code);
        operation.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
        operation.latency.observe(seconds);
    }

    /// Counts a request as in flight until the guard is dropped.
    pub fn in_flight(&self) -> InFlightGuard {
        InFlightGuard::new(&self.in_flight)
    }

    /// Counts a connection as open until the guard is dropped.
    pub(crate) fn connection(&self) -> InFlightGuard {
        InFlightGuard::new(&self.connections)
    }

    /// The counters of the Flight door.
    pub(crate) fn flight(&self) -> &FlightMetrics {
        &self.flight
    }

    /// What the Flight door answered so far.
    pub fn flight_stats(&self) -> FlightStats {
        self.flight.snapshot()
    }

    /// What the S3 door answered so far.
    pub fn snapshot(&self) -> RequestStats {
        let mut stats = RequestStats {
            uptime_seconds: self.uptime().as_secs(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            ..RequestStats::default()
        };
        for (name, operation) in self.sorted() {
            let codes: BTreeMap<_, _> =
                operation.codes.read().iter().map(|(code, n)| (*code, n.load(Ordering::Relaxed))).collect();
            let requests = codes.values().sum();
            let bytes_out = operation.bytes_out.load(Ordering::Relaxed);
            let milliseconds = |quantile| operation.latency.quantile(quantile) * 1_000.0;
            stats.requests += requests;
            stats.errors += codes.iter().filter(|(code, _)| **code >= 500).map(|(_, n)| n).sum::<u64>();
            stats.bytes_out += bytes_out;
            stats.operations.push(OperationStats {
                operation: name,
                requests,
                codes,
                bytes_out,
                p50_ms: milliseconds(0.5),
                p99_ms: milliseconds(0.99),
            });
        }
        stats
    }

    /// How long the answers took to be ready, by operation, sorted by name.
    pub(crate) fn latencies(&self) -> Vec<Latencies> {
        let latencies = self.sorted().into_iter().map(|(operation, counted)| Latencies {
            operation,
            seconds: counted.latency.sum(),
            buckets: counted.latency.buckets(),
        });
        latencies.collect()
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn sorted(&self) -> Vec<(&'static str, Arc<Operation>)> {
        let mut all: Vec<_> = self.operations.read().iter().map(|(name, op)| (*name, op.clone())).collect();
        all.sort_by_key(|(name, _)| *name);
        all
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Something that is going on; dropping it says that it is over.
#[derive(Debug)]
pub struct InFlightGuard(Arc<AtomicU64>);

impl InFlightGuard {
    fn new(gauge: &Arc<AtomicU64>) -> Self {
        gauge.fetch_add(1, Ordering::Relaxed);
        Self(gauge.clone())
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the doors answered since the node started.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RequestStats {
    /// Seconds since the node started.
    pub uptime_seconds: u64,
    /// Requests being answered now.
    pub in_flight: u64,
    /// Connections open now.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// Of these, the ones answered with a status of 500 or more.
    pub errors: u64,
    /// Bytes of all bodies sent.
    pub bytes_out: u64,
    /// By operation, sorted by name.
    pub operations: Vec<OperationStats>,
}

/// What was answered to one operation.
#[derive(Clone, Debug, Serialize)]
pub struct OperationStats {
    /// Its name, such as `GetObject`.
    pub operation: &'static str,
    /// Requests answered.
    pub requests: u64,
    /// Requests by HTTP status.
    pub codes: BTreeMap<u16, u64>,
    /// Bytes of the bodies sent.
    pub bytes_out: u64,
    /// Half of the answers were ready within this time; estimated from a histogram.
    pub p50_ms: f64,
    /// So were 99 of 100.
    pub p99_ms: f64,
}

/// How long the answers to one operation took to be ready.
#[derive(Debug)]
pub(crate) struct Latencies {
    /// Its name, such as `GetObject`.
    pub(crate) operation: &'static str,
    /// Sum of all times in seconds.
    pub(crate) seconds: f64,
    /// Upper bound in seconds and number of times of each bucket; the last bound is infinite.
    pub(crate) buckets: Vec<(f64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_operation_and_code() {
        let metrics = Metrics::new();
        metrics.request("GetObject", 200, 0.001, 10);
        metrics.request("GetObject", 206, 0.001, 5);
        metrics.request("GetObject", 206, 0.001, 5);
        metrics.request("HeadObject", 503, 0.001, 0);
        let stats = metrics.snapshot();
        assert_eq!((stats.requests, stats.errors, stats.bytes_out), (4, 1, 20));
        assert_eq!(stats.operations[0].operation, "GetObject");
        assert_eq!(stats.operations[0].codes, BTreeMap::from([(200, 1), (206, 2)]));
        assert_eq!(stats.operations[1].requests, 1);
    }

    #[test]
    fn a_request_is_in_flight_until_its_guard_is_dropped() {
        let metrics = Metrics::new();
        let guard = metrics.in_flight();
        let connection = metrics.connection();
        assert_eq!((metrics.snapshot().in_flight, metrics.snapshot().connections), (1, 1));
        drop((guard, connection));
        assert_eq!((metrics.snapshot().in_flight, metrics.snapshot().connections), (0, 0));
    }

    #[test]
    fn counts_from_many_threads_add_up() {
        let metrics = Metrics::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| metrics.request("GetObject", 200, 0.0001, 1)));
            }
        });
        assert_eq!((metrics.snapshot().requests, metrics.snapshot().bytes_out), (4_000, 4_000));
    }
}
