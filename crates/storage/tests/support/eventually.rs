//! Waits for conditions in tests. Test crates include this file by path.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part of it")]

use std::time::{Duration, Instant};

/// Time within which a condition holds even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Waits until a condition holds.
///
/// # Panics
///
/// If it does not hold within a minute. The message contains `what`.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let holding = async {
        while !holds().await {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };

    let waited = tokio::time::timeout(TIMEOUT, holding).await;
    assert!(waited.is_ok(), "waited {TIMEOUT:?} for {what}");
}

/// Like [`eventually`], for tests without a runtime.
pub fn eventually_blocking(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "waited {TIMEOUT:?} for {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}
