//! Counters of the Flight door.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use serde::Serialize;

use super::InFlightGuard;

/// The counters of the Flight door.
#[derive(Debug, Default)]
pub(crate) struct FlightMetrics {
    /// By method, such as `DoGet`, and by gRPC status. Calls are infrequent, so one lock serves all of them.
    calls: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    rows: AtomicU64,
    bytes: AtomicU64,
    streams: Arc<AtomicU64>,
}

impl FlightMetrics {
    /// Counts a finished call.
    pub(crate) fn call(&self, method: &'static str, code: &'static str) {
        *self.calls.lock().entry((method, code)).or_default() += 1;
    }

    /// Counts a message of a stream, with the rows and bytes of its batch.
    pub(crate) fn sent(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a stream of batches as active until the guard is dropped.
    pub(crate) fn stream(&self) -> InFlightGuard {
        InFlightGuard::new(&self.streams)
    }

    /// Returns the counts so far.
    pub(crate) fn snapshot(&self) -> FlightStats {
        let mut methods: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for ((method, code), count) in &*self.calls.lock() {
            methods.entry(*method).or_default().insert(*code, *count);
        }
        FlightStats {
            active_streams: self.streams.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            methods,
        }
    }
}

/// Counts of the Flight door since the node started.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FlightStats {
    /// Streams of batches in progress.
    pub active_streams: u64,
    /// Rows sent.
    pub rows: u64,
    /// Bytes of batches, dictionaries and schemas sent.
    pub bytes: u64,
    /// Calls by method, such as `DoGet`, and by gRPC status, such as `OK`.
    pub methods: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_method_and_status() {
        let metrics = FlightMetrics::default();
        for (method, code) in [("DoGet", "OK"), ("DoGet", "OK"), ("DoGet", "ABORTED"), ("GetSchema", "OK")] {
            metrics.call(method, code);
        }
        let stream = metrics.stream();
        metrics.sent(10, 1_000);
        let stats = metrics.snapshot();
        assert_eq!(stats.methods["DoGet"], BTreeMap::from([("ABORTED", 1), ("OK", 2)]));
        assert_eq!((stats.active_streams, stats.rows, stats.bytes), (1, 10, 1_000));
        drop(stream);
        assert_eq!(metrics.snapshot().active_streams, 0);
    }
}
