//! Copies strings out of large buffers if operators hold batches for a long time.
//!
//! A view keeps the whole buffer alive that it points into: a dictionary, or all strings of a row group. Operators
//! account for that buffer once per batch that they hold, so a sort of a few megabytes would need gigabytes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions},
    buffer::Buffer,
    datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType},
    error::ArrowError,
};

/// Size of a column's buffers up to which a copy is never worthwhile.
const SMALL_BUFFERS: usize = 64 << 10;

/// Flag of a scan whose batches an operator holds. Shared by all copies of the scan in a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct AreHeld(Arc<AtomicBool>);

impl AreHeld {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Copies the strings and bytes of columns whose buffers are more than twice as large as their rows need.
pub(crate) fn compacted(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<Option<ArrayRef>> = batch.columns().iter().map(compacted_column).collect();
    if columns.iter().all(Option::is_none) {
        return Ok(batch);
    }

    let columns = columns.into_iter().zip(batch.columns());
    let columns = columns.map(|(compacted, column)| compacted.unwrap_or_else(|| column.clone())).collect();
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &rows)
}

fn compacted_column(column: &ArrayRef) -> Option<ArrayRef> {
    match column.data_type() {
        DataType::Utf8View => compacted_views::<StringViewType>(column.as_byte_view()),
        DataType::BinaryView => compacted_views::<BinaryViewType>(column.as_byte_view()),
        _ => None,
    }
}

fn compacted_views<T: ByteViewType>(views: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let held: usize = views.data_buffers().iter().map(Buffer::capacity).sum();
    let is_wasteful = held > SMALL_BUFFERS && held / 2 > views.total_buffer_bytes_used();
    is_wasteful.then(|| Arc::new(views.gc()) as ArrayRef)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringViewArray;

    use super::*;

    fn strings(rows: usize) -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values((0..rows).map(|row| format!("the string of row {row}"))))
    }

    fn held(batch: &RecordBatch) -> usize {
        batch.column(0).as_string_view().data_buffers().iter().map(Buffer::capacity).sum()
    }

    #[test]
    fn a_few_rows_do_not_keep_the_strings_of_all() {
        let few = RecordBatch::try_from_iter([("s", strings(10_000).slice(40, 10))]).unwrap();
        let compact = compacted(few.clone()).unwrap();
        assert_eq!(compact, few);
        assert!(held(&few) > 200_000 && held(&compact) < 1_000, "{} {}", held(&few), held(&compact));
    }

    #[test]
    fn buffers_that_the_rows_need_are_not_copied() {
        let all = RecordBatch::try_from_iter([("s", strings(10_000))]).unwrap();
        let buffer = |batch: &RecordBatch| batch.column(0).as_string_view().data_buffers()[0].as_ptr();
        assert_eq!(buffer(&compacted(all.clone()).unwrap()), buffer(&all));
    }
}
