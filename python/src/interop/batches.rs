//! The batches of a scan for Python: an iterator, or all of them in memory.

use arrow::{
    array::{RecordBatch, RecordBatchIterator},
    datatypes::SchemaRef,
};
use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyCapsule};
use pyo3_arrow::error::PyArrowResult;

use crate::{
    interop::{
        exported::{PyRecordBatch, PySchema, stream_capsule},
        stream::{BatchStreamFactory, InterruptibleError, RunningBatchStream},
    },
    process::ProcessRuntime,
};

/// An iterator over the batches of a scan, decoded on demand.
#[pyclass(frozen, module = "stylobate", name = "BatchIterator")]
pub(crate) struct PyBatchIterator {
    process: ProcessRuntime,
    /// Locked while a batch is awaited: a child forked at that time must not lock it.
    running: Mutex<RunningBatchStream>,
}

impl PyBatchIterator {
    /// Starts the stream.
    pub(crate) fn begin(process: ProcessRuntime, begin: BatchStreamFactory) -> Self {
        Self { process: process.clone(), running: Mutex::new(RunningBatchStream::begin(process, begin)) }
    }
}

#[pymethods]
impl PyBatchIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<PyRecordBatch>> {
        if !self.process.is_current() {
            return Err(InterruptibleError::forked().raised(py));
        }
        let next = py.detach(|| self.running.lock().next());
        next.map(|batch| batch.map(PyRecordBatch::from)).map_err(|broken| broken.raised(py))
    }
}

/// All batches of a scan, in memory.
#[pyclass(frozen, module = "stylobate", name = "Batches")]
pub(crate) struct PyBatches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl PyBatches {
    /// Runs the stream to its end. For a thread that does not hold the GIL.
    pub(crate) fn collect(
        schema: SchemaRef,
        mut running: RunningBatchStream,
    ) -> Result<Self, InterruptibleError> {
        let mut batches = Vec::new();
        while let Some(batch) = running.next()? {
            batches.push(batch);
        }
        Ok(Self { schema, batches })
    }
}

#[pymethods]
impl PyBatches {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The schema.
    #[getter]
    fn schema(&self) -> PySchema {
        self.schema.clone().into()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let batches = self.batches.clone().into_iter().map(Ok);
        stream_capsule(py, RecordBatchIterator::new(batches, self.schema.clone()), requested_schema)
    }

    fn __len__(&self) -> usize {
        self.batches.len()
    }
}
