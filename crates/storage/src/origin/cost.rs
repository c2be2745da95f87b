//! The cost of a request to an origin relative to that of a byte, learned from responses.

use std::time::Duration;

use parking_lot::Mutex;

/// The cost of one more request, expressed in bytes that could be transferred in the same time.
#[derive(Debug, Default)]
pub(crate) struct OriginCost {
    averages: Mutex<CostAverages>,
}

#[derive(Debug, Default)]
struct CostAverages {
    latency: Option<f64>,
    bytes_per_second: Option<f64>,
}

/// Weight of a new sample.
const WEIGHT: f64 = 0.2;
/// Size below which a response says little about the throughput.
const MIN_SAMPLE: u64 = 256 << 10;

/// Divisor of the origin's latency that yields the time to wait for requests for nearby ranges: at most `MAX_WAIT`,
/// and none if below `MIN_WAIT`.
const WAIT_DIVISOR: u32 = 12;
const MIN_WAIT: Duration = Duration::from_millis(1);
const MAX_WAIT: Duration = Duration::from_millis(5);

/// Bounds of the gap between two ranges that one request bridges.
const MIN_GAP: u64 = 64 << 10;
const MAX_GAP: u64 = 1 << 20;
/// The gap for an origin without samples.
const DEFAULT_GAP: u64 = 256 << 10;

impl OriginCost {
    /// Records the time from a request to the first byte of its response.
    pub(crate) fn note_latency(&self, latency: Duration) {
        average(&mut self.averages.lock().latency, latency.as_secs_f64());
    }

    /// Records the transfer time of a response, starting at its first byte.
    pub(crate) fn note_transfer(&self, bytes: u64, took: Duration) {
        if bytes >= MIN_SAMPLE {
            let rate = bytes as f64 / took.as_secs_f64().max(1e-6);
            average(&mut self.averages.lock().bytes_per_second, rate);
        }
    }

    /// Returns the typical time from a request to the first byte of its response; `None` before the first response.
    pub(crate) fn latency(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.averages.lock().latency?).ok()
    }

    /// Returns how long a request may wait for nearby ones; `None` for origins with low latency.
    pub(crate) fn merge_wait(&self) -> Option<Duration> {
        let wait = (self.latency()? / WAIT_DIVISOR).min(MAX_WAIT);
        (wait >= MIN_WAIT).then_some(wait)
    }

    /// Returns the largest gap between two ranges that is cheaper to fetch than a second request: half of the bytes
    /// that arrive during the latency of a request, since several requests are usually in flight.
    pub(crate) fn max_gap(&self) -> u64 {
        let averages = self.averages.lock();
        match (averages.latency, averages.bytes_per_second) {
            (Some(latency), Some(rate)) => ((latency * rate / 2.0) as u64).clamp(MIN_GAP, MAX_GAP),
            _ => DEFAULT_GAP,
        }
    }
}

fn average(average: &mut Option<f64>, sample: f64) {
    let before = average.unwrap_or(sample);
    *average = Some(before + (sample - before) * WEIGHT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_origins_bridge_larger_gaps_than_near_ones() {
        let gap = |latency_ms, megabytes_per_second: u64| {
            let cost = OriginCost::default();
            cost.note_latency(Duration::from_millis(latency_ms));
            cost.note_transfer(megabytes_per_second << 20, Duration::from_secs(1));
            cost.max_gap()
        };
        assert_eq!(OriginCost::default().max_gap(), DEFAULT_GAP);
        assert_eq!(gap(0, 1000), MIN_GAP);
        assert_eq!(gap(100, 1000), MAX_GAP);
        assert!(gap(10, 50) > MIN_GAP && gap(10, 50) < MAX_GAP);
    }

    #[test]
    fn requests_to_far_origins_wait_a_moment_for_near_ones() {
        let wait = |latency_ms| {
            let cost = OriginCost::default();
            cost.note_latency(Duration::from_millis(latency_ms));
            cost.merge_wait()
        };
        assert_eq!(OriginCost::default().merge_wait(), None);
        assert_eq!(wait(5), None);
        assert!(wait(30).is_some_and(|wait| wait >= MIN_WAIT && wait < MAX_WAIT));
        assert_eq!(wait(1000), Some(MAX_WAIT));
    }

    #[test]
    fn small_answers_do_not_count_as_transfers() {
        let cost = OriginCost::default();
        cost.note_latency(Duration::from_millis(1));
        cost.note_transfer(100, Duration::from_secs(1));
        assert_eq!(cost.max_gap(), DEFAULT_GAP);
    }
}
