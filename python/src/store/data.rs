//! Rows that a store is given: all of them as one batch, or on their way into a load, with columns under their names.

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
    arriving::PythonBatchInput,
    errors::{ErrorClass, UnraisedError},
    interop::stream::InterruptibleError,
    process::ProcessRuntime,
    progress::ProgressCallback,
};

/// All rows as one batch: what a store takes or refuses as a whole.
pub(super) fn rows(data: &Bound<'_, PyAny>, process: &ProcessRuntime) -> PyResult<RecordBatch> {
    let PythonBatchInput { schema, batches } = PythonBatchInput::of(data, process)?;
    let batches: Vec<RecordBatch> = process.run(data.py(), batches.try_collect::<Vec<_>>())?;
    match <[RecordBatch; 1]>::try_from(batches) {
        Ok([one]) => Ok(one),
        Err(several) => concat_batches(&schema, &several)
            .map_err(|error| UnraisedError::new(ErrorClass::Stylobate, error.to_string()).raised(data.py())),
    }
}

/// Names of columns, and what they are called from now on.
pub(super) type ColumnRenames = Vec<(String, String)>;

/// The columns once these have other names.
pub(super) fn renamed(schema: &SchemaRef, names: &ColumnRenames) -> SchemaRef {
    let field = |field: &FieldRef| -> FieldRef {
        match names.iter().find(|(from, _)| from == field.name()) {
            Some((_, to)) => Arc::new(Field::clone(field).with_name(to)),
            None => field.clone(),
        }
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// How far a load is, who is told, and what ended it from Python's side.
pub(super) struct LoadReporter {
    progress: Mutex<(ProgressCallback, u64)>,
    broken: Mutex<Option<InterruptibleError>>,
}

impl LoadReporter {
    pub(super) fn new(function: Option<Py<PyAny>>) -> Self {
        Self { progress: Mutex::new((ProgressCallback::new(function), 0)), broken: Mutex::default() }
    }

    /// So many more rows came. What is raised ends the work.
    fn add(&self, rows: usize) -> Result<()> {
        let (progress, all) = &mut *self.progress.lock();
        *all += rows as u64;
        if !progress.is_due() {
            return Ok(());
        }
        progress.tell(*all, 0).map_err(|broken| self.end(broken))
    }

    /// The rows of a stream were the last of it: who hears it may end the work before it is done.
    fn pause(&self) -> Result<()> {
        let (progress, all) = &mut *self.progress.lock();
        progress.tell(*all, 0).map_err(|broken| self.end(broken))
    }

    /// All of it is done, in so many bytes.
    pub(super) fn done(&self, bytes: u64) -> Result<()> {
        let (progress, all) = &mut *self.progress.lock();
        progress.tell(*all, bytes).map_err(|broken| self.end(broken))
    }

    fn end(&self, broken: InterruptibleError) -> Error {
        *self.broken.lock() = Some(broken);
        Error::Ended { reason: "by its caller".to_owned() }
    }

    /// What ended the work, if an error of the store did not.
    pub(super) fn why(&self, error: Error) -> InterruptibleError {
        self.broken.lock().take().unwrap_or_else(|| InterruptibleError::Failed(error.into()))
    }

    /// The batches under their names, counted.
    pub(super) fn batches(
        self: &Arc<Self>,
        arriving: PythonBatchInput,
        names: &ColumnRenames,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + use<> {
        let told = self.clone();
        let schema = renamed(&arriving.schema, names);
        let batches = arriving.batches.map(move |batch| {
            let batch = batch.map_err(|failure| told.end(InterruptibleError::Failed(failure)))?;
            told.add(batch.num_rows())?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let named = RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options);
            named.map_err(|error| Error::Ended { reason: error.to_string() })
        });
        let told = self.clone();
        let last = futures::stream::once(async move { told.pause() });
        batches.chain(last.filter_map(|told| std::future::ready(told.err().map(Err))))
    }
}
