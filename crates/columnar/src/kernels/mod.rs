//! Kernels over arrays and buffers: codes of dictionaries, casts, bytes of strings, decompression.

pub(super) mod byte_segment;
pub(super) mod codes;
pub(super) mod exact_cast;
pub(super) mod expand;
pub(super) mod interner;
pub(super) mod nested_type;
pub(super) mod prefetch;
pub(super) mod prefix_key;
pub(super) mod same;
pub(super) mod snappy;
pub(super) mod texts;
pub(super) mod utf8;
pub(super) mod weight;
pub(super) mod written_cast;
