//! Input rows from Python: an Arrow stream or an iterator of batches, pulled on a thread of its own, or a scan of this
//! package.

use arrow::{
    array::{RecordBatch, RecordBatchReader},
    datatypes::SchemaRef,
    error::ArrowError,
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyIterator,
};
use stylobate_storage::stream_from_thread;

use crate::{
    errors::{ErrorClass, UnraisedError},
    interop::{imported, source::StreamSource, stream::PythonBatchStream},
    process::ProcessRuntime,
    scan::{PyLocalScan, sequential::PyLocalSequentialScan},
};

/// Capacity of the channel between the pulling thread and the consumer, in batches.
const CHANNEL_CAPACITY: usize = 2;

/// A stream of record batches that comes from Python.
pub(crate) struct PythonBatchInput {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: PythonBatchStream,
}

impl PythonBatchInput {
    /// Opens a Python value: a scan, an object with `__arrow_c_stream__` or `__arrow_c_array__`, or an iterator of such
    /// objects.
    pub(crate) fn of(data: &Bound<'_, PyAny>, process: &ProcessRuntime) -> PyResult<Self> {
        if let Ok(scan) = data.cast::<PyLocalScan>() {
            return Ok(scan.get().source(data.py())?.into());
        }
        match data.cast::<PyLocalSequentialScan>() {
            Ok(scan) => Ok(scan.get().source(data.py())?.into()),
            Err(_) => Self::of_arrow(data, process),
        }
    }

    /// Like [`Self::of`], for columnar writers: a scan returns dictionary codes for columns that the files store as
    /// dictionaries.
    pub(crate) fn with_codes(data: &Bound<'_, PyAny>, process: &ProcessRuntime) -> PyResult<Self> {
        match data.cast::<PyLocalScan>() {
            Ok(scan) => Ok(scan.get().codes_source(data.py())?.into()),
            Err(_) => Self::of(data, process),
        }
    }

    fn of_arrow(data: &Bound<'_, PyAny>, process: &ProcessRuntime) -> PyResult<Self> {
        if is_arrow(data)? {
            let reader = imported::reader(data)?;
            let schema = reader.schema();
            let batches = reader.map(|batch| batch.map_err(|error| failed(&error)));
            return Ok(Self { schema, batches: pulled(batches, process) });
        }

        if let Ok(iterator) = data.cast::<PyIterator>() {
            let items = IteratorBatchReader::begin(iterator)?;
            return Ok(Self { schema: items.schema.clone(), batches: pulled(items, process) });
        }

        let name = data.get_type().qualname()?;
        Err(PyTypeError::new_err(format!(
            "data: a {name} has neither __arrow_c_stream__ nor __arrow_c_array__: give a table, a frame, a batch, a \
             reader, a scan or an iterator of batches"
        )))
    }
}

impl From<StreamSource> for PythonBatchInput {
    fn from(source: StreamSource) -> Self {
        Self { schema: source.schema().clone(), batches: source.begin() }
    }
}

fn is_arrow(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(data.hasattr("__arrow_c_stream__")? || data.hasattr("__arrow_c_array__")?)
}

/// Reads batches or tables from a Python iterator. The first item defines the schema.
struct IteratorBatchReader {
    iterator: Py<PyIterator>,
    schema: SchemaRef,
    /// The rest of the last item.
    current: Option<Box<dyn RecordBatchReader + Send>>,
    /// Number of items taken so far.
    taken: usize,
}

impl IteratorBatchReader {
    fn begin(iterator: &Bound<'_, PyIterator>) -> PyResult<Self> {
        let mut taking = iterator.clone();
        let Some(first) = taking.next().transpose()? else {
            return Err(PyValueError::new_err(
                "data: the iterator has no batches, so that its columns are not known: give at least one, which may \
                 have no rows",
            ));
        };

        let first = item(&first, 1)?;
        Ok(Self {
            iterator: iterator.clone().unbind(),
            schema: first.schema(),
            current: Some(first),
            taken: 1,
        })
    }

    /// Takes the next item; returns `false` at the end of the iterator.
    fn advance(&mut self, py: Python<'_>) -> PyResult<bool> {
        let mut iterator = self.iterator.bind(py).clone();
        let Some(next) = iterator.next().transpose()? else { return Ok(false) };
        self.taken += 1;
        let next = item(&next, self.taken)?;
        if let Some(difference) = difference(&next.schema(), &self.schema) {
            let message = format!("data: batch {} of the iterator: {difference}", self.taken);
            return Err(ErrorClass::Schema.error(py, message));
        }

        self.current = Some(next);
        Ok(true)
    }
}

impl Iterator for IteratorBatchReader {
    type Item = Result<RecordBatch, UnraisedError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.current.as_mut().and_then(Iterator::next) {
                Some(batch) => return Some(batch.map_err(|error| failed(&error))),
                None => self.current = None,
            }

            match Python::try_attach(|py| self.advance(py)) {
                Some(Ok(true)) => {}
                Some(Ok(false)) => return None,
                Some(Err(error)) => return Some(Err(UnraisedError::of_python(error))),
                None => {
                    return Some(Err(UnraisedError::new(
                        ErrorClass::Stylobate,
                        "data: the interpreter ends",
                    )));
                }
            }
        }
    }
}

/// Opens one item of an iterator.
fn item(item: &Bound<'_, PyAny>, number: usize) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if is_arrow(item)? {
        return imported::reader(item);
    }
    let name = item.get_type().qualname()?;
    Err(PyTypeError::new_err(format!(
        "data: item {number} of the iterator is a {name}, which has neither __arrow_c_array__ nor __arrow_c_stream__: \
         give record batches"
    )))
}

/// Describes how the columns of a batch differ from those of the first; `None` if they do not.
fn difference(found: &SchemaRef, first: &SchemaRef) -> Option<String> {
    let shown = |schema: &SchemaRef| {
        let columns = schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type()));
        columns.collect::<Vec<_>>().join(", ")
    };

    let is_same = found.fields().len() == first.fields().len()
        && found
            .fields()
            .iter()
            .zip(first.fields())
            .all(|(found, first)| found.name() == first.name() && found.data_type() == first.data_type());

    (!is_same).then(|| format!("its columns are {}, and those of the first {}", shown(found), shown(first)))
}

/// Streams batches of a reader, which is pulled on a blocking thread of the process's runtime.
fn pulled(
    reader: impl Iterator<Item = Result<RecordBatch, UnraisedError>> + Send + 'static,
    process: &ProcessRuntime,
) -> PythonBatchStream {
    let pull = |give: &mut dyn FnMut(RecordBatch) -> bool| {
        for batch in reader {
            // The stream is gone if the write was cancelled.
            if !give(batch?) {
                break;
            }
        }
        Ok(())
    };

    let panicked = |_| UnraisedError::new(ErrorClass::Stylobate, "data: the stream ended with an error");
    let _runtime = process.runtime().enter();
    stream_from_thread(CHANNEL_CAPACITY, pull, panicked)
}

/// Converts an error of the C interface, which keeps only the text of an exception.
fn failed(error: &ArrowError) -> UnraisedError {
    let text = match error {
        ArrowError::CDataInterface(text) => text.clone(),
        error => error.to_string(),
    };
    UnraisedError::new(ErrorClass::Stylobate, format!("data: {text}"))
}
