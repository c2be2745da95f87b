//! Counts the requests to one bucket, by operation and HTTP status.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::RwLock;
use stylobate_storage::{LatencyCounts, LatencyHistogram};

/// Codes counted without a lock.
const FREQUENT_CODES: [u16; 4] = [200, 206, 304, 404];

/// Counters of the requests to one bucket. Those of object GET and HEAD always exist; the first answer of any other
/// operation creates its counters.
#[derive(Debug, Default)]
pub struct BucketRequests {
    get_object: OperationCounters,
    head_object: OperationCounters,
    others: RwLock<HashMap<&'static str, Arc<OperationCounters>>>,
}

/// Counters of one operation.
#[derive(Debug, Default)]
struct OperationCounters {
    frequent: [AtomicU64; FREQUENT_CODES.len()],
    rare: RwLock<BTreeMap<u16, AtomicU64>>,
    bytes_out: AtomicU64,
    latency: LatencyHistogram,
}

/// Counts of one operation at one moment.
#[derive(Debug, Default)]
pub(super) struct OperationCounts {
    /// Answers by status code.
    pub(super) codes: BTreeMap<u16, u64>,
    pub(super) bytes_out: u64,
    pub(super) latency: LatencyCounts,
}

impl BucketRequests {
    /// Counts an answer: the S3 operation's name such as `GetObject`, the HTTP status, the seconds until the answer was
    /// ready, and the bytes of its body.
    pub fn count(&self, operation: &'static str, code: u16, seconds: f64, bytes_out: u64) {
        match operation {
            "GetObject" => self.get_object.count(code, seconds, bytes_out),
            "HeadObject" => self.head_object.count(code, seconds, bytes_out),
            _ => {
                let known = self.others.read().get(operation).cloned();
                let known =
                    known.unwrap_or_else(|| self.others.write().entry(operation).or_default().clone());
                known.count(code, seconds, bytes_out);
            }
        }
    }

    /// Returns the counts of the answered operations, by name.
    pub(super) fn snapshot(&self) -> BTreeMap<&'static str, OperationCounts> {
        let mut all = BTreeMap::from([
            ("GetObject", self.get_object.snapshot()),
            ("HeadObject", self.head_object.snapshot()),
        ]);
        all.extend(self.others.read().iter().map(|(name, operation)| (*name, operation.snapshot())));
        all.retain(|_, counts| !counts.codes.is_empty());
        all
    }
}

impl OperationCounters {
    fn count(&self, code: u16, seconds: f64, bytes_out: u64) {
        self.count_code(code);
        self.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
        self.latency.observe(seconds);
    }

    fn count_code(&self, code: u16) {
        let frequent = FREQUENT_CODES.iter().zip(&self.frequent).find(|(known, _)| **known == code);
        if let Some((_, counter)) = frequent {
            counter.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if let Some(counter) = self.rare.read().get(&code) {
            counter.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.rare.write().entry(code).or_default().fetch_add(1, Ordering::Relaxed);
    }

    fn snapshot(&self) -> OperationCounts {
        let frequent = FREQUENT_CODES.iter().zip(&self.frequent);
        let frequent = frequent.map(|(code, count)| (*code, count.load(Ordering::Relaxed)));
        let mut codes: BTreeMap<u16, u64> = frequent.filter(|(_, count)| *count > 0).collect();
        codes.extend(self.rare.read().iter().map(|(code, count)| (*code, count.load(Ordering::Relaxed))));
        OperationCounts {
            codes,
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            latency: self.latency.snapshot(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_and_rare_answers_are_counted_alike() {
        let requests = BucketRequests::default();
        for (operation, code) in [
            ("GetObject", 200),
            ("GetObject", 416),
            ("GetObject", 416),
            ("PutObject", 200),
            ("PutObject", 507),
        ] {
            requests.count(operation, code, 0.001, 1);
        }

        let counts = requests.snapshot();
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), ["GetObject", "PutObject"]);
        assert_eq!(counts["GetObject"].codes, BTreeMap::from([(200, 1), (416, 2)]));
        assert_eq!(counts["PutObject"].codes, BTreeMap::from([(200, 1), (507, 1)]));
        assert_eq!((counts["GetObject"].bytes_out, counts["GetObject"].latency.count()), (3, 3));
    }

    #[test]
    fn counts_from_many_threads_add_up() {
        let requests = BucketRequests::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| requests.count("GetObject", 201, 0.0001, 1)));
            }
        });
        let counts = &requests.snapshot()["GetObject"];
        assert_eq!((counts.codes[&201], counts.bytes_out), (4_000, 4_000));
    }
}
