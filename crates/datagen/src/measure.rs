//! Internals that benchmarks outside this crate measure.

use crate::tpch::text_pool::make_text;

/// Makes the first `size` bytes of the text pool of TPC-H.
pub fn text_pool(size: usize) -> Vec<u8> {
    make_text(size)
}
