//! Memory of keys, and reasons for refusing them.

use arrow::array::{Array, AsArray};

/// Reason for refusing keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyInsertError {
    /// This row of the batch is null.
    Null { row: usize },
    /// This row of the batch has the key of an earlier vertex.
    Repeated { row: usize, earlier: u64 },
    /// Keys exceed the memory limit.
    TooLarge,
}

/// Returns the size in bytes of a hash table for `count` entries, which doubles when it is full.
pub(crate) fn table_bytes(count: u64, entry: usize) -> u64 {
    let buckets = (count.saturating_mul(8) / 7 + 1).next_power_of_two().max(4);
    buckets.saturating_mul(entry as u64 + 1) + 16
}

/// Returns the total length of string keys, in bytes; 0 for integers.
pub(crate) fn text_bytes(keys: &dyn Array) -> u64 {
    match keys.as_string_opt::<i32>() {
        Some(texts) => {
            let offsets = texts.value_offsets();
            offsets.last().zip(offsets.first()).map_or(0, |(end, start)| (end - start) as u64)
        }
        None => 0,
    }
}
