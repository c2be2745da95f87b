//! `LocalSequentialScan`: a scan of CSV, JSON or Arrow IPC files, planned on creation and read any number of times.

use std::time::Instant;

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyDict},
};
use pyo3_arrow::error::PyArrowResult;
use stylobate_columnar::{
    CsvHeader, CsvOptions, JsonOptions, Sample, SequentialFormat, SequentialRequest, SequentialScan, Source,
    TimestampInference,
};

use super::{
    PLAN_LIFETIME, SourceResolver, check_memory, is_in_memory, options, with_sequential_table_options,
};
use crate::{
    cache::{PyCache, byte_size, given_or_default},
    errors::ErrorClass,
    expression::filter,
    interop::{
        arrow_types::column_types,
        batches::{PyBatchIterator, PyBatches},
        exported::PySchema,
        source::StreamSource,
    },
    options::write::positive,
    process::{ProcessOwned, ProcessRuntime},
};

/// Implements `stylobate.scan_csv`, `scan_json` and `scan_ipc`.
#[pyclass(frozen, module = "stylobate", name = "LocalSequentialScan")]
pub(crate) struct PyLocalSequentialScan {
    request: SequentialRequest,
    cache: Py<PyCache>,
    /// The process whose memory holds the files, if any were given as bytes.
    memory: Option<ProcessRuntime>,
    schema: SchemaRef,
    planned: Mutex<(Instant, ProcessOwned<SequentialScan>)>,
}

impl PyLocalSequentialScan {
    fn plan(
        py: Python<'_>,
        process: &ProcessRuntime,
        request: SequentialRequest,
        cache: &Py<PyCache>,
    ) -> PyResult<SequentialScan> {
        let cache = cache.get().get(py)?;
        process.run(py, async move { request.plan(&cache).await })
    }

    /// Returns the plan for a new run.
    pub(crate) fn planned(&self, py: Python<'_>, process: &ProcessRuntime) -> PyResult<SequentialScan> {
        let known = {
            let planned = self.planned.lock();
            let (made, scan) = &*planned;
            scan.get().filter(|_| made.elapsed() < PLAN_LIFETIME).cloned()
        };

        if let Some(scan) = known {
            return Ok(scan);
        }

        check_memory(py, self.memory.as_ref())?;
        let scan = Self::plan(py, process, self.request.clone(), &self.cache)?;
        *self.planned.lock() = (Instant::now(), ProcessOwned::new(process.clone(), scan.clone()));

        Ok(scan)
    }

    /// Returns the stream of a new run.
    pub(crate) fn source(&self, py: Python<'_>) -> PyResult<StreamSource> {
        let process = ProcessRuntime::current(py)?;
        let scan = self.planned(py, &process)?;
        Ok(StreamSource::of_sequential_scan(process, scan))
    }
}

#[pymethods]
impl PyLocalSequentialScan {
    #[new]
    #[pyo3(signature = (
        format, paths, given, *, columns=None, filter=None, limit=None, batch_rows=None, storage_options=None,
        cache=None, table=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of stylobate.scan_csv")]
    fn new(
        py: Python<'_>,
        format: &str,
        paths: &Bound<'_, PyAny>,
        given: &Bound<'_, PyDict>,
        columns: Option<Vec<String>>,
        filter: Option<&Bound<'_, PyAny>>,
        limit: Option<u64>,
        batch_rows: Option<usize>,
        storage_options: Option<&Bound<'_, PyDict>>,
        cache: Option<Py<PyCache>>,
        table: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = storage_options.map(options).transpose()?.unwrap_or_default();
        let cache = given_or_default(py, cache)?;
        let process = ProcessRuntime::current(py)?;
        let sources = SourceResolver { options, cache: &cache, process: &process }.sources(paths)?;
        let memory = sources.iter().any(is_in_memory).then(|| process.clone());
        let first = match sources.first() {
            Some(Source::Url { url, .. }) => url.as_str(),
            _ => "",
        };

        let format = format_of(py, format, first, given)?;
        let mut request = SequentialRequest::over(sources, format);
        if let Some(table) = table {
            request = with_sequential_table_options(request, table)?;
        }
        if let Some(columns) = columns {
            request = request.with_columns(columns);
        }
        if let Some(given) = filter {
            request = request.with_filter(self::filter(given)?);
        }
        if let Some(limit) = limit {
            request = request.with_limit(limit);
        }

        match batch_rows {
            Some(0) => return Err(ErrorClass::Config.error(py, "batch_rows: give at least 1")),
            Some(rows) => request = request.with_batch_rows(rows),
            None => {}
        }

        let scan = Self::plan(py, &process, request.clone(), &cache)?;
        let schema = scan.schema().clone();
        let planned = Mutex::new((Instant::now(), ProcessOwned::new(process, scan)));

        Ok(Self { request, cache, memory, schema, planned })
    }

    /// The schema of the output.
    #[getter]
    fn schema(&self) -> PySchema {
        self.schema.clone().into()
    }

    /// Counts the rows.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        check_memory(py, self.memory.as_ref())?;
        let process = ProcessRuntime::current(py)?;
        let request = self.request.clone().with_columns(Vec::<String>::new());
        let scan = Self::plan(py, &process, request, &self.cache)?;
        StreamSource::of_sequential_scan(process, scan).count(py)
    }

    /// Collects all batches in memory.
    fn collect(&self, py: Python<'_>) -> PyResult<PyBatches> {
        self.source(py)?.collect(py)
    }

    /// Returns an iterator over the batches.
    fn batches(&self, py: Python<'_>) -> PyResult<PyBatchIterator> {
        Ok(self.source(py)?.batches())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        self.source(py)?.capsule(py, requested_schema)
    }
}

/// Returns the format for the extension of a path: `"csv"`, `"json"` or `"ipc"`.
#[pyfunction]
pub(crate) fn sequential_format(path: &str) -> Option<&'static str> {
    match SequentialFormat::of_path(path)? {
        SequentialFormat::Csv(_) => Some("csv"),
        SequentialFormat::Json(_) => Some("json"),
        SequentialFormat::Arrow => Some("ipc"),
        _ => None,
    }
}

/// Builds the format with its options. The extension of the first path may imply the delimiter.
fn format_of(
    py: Python<'_>,
    format: &str,
    first_path: &str,
    given: &Bound<'_, PyDict>,
) -> PyResult<SequentialFormat> {
    match format {
        "csv" => {
            let options = match SequentialFormat::of_path(first_path) {
                Some(SequentialFormat::Csv(options)) => options,
                _ => CsvOptions::default(),
            };
            Ok(SequentialFormat::Csv(csv_options(options, given)?))
        }
        "json" => Ok(SequentialFormat::Json(json_options(given)?)),
        "ipc" => Ok(SequentialFormat::Arrow),
        other => Err(ErrorClass::Config.error(py, format!("{other}: no such format"))),
    }
}

fn csv_options(mut options: CsvOptions, given: &Bound<'_, PyDict>) -> PyResult<CsvOptions> {
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        options = match name.as_str() {
            "delimiter" => options.with_delimiter(character(&name, &value)?),
            "quote" => options.with_quote(some_character(&name, &value)?),
            "escape" => options.with_escape(some_character(&name, &value)?),
            "header" => options.with_header(match value.extract::<bool>() {
                Ok(true) => CsvHeader::FirstLine,
                Ok(false) => CsvHeader::Absent,
                Err(_) => CsvHeader::Names(value.extract::<Vec<String>>()?),
            }),
            "null_values" => options.with_null_values(value.extract::<Vec<String>>()?),
            "types" => {
                for (column, data_type) in column_types("types", value.cast()?)? {
                    options = options.with_type(column, data_type);
                }
                options
            }
            "sample_rows" => options.with_sample(sample(&name, &value)?),
            "max_record" => options.with_max_record(byte_size(&name, &value)?),
            "graph" => options.with_timestamps(TimestampInference::UtcMilliseconds),
            other => return Err(unknown(&value, other)),
        };
    }

    Ok(options)
}

fn json_options(given: &Bound<'_, PyDict>) -> PyResult<JsonOptions> {
    let mut options = JsonOptions::default();
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        options = match name.as_str() {
            "types" => {
                for (column, data_type) in column_types("types", value.cast()?)? {
                    options = options.with_type(column, data_type);
                }
                options
            }
            "sample_rows" => options.with_sample(sample(&name, &value)?),
            "max_record" => options.with_max_record(byte_size(&name, &value)?),
            other => return Err(unknown(&value, other)),
        };
    }

    Ok(options)
}

fn unknown(value: &Bound<'_, PyAny>, option: &str) -> PyErr {
    ErrorClass::Config.error(value.py(), format!("{option}: no such option"))
}

fn character(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u8> {
    let text: String = value.extract()?;
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err(ErrorClass::Config
            .error(value.py(), format!("{name}: one ASCII character is needed, not {text:?}"))),
    }
}

fn some_character(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<u8>> {
    if value.is_none() { Ok(None) } else { character(name, value).map(Some) }
}

/// Parses the number of records from which types are inferred, or `"all"`.
fn sample(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Sample> {
    match value.extract::<String>() {
        Ok(text) if text == "all" => Ok(Sample::All),
        Ok(text) => {
            Err(ErrorClass::Config
                .error(value.py(), format!("{name}: give a number or \"all\", not {text:?}")))
        }
        Err(_) => Ok(Sample::Rows(positive(name, value)? as u64)),
    }
}
