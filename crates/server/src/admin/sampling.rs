//! Samples the counters of a node every second while its doors are open.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use stylobate_storage::LatencyCounts;
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    Node,
    history::{NodeTotals, SourceCounts},
};

/// Records a sample every second. Never returns.
pub(crate) async fn sample(node: Arc<Node>) {
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        node.history().record(Instant::now(), at.as_millis() as u64, &totals(&node));
        node.buckets().for_each(|bucket| bucket.hot_keys().tick());
    }
}

fn totals(node: &Node) -> NodeTotals {
    let requests = node.metrics().snapshot();
    let flight = node.metrics().flight_stats();
    let cache = node.cache().stats();
    let mut latency = LatencyCounts::default();
    requests.operations.iter().for_each(|operation| latency.add(&operation.latency));

    let mut bytes = SourceCounts::default();
    let mut reads =
        SourceCounts { memory: cache.memory_hits, disk: cache.disk_hits, ..SourceCounts::default() };
    let mut origin_latency = LatencyCounts::default();
    for bucket in node.buckets() {
        let stats = bucket.reader.stats();
        bytes.memory += stats.bytes_memory;
        bytes.disk += stats.bytes_disk;
        bytes.peer += stats.bytes_peer;
        bytes.origin += stats.bytes_origin;
        bytes.passed_through += stats.bytes_passed_through;
        reads.peer += stats.peer_reads;
        reads.origin += stats.origin_gets;
        reads.passed_through += stats.reads_passed_through;
        for (_, counts) in bucket.reader.origin().metrics().latencies() {
            origin_latency.add(&counts);
        }
    }

    NodeTotals {
        requests: requests.requests,
        errors: requests.errors,
        bytes_out: requests.bytes_out,
        latency,
        flight_rows: flight.rows,
        flight_bytes: flight.bytes,
        reads,
        bytes,
        origin_latency,
        in_flight: requests.in_flight,
        memory_used: node.cache().budget_stats().used,
        disk_used: cache.disk_used,
    }
}
