//! Size of record batches that are slices of larger ones.

use arrow::array::{Array, ArrayRef, RecordBatch};

/// Returns the bytes of these rows alone, without other rows in shared buffers.
pub(crate) fn slice_bytes(rows: &RecordBatch) -> usize {
    let bytes = |column: &ArrayRef| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    rows.columns().iter().map(bytes).sum()
}
