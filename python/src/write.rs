//! `write_parquet` and `write_orc`: write Arrow data to one file, or to a folder of files.

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::StreamExt;
use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{
    DatasetOptions, DatasetWriter, Error, FileOptions, orc::OrcWriter, parquet::ParquetWriter,
};
use stylobate_storage::{Destination, Sinks, without_credentials};

use crate::{
    arriving::PythonBatchInput,
    errors::{ErrorClass, UnraisedError},
    interop::stream::InterruptibleError,
    location::location,
    options::{orc::OrcWriteRequest, parquet::ParquetWriteRequest, write::FileSinkOptions},
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
    let format = FileWriteRequest::Parquet(Box::new(ParquetWriteRequest::read(given)?));
    write(py, format, data, path, storage_options, progress)
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
    let format = FileWriteRequest::Orc(Box::new(OrcWriteRequest::read(given)?));
    write(py, format, data, path, storage_options, progress)
}

fn write(
    py: Python<'_>,
    format: FileWriteRequest,
    data: &Bound<'_, PyAny>,
    path: &Bound<'_, PyAny>,
    storage_options: Option<&Bound<'_, PyDict>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<FileWriteTuple> {
    let location = location(path)?;
    let store = storage_options.map(options).transpose()?.unwrap_or_default();
    let destination =
        Destination::parse(&location, &store).map_err(|error| UnraisedError::from(error).raised(py))?;
    let destination = match format.dataset() {
        Some(_) => destination,
        None => one_file(py, destination, &location)?,
    };

    let process = ProcessRuntime::current(py)?;
    let takes_codes = format.dataset().is_none();
    let arriving = if takes_codes {
        PythonBatchInput::with_codes(data, &process)?
    } else {
        PythonBatchInput::of(data, &process)?
    };

    let job = FileWriteJob {
        format,
        destination,
        shown: without_credentials(&location),
        progress: ProgressCallback::new(progress),
    };

    let written = py.detach(|| process.wait_detached(job.run(arriving), &mut SignalPoller::new()));
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
        object => Ok(object),
    }
}

/// The format of a write, with its options.
enum FileWriteRequest {
    Parquet(Box<ParquetWriteRequest>),
    Orc(Box<OrcWriteRequest>),
}

impl FileWriteRequest {
    fn dataset(&self) -> Option<&DatasetOptions> {
        match self {
            Self::Parquet(file) => file.dataset.as_ref(),
            Self::Orc(file) => file.dataset.as_ref(),
        }
    }

    fn place(&self) -> &FileSinkOptions {
        match self {
            Self::Parquet(file) => &file.place,
            Self::Orc(file) => &file.place,
        }
    }

    fn files(&self) -> FileOptions {
        match self {
            Self::Parquet(file) => file.options.clone().into(),
            Self::Orc(file) => file.options.clone().into(),
        }
    }
}

struct FileWriteJob {
    format: FileWriteRequest,
    destination: Destination,
    /// The name of the destination in errors and results, without credentials.
    shown: String,
    progress: ProgressCallback,
}

impl FileWriteJob {
    async fn run(mut self, arriving: PythonBatchInput) -> Result<FileWriteTuple, InterruptibleError> {
        let PythonBatchInput { schema, mut batches } = arriving;
        let opened = self.open(schema).await;
        let mut output = opened.map_err(|error| self.refused(error))?;
        while let Some(batch) = batches.next().await.transpose().map_err(InterruptibleError::Failed)? {
            output.write(&batch).await.map_err(failed)?;
            if self.progress.is_due() {
                let (rows, bytes) = output.so_far();
                self.progress.tell(rows, bytes)?;
            }
        }

        let written = output.finish(self.shown).await.map_err(failed)?;
        self.progress.tell(written.0, written.1)?;

        Ok(written)
    }

    /// Converts the error of opening the destination. For a folder that has files, it names the modes that allow it.
    fn refused(&self, error: Error) -> InterruptibleError {
        let is_occupied = matches!(&error, Error::Storage(stylobate_storage::Error::Exists { .. }));
        if !is_occupied || self.format.dataset().is_none() {
            return failed(error);
        }
        let modes = "give mode=\"append\", \"overwrite\" or \"overwrite_partitions\", or another folder";
        let message = format!("{} has data files already: {modes}", self.shown);
        InterruptibleError::Failed(UnraisedError::new(ErrorClass::AlreadyExists, message))
    }

    async fn open(&mut self, schema: SchemaRef) -> Result<FileJobWriter, Error> {
        let FileSinkOptions { sink, overwrite } = self.format.place();
        let sinks = Sinks::new(sink.clone());
        if let Some(dataset) = self.format.dataset() {
            let base = self.destination.clone();
            let files = self.format.files();
            let writer = DatasetWriter::create(sinks, base, self.shown.clone(), schema, files, dataset);
            return Ok(FileJobWriter::Folder(Box::new(writer.await?)));
        }

        let sink = sinks.open(&self.destination, *overwrite).await?;
        Ok(match &self.format {
            FileWriteRequest::Parquet(file) => {
                let writer = ParquetWriter::new(sink, &self.shown, schema, file.options.clone())?;
                FileJobWriter::Parquet(Box::new(writer))
            }
            FileWriteRequest::Orc(file) => {
                FileJobWriter::Orc(Box::new(OrcWriter::new(sink, &self.shown, schema, file.options.clone())?))
            }
        })
    }
}

/// The open writer of a job.
enum FileJobWriter {
    Parquet(Box<ParquetWriter>),
    Folder(Box<DatasetWriter>),
    Orc(Box<OrcWriter>),
}

impl FileJobWriter {
    async fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        match self {
            Self::Parquet(writer) => writer.write(batch).await,
            Self::Folder(dataset) => dataset.write(batch).await,
            Self::Orc(writer) => writer.write(batch).await,
        }
    }

    /// Returns the rows and bytes written so far.
    fn so_far(&self) -> (u64, u64) {
        match self {
            Self::Parquet(writer) => (writer.rows(), writer.bytes()),
            Self::Folder(dataset) => (dataset.rows(), dataset.bytes()),
            Self::Orc(writer) => (writer.rows(), writer.bytes()),
        }
    }

    /// Finishes the output. `shown` is the name of the file or folder.
    async fn finish(self, shown: String) -> Result<FileWriteTuple, Error> {
        Ok(match self {
            Self::Parquet(writer) => {
                let written = writer.finish().await?;
                (written.rows, written.bytes, written.row_groups, vec![shown])
            }
            Self::Orc(writer) => {
                let written = writer.finish().await?;
                (written.rows, written.bytes, written.stripes, vec![shown])
            }
            Self::Folder(dataset) => {
                let finished = dataset.finish().await?;
                let folder = shown.trim_end_matches('/');
                let files = finished.files.iter().map(|file| format!("{folder}/{file}")).collect();
                (finished.written.rows, finished.written.bytes, finished.written.row_groups, files)
            }
        })
    }
}

fn failed(error: Error) -> InterruptibleError {
    InterruptibleError::Failed(error.into())
}
