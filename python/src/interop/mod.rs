//! Data between Python and Rust: the C interfaces of Arrow, types and streams, and serializable values.

pub(super) mod arrow_types;
pub(super) mod batches;
pub(super) mod exported;
pub(super) mod imported;
pub(super) mod json;
mod sorted_maps;
pub(super) mod source;
pub(super) mod stream;
