//! Threads that share the work of a scan or a write, and the panics and streams that come out of them.

pub(super) mod guarded;
pub(super) mod side_by_side;
pub(super) mod thread_stream;
