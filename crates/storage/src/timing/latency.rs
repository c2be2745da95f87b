//! A lock-free histogram of latencies.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the buckets, in seconds; a last bucket counts slower times.
const BOUNDS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Histogram of times from 0.1 ms to 10 s. Adding a time costs two atomic additions.
#[derive(Debug, Default)]
pub struct LatencyHistogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

impl LatencyHistogram {
    /// Adds a time in seconds.
    pub fn observe(&self, seconds: f64) {
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add((seconds * 1e9) as u64, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub fn snapshot(&self) -> LatencyCounts {
        LatencyCounts {
            counts: std::array::from_fn(|n| {
                self.buckets.get(n).map_or(0, |bucket| bucket.load(Ordering::Relaxed))
            }),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
        }
    }
}

/// The counts of a [`LatencyHistogram`] at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyCounts {
    counts: [u64; BOUNDS.len() + 1],
    sum_ns: u64,
}

impl LatencyCounts {
    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_ns += other.sum_ns;
    }

    /// Returns the times that were added after `before` was taken from the same histogram.
    pub fn since(&self, before: &Self) -> Self {
        let counts = self.counts.iter().zip(before.counts);
        let mut counts = counts.map(|(count, before)| count.saturating_sub(before));
        Self {
            counts: std::array::from_fn(|_| counts.next().unwrap_or_default()),
            sum_ns: self.sum_ns.saturating_sub(before.sum_ns),
        }
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all times in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Returns the upper bound in seconds and the count of each bucket; the last bound is infinite.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        BOUNDS.iter().copied().chain([f64::INFINITY]).zip(self.counts).collect()
    }

    /// Returns the given quantile of all times in seconds: exact to the bucket, interpolated linearly within it. 0 if
    /// nothing was observed.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let wanted = quantile * self.count() as f64;
        let mut lower = 0.0;
        let mut before = 0.0;
        for (upper, count) in self.buckets() {
            let count = count as f64;
            if count > 0.0 && before + count >= wanted {
                let [.., slowest] = BOUNDS;
                return lower + (upper.min(slowest) - lower) * ((wanted - before) / count).clamp(0.0, 1.0);
            }
            before += count;
            lower = upper;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_falls_into_the_first_bucket_that_holds_it() {
        let latency = LatencyHistogram::default();
        for seconds in [0.0, 0.0001, 0.00011, 3.0, 99.0] {
            latency.observe(seconds);
        }
        let counts = latency.snapshot();
        let buckets = counts.buckets();
        assert_eq!(&buckets[..2], [(0.0001, 2), (0.00025, 1)]);
        assert_eq!(buckets[14], (5.0, 1));
        assert_eq!(buckets[16], (f64::INFINITY, 1));
        assert!((counts.sum_seconds() - 102.00021).abs() < 1e-6);
    }

    #[test]
    fn a_quantile_lies_within_the_bucket_of_its_time() {
        let latency = LatencyHistogram::default();
        assert_eq!(latency.snapshot().quantile(0.5), 0.0);
        (0..98).for_each(|_| latency.observe(0.002));
        (0..2).for_each(|_| latency.observe(0.2));
        assert!((0.001..=0.0025).contains(&latency.snapshot().quantile(0.5)));
        assert!((0.1..=0.25).contains(&latency.snapshot().quantile(0.99)));
        latency.observe(1_000.0);
        assert_eq!(latency.snapshot().quantile(1.0), 10.0);
    }

    #[test]
    fn times_that_were_added_later_are_told_apart() {
        let latency = LatencyHistogram::default();
        latency.observe(2.0);
        let before = latency.snapshot();
        (0..3).for_each(|_| latency.observe(0.001));
        let later = latency.snapshot().since(&before);
        assert_eq!(later.count(), 3);
        assert!((later.sum_seconds() - 0.003).abs() < 1e-9 && later.quantile(1.0) <= 0.001);
        assert_eq!(before.since(&latency.snapshot()).count(), 0);
    }

    #[test]
    fn histograms_add_up() {
        let one = LatencyHistogram::default();
        let other = LatencyHistogram::default();
        one.observe(0.001);
        other.observe(2.0);
        let mut counts = one.snapshot();
        counts.add(&other.snapshot());
        assert_eq!((counts.count(), counts.sum_seconds()), (2, 2.001));
    }
}
