//! `StreamSource`: a stream of batches that has not started, and the reads that Python classes share.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{Stream, StreamExt};
use pyo3::{prelude::*, types::PyCapsule};
use pyo3_arrow::error::PyArrowResult;
use stylobate_columnar::{Scan, SequentialScan};

use crate::{
    errors::UnraisedError,
    interop::{
        batches::{PyBatchIterator, PyBatches},
        exported::stream_capsule,
        stream::{
            BatchStreamFactory, InterruptibleError, LazyBatchReader, PythonBatchStream, RunningBatchStream,
        },
    },
    process::ProcessRuntime,
};

/// A stream of batches that has not started. Each read consumes it.
pub(crate) struct StreamSource {
    process: ProcessRuntime,
    schema: SchemaRef,
    begin: BatchStreamFactory,
}

impl StreamSource {
    /// Creates the source of a stream in this schema; `begin` is called within the runtime of the process.
    pub(crate) fn new<S, E>(
        process: ProcessRuntime,
        schema: SchemaRef,
        begin: impl FnOnce() -> S + Send + 'static,
    ) -> Self
    where
        S: Stream<Item = Result<RecordBatch, E>> + Send + 'static,
        E: Into<UnraisedError> + 'static,
    {
        let begin: BatchStreamFactory =
            Box::new(move || begin().map(|batch| batch.map_err(Into::<UnraisedError>::into)).boxed());
        Self { process, schema, begin }
    }

    /// Creates the source of a planned scan.
    pub(crate) fn of_scan(process: ProcessRuntime, scan: Scan) -> Self {
        let schema = scan.schema().clone();
        Self::new(process, schema, move || scan.stream())
    }

    /// Creates the source of a planned scan of CSV, JSON or Arrow IPC files.
    pub(crate) fn of_sequential_scan(process: ProcessRuntime, scan: SequentialScan) -> Self {
        let schema = scan.schema().clone();
        Self::new(process, schema, move || scan.stream())
    }

    /// Starts the stream, for a consumer within the runtime.
    pub(crate) fn begin(self) -> PythonBatchStream {
        let _runtime = self.process.runtime().enter();
        (self.begin)()
    }

    /// Returns the schema of the batches.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Counts the rows, a batch at a time.
    pub(crate) fn count(self, py: Python<'_>) -> PyResult<u64> {
        let Self { process, begin, .. } = self;
        let counted = py.detach(|| {
            let mut running = RunningBatchStream::begin(process, begin);
            let mut rows = 0;
            while let Some(batch) = running.next()? {
                rows += batch.num_rows() as u64;
            }
            Ok(rows)
        });

        counted.map_err(|error: InterruptibleError| error.raised(py))
    }

    /// Collects all batches in memory.
    pub(crate) fn collect(self, py: Python<'_>) -> PyResult<PyBatches> {
        let Self { process, schema, begin } = self;
        let collected = py.detach(|| PyBatches::collect(schema, RunningBatchStream::begin(process, begin)));
        collected.map_err(|error| error.raised(py))
    }

    /// Starts the stream, and returns an iterator over its batches.
    pub(crate) fn batches(self) -> PyBatchIterator {
        PyBatchIterator::begin(self.process, self.begin)
    }

    /// Exports the stream through the Arrow PyCapsule interface. It starts when the consumer pulls the first batch.
    pub(crate) fn capsule<'py>(
        self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let Self { process, schema, begin } = self;
        stream_capsule(py, LazyBatchReader::new(process, schema, begin), requested_schema)
    }
}
