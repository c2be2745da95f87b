//! Input of a file reader: the columns to read, and the receiver of batches.

use std::{collections::BTreeSet, ops::ControlFlow};

use arrow::array::RecordBatch;
use tokio::runtime::Handle;

use crate::Result;

/// Receiver of batches. Breaks once no more are wanted.
pub(super) type BatchCallback<'a> = &'a mut dyn FnMut(RecordBatch) -> Result<ControlFlow<()>>;

/// Receiver of the batches of several files, each with the index of its file. Breaks once no more are wanted.
pub(super) type FileBatchCallback<'a> = &'a mut dyn FnMut(usize, RecordBatch) -> Result<ControlFlow<()>>;

/// Columns to read, and the options to read them with.
pub(super) struct SequentialReadOptions<'a> {
    /// Indices in the schema of the columns that are read, in ascending order.
    pub(super) columns: &'a [usize],
    /// Indices of the files that are not read.
    pub(super) skipped: &'a BTreeSet<usize>,
    pub(super) batch_rows: usize,
    pub(super) runtime: &'a Handle,
}
