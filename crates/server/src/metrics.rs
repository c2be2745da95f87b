//! Counts requests as they are answered. The frequent ones cost a few atomic additions and no lock.
//!
//! Counters of the cache and the readers are not copied here, but read at scrape time.

mod flight;
mod requests;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Serialize;
use stylobate_storage::LatencyCounts;

use self::flight::FlightMetrics;
pub use self::{flight::FlightStats, requests::BucketRequests};

/// The counters of a node's doors.
#[derive(Debug)]
pub struct Metrics {
    /// By bucket. The set is fixed while a node runs, so that clients cannot create metric labels.
    buckets: BTreeMap<String, Arc<BucketRequests>>,
    /// Requests without a bucket, or for a bucket that the node does not have.
    elsewhere: Arc<BucketRequests>,
    flight: FlightMetrics,
    in_flight: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
    started: Instant,
}

impl Metrics {
    /// Creates counters at zero for these buckets.
    pub fn new(buckets: impl IntoIterator<Item = String>) -> Self {
        Self {
            buckets: buckets.into_iter().map(|name| (name, Arc::default())).collect(),
            elsewhere: Arc::default(),
            flight: FlightMetrics::default(),
            in_flight: Arc::default(),
            connections: Arc::default(),
            started: Instant::now(),
        }
    }

    /// Returns the counters of the requests to a bucket, or of those without a known bucket.
    pub fn bucket(&self, name: Option<&str>) -> &Arc<BucketRequests> {
        name.and_then(|name| self.buckets.get(name)).unwrap_or(&self.elsewhere)
    }

    /// Counts a request as in flight until the guard is dropped.
    pub fn in_flight(&self) -> InFlightGuard {
        InFlightGuard::new(&self.in_flight)
    }

    /// Counts a connection as open until the guard is dropped.
    pub(crate) fn connection(&self) -> InFlightGuard {
        InFlightGuard::new(&self.connections)
    }

    /// Returns the counters of the Flight door.
    pub(crate) fn flight(&self) -> &FlightMetrics {
        &self.flight
    }

    /// Returns the counts of the Flight door so far.
    pub fn flight_stats(&self) -> FlightStats {
        self.flight.snapshot()
    }

    /// Returns the counts of the S3 door so far.
    pub fn snapshot(&self) -> RequestStats {
        let mut stats = RequestStats {
            uptime_seconds: self.uptime().as_secs(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            ..RequestStats::default()
        };

        let mut operations: BTreeMap<&'static str, OperationStats> = BTreeMap::new();
        let named = self.buckets.iter().map(|(name, counted)| (name.as_str(), counted));
        for (bucket, counted) in named.chain([("", &self.elsewhere)]) {
            let mut of_bucket = BucketRequestStats { bucket: bucket.to_owned(), ..Default::default() };
            for (name, counts) in counted.snapshot() {
                of_bucket.requests += counts.codes.values().sum::<u64>();
                of_bucket.errors += server_errors(&counts.codes);
                of_bucket.bytes_out += counts.bytes_out;

                let operation = operations.entry(name).or_default();
                operation.operation = name;
                for (code, count) in &counts.codes {
                    *operation.codes.entry(*code).or_default() += count;
                }
                operation.bytes_out += counts.bytes_out;
                operation.latency.add(&counts.latency);
                of_bucket.operations.insert(name, counts.codes);
            }
            stats.buckets.push(of_bucket);
        }

        for mut operation in operations.into_values() {
            operation.requests = operation.codes.values().sum();
            operation.p50_ms = operation.latency.quantile(0.5) * 1_000.0;
            operation.p99_ms = operation.latency.quantile(0.99) * 1_000.0;
            stats.requests += operation.requests;
            stats.errors += server_errors(&operation.codes);
            stats.bytes_out += operation.bytes_out;
            stats.operations.push(operation);
        }

        stats
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

fn server_errors(codes: &BTreeMap<u16, u64>) -> u64 {
    codes.iter().filter(|(code, _)| **code >= 500).map(|(_, count)| count).sum()
}

/// Guard that counts something as in progress until it is dropped.
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

/// Counts of the S3 door since the node started.
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
    /// Requests answered with a status of 500 or more.
    pub errors: u64,
    /// Bytes of all bodies sent.
    pub bytes_out: u64,
    /// By operation, sorted by name.
    pub operations: Vec<OperationStats>,
    /// By bucket, sorted by name; requests without a bucket come last, under an empty name.
    pub buckets: Vec<BucketRequestStats>,
}

/// Counts of one bucket.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BucketRequestStats {
    /// Its name; empty for requests without a bucket of the node.
    pub bucket: String,
    /// Requests answered.
    pub requests: u64,
    /// Requests answered with a status of 500 or more.
    pub errors: u64,
    /// Bytes of the bodies sent.
    pub bytes_out: u64,
    /// Requests by operation and HTTP status.
    pub operations: BTreeMap<&'static str, BTreeMap<u16, u64>>,
}

/// Counts of one operation.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OperationStats {
    /// Its name, such as `GetObject`.
    pub operation: &'static str,
    /// Requests answered.
    pub requests: u64,
    /// Requests by HTTP status.
    pub codes: BTreeMap<u16, u64>,
    /// Bytes of the bodies sent.
    pub bytes_out: u64,
    /// Median time until an answer was ready; estimated from a histogram.
    pub p50_ms: f64,
    /// 99th percentile of that time.
    pub p99_ms: f64,
    /// Histogram of the time until answers were ready.
    #[serde(skip)]
    pub latency: LatencyCounts,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics() -> Metrics {
        Metrics::new(["lake".to_owned(), "sea".to_owned()])
    }

    #[test]
    fn requests_are_counted_by_operation_and_code() {
        let metrics = metrics();
        metrics.bucket(Some("lake")).count("GetObject", 200, 0.001, 10);
        metrics.bucket(Some("lake")).count("GetObject", 206, 0.001, 5);
        metrics.bucket(Some("sea")).count("GetObject", 206, 0.001, 5);
        metrics.bucket(Some("sea")).count("HeadObject", 503, 0.001, 0);
        let stats = metrics.snapshot();
        assert_eq!((stats.requests, stats.errors, stats.bytes_out), (4, 1, 20));
        assert_eq!(stats.operations[0].operation, "GetObject");
        assert_eq!(stats.operations[0].codes, BTreeMap::from([(200, 1), (206, 2)]));
        assert_eq!(stats.operations[0].latency.count(), 3);
        assert_eq!(stats.operations[1].requests, 1);
    }

    #[test]
    fn a_bucket_that_the_node_does_not_have_makes_no_label() {
        let metrics = metrics();
        metrics.bucket(Some("sea")).count("ListObjectsV2", 200, 0.001, 7);
        metrics.bucket(Some("ocean")).count("GetObject", 404, 0.001, 0);
        metrics.bucket(None).count("ListBuckets", 200, 0.001, 0);
        let buckets = metrics.snapshot().buckets;
        let counted: Vec<_> = buckets.iter().map(|of| (of.bucket.as_str(), of.requests)).collect();
        assert_eq!(counted, [("lake", 0), ("sea", 1), ("", 2)]);
        assert_eq!(buckets[1].operations["ListObjectsV2"], BTreeMap::from([(200, 1)]));
    }

    #[test]
    fn a_request_is_in_flight_until_its_guard_is_dropped() {
        let metrics = metrics();
        let guard = metrics.in_flight();
        let connection = metrics.connection();
        assert_eq!((metrics.snapshot().in_flight, metrics.snapshot().connections), (1, 1));
        drop((guard, connection));
        assert_eq!((metrics.snapshot().in_flight, metrics.snapshot().connections), (0, 0));
    }
}
