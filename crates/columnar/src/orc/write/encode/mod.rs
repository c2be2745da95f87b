//! Encodes numbers and bytes as ORC's run lengths.

pub(super) mod bytes;
pub(super) mod ints;
pub(super) mod packing;
pub(super) mod patches;
