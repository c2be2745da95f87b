//! Threads that share the work of a write, and panics of decoders.

pub(super) mod guarded;
pub(super) mod side_by_side;
