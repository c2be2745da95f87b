//! What a reader of files is told: what to read, and where batches go.

use std::ops::ControlFlow;

use arrow::array::RecordBatch;
use tokio::runtime::Handle;

use crate::Result;

/// Takes a batch, and says whether more are wanted.
pub(super) type BatchCallback<'a> = &'a mut dyn FnMut(RecordBatch) -> Result<ControlFlow<()>>;

/// What is read, and how.
pub(super) struct SequentialReadOptions<'a> {
    /// Places in the schema of the columns that are read, in ascending order.
    pub(super) columns: &'a [usize],
    pub(super) batch_rows: usize,
    pub(super) runtime: &'a Handle,
}
