//! Options of requests to an origin: attempts, backoff, deadline, hedging.

use std::time::Duration;

/// Options of requests to an origin.
#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// Maximum attempts per request, including the first. Default: 4.
    pub attempts: u32,
    /// Wait before the second attempt; each further wait doubles, with jitter. Default: 100 ms.
    pub backoff: Duration,
    /// Maximum time without progress from the origin, across attempts, before the read fails. Default: 60 s.
    pub deadline: Duration,
    /// Quantile of recent latencies, such as 0.95, after which a second request is sent. Default: never.
    pub hedge: Option<f64>,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            attempts: 4,
            backoff: Duration::from_millis(100),
            deadline: Duration::from_secs(60),
            hedge: None,
        }
    }
}
