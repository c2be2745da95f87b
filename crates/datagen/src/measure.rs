//! Internals exposed for benchmarks outside this crate.

use crate::tpch::text_pool::make_text;

/// Generates the first `size` bytes of the text pool of TPC-H.
pub fn text_pool(size: usize) -> Vec<u8> {
    make_text(size)
}
