//! `write_parquet`: Arrow data into one Parquet file or a folder of them.

use futures::StreamExt;
use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::{ParquetDataset, ParquetWriter, Written};
use stylobate_storage::{Destination, FileSet, Sinks};

use crate::{
    arriving::Arriving,
    errors::{Class, Failure},
    location::{location, without_credentials},
    process::{Process, Signals},
    progress::Progress,
    scan::options,
    stream::Broken,
    write_options::WriteOptions,
};

/// The work behind `stylobate.write_parquet`. Returns rows, bytes, row groups and the files.
#[pyfunction]
#[pyo3(signature = (data, path, given, storage_options=None, progress=None))]
pub(crate) fn write_parquet(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    path: &Bound<'_, PyAny>,
    given: &Bound<'_, PyDict>,
    storage_options: Option<&Bound<'_, PyDict>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(u64, u64, usize, Vec<String>)> {
    let write = WriteOptions::read(given)?;
    let location = location(path)?;
    let store = storage_options.map(options).transpose()?.unwrap_or_default();
    let destination =
        Destination::parse(&location, &store).map_err(|error| Failure::from(error).raised(py))?;
    let destination = match write.dataset {
        Some(_) => destination,
        None => one_file(py, destination, &location)?,
    };
    let process = Process::current(py)?;
    let arriving = Arriving::of(data, &process)?;
    let job =
        Job { write, destination, shown: without_credentials(&location), progress: Progress::new(progress) };
    let written = py.detach(|| process.wait_detached(job.run(arriving), &mut Signals::new()));
    let (written, files) = written?.map_err(|broken| broken.raised(py))?;
    Ok((written.rows, written.bytes, written.row_groups, files))
}

/// A file that may be written; what a link points to is.
fn one_file(py: Python<'_>, destination: Destination, location: &str) -> PyResult<Destination> {
    let wrong = |reason: &str| {
        let shown = without_credentials(location);
        Class::Config.error(py, format!("{shown} {reason}"))
    };
    let is_folder = "is a folder: name a file in it, or give max_file_bytes or partition_by";
    match destination {
        _ if location.ends_with('/') => Err(wrong(is_folder)),
        Destination::Object { path, .. } if path.is_root() => Err(wrong(is_folder)),
        Destination::File(path) => {
            let path = path.canonicalize().unwrap_or(path);
            match path.metadata() {
                Ok(found) if found.is_dir() => Err(wrong(is_folder)),
                Ok(found) if !found.is_file() => Err(wrong("is no file: Parquet goes into a file")),
                _ => Ok(Destination::File(path)),
            }
        }
        object => Ok(object),
    }
}

struct Job {
    write: WriteOptions,
    destination: Destination,
    /// What errors and results call the destination.
    shown: String,
    progress: Progress,
}

/// What is being written.
enum Output {
    File(Box<ParquetWriter>),
    Folder(Box<ParquetDataset>),
}

impl Job {
    async fn run(mut self, arriving: Arriving) -> Result<(Written, Vec<String>), Broken> {
        let Arriving { schema, mut batches } = arriving;
        let sinks = Sinks::new(self.write.sink.clone());
        let (overwrite, options) = (self.write.overwrite, self.write.parquet.clone());
        let mut output = match &self.write.dataset {
            None => {
                let sink = sinks.open(&self.destination, overwrite).await.map_err(failed)?;
                let writer = ParquetWriter::new(sink, &self.shown, schema, options).map_err(failed)?;
                Output::File(Box::new(writer))
            }
            Some(dataset) => {
                let set =
                    FileSet::create(sinks, self.destination.clone(), overwrite).await.map_err(failed)?;
                let set = ParquetDataset::new(set, &self.shown, schema, options, dataset).map_err(failed)?;
                Output::Folder(Box::new(set))
            }
        };
        while let Some(batch) = batches.next().await.transpose().map_err(Broken::Failed)? {
            match &mut output {
                Output::File(writer) => writer.write(&batch).await.map_err(failed)?,
                Output::Folder(dataset) => dataset.write(&batch).await.map_err(failed)?,
            }
            if self.progress.is_due() {
                let (rows, bytes) = match &output {
                    Output::File(writer) => (writer.rows(), writer.bytes()),
                    Output::Folder(dataset) => (dataset.rows(), dataset.bytes()),
                };
                self.progress.tell(rows, bytes)?;
            }
        }
        let (written, files) = match output {
            Output::File(writer) => {
                let written = writer.finish().await.map_err(failed)?;
                (written, vec![self.shown.clone()])
            }
            Output::Folder(dataset) => {
                let finished = dataset.finish().await.map_err(failed)?;
                let folder = self.shown.trim_end_matches('/');
                let files = finished.files.iter().map(|file| format!("{folder}/{file}"));
                (finished.written, files.collect())
            }
        };
        self.progress.tell(written.rows, written.bytes)?;
        Ok((written, files))
    }
}

fn failed(error: impl Into<Failure>) -> Broken {
    Broken::Failed(error.into())
}
