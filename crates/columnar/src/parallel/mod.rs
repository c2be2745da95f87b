//! Runs the work of a write on several threads, keeps the threads that decode, and catches panics of decoders.

pub(super) mod decode_threads;
pub(super) mod guarded;
pub(super) mod side_by_side;
