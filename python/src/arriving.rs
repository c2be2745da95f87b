//! Rows that arrive from Python: any Arrow stream, pulled by a thread of its own, or a scan of this package.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::{
    array::{RecordBatch, RecordBatchReader},
    datatypes::SchemaRef,
    error::ArrowError,
};
use futures::{StreamExt, stream::BoxStream};
use pyo3::{exceptions::PyTypeError, prelude::*};
use tokio::sync::mpsc;

use crate::{
    errors::{Class, Failure},
    imported,
    process::Process,
    scan::PyLocalScan,
    sequential::PyLocalSequentialScan,
};

/// Batches that wait for whoever takes them.
const WAITING: usize = 2;

/// Record batches on their way.
pub(crate) struct Arriving {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: BoxStream<'static, Result<RecordBatch, Failure>>,
}

impl Arriving {
    /// What a Python value gives: a scan, or anything with `__arrow_c_stream__` or `__arrow_c_array__`.
    pub(crate) fn of(data: &Bound<'_, PyAny>, process: &Process) -> PyResult<Self> {
        if let Ok(scan) = data.cast::<PyLocalScan>() {
            let scan = scan.get().begin(data.py(), process)?;
            let _runtime = process.runtime().enter();
            let batches = scan.stream().map(|batch| batch.map_err(Failure::from)).boxed();
            return Ok(Self { schema: scan.schema().clone(), batches });
        }
        if let Ok(scan) = data.cast::<PyLocalSequentialScan>() {
            let scan = scan.get().begin(data.py(), process)?;
            let _runtime = process.runtime().enter();
            let batches = scan.stream().map(|batch| batch.map_err(Failure::from)).boxed();
            return Ok(Self { schema: scan.schema().clone(), batches });
        }
        if !data.hasattr("__arrow_c_stream__")? && !data.hasattr("__arrow_c_array__")? {
            let name = data.get_type().qualname()?;
            return Err(PyTypeError::new_err(format!(
                "data: a {name} has neither __arrow_c_stream__ nor __arrow_c_array__: give a table, a frame, a \
                 batch, a reader or a scan"
            )));
        }
        let reader = imported::reader(data)?;
        Ok(Self { schema: reader.schema(), batches: pulled(reader, process) })
    }
}

/// What is sent by the thread that pulls. A channel that closes before the end was reached lost something.
enum Pulled {
    Batch(RecordBatch),
    Failed(Failure),
    End,
}

fn pulled(
    reader: Box<dyn RecordBatchReader + Send>,
    process: &Process,
) -> BoxStream<'static, Result<RecordBatch, Failure>> {
    let (sender, receiver) = mpsc::channel(WAITING);
    process.runtime().spawn_blocking(move || {
        let pull = || {
            for batch in reader {
                let pulled = match batch {
                    Ok(batch) => Pulled::Batch(batch),
                    Err(error) => Pulled::Failed(failed(&error)),
                };
                let is_last = matches!(pulled, Pulled::Failed(_));
                // Nobody listens where the write was given up.
                if sender.blocking_send(pulled).is_err() || is_last {
                    return;
                }
            }
            let _ = sender.blocking_send(Pulled::End);
        };
        let _ = catch_unwind(AssertUnwindSafe(pull));
    });
    let next = |receiver: Option<mpsc::Receiver<Pulled>>| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Pulled::Batch(batch)) => Some((Ok(batch), Some(receiver))),
            Some(Pulled::Failed(failure)) => Some((Err(failure), None)),
            Some(Pulled::End) => None,
            None => Some((Err(Failure::new(Class::Stylobate, "data: the stream ended by an error")), None)),
        }
    };
    futures::stream::unfold(Some(receiver), next).boxed()
}

/// A C interface has no exceptions: all that is left of one is its text.
fn failed(error: &ArrowError) -> Failure {
    let text = match error {
        ArrowError::CDataInterface(text) => text.clone(),
        error => error.to_string(),
    };
    Failure::new(Class::Stylobate, format!("data: {text}"))
}
