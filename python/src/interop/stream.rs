//! A scan that runs: its batches are pulled by whoever wants them, on whatever thread.

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
use stylobate_columnar::Scan;

use crate::{
    errors::{ErrorClass, UnraisedError},
    process::{ProcessOwned, ProcessRuntime, SignalPoller},
};

/// Why a scan ended before its last row.
#[derive(Debug)]
pub(crate) enum InterruptibleError {
    /// The scan failed.
    Failed(UnraisedError),
    /// The handler of a signal raised, as that of Ctrl-C does.
    Interrupted(PyErr),
}

impl InterruptibleError {
    /// The scan is another process's.
    pub(crate) fn forked() -> Self {
        let message = "this scan was begun before the process was forked: begin it anew in the child";
        Self::Failed(UnraisedError::new(ErrorClass::Stylobate, message))
    }

    /// The exception.
    pub(crate) fn raised(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Failed(failure) => failure.raised(py),
            Self::Interrupted(error) => error,
        }
    }
}

/// Batches on their way to Python.
pub(crate) type PythonBatchStream = BoxStream<'static, Result<RecordBatch, UnraisedError>>;

/// What makes a stream of batches within the runtime.
pub(crate) type BatchStreamFactory = Box<dyn FnOnce() -> PythonBatchStream + Send>;

/// A scan, or another stream of batches, that runs. Dropping it ends the work that is under way.
pub(crate) struct RunningBatchStream {
    /// `None` once it has ended.
    stream: Option<ProcessOwned<PythonBatchStream>>,
    signals: SignalPoller,
}

/// What runs a scan.
pub(crate) fn of_scan(scan: Scan) -> BatchStreamFactory {
    Box::new(move || scan.stream().map(|batch| batch.map_err(UnraisedError::from)).boxed())
}

impl RunningBatchStream {
    /// Begins it.
    pub(crate) fn begin(process: ProcessRuntime, begin: BatchStreamFactory) -> Self {
        let stream = {
            let _runtime = process.runtime().enter();
            begin()
        };
        Self { stream: Some(ProcessOwned::new(process, stream)), signals: SignalPoller::new() }
    }

    /// The next batch, waited for; `None` after the last one and after an error. For a thread that does not
    /// hold the interpreter's lock.
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

/// Batches as an Arrow stream, begun when the first is asked for.
pub(crate) struct LazyBatchReader {
    schema: SchemaRef,
    begin: Option<(ProcessRuntime, BatchStreamFactory)>,
    running: Option<RunningBatchStream>,
    /// The thread that asked for the stream, which is one of Python's.
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
        // No panic may cross the C interface: it would end the process.
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

/// Does work without the interpreter's lock. Whether this thread holds it cannot be told. If it is `asker`, the one that
/// asked for a stream, taking the lock in order to release it is safe, since it must take it again anyway to return.
pub(crate) fn with_lock_released<T: Send>(asker: ThreadId, mut work: impl FnMut() -> T + Send) -> T {
    if thread::current().id() != asker {
        return work();
    }
    let released = Python::try_attach(|py| py.detach(&mut work));
    released.unwrap_or_else(work)
}

/// The consumer makes an error of its own of this one: a C interface has no exceptions.
pub(crate) fn interrupted(error: PyErr) -> ArrowError {
    let message = Python::try_attach(|py| error.get_type(py).to_string().replace('\0', "\u{fffd}"));
    ArrowError::ExternalError(format!("interrupted by {}", message.unwrap_or_default()).into())
}
