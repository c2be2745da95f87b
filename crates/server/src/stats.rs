//! Statistics of a node, serialized as one JSON document.

use std::collections::BTreeMap;

use serde::Serialize;
use stylobate_columnar::ColumnStats;
use stylobate_storage::{BudgetStats, CacheStats, LatencyCounts, OriginMetrics, ReadStats};

use crate::{BucketRequestStats, ClusterStatus, FlightStats, Node, RequestStats};

/// The statistics of a node.
#[derive(Serialize)]
pub(crate) struct NodeStats {
    version: &'static str,
    /// Fraction of the bytes read that came from memory or disk, 0 to 1.
    hit_ratio: f64,
    bytes: BytesBySource,
    requests: RequestStats,
    flight: FlightStats,
    /// Memory by holder, with the value of each to the budget.
    memory: BudgetStats,
    cache: CacheStats,
    columns: ColumnStats,
    buckets: Vec<BucketStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterStatus>,
}

/// Bytes returned to readers, by source.
#[derive(Default, Serialize)]
struct BytesBySource {
    memory: u64,
    disk: u64,
    /// Set only for a node in a cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<u64>,
    origin: u64,
    passed_through: u64,
}

#[derive(Serialize)]
struct BucketStats {
    name: String,
    origin: String,
    read_only: bool,
    hit_ratio: f64,
    reads: ReadStats,
    origin_requests: OriginStats,
    saved: SavedStats,
}

/// Requests and bytes that the cache and peers saved the origin.
#[derive(Serialize)]
struct SavedStats {
    /// GET and HEAD object requests that the S3 door answered, minus the read requests sent to the origin.
    requests: u64,
    /// Bytes read that came from memory, from disk or from a peer.
    bytes: u64,
}

impl SavedStats {
    fn of(reads: &ReadStats, requests: Option<&BucketRequestStats>) -> Self {
        let operations = requests.iter().flat_map(|requests| &requests.operations);
        let answered = operations.filter(|(name, _)| matches!(**name, "GetObject" | "HeadObject"));
        let answered: u64 = answered.flat_map(|(_, codes)| codes.values()).sum();
        let sent = reads.origin_gets + reads.origin_heads + reads.reads_passed_through;
        Self {
            requests: answered.saturating_sub(sent),
            bytes: reads.bytes_memory + reads.bytes_disk + reads.bytes_peer,
        }
    }
}

/// HTTP requests to an origin.
#[derive(Serialize)]
struct OriginStats {
    /// Number of answered requests, with any status.
    answered: u64,
    /// Median time to the first byte of an answer; estimated from a histogram.
    p50_ms: f64,
    /// 99th percentile of that time.
    p99_ms: f64,
    /// The same figures by kind of request, such as `get`.
    kinds: BTreeMap<&'static str, LatencyStats>,
    /// Failed requests, by HTTP status, or as `timeout` or `connection`.
    errors: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct LatencyStats {
    answered: u64,
    p50_ms: f64,
    p99_ms: f64,
}

impl LatencyStats {
    fn of(counts: &LatencyCounts) -> Self {
        let milliseconds = |quantile| counts.quantile(quantile) * 1_000.0;
        Self { answered: counts.count(), p50_ms: milliseconds(0.5), p99_ms: milliseconds(0.99) }
    }
}

impl OriginStats {
    fn of(metrics: &OriginMetrics) -> Self {
        let mut all = LatencyCounts::default();
        let mut kinds = BTreeMap::new();
        for (kind, counts) in metrics.latencies() {
            kinds.insert(kind.name(), LatencyStats::of(&counts));
            all.add(&counts);
        }
        let LatencyStats { answered, p50_ms, p99_ms } = LatencyStats::of(&all);
        let errors = metrics.failures().into_iter().map(|(failure, count)| (failure.to_string(), count));
        Self { answered, p50_ms, p99_ms, kinds, errors: errors.collect() }
    }
}

/// Collects the current statistics.
pub(crate) fn collect(node: &Node) -> NodeStats {
    let requests = node.metrics().snapshot();
    let buckets: Vec<_> = node
        .buckets()
        .map(|bucket| {
            let reads = bucket.reader.stats();
            let asked = requests.buckets.iter().find(|asked| asked.bucket == bucket.name);
            BucketStats {
                name: bucket.name.clone(),
                origin: bucket.reader.origin().name().to_owned(),
                read_only: bucket.rules().read_only,
                hit_ratio: hit_ratio([&reads]),
                saved: SavedStats::of(&reads, asked),
                reads,
                origin_requests: OriginStats::of(bucket.reader.origin().metrics()),
            }
        })
        .collect();

    let peers = buckets.iter().map(|bucket| bucket.reads.bytes_peer).sum();
    let mut bytes = BytesBySource { peer: node.cluster().map(|_| peers), ..BytesBySource::default() };
    for BucketStats { reads, .. } in &buckets {
        bytes.memory += reads.bytes_memory;
        bytes.disk += reads.bytes_disk;
        bytes.origin += reads.bytes_origin;
        bytes.passed_through += reads.bytes_passed_through;
    }

    NodeStats {
        version: env!("CARGO_PKG_VERSION"),
        hit_ratio: hit_ratio(buckets.iter().map(|bucket| &bucket.reads)),
        bytes,
        requests,
        flight: node.metrics().flight_stats(),
        memory: node.cache().budget_stats(),
        cache: node.cache().stats(),
        columns: node.columns().stats(),
        buckets,
        cluster: node.cluster_status(),
    }
}

/// Returns the fraction of the bytes read that came from memory or disk, from 0 to 1; 0 if nothing was read.
pub(crate) fn hit_ratio<'a>(readers: impl IntoIterator<Item = &'a ReadStats>) -> f64 {
    let (hits, all) = readers.into_iter().fold((0, 0), |(hits, all), stats| {
        let hit = stats.bytes_memory + stats.bytes_disk;
        (hits + hit, all + hit + stats.bytes_peer + stats.bytes_origin + stats.bytes_passed_through)
    });
    if all == 0 { 0.0 } else { hits as f64 / all as f64 }
}
