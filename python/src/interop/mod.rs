//! Arrow data between Python and Rust: the C interfaces, types and streams.

pub(super) mod arrow_types;
pub(super) mod batches;
pub(super) mod exported;
pub(super) mod imported;
pub(super) mod source;
pub(super) mod stream;
