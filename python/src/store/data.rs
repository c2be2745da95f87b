//! Input rows of a store: all of them as one batch, or streamed into a load with renamed columns.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    compute::concat_batches,
    datatypes::{Field, FieldRef, Schema, SchemaRef},
};
use futures::{Stream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use pyo3::prelude::*;
use stylobate_graph::{Error, Result};

use crate::{
    batch_input::PythonBatchInput,
    errors::{ErrorClass, UnraisedError},
    interop::stream::InterruptibleError,
    process::ProcessRuntime,
    progress::ProgressCallback,
};

/// Collects all rows into one batch, which a store accepts or rejects as a whole.
pub(super) fn rows(data: &Bound<'_, PyAny>, process: &ProcessRuntime) -> PyResult<RecordBatch> {
    let PythonBatchInput { schema, batches } = PythonBatchInput::of(data, process)?;
    let batches: Vec<RecordBatch> = process.run(data.py(), batches.try_collect::<Vec<_>>())?;
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([one]) => Ok(one),
        Err(several) => concat_batches(&schema, &several)
            .map_err(|error| UnraisedError::new(ErrorClass::Stylobate, error.to_string()).raised(data.py())),
    }
}

/// Pairs of old and new column names.
pub(super) type ColumnRenames = Vec<(String, String)>;

/// Returns the schema with renamed columns.
pub(super) fn renamed(schema: &SchemaRef, names: &ColumnRenames) -> SchemaRef {
    let field = |field: &FieldRef| -> FieldRef {
        match names.iter().find(|(from, _)| from == field.name()) {
            Some((_, to)) => Arc::new(Field::clone(field).with_name(to)),
            None => field.clone(),
        }
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// Reports the progress of a load, and keeps the Python exception that ended it.
pub(super) struct LoadReporter {
    progress: Mutex<(ProgressCallback, u64)>,
    broken: Mutex<Option<InterruptibleError>>,
}

impl LoadReporter {
    pub(super) fn new(function: Option<Py<PyAny>>) -> Self {
        Self { progress: Mutex::new((ProgressCallback::new(function), 0)), broken: Mutex::default() }
    }

    /// Adds to the row count. An exception in the progress function ends the load.
    fn add(&self, rows: usize) -> Result<()> {
        let (progress, all) = &mut *self.progress.lock();
        *all += rows as u64;
        if !progress.is_due() {
            return Ok(());
        }
        progress.report(*all, 0).map_err(|broken| self.end(broken))
    }

    /// Reports the end of a stream, where the progress function may still end the load.
    fn pause(&self) -> Result<()> {
        let (progress, all) = &mut *self.progress.lock();
        progress.report(*all, 0).map_err(|broken| self.end(broken))
    }

    /// Reports the end of the load, and the bytes written.
    pub(super) fn done(&self, bytes: u64) -> Result<()> {
        let (progress, all) = &mut *self.progress.lock();
        progress.report(*all, bytes).map_err(|broken| self.end(broken))
    }

    fn end(&self, broken: InterruptibleError) -> Error {
        *self.broken.lock() = Some(broken);
        Error::Ended { reason: "by its caller".to_owned() }
    }

    /// Returns the Python exception that ended the load, or else the error of the store.
    pub(super) fn why(&self, error: Error) -> InterruptibleError {
        self.broken.lock().take().unwrap_or_else(|| InterruptibleError::Failed(error.into()))
    }

    /// Renames the columns of the batches and counts their rows.
    pub(super) fn batches(
        self: &Arc<Self>,
        input: PythonBatchInput,
        names: &ColumnRenames,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        let reporter = self.clone();
        let schema = renamed(&input.schema, names);
        let batches = input.batches.map(move |batch| {
            let batch = batch.map_err(|failure| reporter.end(InterruptibleError::Failed(failure)))?;
            reporter.add(batch.num_rows())?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let named = RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options);
            named.map_err(|error| Error::Ended { reason: error.to_string() })
        });

        let reporter = self.clone();
        let last = futures::stream::once(async move { reporter.pause() });

        batches.chain(last.filter_map(|paused| std::future::ready(paused.err().map(Err))))
    }
}
