//! Durations, latencies, and the clocks and intervals that measure them.

pub(super) mod duration;
pub(super) mod latency;
pub(super) mod min_interval;
pub(super) mod steady_instant;
