//! Recent history of the node: samples of its counters, one per second for ten minutes and one per minute for a day.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use stylobate_storage::LatencyCounts;

/// Tolerance for a timer that fires early.
const TIMER_TOLERANCE: Duration = Duration::from_millis(100);

/// Interval of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum SampleInterval {
    #[serde(rename = "1s")]
    Second,
    #[serde(rename = "1m")]
    Minute,
}

impl SampleInterval {
    fn duration(self) -> Duration {
        match self {
            Self::Second => Duration::from_secs(1),
            Self::Minute => Duration::from_secs(60),
        }
    }

    /// Returns the number of samples that are kept.
    fn capacity(self) -> usize {
        match self {
            Self::Second => 600,
            Self::Minute => 1_440,
        }
    }
}

/// Counts by the source of the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SourceCounts {
    pub(crate) memory: u64,
    pub(crate) disk: u64,
    pub(crate) peer: u64,
    pub(crate) origin: u64,
    pub(crate) passed_through: u64,
}

impl SourceCounts {
    fn since(&self, before: &Self) -> Self {
        Self {
            memory: self.memory.saturating_sub(before.memory),
            disk: self.disk.saturating_sub(before.disk),
            peer: self.peer.saturating_sub(before.peer),
            origin: self.origin.saturating_sub(before.origin),
            passed_through: self.passed_through.saturating_sub(before.passed_through),
        }
    }
}

/// Cumulative counters since the node started, and current gauges.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTotals {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) bytes_out: u64,
    pub(crate) latency: LatencyCounts,
    pub(crate) flight_rows: u64,
    pub(crate) flight_bytes: u64,
    pub(crate) reads: SourceCounts,
    pub(crate) bytes: SourceCounts,
    pub(crate) origin_latency: LatencyCounts,
    pub(crate) in_flight: u64,
    pub(crate) memory_used: u64,
    pub(crate) disk_used: u64,
}

/// A sample of one interval. Counts are totals over the interval, not rates per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct HistorySample {
    /// End of the interval, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Length of the interval.
    pub(crate) seconds: f64,
    /// Requests answered by the S3 door.
    pub(crate) requests: u64,
    /// Requests answered with a status of 500 or more.
    pub(crate) errors: u64,
    /// Bytes of the bodies sent by the S3 door.
    pub(crate) bytes_out: u64,
    /// Rows sent by the Flight door.
    pub(crate) flight_rows: u64,
    /// Bytes sent by the Flight door.
    pub(crate) flight_bytes: u64,
    /// Reads by source: pieces from memory and disk, and requests to peers, to origins and past the cache.
    pub(crate) reads: SourceCounts,
    /// Bytes delivered to readers, by source.
    pub(crate) bytes: SourceCounts,
    /// Time until an answer of the S3 door was ready; `None` if there were no requests.
    pub(crate) latency: Option<LatencyQuantiles>,
    /// Requests answered by origins.
    pub(crate) origin_requests: u64,
    /// Time to the first byte of an origin's answer; `None` if there were no requests.
    pub(crate) origin_latency: Option<LatencyQuantiles>,
    /// Requests of the S3 door in flight at the end of the interval.
    pub(crate) in_flight: u64,
    /// Bytes of the memory budget in use at the end of the interval.
    pub(crate) memory_used: u64,
    /// Bytes of live pages on disk at the end of the interval.
    pub(crate) disk_used: u64,
}

/// Percentiles in milliseconds, estimated from a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct LatencyQuantiles {
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
}

impl LatencyQuantiles {
    fn of(counts: &LatencyCounts) -> Option<Self> {
        let milliseconds = |quantile| counts.quantile(quantile) * 1_000.0;
        (counts.count() > 0).then(|| Self {
            p50_ms: milliseconds(0.5),
            p90_ms: milliseconds(0.9),
            p99_ms: milliseconds(0.99),
        })
    }
}

/// The samples of a node, bounded in number.
#[derive(Debug)]
pub(crate) struct History {
    rings: Mutex<[SampleRing; 2]>,
}

impl Default for History {
    fn default() -> Self {
        let rings = [SampleInterval::Second, SampleInterval::Minute].map(SampleRing::new);
        Self { rings: Mutex::new(rings) }
    }
}

/// The latest samples of one interval.
#[derive(Debug)]
struct SampleRing {
    interval: SampleInterval,
    last: Option<(Instant, NodeTotals)>,
    samples: VecDeque<HistorySample>,
}

/// Samples of one interval, as `GET /api/history` returns them.
#[derive(Debug, Serialize)]
pub(crate) struct HistoryReport {
    /// Interval between samples, in milliseconds.
    pub(crate) every_ms: u64,
    /// Number of samples that the node keeps.
    pub(crate) capacity: usize,
    /// The samples, oldest first.
    pub(crate) samples: Vec<HistorySample>,
}

impl History {
    /// Records the totals at `now`, which is `at_ms` milliseconds after 1970. Called about once per second.
    pub(crate) fn record(&self, now: Instant, at_ms: u64, totals: &NodeTotals) {
        for ring in &mut *self.rings.lock() {
            ring.record(now, at_ms, totals);
        }
    }

    /// Returns the samples whose intervals ended after `since_ms`.
    pub(crate) fn report(&self, interval: SampleInterval, since_ms: u64) -> HistoryReport {
        let rings = self.rings.lock();
        let samples = rings.iter().filter(|ring| ring.interval == interval).flat_map(|ring| &ring.samples);
        HistoryReport {
            every_ms: interval.duration().as_millis() as u64,
            capacity: interval.capacity(),
            samples: samples.filter(|sample| sample.at_ms > since_ms).cloned().collect(),
        }
    }
}

impl SampleRing {
    fn new(interval: SampleInterval) -> Self {
        Self { interval, last: None, samples: VecDeque::new() }
    }

    fn record(&mut self, now: Instant, at_ms: u64, totals: &NodeTotals) {
        let Some((then, before)) = &self.last else {
            self.last = Some((now, totals.clone()));
            return;
        };
        let passed = now.saturating_duration_since(*then);
        if passed + TIMER_TOLERANCE < self.interval.duration() {
            return;
        }

        let sample = sample(before, totals, at_ms, passed);
        if self.samples.len() == self.interval.capacity() {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.last = Some((now, totals.clone()));
    }
}

fn sample(before: &NodeTotals, after: &NodeTotals, at_ms: u64, passed: Duration) -> HistorySample {
    let latency = after.latency.since(&before.latency);
    let origin_latency = after.origin_latency.since(&before.origin_latency);
    HistorySample {
        at_ms,
        seconds: passed.as_secs_f64(),
        requests: after.requests.saturating_sub(before.requests),
        errors: after.errors.saturating_sub(before.errors),
        bytes_out: after.bytes_out.saturating_sub(before.bytes_out),
        flight_rows: after.flight_rows.saturating_sub(before.flight_rows),
        flight_bytes: after.flight_bytes.saturating_sub(before.flight_bytes),
        reads: after.reads.since(&before.reads),
        bytes: after.bytes.since(&before.bytes),
        latency: LatencyQuantiles::of(&latency),
        origin_requests: origin_latency.count(),
        origin_latency: LatencyQuantiles::of(&origin_latency),
        in_flight: after.in_flight,
        memory_used: after.memory_used,
        disk_used: after.disk_used,
    }
}

#[cfg(test)]
mod tests {
    use stylobate_storage::LatencyHistogram;

    use super::*;

    fn requests(requests: u64) -> NodeTotals {
        NodeTotals { requests, memory_used: 7, ..NodeTotals::default() }
    }

    #[test]
    fn a_sample_has_what_was_added_in_its_interval() {
        let history = History::default();
        let start = Instant::now();
        let latency = LatencyHistogram::default();
        latency.observe(5.0);
        let mut totals = NodeTotals { latency: latency.snapshot(), ..requests(10) };
        history.record(start, 1_000, &totals);
        assert!(history.report(SampleInterval::Second, 0).samples.is_empty(), "nothing to compare with");

        latency.observe(0.002);
        totals = NodeTotals { latency: latency.snapshot(), ..requests(15) };
        totals.bytes.disk = 3;
        history.record(start + Duration::from_secs(2), 3_000, &totals);
        let [sample] = &history.report(SampleInterval::Second, 0).samples[..] else { panic!() };
        assert_eq!((sample.at_ms, sample.seconds, sample.requests), (3_000, 2.0, 5));
        assert_eq!((sample.bytes.disk, sample.memory_used), (3, 7));
        let quantiles = sample.latency.unwrap();
        assert!(quantiles.p99_ms <= 2.5, "the slow request was before: {quantiles:?}");
        assert_eq!(sample.origin_latency, None);
    }

    #[test]
    fn the_number_of_samples_is_bounded() {
        let history = History::default();
        let start = Instant::now();
        for second in 0..=90_000 {
            history.record(start + Duration::from_secs(second), second * 1_000, &requests(second));
        }

        let seconds = history.report(SampleInterval::Second, 0).samples;
        assert_eq!((seconds.len(), seconds[0].at_ms, seconds[599].at_ms), (600, 89_401_000, 90_000_000));
        let minutes = history.report(SampleInterval::Minute, 0);
        assert_eq!((minutes.every_ms, minutes.capacity, minutes.samples.len()), (60_000, 1_440, 1_440));
        assert!(minutes.samples.iter().all(|sample| sample.requests == 60));
    }

    #[test]
    fn only_samples_after_a_moment_are_returned() {
        let history = History::default();
        let start = Instant::now();
        for second in 0..10 {
            history.record(start + Duration::from_secs(second), second * 1_000, &requests(second));
        }
        let at: Vec<_> =
            history.report(SampleInterval::Second, 7_000).samples.iter().map(|it| it.at_ms).collect();
        assert_eq!(at, [8_000, 9_000]);
    }

    #[test]
    fn a_timer_that_is_early_skips_no_sample_and_one_that_is_twice_as_fast_adds_none() {
        let history = History::default();
        let start = Instant::now();
        for step in 0..=20 {
            history.record(start + Duration::from_millis(490 * step), 490 * step, &requests(step));
        }
        let samples = history.report(SampleInterval::Second, 0).samples;
        assert_eq!(samples.len(), 10);
        assert_eq!(samples.iter().map(|sample| sample.requests).sum::<u64>(), 20);
    }
}
