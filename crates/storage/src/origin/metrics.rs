//! Requests to an origin over HTTP: their kinds, their failures, and the counters of both.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use http::{Method, Uri};
use parking_lot::Mutex;

use crate::timing::latency::{LatencyCounts, LatencyHistogram};

/// The kind of a request to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// Data of an object, or metadata returned as a document.
    Get,
    /// A description of an object or bucket.
    Head,
    /// A page of a listing.
    List,
    /// A new object, a part of one, or a copy.
    Put,
    /// A deletion of one object or of several.
    Delete,
    /// Anything else, such as the beginning or completion of an upload.
    Other,
}

impl RequestKind {
    /// Every kind, in display order.
    pub const ALL: [Self; 6] = [Self::Get, Self::Head, Self::List, Self::Put, Self::Delete, Self::Other];

    /// Returns the name of the kind, such as `get`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Put => "put",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }

    /// Classifies a request to S3, GCS, Azure or a WebDAV server.
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let parameters = || uri.query().unwrap_or_default().split('&');
        let has = |wanted: &str| parameters().any(|parameter| parameter.split('=').next() == Some(wanted));
        let lists = || has("list-type") || parameters().any(|parameter| parameter == "comp=list");
        match method.as_str() {
            "GET" if lists() => Self::List,
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "PROPFIND" => Self::List,
            "PUT" | "COPY" => Self::Put,
            "DELETE" => Self::Delete,
            "POST" if has("delete") => Self::Delete,
            _ => Self::Other,
        }
    }
}

/// The reason that a request to an origin failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OriginFailure {
    /// The origin answered with a status of 400 or higher.
    Status(u16),
    /// The origin did not answer in time.
    Timeout,
    /// The connection could not be established, or broke.
    Connection,
}

impl fmt::Display for OriginFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Connection => f.write_str("connection"),
        }
    }
}

/// Time for which an origin counts as throttling after a 429 or 503.
const THROTTLING_WINDOW: Duration = Duration::from_secs(60);

/// The counters of requests to one origin. A failure takes at least a round trip, so failures can share a lock.
#[derive(Debug, Default)]
pub struct OriginMetrics {
    latencies: [LatencyHistogram; RequestKind::ALL.len()],
    failures: Mutex<BTreeMap<OriginFailure, u64>>,
    /// Time of the last 429 or 503.
    throttled: Mutex<Option<Instant>>,
}

impl OriginMetrics {
    /// Returns the latencies to the response head, by kind; kinds without requests are omitted.
    pub fn latencies(&self) -> Vec<(RequestKind, LatencyCounts)> {
        let all = RequestKind::ALL.into_iter().zip(&self.latencies);
        let counted = all.map(|(kind, latency)| (kind, latency.snapshot()));
        counted.filter(|(_, counts)| counts.count() > 0).collect()
    }

    /// Returns the number of failed requests, by reason.
    pub fn failures(&self) -> BTreeMap<OriginFailure, u64> {
        self.failures.lock().clone()
    }

    /// Returns whether the origin throttled requests in the last minute.
    pub fn is_throttling(&self) -> bool {
        self.throttled.lock().is_some_and(|at| at.elapsed() < THROTTLING_WINDOW)
    }

    /// Counts a request that failed.
    pub fn count_failure(&self, failure: OriginFailure) {
        if matches!(failure, OriginFailure::Status(429 | 503)) {
            *self.throttled.lock() = Some(Instant::now());
        }
        *self.failures.lock().entry(failure).or_default() += 1;
    }

    /// Counts a response by its time to the first byte.
    pub(crate) fn observe(&self, kind: RequestKind, seconds: f64) {
        if let Some(latency) = self.latencies.get(kind as usize) {
            latency.observe(seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_that_ask_for_fewer_requests_mean_throttling() {
        let metrics = OriginMetrics::default();
        for failure in [OriginFailure::Status(500), OriginFailure::Status(404), OriginFailure::Timeout] {
            metrics.count_failure(failure);
        }
        assert!(!metrics.is_throttling());
        metrics.count_failure(OriginFailure::Status(503));
        assert!(metrics.is_throttling());
    }

    fn kind(method: &str, uri: &str) -> RequestKind {
        RequestKind::of(&method.parse().unwrap(), &uri.parse().unwrap())
    }

    #[test]
    fn requests_of_all_providers_have_a_kind() {
        for (method, uri, expected) in [
            ("GET", "http://h/b/k", RequestKind::Get),
            ("GET", "http://h/b/k?versionId=1", RequestKind::Get),
            ("HEAD", "http://h/b/k", RequestKind::Head),
            ("GET", "http://h/b?list-type=2&prefix=a", RequestKind::List),
            ("GET", "http://h/c?restype=container&comp=list", RequestKind::List),
            ("PROPFIND", "http://h/", RequestKind::List),
            ("PUT", "http://h/b/k?partNumber=1&uploadId=x", RequestKind::Put),
            ("DELETE", "http://h/b/k", RequestKind::Delete),
            ("POST", "http://h/b?delete", RequestKind::Delete),
            ("POST", "http://h/b/k?uploads", RequestKind::Other),
        ] {
            assert_eq!(kind(method, uri), expected, "{method} {uri}");
        }
    }
}
