//! Threads that share the work of a scan or a write, with their panics and streams.

pub(super) mod guarded;
pub(super) mod side_by_side;
pub(super) mod thread_stream;
