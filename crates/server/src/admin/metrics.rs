//! All counters of a node in the text formats of Prometheus and OpenMetrics, read at scrape time.

mod process;

use std::{collections::BTreeMap, fmt};

use http::{HeaderMap, header::ACCEPT};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};
use stylobate_columnar::ColumnStats;
use stylobate_storage::{
    BudgetStats, CacheStats, Holder, LatencyCounts, OriginFailure, ReadStats, RequestKind,
};

use crate::{Bucket, ClusterStatus, FlightStats, Node, RequestStats, stats::hit_ratio};

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsFormat {
    /// Prometheus text format, version 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// Returns the best format that a client accepts.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if accepted.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Text }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Renders a node's counters as text. `failing` names the buckets whose origins did not answer the last probe.
pub(super) fn scrape(node: &Node, failing: &[String], format: MetricsFormat) -> Result<String, fmt::Error> {
    let counted = MetricsSnapshot {
        degraded: node
            .buckets()
            .map(|bucket| {
                let throttles = bucket.reader.origin().metrics().is_throttling();
                (format!("bucket {}", bucket.name), throttles || failing.contains(&bucket.name))
            })
            .chain([("disk tier".to_owned(), node.cache().stats().disk_paused > 0)])
            .collect(),
        requests: node.metrics().snapshot(),
        flight: node.metrics().flight_stats(),
        memory: node.cache().budget_stats(),
        cache: node.cache().stats(),
        columns: node.columns().stats(),
        buckets: node.buckets().map(|bucket| (bucket.name.clone(), bucket.reader.stats())).collect(),
        origins: node.buckets().map(OriginCounts::of).collect(),
        cluster: node.cluster_status(),
    };

    let mut registry = Registry::default();
    registry.sub_registry_with_prefix("stylobate").register_collector(Box::new(counted));
    registry.register_collector(Box::new(process::ProcessCollector));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(match format {
        MetricsFormat::OpenMetrics => text,
        MetricsFormat::Text => to_prometheus(&text),
    })
}

/// Converts OpenMetrics to Prometheus' older format, whose metadata names a counter as its samples do.
fn to_prometheus(text: &str) -> String {
    let is_counter = |name: &str| text.contains(&format!("# TYPE {name} counter\n"));
    let mut lines = String::with_capacity(text.len());
    for line in text.lines().filter(|line| *line != "# EOF") {
        let described =
            ["# HELP ", "# TYPE "].into_iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?)));
        match described.and_then(|(kind, rest)| Some((kind, rest.split_once(' ')?))) {
            Some((kind, (name, rest))) if is_counter(name) => {
                lines.push_str(&format!("{kind}{name}_total {rest}\n"));
            }
            _ => {
                lines.push_str(line);
                lines.push('\n');
            }
        }
    }

    lines
}

/// Counters at one moment.
#[derive(Debug)]
struct MetricsSnapshot {
    requests: RequestStats,
    flight: FlightStats,
    memory: BudgetStats,
    cache: CacheStats,
    columns: ColumnStats,
    buckets: Vec<(String, ReadStats)>,
    origins: Vec<OriginCounts>,
    cluster: Option<ClusterStatus>,
    /// Parts of the node, each with true if it is degraded.
    degraded: Vec<(String, bool)>,
}

/// Requests to one bucket's origin.
#[derive(Debug)]
struct OriginCounts {
    bucket: String,
    latencies: Vec<(RequestKind, LatencyCounts)>,
    failures: BTreeMap<OriginFailure, u64>,
}

impl OriginCounts {
    fn of(bucket: &Bucket) -> Self {
        let metrics = bucket.reader.origin().metrics();
        Self { bucket: bucket.name.clone(), latencies: metrics.latencies(), failures: metrics.failures() }
    }
}

type MetricEncoder<'a> = DescriptorEncoder<'a>;
type ReadCount = fn(&ReadStats) -> u64;

impl Collector for MetricsSnapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.doors(&mut encoder)?;
        self.reads(&mut encoder)?;
        self.origins(&mut encoder)?;
        self.cache(&mut encoder)?;
        self.flight(&mut encoder)?;
        self.columns(&mut encoder)?;
        match &self.cluster {
            Some(cluster) => {
                self.peers(&mut encoder)?;
                nodes(cluster, &mut encoder)
            }
            None => Ok(()),
        }
    }
}

impl MetricsSnapshot {
    fn doors(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        gauge(encoder, "build_info", "The version that runs; always 1", [(version, 1.0)])?;
        let degraded = self
            .degraded
            .iter()
            .map(|(part, is_degraded)| ([("part", part.as_str())], if *is_degraded { 1.0 } else { 0.0 }));

        gauge(encoder, "degraded", "1 for a part that does less than it should", degraded)?;
        let uptime = self.requests.uptime_seconds as f64;
        lone_gauge(encoder, "uptime_seconds", "Seconds since the node started", uptime)?;

        let by_code = self.requests.buckets.iter().flat_map(|of| {
            let codes = of.operations.iter().flat_map(|(operation, codes)| {
                codes.iter().map(move |(code, count)| (*operation, *code, *count))
            });
            codes.map(|(operation, code, count)| {
                let code = code.to_string();
                let labels =
                    [("bucket", of.bucket.clone()), ("operation", operation.to_owned()), ("code", code)];
                (labels, count)
            })
        });

        let help = "Requests answered, by bucket, operation and HTTP status";
        counter(encoder, "requests", help, by_code)?;
        let bytes = self.requests.operations.iter().map(|op| ([("operation", op.operation)], op.bytes_out));
        counter(encoder, "response_bytes", "Bytes of bodies sent, by operation", bytes)?;
        let in_flight = self.requests.in_flight as f64;
        lone_gauge(encoder, "requests_in_flight", "Requests being answered now", in_flight)?;
        let connections = self.requests.connections as f64;
        lone_gauge(encoder, "connections", "Connections open now", connections)?;

        let help = "Seconds until an answer was ready, by operation";
        let by_operation = self.requests.operations.iter();
        let by_operation = by_operation.map(|of| ([("operation", of.operation)], &of.latency));
        histogram(encoder, "request_seconds", help, by_operation)
    }

    fn reads(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let by_source = self.buckets.iter().flat_map(|(bucket, stats)| {
            let sources = [
                ("memory", stats.bytes_memory),
                ("disk", stats.bytes_disk),
                ("origin", stats.bytes_origin),
                ("passed_through", stats.bytes_passed_through),
            ];
            let peer = self.cluster.as_ref().map(|_| ("peer", stats.bytes_peer));
            sources
                .into_iter()
                .chain(peer)
                .map(|(source, bytes)| ([("bucket", bucket.as_str()), ("source", source)], bytes))
        });

        counter(encoder, "read_bytes", "Bytes handed to readers, by where they came from", by_source)?;
        let ratios = self.buckets.iter().map(|(bucket, stats)| (bucket_label(bucket), hit_ratio([stats])));
        gauge(encoder, "hit_ratio", "Part of the bytes read that came from memory or disk, 0 to 1", ratios)?;
        let by_method = self.buckets.iter().flat_map(|(bucket, stats)| {
            let methods = [("get", stats.origin_gets), ("head", stats.origin_heads)];
            methods.map(|(method, count)| ([("bucket", bucket.as_str()), ("method", method)], count))
        });

        counter(encoder, "origin_requests", "Requests sent to origins, by kind", by_method)?;

        let by_bucket: [(_, _, ReadCount); 6] = [
            ("fetches_merged", "Readers that joined a fetch under way instead of sending their own", |s| {
                s.waits_merged
            }),
            ("pages_fetched", "Pages fetched from origins", |s| s.pages_fetched),
            ("pages_prefetched", "Pages fetched ahead of a sequential reader", |s| s.prefetched_pages),
            ("origin_retries", "Requests to origins that were sent again", |s| s.retries),
            ("origin_hedges", "Second requests sent since the first was slow", |s| s.hedges),
            ("objects_changed", "Reads that failed since the object was replaced meanwhile", |s| s.changed),
        ];

        for (name, help, value) in by_bucket {
            let samples = self.buckets.iter().map(|(bucket, stats)| (bucket_label(bucket), value(stats)));
            counter(encoder, name, help, samples)?;
        }
        let in_flight =
            self.buckets.iter().map(|(bucket, stats)| (bucket_label(bucket), stats.in_flight as f64));
        gauge(encoder, "fetches_in_flight", "Fetches from origins under way", in_flight)
    }

    fn peers(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let by_role = self.buckets.iter().flat_map(|(bucket, stats)| {
            let homes = stats.peer_reads.saturating_sub(stats.deputy_reads + stats.donor_reads);
            let roles = [("home", homes), ("deputy", stats.deputy_reads), ("donor", stats.donor_reads)];
            roles.map(|(role, count)| ([("bucket", bucket.as_str()), ("role", role)], count))
        });
        counter(encoder, "peer_reads", "Requests for bytes sent to other nodes, by their role", by_role)?;

        let by_bucket: [(_, _, ReadCount); 2] = [
            ("peer_lookups", "Questions to other nodes for the version of an object", |s| s.peer_lookups),
            ("peer_sent_bytes", "Bytes sent to other nodes that asked for them", |s| s.bytes_to_peers),
        ];
        for (name, help, value) in by_bucket {
            let samples = self.buckets.iter().map(|(bucket, stats)| (bucket_label(bucket), value(stats)));
            counter(encoder, name, help, samples)?;
        }
        Ok(())
    }

    fn origins(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let by_kind = self.origins.iter().flat_map(|OriginCounts { bucket, latencies, .. }| {
            let kinds = latencies.iter();
            kinds.map(|(kind, counts)| ([("bucket", bucket.as_str()), ("kind", kind.name())], counts))
        });
        let help = "Seconds from a request to an origin until the head of its answer, by bucket and kind";
        histogram(encoder, "origin_request_seconds", help, by_kind)?;

        let by_status = self.origins.iter().flat_map(|OriginCounts { bucket, failures, .. }| {
            let labels = |status: String| [("bucket", bucket.clone()), ("status", status)];
            failures.iter().map(move |(failure, count)| (labels(failure.to_string()), *count))
        });
        let help = "Requests to origins that failed, by bucket and HTTP status, or timeout or connection";
        counter(encoder, "origin_errors", help, by_status)
    }

    fn cache(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let cache = &self.cache;
        let lookups = [("memory", cache.memory_hits), ("disk", cache.disk_hits), ("none", cache.misses)];
        let lookups = lookups.map(|(tier, count)| ([("tier", tier)], count));
        counter(encoder, "cache_lookups", "Pages looked up, by the tier that had them", lookups)?;
        for (name, help, value) in [
            ("cache_inserts", "Pages stored", cache.inserts),
            ("cache_evictions", "Pages that left memory to make room", cache.evictions),
            (
                "cache_disk_rejected",
                "Pages found on disk and not used: overwritten or damaged",
                cache.disk_rejected,
            ),
            ("cache_disk_rewritten_bytes", "Bytes moved on disk to reclaim space", cache.disk_rewritten),
            ("cache_disk_written_bytes", "Bytes written to the disk tier", cache.disk_written),
            ("cache_disk_read_bytes", "Bytes read from the disk tier", cache.disk_read),
        ] {
            lone_counter(encoder, name, help, value)?;
        }

        let dropped = [("queue_full", cache.dropped_queue_full), ("disk_failed", cache.dropped_disk_failed)];
        let dropped = dropped.map(|(reason, count)| ([("reason", reason)], count));
        counter(encoder, "cache_dropped_inserts", "Pieces of pages that did not reach the disk", dropped)?;
        for (name, help, value) in [
            ("cache_memory_used_bytes", "Bytes of pages in memory", cache.memory_used),
            (
                "cache_memory_capacity_bytes",
                "Memory that pages share with everything else",
                cache.memory_capacity,
            ),
            ("cache_memory_pages", "Pages in memory", cache.memory_pages),
            ("cache_in_flight_bytes", "Bytes that fetches under way will bring", cache.in_flight_used),
            ("cache_ahead_bytes", "Bytes held ahead of readers until these reach them", cache.ahead_used),
            ("cache_disk_used_bytes", "Bytes of pages on disk", cache.disk_used),
            ("cache_disk_capacity_bytes", "Bytes that the disk tier may take", cache.disk_capacity),
        ] {
            lone_gauge(encoder, name, help, value as f64)?;
        }

        let held =
            self.memory.holders.iter().map(|held| ([("holder", holder(held.holder))], held.bytes as f64));
        gauge(encoder, "memory_held_bytes", "Memory held, by what it is used for", held)
    }
}

/// Returns the metric label of a memory holder.
fn holder(holder: Holder) -> &'static str {
    match holder {
        Holder::Pages => "pages",
        Holder::Chunks => "chunks",
        Holder::Metadata => "metadata",
        Holder::Decodes => "decodes",
        Holder::Uploads => "uploads",
        Holder::Other => "other",
    }
}

impl MetricsSnapshot {
    fn flight(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let flight = &self.flight;
        let by_code = flight.methods.iter().flat_map(|(method, codes)| {
            codes.iter().map(move |(code, count)| ([("method", *method), ("code", *code)], *count))
        });
        counter(encoder, "flight_calls", "Calls of the Flight door, by method and gRPC status", by_code)?;
        lone_counter(encoder, "flight_rows", "Rows sent by the Flight door", flight.rows)?;
        lone_counter(encoder, "flight_bytes", "Bytes of batches sent by the Flight door", flight.bytes)?;
        let help = "Streams of batches that the Flight door is sending now";
        lone_gauge(encoder, "flight_active_streams", help, flight.active_streams as f64)
    }

    fn columns(&self, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        let columns = &self.columns;
        let lookups = [("memory", columns.hits), ("none", columns.misses)];
        let lookups = lookups.map(|(tier, count)| ([("tier", tier)], count));
        counter(
            encoder,
            "column_lookups",
            "Decoded chunks and footers looked up, by what had them",
            lookups,
        )?;

        for (name, help, value) in [
            ("column_decoded_chunks", "Chunks of columns that were decoded", columns.decoded_chunks),
            ("column_parsed_files", "Footers that were parsed", columns.parsed_files),
            (
                "column_streamed_units",
                "Row groups and stripes read past the cache for want of memory",
                columns.streamed_row_groups,
            ),
        ] {
            lone_counter(encoder, name, help, value)?;
        }

        for (name, help, value) in [
            ("column_entries", "Decoded chunks and footers in memory", columns.entries),
            ("column_bytes", "Bytes of decoded chunks and footers in memory", columns.bytes),
            ("column_capacity_bytes", "Bytes that decoded chunks and footers may take", columns.capacity),
            ("column_working_bytes", "Bytes that decodes under way hold", columns.working_bytes),
        ] {
            lone_gauge(encoder, name, help, value as f64)?;
        }

        Ok(())
    }
}

/// Encodes the nodes of a cluster.
fn nodes(cluster: &ClusterStatus, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
    let digest = [("digest", cluster.digest.as_str())];
    let help = "The view of the cluster, by a digest that is the same on nodes that place alike; always 1";
    gauge(encoder, "cluster_view_info", help, [(digest, 1.0)])?;

    let by_state = ["up", "draining", "down", "unknown"].map(|state| {
        let count = cluster.nodes.iter().filter(|node| node.state == state).count();
        ([("state", state)], count as f64)
    });
    gauge(encoder, "cluster_nodes", "Nodes of the cluster, this one included, by state", by_state)?;

    let named = || cluster.nodes.iter().filter_map(|node| Some((node, [("node", node.id.as_deref()?)])));
    let answers = named().map(|(node, label)| (label, if node.answers { 1.0 } else { 0.0 }));
    gauge(encoder, "cluster_node_up", "1 for a node that answered the last probe of this one", answers)?;
    let shares = named().map(|(node, label)| (label, node.share));
    gauge(encoder, "cluster_node_share", "Share of the keys whose home a node is, 0 to 1", shares)
}

fn bucket_label(bucket: &str) -> [(&'static str, &str); 1] {
    [("bucket", bucket)]
}

fn counter<L: EncodeLabelSet>(
    encoder: &mut MetricEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in samples {
        family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
    }
    Ok(())
}

fn lone_counter(encoder: &mut MetricEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn lone_float_counter(encoder: &mut MetricEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
}

fn histogram<'a, L: EncodeLabelSet>(
    encoder: &mut MetricEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (L, &'a LatencyCounts)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    for (labels, counts) in samples {
        let mut histogram = family.encode_family(&labels)?;
        let sum = counts.sum_seconds();
        histogram.encode_histogram::<NoLabelSet>(sum, counts.count(), &counts.buckets(), None)?;
    }
    Ok(())
}

fn gauge<L: EncodeLabelSet>(
    encoder: &mut MetricEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (L, f64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        family.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn lone_gauge(encoder: &mut MetricEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_described_under_the_name_of_its_samples() {
        let text = "# HELP a_b What.\n# TYPE a_b counter\na_b_total{x=\"1\"} 2\n# HELP g Now.\n# TYPE g gauge\ng 1\n# EOF\n";
        let expected = "# HELP a_b_total What.\n# TYPE a_b_total counter\na_b_total{x=\"1\"} 2\n# HELP g Now.\n# TYPE g gauge\ng 1\n";
        assert_eq!(to_prometheus(text), expected);
    }
}
