//! Entry points for fuzzing outside this crate.

use crate::page_cache;

/// Returns whether decoding and re-encoding the header of a batch on disk preserves it; `None` if the bytes are not a
/// header of a log with these sizes.
pub fn header_survives_rewrite(bytes: &[u8], capacity: u64, page_size: u64, block_size: u64) -> Option<bool> {
    page_cache::header_survives_rewrite(bytes, capacity, page_size, block_size)
}
