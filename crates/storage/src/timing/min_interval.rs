//! Runs an action at most once per interval.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Tracks when an action is due.
#[derive(Debug)]
pub(crate) struct MinInterval {
    every: Duration,
    last: Mutex<Option<Instant>>,
}

impl MinInterval {
    /// Creates an interval that is due at the first call, and again whenever `every` has passed.
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, last: Mutex::new(None) }
    }

    /// Returns whether the action is due now; the caller must then run it.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let mut last = self.last.lock();
        let due = last.is_none_or(|last| now.duration_since(last) >= self.every);
        if due {
            *last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_due_at_first_and_then_once_in_a_while() {
        let start = Instant::now();
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let hourly = MinInterval::new(minutes(60));
        let due = [0, 1, 59, 60, 61, 120].map(|count| hourly.is_due(start + minutes(count)));
        assert_eq!(due, [true, false, false, true, false, true]);
    }
}
