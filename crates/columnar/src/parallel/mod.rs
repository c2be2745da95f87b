//! Runs the work of a write on several threads, and catches panics of decoders.

pub(super) mod guarded;
pub(super) mod side_by_side;
