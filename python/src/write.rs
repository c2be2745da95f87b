//! `write_parquet` and `write_orc`: write Arrow data to one file, or to a folder of files.

use arrow::datatypes::SchemaRef;
use futures::StreamExt;
use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{Error, TableOutput};
use stylobate_storage::{Destination, Sinks, without_credentials};

use crate::{
    batch_input::PythonBatchInput,
    errors::{ErrorClass, ResultExt, UnraisedError},
    interop::stream::InterruptibleError,
    location::location,
    options::file_write::FileWriteRequest,
    process::{ProcessRuntime, SignalPoller},
    progress::ProgressCallback,
    scan::options,
};

/// Rows, bytes, row groups or stripes, files.
type FileWriteTuple = (u64, u64, usize, Vec<String>);

/// Implements `stylobate.write_parquet`.
#[pyfunction]
#[pyo3(signature = (data, path, given, storage_options=None, progress=None))]
pub(crate) fn write_parquet(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    path: &Bound<'_, PyAny>,
    given: &Bound<'_, PyDict>,
    storage_options: Option<&Bound<'_, PyDict>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<FileWriteTuple> {
    write(py, FileWriteRequest::parquet(given)?, data, path, storage_options, progress)
}

/// Implements `stylobate.write_orc`.
#[pyfunction]
#[pyo3(signature = (data, path, given, storage_options=None, progress=None))]
pub(crate) fn write_orc(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    path: &Bound<'_, PyAny>,
    given: &Bound<'_, PyDict>,
    storage_options: Option<&Bound<'_, PyDict>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<FileWriteTuple> {
    write(py, FileWriteRequest::orc(given)?, data, path, storage_options, progress)
}

fn write(
    py: Python<'_>,
    request: FileWriteRequest,
    data: &Bound<'_, PyAny>,
    path: &Bound<'_, PyAny>,
    storage_options: Option<&Bound<'_, PyDict>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<FileWriteTuple> {
    let location = location(path)?;
    let store = storage_options.map(options).transpose()?.unwrap_or_default();
    let destination = Destination::parse(&location, &store).or_raise(py)?;
    let destination = match &request.dataset {
        Some(_) => destination,
        None => one_file(py, destination, &location)?,
    };

    let process = ProcessRuntime::current(py)?;
    let input = PythonBatchInput::with_codes(data, &process)?;
    let job = FileWriteJob {
        request,
        destination,
        shown: without_credentials(&location),
        progress: ProgressCallback::new(progress),
    };

    let written = py.detach(|| process.wait_detached(job.run(input), &mut SignalPoller::new()));
    written?.map_err(|broken| broken.raised(py))
}

/// Checks that the destination is one file, and follows symbolic links.
fn one_file(py: Python<'_>, destination: Destination, location: &str) -> PyResult<Destination> {
    let wrong = |reason: &str| {
        let shown = without_credentials(location);
        ErrorClass::Config.error(py, format!("{shown} {reason}"))
    };

    let is_folder = "is a folder: name a file in it, or give max_file_bytes or partition_by";
    match destination {
        _ if location.ends_with('/') => Err(wrong(is_folder)),
        Destination::Object { path, .. } if path.is_root() => Err(wrong(is_folder)),
        Destination::File(path) => {
            let path = path.canonicalize().unwrap_or(path);
            match path.metadata() {
                Ok(found) if found.is_dir() => Err(wrong(is_folder)),
                Ok(found) if !found.is_file() => Err(wrong("is neither a file nor a folder: name a file")),
                _ => Ok(Destination::File(path)),
            }
        }
        object @ Destination::Object { .. } => Ok(object),
    }
}

struct FileWriteJob {
    request: FileWriteRequest,
    destination: Destination,
    /// The name of the destination in errors and results, without credentials.
    shown: String,
    progress: ProgressCallback,
}

impl FileWriteJob {
    async fn run(mut self, input: PythonBatchInput) -> Result<FileWriteTuple, InterruptibleError> {
        let PythonBatchInput { schema, mut batches } = input;
        let opened = self.open(schema).await;
        let mut output = opened.map_err(|error| self.refused(error))?;
        while let Some(batch) = batches.next().await.transpose().map_err(InterruptibleError::Failed)? {
            output.write(&batch).await.map_err(failed)?;
            if self.progress.is_due() {
                self.progress.report(output.rows(), output.bytes())?;
            }
        }

        let finished = output.finish().await.map_err(failed)?;
        let written = finished.written;
        self.progress.report(written.rows, written.bytes)?;
        let files = if self.request.dataset.is_some() {
            let folder = self.shown.trim_end_matches('/');
            finished.files.iter().map(|file| format!("{folder}/{file}")).collect()
        } else {
            vec![self.shown]
        };

        Ok((written.rows, written.bytes, written.row_groups, files))
    }

    /// Converts the error of opening the destination. For a folder that has files, it names the modes that allow it.
    fn refused(&self, error: Error) -> InterruptibleError {
        let is_occupied = matches!(&error, Error::Storage(stylobate_storage::Error::Exists { .. }));
        if !is_occupied || self.request.dataset.is_none() {
            return failed(error);
        }
        let modes = "give mode=\"append\", \"overwrite\" or \"overwrite_partitions\", or another folder";
        let message = format!("{} has data files already: {modes}", self.shown);
        InterruptibleError::Failed(UnraisedError::new(ErrorClass::AlreadyExists, message))
    }

    async fn open(&mut self, schema: SchemaRef) -> Result<TableOutput, Error> {
        let FileWriteRequest { options, sink, overwrite, dataset } = &self.request;
        let sinks = Sinks::new(sink.clone());
        let options = options.clone();
        let destination = &self.destination;
        TableOutput::create(sinks, destination, *overwrite, &self.shown, schema, options, dataset.as_ref())
            .await
    }
}

fn failed(error: Error) -> InterruptibleError {
    InterruptibleError::Failed(error.into())
}
