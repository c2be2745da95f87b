//! The measurements of a replay: latency distributions, bytes, and failures by message.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Maximum recorded time, one hour; longer times count as this.
const MAX_US: u64 = 3_600_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// The times of a successful request, measured from its arrival time in the trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestSample {
    /// Until the request was sent.
    pub(super) late: Duration,
    /// Until the first byte of the object.
    pub(super) first_byte: Duration,
    /// Until the last byte of the object.
    pub(super) latency: Duration,
    /// Bytes of the object.
    pub(super) bytes: u64,
}

/// The failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestFailure {
    /// The error message, which is the same for all failures with the same cause.
    pub(super) message: String,
    /// The object's key.
    pub(super) key: String,
}

/// The number of requests that failed with the same message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FailureCount {
    pub(super) count: u64,
    /// The key of the first such request.
    pub(super) first_key: String,
}

/// The statistics of a latency distribution, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct LatencySummary {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl LatencySummary {
    /// Returns the names and values in the order used in all tables.
    pub(super) fn figures(&self) -> [(&'static str, f64); 5] {
        let Self { mean, p50, p90, p99, max } = *self;
        [("mean", mean), ("p50", p50), ("p90", p90), ("p99", p99), ("max", max)]
    }

    /// Returns the ratio of each statistic of `other` to that of `self`.
    pub(super) fn ratio_of(&self, other: &Self) -> Self {
        Self {
            mean: other.mean / self.mean,
            p50: other.p50 / self.p50,
            p90: other.p90 / self.p90,
            p99: other.p99 / self.p99,
            max: other.max / self.max,
        }
    }
}

/// A distribution of times with a precision of three significant digits; mean and maximum are exact.
#[derive(Clone, Debug)]
pub(super) struct LatencyDistribution {
    microseconds: Histogram<u64>,
    total: Duration,
    longest: Duration,
}

impl LatencyDistribution {
    pub(super) fn new() -> Result<Self> {
        let microseconds = Histogram::new_with_bounds(1, MAX_US, SIGNIFICANT_DIGITS)?;
        Ok(Self { microseconds, total: Duration::ZERO, longest: Duration::ZERO })
    }

    pub(super) fn record(&mut self, time: Duration) {
        self.microseconds.saturating_record(u64::try_from(time.as_micros()).unwrap_or(MAX_US));
        self.total += time;
        self.longest = self.longest.max(time);
    }

    /// Returns the statistics; `None` if no time was recorded.
    pub(super) fn summary(&self) -> Option<LatencySummary> {
        let count = self.microseconds.len();
        let max = ms(self.longest);
        // The histogram returns the upper bound of a bucket, which may exceed the exact maximum.
        let quantile = |share| (self.microseconds.value_at_quantile(share) as f64 / 1e3).min(max);

        (count > 0).then(|| LatencySummary {
            mean: ms(self.total) / count as f64,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max,
        })
    }

    /// Returns the distinct times in milliseconds, in ascending order, each with the share of requests that took no
    /// longer.
    pub(super) fn cumulative(&self) -> Vec<(f64, f64)> {
        let count = self.microseconds.len() as f64;
        let mut upto = 0;
        let mut step = |value: u64, here: u64| {
            upto += here;
            (value as f64 / 1e3, upto as f64 / count)
        };
        let recorded = self.microseconds.iter_recorded();
        recorded.map(|point| step(point.value_iterated_to(), point.count_at_value())).collect()
    }
}

/// The measurements at one endpoint.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    /// Number of requests in the trace.
    pub(super) requests: usize,
    /// Number of requests that succeeded.
    pub(super) completed: usize,
    pub(super) failures: BTreeMap<String, FailureCount>,
    /// Bytes of the successful requests.
    pub(super) bytes: u64,
    pub(super) latency: LatencyDistribution,
    pub(super) first_byte: LatencyDistribution,
    /// Maximum delay between the arrival time of a request and its sending: the lag of this machine.
    pub(super) latest: Duration,
    /// Time from the first arrival to the last byte.
    pub(super) elapsed: Duration,
    /// True if the replay was interrupted.
    pub(super) interrupted: bool,
}

impl Measurement {
    /// Creates an empty measurement for a trace with `requests` requests.
    pub(super) fn new(requests: usize) -> Result<Self> {
        Ok(Self {
            requests,
            completed: 0,
            failures: BTreeMap::new(),
            bytes: 0,
            latency: LatencyDistribution::new()?,
            first_byte: LatencyDistribution::new()?,
            latest: Duration::ZERO,
            elapsed: Duration::ZERO,
            interrupted: false,
        })
    }

    /// Records the outcome of a request.
    pub(super) fn record(&mut self, outcome: Result<RequestSample, RequestFailure>) {
        match outcome {
            Ok(sample) => {
                self.completed += 1;
                self.bytes += sample.bytes;
                self.latency.record(sample.latency);
                self.first_byte.record(sample.first_byte);
                self.latest = self.latest.max(sample.late);
            }
            Err(RequestFailure { message, key }) => {
                let first = || FailureCount { count: 0, first_key: key };
                self.failures.entry(message).or_insert_with(first).count += 1;
            }
        }
    }

    /// Returns the number of failed requests.
    pub(super) fn failed(&self) -> u64 {
        self.failures.values().map(|failure| failure.count).sum()
    }
}

/// Converts a time to milliseconds, with microsecond precision.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(times_ms: impl IntoIterator<Item = u64>) -> LatencyDistribution {
        let mut distribution = LatencyDistribution::new().unwrap();
        times_ms.into_iter().for_each(|ms| distribution.record(Duration::from_millis(ms)));
        distribution
    }

    #[test]
    fn percentiles_are_right_to_a_thousandth() {
        let summary = distribution(1..=1000).summary().unwrap();
        let expected = [500.5, 500.0, 900.0, 990.0, 1000.0];
        for ((name, figure), expected) in summary.figures().into_iter().zip(expected) {
            assert!((figure / expected - 1.0).abs() < 1.1e-3, "{name} {figure}");
        }
        assert!((summary.mean - 500.5).abs() < 1e-6, "the mean is exact");
    }

    #[test]
    fn no_percentile_lies_above_the_maximum() {
        let summary = distribution([12_345]).summary().unwrap();
        assert_eq!(summary.figures().map(|(_, figure)| figure), [12_345.0; 5]);
    }

    #[test]
    fn nothing_recorded_has_no_summary() {
        assert_eq!(distribution([]).summary(), None);
        assert_eq!(distribution([]).cumulative(), []);
    }

    #[test]
    fn times_out_of_bounds_count_at_the_bounds() {
        let mut distribution = distribution([7_200_000]);
        distribution.record(Duration::ZERO);
        let summary = distribution.summary().unwrap();
        assert_eq!(summary.max, 7_200_000.0);
        assert_eq!(summary.p50, 0.0);
    }

    #[test]
    fn the_cumulative_share_rises_to_one() {
        let steps = distribution([10, 20, 20, 40]).cumulative();
        let shares: Vec<_> = steps.iter().map(|(_, share)| *share).collect();
        assert_eq!(shares, [0.25, 0.75, 1.0]);
        assert!((steps[1].0 - 20.0).abs() < 0.03);
    }

    #[test]
    fn failures_are_counted_by_message_and_not_in_the_latencies() {
        let mut measurement = Measurement::new(4).unwrap();
        let fail = |message: &str, key: &str| {
            Err(RequestFailure { message: message.to_owned(), key: key.to_owned() })
        };
        let time = Duration::from_millis(5);
        measurement.record(Ok(RequestSample {
            late: Duration::ZERO,
            first_byte: time,
            latency: 2 * time,
            bytes: 9,
        }));

        measurement.record(fail("no such object", "a"));
        measurement.record(fail("timed out", "b"));
        measurement.record(fail("no such object", "c"));
        assert_eq!((measurement.completed, measurement.failed(), measurement.bytes), (1, 3, 9));
        assert_eq!(measurement.failures["no such object"], FailureCount { count: 2, first_key: "a".into() });
        assert_eq!(measurement.latency.summary().unwrap().max, 10.0);
    }

    #[test]
    fn a_ratio_says_how_many_times_as_long_the_other_took() {
        let one = distribution([10]).summary().unwrap();
        let other = distribution([25]).summary().unwrap();
        assert_eq!(one.ratio_of(&other).p50, 2.5);
    }
}
