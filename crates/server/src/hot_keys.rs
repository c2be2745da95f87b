//! The most read objects and folders of a bucket, in bounded memory.
//!
//! Uses the space-saving algorithm (Metwally et al., "Efficient Computation of Frequent and Top-k Elements in Data
//! Streams", 2005): a new key takes over the counter of the key with the fewest reads, so a count may be too high by
//! that number, but is never too low. Counts are halved every ten minutes.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use serde::Serialize;

/// Maximum keys that are counted at the same time.
const CAPACITY: usize = 256;
/// Number of reads per second that are counted individually. Beyond it, one in `STRIDE` reads is counted, with a
/// weight of `STRIDE`.
const COUNTED_ALL: u64 = 1_000;
const STRIDE: u64 = 16;
/// Interval in seconds at which counts are halved.
const HALF_LIFE: u64 = 600;

/// Counts the reads of a bucket by object and by folder.
#[derive(Debug, Default)]
pub(crate) struct HotKeys {
    reads_this_second: AtomicU64,
    counted: Mutex<CountedKeys>,
}

#[derive(Debug, Default)]
struct CountedKeys {
    objects: SpaceSaving,
    folders: SpaceSaving,
    seconds: u64,
}

/// A frequently read key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HotKey {
    /// The key of the object, or the prefix of a folder.
    pub(crate) key: String,
    /// Number of reads; reads from before the last halving count half, and so on.
    pub(crate) reads: u64,
    /// Bytes of these reads.
    pub(crate) bytes: u64,
    /// Maximum error of `reads`: the reads of the key that had the counter before.
    pub(crate) overcount: u64,
}

impl HotKeys {
    /// Counts a read of `bytes` bytes.
    pub(crate) fn record(&self, key: &str, bytes: u64) {
        let nth = self.reads_this_second.fetch_add(1, Ordering::Relaxed);
        let Some(weight) = weight_of(nth) else { return };

        let mut counted = self.counted.lock();
        counted.objects.add(key, weight, bytes);
        if let Some((folder, _)) = key.trim_end_matches('/').rsplit_once('/') {
            counted.folders.add(&format!("{folder}/"), weight, bytes);
        }
    }

    /// Marks the end of a second.
    pub(crate) fn tick(&self) {
        self.reads_this_second.store(0, Ordering::Relaxed);
        let mut counted = self.counted.lock();
        counted.seconds += 1;
        if counted.seconds.is_multiple_of(HALF_LIFE) {
            counted.objects.halve();
            counted.folders.halve();
        }
    }

    /// Returns at most `limit` objects, the most read first.
    pub(crate) fn objects(&self, limit: usize) -> Vec<HotKey> {
        self.counted.lock().objects.top(limit)
    }

    /// Returns at most `limit` folders, each counted with the objects directly in it, the most read first.
    pub(crate) fn folders(&self, limit: usize) -> Vec<HotKey> {
        self.counted.lock().folders.top(limit)
    }
}

/// Returns the weight of the `nth` read of a second; `None` if it is not counted. Sampling follows the golden ratio,
/// so that it does not align with the period of a client's loop.
fn weight_of(nth: u64) -> Option<u64> {
    if nth < COUNTED_ALL {
        return Some(1);
    }
    let spread = nth.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (spread < u64::MAX / STRIDE).then_some(STRIDE)
}

#[derive(Debug, Default)]
struct SpaceSaving {
    counters: HashMap<Box<str>, KeyCounter>,
}

#[derive(Clone, Copy, Debug)]
struct KeyCounter {
    reads: u64,
    bytes: u64,
    overcount: u64,
}

impl SpaceSaving {
    fn add(&mut self, key: &str, weight: u64, bytes: u64) {
        let bytes = bytes.saturating_mul(weight);
        if let Some(counter) = self.counters.get_mut(key) {
            counter.reads += weight;
            counter.bytes = counter.bytes.saturating_add(bytes);
            return;
        }

        let overcount = if self.counters.len() < CAPACITY { 0 } else { self.take_smallest() };
        self.counters.insert(key.into(), KeyCounter { reads: overcount + weight, bytes, overcount });
    }

    /// Removes the key with the fewest reads, and returns its number of reads.
    fn take_smallest(&mut self) -> u64 {
        let smallest = self.counters.iter().min_by_key(|(_, counter)| counter.reads);
        let Some((key, counter)) = smallest.map(|(key, counter)| (key.clone(), *counter)) else { return 0 };
        self.counters.remove(&key);
        counter.reads
    }

    fn halve(&mut self) {
        self.counters.retain(|_, counter| {
            counter.reads /= 2;
            counter.bytes /= 2;
            counter.overcount /= 2;
            counter.reads > 0
        });
    }

    fn top(&self, limit: usize) -> Vec<HotKey> {
        let mut keys: Vec<HotKey> = self
            .counters
            .iter()
            .map(|(key, counter)| HotKey {
                key: key.to_string(),
                reads: counter.reads,
                bytes: counter.bytes,
                overcount: counter.overcount,
            })
            .collect();
        keys.sort_by(|a, b| b.reads.cmp(&a.reads).then_with(|| a.key.cmp(&b.key)));
        keys.truncate(limit);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_their_folders_are_counted() {
        let hot = HotKeys::default();
        for (key, bytes) in [("tables/a", 10), ("tables/b", 20), ("tables/a", 30), ("z", 1)] {
            hot.record(key, bytes);
        }
        let key = |key: &str, reads, bytes| HotKey { key: key.to_owned(), reads, bytes, overcount: 0 };
        assert_eq!(hot.objects(2), [key("tables/a", 2, 40), key("tables/b", 1, 20)]);
        assert_eq!(hot.folders(9), [key("tables/", 3, 60)]);
    }

    #[test]
    fn what_is_read_often_is_found_among_any_number_of_keys() {
        let hot = HotKeys::default();
        for round in 0..10_000 {
            hot.tick();
            hot.record(&format!("cold/{round}"), 1);
            if round % 10 == 0 {
                hot.record("hot", 5);
            }
        }
        assert!(hot.counted.lock().objects.counters.len() <= CAPACITY);
        let first = &hot.objects(1)[0];
        assert_eq!(first.key, "hot");
        assert!(first.overcount < first.reads, "{first:?}");
    }

    #[test]
    fn beyond_a_thousand_reads_per_second_some_stand_for_all() {
        let counted: u64 = (0..101_000).filter_map(weight_of).sum();
        assert!((95_000..107_000).contains(&counted), "{counted}");

        let hot = HotKeys::default();
        // In a loop over sixteen objects, each of them gets its share of the counted reads.
        (0..64_000).for_each(|n| hot.record(&format!("{}", n % 16), 1));
        let objects = hot.objects(100);
        assert_eq!(objects.len(), 16);
        assert!(objects.iter().all(|object| (2_000..7_000).contains(&object.reads)), "{objects:?}");
    }

    #[test]
    fn counts_are_halved_every_ten_minutes() {
        let hot = HotKeys::default();
        (0..8).for_each(|_| hot.record("a", 100));
        hot.record("b", 100);
        (0..HALF_LIFE).for_each(|_| hot.tick());
        assert_eq!(hot.objects(9), [HotKey { key: "a".to_owned(), reads: 4, bytes: 400, overcount: 0 }]);
    }
}
