//! `LocalScan`: a scan in this process, planned on creation and run any number of times.

pub(super) mod sequential;

use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::{ObjectStoreExt, path::Path};
use parking_lot::Mutex;
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBool, PyBytes, PyCapsule, PyDict, PyList, PyString, PyTuple},
};
use pyo3_arrow::error::PyArrowResult;
use serde_json::{Map, Value};
use stylobate_columnar::{
    Dictionaries, Scan, ScanRequest, SequentialRequest, Source, Strings, parquet::Decryption,
};
use stylobate_storage::{Consistency, ConsistencyRules, Origin, ReadOptions, ReadThrough};

use crate::{
    cache::{PyCache, given_or_default},
    errors::{ErrorClass, ResultExt, UnraisedError},
    expression::filter,
    interop::{
        arrow_types,
        batches::{PyBatchIterator, PyBatches},
        exported::PySchema,
        source::StreamSource,
    },
    location::location,
    process::{ProcessOwned, ProcessRuntime},
};

/// Maximum age of a reused plan, the same as for answers of origins: its files may be replaced.
const PLAN_LIFETIME: Duration = Duration::from_secs(10);

/// Implements `stylobate.Scan` when this process reads the files.
#[pyclass(frozen, module = "stylobate", name = "LocalScan")]
pub(crate) struct PyLocalScan {
    request: ScanRequest,
    has_batch_rows: bool,
    cache: Py<PyCache>,
    /// The process whose memory holds the files, if any were given as bytes.
    memory: Option<ProcessRuntime>,
    schema: arrow::datatypes::SchemaRef,
    /// Number of output rows, and of files, on creation.
    known_rows: Option<u64>,
    file_count: usize,
    /// The plan made on creation, for the first run.
    planned: Mutex<Option<(Instant, ProcessOwned<Scan>)>>,
}

impl PyLocalScan {
    fn plan(
        py: Python<'_>,
        process: &ProcessRuntime,
        request: ScanRequest,
        cache: &Py<PyCache>,
    ) -> PyResult<Scan> {
        let cache = cache.get().get(py)?;
        process.run(py, async move { request.plan(&cache).await })
    }

    fn plan_again(&self, py: Python<'_>, process: &ProcessRuntime, request: ScanRequest) -> PyResult<Scan> {
        check_memory(py, self.memory.as_ref())?;
        Self::plan(py, process, request, &self.cache)
    }

    /// Returns the plan for a new run.
    fn planned(&self, py: Python<'_>, process: &ProcessRuntime) -> PyResult<Scan> {
        let kept = self.planned.lock().take().filter(|(made, _)| made.elapsed() < PLAN_LIFETIME);
        match kept.and_then(|(_, mut plan)| plan.take()) {
            Some(plan) => Ok(plan),
            None => self.plan_again(py, process, self.request.clone()),
        }
    }

    /// Returns the stream of a new run.
    pub(crate) fn source(&self, py: Python<'_>) -> PyResult<StreamSource> {
        let process = ProcessRuntime::current(py)?;
        let scan = self.planned(py, &process)?;
        Ok(StreamSource::of_scan(process, scan))
    }

    /// Plans the scan as a table of SQL: strings are views, and no column is a dictionary.
    pub(crate) fn plan_for_sql(&self, py: Python<'_>, process: &ProcessRuntime) -> PyResult<Scan> {
        let request = self.request.clone().with_strings(Strings::View).with_dictionary(Dictionaries::None);
        self.plan_again(py, process, request)
    }

    /// Like [`Self::source`], for a writer: yields dictionary codes for columns that the files store as dictionaries.
    pub(crate) fn codes_source(&self, py: Python<'_>) -> PyResult<StreamSource> {
        let process = ProcessRuntime::current(py)?;
        let scan = Self::plan(py, &process, self.request.clone().with_codes(true), &self.cache)?;
        Ok(StreamSource::of_scan(process, scan))
    }
}

#[pymethods]
impl PyLocalScan {
    #[new]
    #[pyo3(signature = (
        paths, *, columns=None, filter=None, dictionary=None, strings=None, limit=None, batch_rows=None, threads=None,
        storage_options=None, decryption=None, cache=None, table=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of stylobate.scan")]
    fn new(
        py: Python<'_>,
        paths: &Bound<'_, PyAny>,
        columns: Option<Vec<String>>,
        filter: Option<&Bound<'_, PyAny>>,
        dictionary: Option<&Bound<'_, PyAny>>,
        strings: Option<&str>,
        limit: Option<u64>,
        batch_rows: Option<usize>,
        threads: Option<usize>,
        storage_options: Option<&Bound<'_, PyDict>>,
        decryption: Option<&Bound<'_, PyDict>>,
        cache: Option<Py<PyCache>>,
        table: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = storage_options.map(options).transpose()?.unwrap_or_default();
        let cache = given_or_default(py, cache)?;
        let process = ProcessRuntime::current(py)?;
        let paths = SourceResolver { options, cache: &cache, process: &process }.sources(paths)?;
        let memory = paths.iter().any(is_in_memory).then(|| process.clone());
        let mut request = ScanRequest::over(paths)
            .with_dictionary(dictionaries(dictionary)?)
            .with_strings(self::strings(strings)?);
        if let Some(table) = table {
            request = with_table_options(request, table)?;
        }
        if let Some(columns) = columns {
            request = request.with_columns(columns);
        }
        if let Some(filter) = filter {
            request = request.with_filter(self::filter(filter)?);
        }
        if let Some(limit) = limit {
            request = request.with_limit(limit);
        }
        if let Some(keys) = decryption {
            request = request.with_decryption(self::decryption(keys)?);
        }

        let positive = |name: &str, number: usize| match number {
            0 => Err(ErrorClass::Config.error(py, format!("{name}: give at least 1"))),
            number => Ok(number),
        };

        if let Some(rows) = batch_rows {
            request = request.with_batch_rows(positive("batch_rows", rows)?);
        }
        if let Some(threads) = threads {
            request = request.with_threads(positive("threads", threads)?);
        }

        let has_batch_rows = batch_rows.is_some();
        let plan = Self::plan(py, &process, request.clone(), &cache)?;
        let schema = plan.schema().clone();
        let known_rows = plan.known_rows();
        let file_count = plan.file_count();
        let planned = Mutex::new(Some((Instant::now(), ProcessOwned::new(process, plan))));

        Ok(Self { request, has_batch_rows, cache, memory, schema, known_rows, file_count, planned })
    }

    /// The schema of the output.
    #[getter]
    fn schema(&self) -> PySchema {
        self.schema.clone().into()
    }

    /// The number of rows as of the creation of the scan, if known from footers.
    #[getter]
    fn known_rows(&self) -> Option<u64> {
        self.known_rows
    }

    /// The number of files as of the creation of the scan.
    #[getter]
    fn file_count(&self) -> usize {
        self.file_count
    }

    /// Counts the rows: from footers if possible, otherwise by reading the filter's columns.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let process = ProcessRuntime::current(py)?;
        let request = self.request.clone().with_columns(Vec::<String>::new());
        let scan = self.plan_again(py, &process, request)?;
        match scan.known_rows() {
            Some(rows) => Ok(rows),
            None => StreamSource::of_scan(process, scan).count(py),
        }
    }

    /// Collects all batches in memory.
    fn collect(&self, py: Python<'_>) -> PyResult<PyBatches> {
        let process = ProcessRuntime::current(py)?;
        let mut scan = self.planned(py, &process)?;
        if !self.has_batch_rows {
            // All rows end up in memory anyway, and each batch costs a wake-up and an export.
            scan = scan.with_long_batches();
        }
        StreamSource::of_scan(process, scan).collect(py)
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

/// Fails if files were given as bytes to the parent that this process was forked from.
pub(crate) fn check_memory(py: Python<'_>, memory: Option<&ProcessRuntime>) -> PyResult<()> {
    match memory {
        Some(memory) if !memory.is_current() => Err(ErrorClass::Stylobate.error(
            py,
            "this scan of bytes was made before the process was forked: make it again in the child",
        )),
        _ => Ok(()),
    }
}

/// Converts store options to the string pairs of the object_store crate.
pub(crate) fn options(options: &Bound<'_, PyDict>) -> PyResult<Vec<(String, String)>> {
    let pair = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let value = match value.cast::<PyBool>() {
            Ok(value) => value.is_true().to_string(),
            Err(_) => value.str()?.extract()?,
        };
        Ok((key.extract()?, value))
    };
    options.iter().map(pair).collect()
}

/// Reads the keys of `decryption`.
fn decryption(given: &Bound<'_, PyDict>) -> PyResult<Decryption> {
    let mut footer_key = None;
    let mut column_keys = None;
    let mut aad_prefix = None;
    for (name, value) in given.iter() {
        match name.extract::<String>()?.as_str() {
            "footer_key" => footer_key = Some(key("footer_key", &value)?),
            "column_keys" if value.is_none() => {}
            "column_keys" => column_keys = Some(value.cast_into::<PyDict>()?),
            "aad_prefix" if value.is_none() => {}
            "aad_prefix" => aad_prefix = Some(value.extract::<Vec<u8>>()?),
            other => {
                let reason =
                    format!("decryption: there is no {other:?}: give footer_key, column_keys, aad_prefix");
                return Err(ErrorClass::Config.error(given.py(), reason));
            }
        }
    }

    let Some(footer_key) = footer_key else {
        return Err(ErrorClass::Config.error(given.py(), "decryption: give footer_key".to_owned()));
    };

    let mut decryption = Decryption::new(footer_key);
    for (column, value) in column_keys.iter().flat_map(|keys| keys.iter()) {
        let column: String = column.extract()?;
        decryption = decryption.with_column_key(&column, key(&column, &value)?);
    }

    Ok(match aad_prefix {
        Some(prefix) => decryption.with_aad_prefix(prefix),
        None => decryption,
    })
}

/// Reads a key, and checks its length.
fn key(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let key: Vec<u8> = value.cast::<PyBytes>()?.as_bytes().to_vec();
    if matches!(key.len(), 16 | 32) {
        return Ok(key);
    }
    let reason = format!("decryption: the key {name} has {} bytes: give 16 or 32", key.len());
    Err(ErrorClass::Config.error(value.py(), reason))
}

/// Resolves paths with the store options, cache and runtime of a scan.
pub(crate) struct SourceResolver<'a> {
    pub(crate) options: Vec<(String, String)>,
    pub(crate) cache: &'a Py<PyCache>,
    pub(crate) process: &'a ProcessRuntime,
}

impl SourceResolver<'_> {
    /// Resolves one path or several, or the bytes of files.
    pub(crate) fn sources(&self, paths: &Bound<'_, PyAny>) -> PyResult<Vec<Source>> {
        if !paths.is_instance_of::<PyList>() && !paths.is_instance_of::<PyTuple>() {
            return Ok(vec![self.source(paths)?]);
        }

        let sources: Vec<_> = paths.try_iter()?.map(|path| self.source(&path?)).collect::<PyResult<_>>()?;
        if sources.is_empty() {
            return Err(UnraisedError::new(ErrorClass::Config, "paths: the list is empty").raised(paths.py()));
        }

        Ok(sources)
    }

    fn source(&self, path: &Bound<'_, PyAny>) -> PyResult<Source> {
        match path.cast::<PyBytes>() {
            Ok(bytes) => self.in_memory(path.py(), Bytes::from_owner(PyBackedBytes::from(bytes.clone()))),
            Err(_) => Ok(Source::Url { url: location(path)?, options: self.options.clone() }),
        }
    }

    /// Puts the bytes of a file into an in-memory store of its own.
    fn in_memory(&self, py: Python<'_>, bytes: Bytes) -> PyResult<Source> {
        let read = ReadOptions::default();
        let origin = Origin::parse("memory:///", &[], &read.requests).or_raise(py)?;
        let store = origin.store().clone();
        let put = async move { store.put(&Path::from("bytes"), bytes.into()).await };
        if let Err(error) = self.process.wait(py, put)? {
            return Err(ErrorClass::Storage.error(py, error.to_string()));
        }

        let pages = self.cache.get().get(py)?.pages().clone();
        let rules = ConsistencyRules::new(Consistency::Immutable);

        Ok(Source::Store { store: ReadThrough::new(origin, pages, rules, read), pattern: "bytes".to_owned() })
    }
}

/// Returns whether the source is the bytes of a file.
pub(crate) fn is_in_memory(source: &Source) -> bool {
    matches!(source, Source::Store { .. })
}

/// Defines a function that applies the table options to a request: `schema`, `casts`, `partitioning`, `glob`, `filename`
/// and `file_row_number`. All requests have methods of the same names for them.
macro_rules! table_options_of {
    ($function:ident, $request:ty) => {
        fn $function(mut request: $request, table: &Bound<'_, PyDict>) -> PyResult<$request> {
            for (name, value) in table {
                let name: String = name.extract()?;
                request = match name.as_str() {
                    "schema" => request.with_table_schema(arrow_types::schema(&name, &value)?),
                    "casts" => request.with_casts(arrow_types::column_types(&name, value.cast()?)?),
                    "partition_types" => {
                        let types = arrow_types::column_types("partitioning", value.cast()?)?;
                        request.with_partition_types(types)
                    }
                    "hive" => request.with_hive_partitions(value.extract()?),
                    "glob" => request.with_glob(value.extract()?),
                    "filename" => request.with_filename(value.extract::<String>()?),
                    "file_row_number" => request.with_file_row_number(value.extract::<String>()?),
                    _ => return Err(PyTypeError::new_err(format!("{name}: no such option"))),
                };
            }

            Ok(request)
        }
    };
}

table_options_of!(with_table_options, ScanRequest);
table_options_of!(with_sequential_table_options, SequentialRequest);

/// Converts the table options to JSON for the command of a Flight scan.
#[pyfunction]
pub(crate) fn table_command(table: &Bound<'_, PyDict>) -> PyResult<String> {
    let written =
        |value: serde_json::Result<Value>| value.map_err(|error| PyValueError::new_err(error.to_string()));
    let types = |option: &str, value: &Bound<'_, PyAny>| {
        let types = arrow_types::column_types(option, value.cast()?)?;
        let types = types
            .into_iter()
            .map(|(column, data_type)| Ok((column, written(serde_json::to_value(data_type))?)));
        types.collect::<PyResult<Map<String, Value>>>().map(Value::Object)
    };

    let mut command = Map::new();
    for (name, value) in table {
        let name: String = name.extract()?;
        let (name, value) = match name.as_str() {
            "schema" => ("schema", written(serde_json::to_value(&*arrow_types::schema(&name, &value)?))?),
            "casts" => ("casts", types(&name, &value)?),
            "partition_types" => ("partitioning", types("partitioning", &value)?),
            "hive" if value.extract()? => continue,
            "hive" => ("partitioning", Value::from("none")),
            "glob" => ("glob", Value::from(value.extract::<bool>()?)),
            "filename" => ("filename", Value::from(value.extract::<String>()?)),
            "file_row_number" => ("file_row_number", Value::from(value.extract::<String>()?)),
            _ => return Err(PyTypeError::new_err(format!("{name}: no such option"))),
        };

        command.insert(name.to_owned(), value);
    }

    Ok(Value::Object(command).to_string())
}

fn strings(given: Option<&str>) -> PyResult<Strings> {
    match given {
        None => Ok(Strings::AsWritten),
        Some("view") => Ok(Strings::View),
        Some(other) => Err(PyValueError::new_err(format!("strings: give \"view\" or None, not {other:?}"))),
    }
}

fn dictionaries(given: Option<&Bound<'_, PyAny>>) -> PyResult<Dictionaries> {
    let wrong =
        || PyTypeError::new_err("dictionary: give \"auto\", \"stored\", True, False or a list of columns");
    let Some(given) = given else { return Ok(Dictionaries::AsWritten) };
    if let Ok(all) = given.cast::<PyBool>() {
        return Ok(if all.is_true() { Dictionaries::All } else { Dictionaries::None });
    }

    if let Ok(text) = given.cast::<PyString>() {
        return match &*text.to_cow()? {
            "auto" => Ok(Dictionaries::Auto),
            "stored" => Ok(Dictionaries::Stored),
            _ => Err(wrong()),
        };
    }

    given.extract().map(Dictionaries::Columns).map_err(|_| wrong())
}
