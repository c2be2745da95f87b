//! `generate_tpch`, `generate_tpcds` and `generate_snb`: benchmark tables as files or streams.

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use pyo3::{
    prelude::*,
    types::{PyCapsule, PyDict},
};
use pyo3_arrow::error::PyArrowResult;
use stylobate_columnar::WriteFormat;
use stylobate_datagen::{
    Benchmark, Event, FileEntry, FileFormat, GenerateRequest, Output, Part, Scale, Table,
};
use stylobate_storage::{Durability, SinkKind, SinkOptions};
use tokio::time::timeout;

use crate::{
    errors::{ErrorClass, ResultExt},
    interop::{exported::PySchema, source::StreamSource, stream::InterruptibleError},
    location::location,
    options::write::parsed,
    process::{ProcessRuntime, SignalPoller},
    progress::{ProgressCallback, REPORT_INTERVAL},
    scan::options,
};

/// A generated file: path or URL, table, part number, rows, bytes.
type GeneratedFileTuple = (String, String, u32, u64, u64);

fn benchmark(py: Python<'_>, name: &str) -> PyResult<Benchmark> {
    match name {
        "tpch" => Ok(Benchmark::TpcH),
        "tpcds" => Ok(Benchmark::TpcDs),
        "snb" => Ok(Benchmark::Snb),
        other => Err(ErrorClass::Config.error(py, format!("{other}: no such benchmark"))),
    }
}

/// Implements `stylobate.generate_tpch` and the other generators when they write files.
#[pyfunction]
#[pyo3(signature = (name, scale, output, given, storage_options=None, progress=None))]
pub(crate) fn generate(
    py: Python<'_>,
    name: &str,
    scale: f64,
    output: &Bound<'_, PyAny>,
    given: &Bound<'_, PyDict>,
    storage_options: Option<&Bound<'_, PyDict>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<GeneratedFileTuple>> {
    let benchmark = benchmark(py, name)?;
    let scale = Scale::new(scale).or_raise(py)?;
    let (request, sinks) = request(py, GenerateRequest::new(benchmark, scale), given)?;
    let store = storage_options.map(options).transpose()?.unwrap_or_default();
    let output = Output::open(&location(output)?, &store, sinks).or_raise(py)?;
    let process = ProcessRuntime::current(py)?;
    let folder = output.name().to_owned();
    let made = py.detach(|| {
        let run = run(&request, &output, ProgressCallback::new(progress));
        process.wait_detached(run, &mut SignalPoller::new())
    });

    let files = made?.map_err(|broken| broken.raised(py))?;
    let made =
        |file: FileEntry| (format!("{folder}/{}", file.path), file.table, file.part, file.rows, file.bytes);

    Ok(files.into_iter().map(made).collect())
}

/// Builds the request from the keyword arguments.
fn request(
    py: Python<'_>,
    mut request: GenerateRequest,
    given: &Bound<'_, PyDict>,
) -> PyResult<(GenerateRequest, SinkOptions)> {
    let mut sinks = SinkOptions::default();
    let mut compression = None;
    let mut rows = None;
    let mut format = "parquet".to_owned();
    let mut parts = 1;
    let mut part = None;

    for (name, value) in given {
        let name: String = name.extract()?;
        match name.as_str() {
            "tables" => request = request.with_tables(&value.extract::<Vec<String>>()?).or_raise(py)?,
            "parts" => parts = value.extract()?,
            "part" => part = Some(value.extract()?),
            "format" => format = value.extract()?,
            "compression" => compression = Some(value.str()?.extract::<String>()?),
            "row_group_size" => rows = Some(value.extract::<usize>()?.max(1)),
            "sink" => sinks = sinks.with_kind(parsed::<SinkKind>(&name, &value)?),
            "durability" => sinks = sinks.with_durability(parsed::<Durability>(&name, &value)?),
            "overwrite" => request = request.with_overwrite(value.extract()?),
            "threads" => request = request.with_threads(value.extract()?),
            "seed" => request = request.with_seed(value.extract()?),
            other => return Err(ErrorClass::Config.error(py, format!("{other}: no such option"))),
        }
    }

    let refused = |reason: &str| Err(ErrorClass::Config.error(py, reason));
    let Some(format) = format_named(&format) else {
        return refused(&format!("format: give \"parquet\", \"orc\", \"csv\" or \"arrow\", not {format:?}"));
    };

    if compression.is_some() && !format.is_columnar() {
        return refused("compression is for format=\"parquet\" and format=\"orc\"");
    }
    if rows.is_some() && format != WriteFormat::Parquet {
        return refused("row_group_size is for format=\"parquet\"");
    }

    let format = FileFormat::new(format, compression.as_deref(), rows);
    let format = format.map_err(|error| ErrorClass::Config.error(py, format!("compression: {error}")))?;
    let request = request.with_format(format).with_parts(parts, part).or_raise(py)?;
    Ok((request, sinks))
}

/// Returns a format that tables are generated in.
fn format_named(name: &str) -> Option<WriteFormat> {
    let is_generated = |format: &WriteFormat| !matches!(format, WriteFormat::Json | WriteFormat::ArrowStream);
    name.parse().ok().filter(is_generated)
}

async fn run(
    request: &GenerateRequest,
    output: &Output,
    mut progress: ProgressCallback,
) -> Result<Vec<FileEntry>, InterruptibleError> {
    let rows = AtomicU64::new(0);
    let bytes = AtomicU64::new(0);
    let add = |(more_rows, more_bytes): (u64, u64)| {
        rows.fetch_add(more_rows, Relaxed);
        bytes.fetch_add(more_bytes, Relaxed);
    };

    let observe = |event| match event {
        Event::Kept(file) => add((file.rows, file.bytes)),
        Event::Rows { rows, bytes } => add((rows, bytes)),
        _ => {}
    };

    let mut work = pin!(request.generate(output, observe));
    loop {
        if let Ok(made) = timeout(REPORT_INTERVAL, work.as_mut()).await {
            let made = made.map_err(|error| InterruptibleError::Failed(error.into()))?;
            progress.report(rows.load(Relaxed), bytes.load(Relaxed))?;
            return Ok(made.files);
        }
        progress.report(rows.load(Relaxed), bytes.load(Relaxed))?;
    }
}

/// A table of a benchmark, generated again on each read.
#[pyclass(frozen, module = "stylobate", name = "GeneratedTable")]
pub(crate) struct PyGeneratedTable {
    table: Table,
    scale: Scale,
    part: Part,
    threads: usize,
}

#[pymethods]
impl PyGeneratedTable {
    /// Returns the tables with these names, or all tables of the benchmark.
    #[staticmethod]
    #[pyo3(signature = (name, scale, tables=None, parts=1, part=1, threads=None, seed=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn all(
        py: Python<'_>,
        name: &str,
        scale: f64,
        tables: Option<Vec<String>>,
        parts: u32,
        part: u32,
        threads: Option<usize>,
        seed: Option<u64>,
    ) -> PyResult<Vec<Self>> {
        let benchmark = benchmark(py, name)?;
        let scale = Scale::new(scale).or_raise(py)?;
        let part = Part::new(part, parts).or_raise(py)?;
        let threads = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
        let tables = match tables {
            None => benchmark.tables(),
            Some(names) => {
                names.iter().map(|name| benchmark.table(name)).collect::<Result<_, _>>().or_raise(py)?
            }
        };

        let of_seed = |table: Table| seed.map_or(table, |seed| table.with_seed(seed));
        let generated = |table| Self { table: of_seed(table), scale, part, threads: threads.max(1) };

        Ok(tables.into_iter().map(generated).collect())
    }

    /// The name of the table.
    #[getter]
    fn name(&self) -> &'static str {
        self.table.name()
    }

    /// The schema of the table.
    #[getter]
    fn schema(&self) -> PySchema {
        self.table.schema(self.scale).into()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let stream = py.detach(|| self.table.stream(self.scale, self.part, self.threads)).or_raise(py)?;
        let process = ProcessRuntime::current(py)?;
        let schema = self.table.schema(self.scale);
        StreamSource::new(process, schema, move || futures::stream::iter(stream))
            .capsule(py, requested_schema)
    }
}
