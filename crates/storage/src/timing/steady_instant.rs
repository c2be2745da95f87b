//! Elapsed time within this process, by a clock that is never adjusted and that keeps running while the machine
//! sleeps.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Includes suspended time, unlike the clock of `Instant`.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A point in time, comparable only within one boot of this machine. Unlike [`SystemTime`](std::time::SystemTime) it
/// never goes back and never jumps, and unlike [`Instant`](std::time::Instant) it includes the time during which the
/// machine is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SteadyInstant(Duration);

impl SteadyInstant {
    /// Returns the current moment.
    pub fn now() -> Self {
        let now = clock_gettime(CLOCK);
        Self(Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32))
    }

    /// Returns the time since `earlier`; zero if that is in the future.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the time since this moment.
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }
}

impl std::ops::Add<Duration> for SteadyInstant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_and_never_goes_back() {
        let first = SteadyInstant::now();
        std::thread::sleep(Duration::from_millis(2));
        let second = SteadyInstant::now();
        assert!(second > first && second.since(first) >= Duration::from_millis(2));
        assert_eq!(first.since(second), Duration::ZERO);
        assert!(first.elapsed() >= second.since(first));
    }
}
