//! The figures of a node that are displayed, as its admin door reports them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The figures of a node at one time.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NodeFigures {
    /// Samples of the last seconds.
    pub(super) samples: Vec<TopSample>,
    pub(super) stats: TopStats,
    /// Running scans and queries.
    pub(super) reads: Vec<TopRead>,
    pub(super) hot: TopHot,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopSample {
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) bytes_out: u64,
    pub(super) flight_bytes: u64,
    pub(super) reads: TopSources,
    pub(super) bytes: TopSources,
    pub(super) latency: Option<TopQuantiles>,
    pub(super) origin_requests: u64,
    pub(super) origin_latency: Option<TopQuantiles>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct TopSources {
    pub(super) memory: u64,
    pub(super) disk: u64,
    pub(super) peer: u64,
    pub(super) origin: u64,
    pub(super) passed_through: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct TopQuantiles {
    pub(super) p50_ms: f64,
    pub(super) p90_ms: f64,
    pub(super) p99_ms: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopStats {
    pub(super) version: String,
    pub(super) hit_ratio: f64,
    pub(super) requests: TopRequests,
    pub(super) memory: TopMemory,
    pub(super) cache: TopCache,
    pub(super) buckets: Vec<TopBucket>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopRequests {
    pub(super) uptime_seconds: u64,
    pub(super) in_flight: u64,
    pub(super) connections: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopMemory {
    pub(super) capacity: u64,
    pub(super) used: u64,
    pub(super) holders: Vec<TopHolder>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopHolder {
    pub(super) holder: String,
    pub(super) bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopCache {
    pub(super) disk_capacity: u64,
    pub(super) disk_used: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopBucket {
    pub(super) name: String,
    pub(super) hit_ratio: f64,
    pub(super) reads: TopBucketReads,
    pub(super) origin_requests: TopOrigin,
    pub(super) saved: TopSaved,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopBucketReads {
    pub(super) bytes_memory: u64,
    pub(super) bytes_disk: u64,
    pub(super) bytes_origin: u64,
    pub(super) bytes_passed_through: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopOrigin {
    pub(super) answered: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) errors: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopSaved {
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopRead {
    pub(super) kind: String,
    pub(super) text: String,
    pub(super) seconds: f64,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) total_rows: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopHot {
    pub(super) objects: Vec<TopHotObject>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TopHotObject {
    pub(super) bucket: String,
    pub(super) key: String,
    pub(super) reads: u64,
    pub(super) bytes: u64,
}

impl NodeFigures {
    pub(super) fn of(documents: &Value) -> serde_json::Result<Self> {
        Self::deserialize(documents)
    }

    /// Returns the mean of a count per second.
    pub(super) fn rate(&self, of: impl Fn(&TopSample) -> u64) -> f64 {
        let seconds: f64 = self.samples.iter().map(|sample| sample.seconds).sum();
        let count: u64 = self.samples.iter().map(of).sum();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// Returns the means of latency quantiles, weighted by requests; `None` if there were no requests.
    pub(super) fn quantiles(
        &self,
        of: impl Fn(&TopSample) -> (Option<TopQuantiles>, u64),
    ) -> Option<TopQuantiles> {
        let mut requests = 0.0;
        let mut sums = TopQuantiles::default();
        for (quantiles, count) in self.samples.iter().map(of) {
            let Some(quantiles) = quantiles else { continue };
            let count = count as f64;
            requests += count;
            sums.p50_ms += quantiles.p50_ms * count;
            sums.p90_ms += quantiles.p90_ms * count;
            sums.p99_ms += quantiles.p99_ms * count;
        }

        (requests > 0.0).then(|| TopQuantiles {
            p50_ms: sums.p50_ms / requests,
            p90_ms: sums.p90_ms / requests,
            p99_ms: sums.p99_ms / requests,
        })
    }
}
