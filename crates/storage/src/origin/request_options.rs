//! How requests to an origin are sent: attempts, backoff, deadline, hedging.

use std::time::Duration;

/// How requests to the origin are sent.
#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// How often a request is sent at most, the first time included. Default: 4.
    pub attempts: u32,
    /// How long to wait before the second attempt; each further wait is twice as long, and all are jittered.
    /// Default: 100 ms.
    pub backoff: Duration,
    /// How long the origin may go without progress, attempts included, before the read fails. Default: 60 s.
    pub deadline: Duration,
    /// Send a second request once the first is slower than this quantile of the latest ones, such as 0.95.
    /// Default: never.
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
