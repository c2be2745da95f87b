//! A running stream of batches, which any thread may pull.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread::{self, ThreadId},
};

use arrow::{
    array::{RecordBatch, RecordBatchReader},
    datatypes::SchemaRef,
    error::ArrowError,
};
use futures::{StreamExt, stream::BoxStream};
use pyo3::prelude::*;

use crate::{
    errors::{ErrorClass, UnraisedError},
    process::{ProcessOwned, ProcessRuntime, SignalPoller},
};

/// The reason why a scan ended before its last row.
#[derive(Debug)]
pub(crate) enum InterruptibleError {
    /// The scan failed.
    Failed(UnraisedError),
    /// A signal handler raised, as for Ctrl-C.
    Interrupted(PyErr),
}

impl InterruptibleError {
    /// Returns the error of a scan that belongs to another process.
    pub(crate) fn forked() -> Self {
        let message = "this scan was begun before the process was forked: start it again in the child";
        Self::Failed(UnraisedError::new(ErrorClass::Stylobate, message))
    }

    /// Converts to the exception.
    pub(crate) fn raised(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Failed(failure) => failure.raised(py),
            Self::Interrupted(error) => error,
        }
    }
}

/// A stream of batches for Python.
pub(crate) type PythonBatchStream = BoxStream<'static, Result<RecordBatch, UnraisedError>>;

/// Creates a stream of batches; called within the runtime.
pub(crate) type BatchStreamFactory = Box<dyn FnOnce() -> PythonBatchStream + Send>;

/// A running scan or other stream of batches. Dropping it cancels the work in flight.
pub(crate) struct RunningBatchStream {
    /// `None` after the end.
    stream: Option<ProcessOwned<PythonBatchStream>>,
    signals: SignalPoller,
}

impl RunningBatchStream {
    /// Starts the stream.
    pub(crate) fn begin(process: ProcessRuntime, begin: BatchStreamFactory) -> Self {
        let stream = {
            let _runtime = process.runtime().enter();
            begin()
        };
        Self { stream: Some(ProcessOwned::new(process, stream)), signals: SignalPoller::new() }
    }

    /// Waits for the next batch; returns `None` after the last one and after an error. For a thread that does not hold
    /// the GIL.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, InterruptibleError> {
        let Some(owned) = &mut self.stream else { return Ok(None) };
        let process = owned.process().clone();
        let Some(stream) = owned.get_mut() else {
            return Err(InterruptibleError::forked());
        };
        let waited = process.wait_detached(stream.next(), &mut self.signals);
        let waited = waited.and_then(|batch| self.signals.check().map(|()| batch));
        let outcome = match waited {
            Ok(Some(Ok(batch))) => return Ok(Some(batch)),
            Ok(Some(Err(failure))) => Err(InterruptibleError::Failed(failure)),
            Ok(None) => Ok(None),
            Err(interrupt) => Err(InterruptibleError::Interrupted(interrupt)),
        };

        self.stream = None;
        outcome
    }
}

/// Reads batches as an Arrow stream, which starts when the first batch is pulled.
pub(crate) struct LazyBatchReader {
    schema: SchemaRef,
    begin: Option<(ProcessRuntime, BatchStreamFactory)>,
    running: Option<RunningBatchStream>,
    /// The thread that requested the stream, which holds the GIL.
    asker: ThreadId,
}

impl LazyBatchReader {
    pub(crate) fn new(process: ProcessRuntime, schema: SchemaRef, begin: BatchStreamFactory) -> Self {
        Self { schema, begin: Some((process, begin)), running: None, asker: thread::current().id() }
    }

    fn pull(&mut self) -> Result<Option<RecordBatch>, InterruptibleError> {
        if let Some((process, begin)) = self.begin.take() {
            self.running = Some(RunningBatchStream::begin(process, begin));
        }

        let Some(running) = &mut self.running else { return Ok(None) };
        // A panic must not cross the C interface: it would abort the process.
        catch_unwind(AssertUnwindSafe(|| running.next())).unwrap_or_else(|_| {
            self.running = None;
            Err(InterruptibleError::Failed(UnraisedError::new(
                ErrorClass::Stylobate,
                "the work failed by an error of its own",
            )))
        })
    }
}

impl Iterator for LazyBatchReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match with_lock_released(self.asker, || self.pull()) {
            Ok(batch) => batch.map(Ok),
            Err(InterruptibleError::Failed(failure)) => Some(Err(failure.of_stream())),
            Err(InterruptibleError::Interrupted(error)) => Some(Err(interrupted(error))),
        }
    }
}

impl RecordBatchReader for LazyBatchReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Runs work without the GIL. There is no way to find out whether this thread holds it. On `asker`, the thread that
/// requested the stream, acquiring the GIL in order to release it is safe, since that thread must acquire it anyway to
/// return.
fn with_lock_released<T: Send>(asker: ThreadId, mut work: impl FnMut() -> T + Send) -> T {
    if thread::current().id() != asker {
        return work();
    }
    let released = Python::try_attach(|py| py.detach(&mut work));
    released.unwrap_or_else(work)
}

/// Converts an exception to an Arrow error: the C interface transports only its text.
fn interrupted(error: PyErr) -> ArrowError {
    let message = Python::try_attach(|py| error.get_type(py).to_string().replace('\0', "\u{fffd}"));
    ArrowError::ExternalError(format!("interrupted by {}", message.unwrap_or_default()).into())
}
