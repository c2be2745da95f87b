//! A histogram of times that is written without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the buckets, in seconds; a last bucket takes what is slower.
const BOUNDS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Times in buckets.
#[derive(Debug, Default)]
pub(super) struct Latency {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
}

impl Latency {
    /// Adds a time.
    pub(super) fn observe(&self, seconds: f64) {
        let bucket = BOUNDS.partition_point(|bound| *bound < seconds);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add((seconds * 1e9) as u64, Ordering::Relaxed);
    }

    /// Sum of all times in seconds.
    pub(super) fn sum(&self) -> f64 {
        self.sum_ns.load(Ordering::Relaxed) as f64 / 1e9
    }

    /// Upper bound and number of times of each bucket; the last bound is infinite.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed))).collect()
    }

    /// The time within which this part of all were, in seconds: exact to the bucket, and a straight line within
    /// it. 0 if nothing was observed.
    pub(super) fn quantile(&self, quantile: f64) -> f64 {
        let buckets = self.buckets();
        let total: u64 = buckets.iter().map(|(_, count)| count).sum();
        let wanted = quantile * total as f64;
        let (mut lower, mut before) = (0.0, 0.0);
        for (upper, count) in buckets {
            let count = count as f64;
            if count > 0.0 && before + count >= wanted {
                let slowest = BOUNDS[BOUNDS.len() - 1];
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
        let latency = Latency::default();
        for seconds in [0.0, 0.0001, 0.00011, 3.0, 99.0] {
            latency.observe(seconds);
        }
        let buckets = latency.buckets();
        assert_eq!(&buckets[..2], [(0.0001, 2), (0.00025, 1)]);
        assert_eq!(buckets[14], (5.0, 1));
        assert_eq!(buckets[16], (f64::INFINITY, 1));
        assert!((latency.sum() - 102.00021).abs() < 1e-6);
    }

    #[test]
    fn a_quantile_lies_within_the_bucket_of_its_time() {
        let latency = Latency::default();
        assert_eq!(latency.quantile(0.5), 0.0);
        (0..98).for_each(|_| latency.observe(0.002));
        (0..2).for_each(|_| latency.observe(0.2));
        assert!((0.001..=0.0025).contains(&latency.quantile(0.5)));
        assert!((0.1..=0.25).contains(&latency.quantile(0.99)));
        latency.observe(1_000.0);
        assert_eq!(latency.quantile(1.0), 10.0);
    }
}
