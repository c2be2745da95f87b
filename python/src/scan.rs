//! `LocalScan`: a scan of this process, planned when it is made and run as often as it is asked to.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyCapsule, PyDict, PyList, PyString, PyTuple},
};
use pyo3_arrow::error::PyArrowResult;
use stylobate_columnar::{Dictionaries, Scan, ScanRequest, Source};

use crate::{
    batches::{PyBatchIterator, PyBatches},
    cache::{PyCache, given_or_default},
    errors::{Class, Failure},
    exported::{PySchema, stream_capsule},
    expression::filter,
    location::location,
    process::{Owned, Process},
    stream::{Reader, Running, of_scan},
};

/// How long the plan that was made with the scan is good for its first run: as long as answers of origins
/// are.
const PLAN_IS_GOOD_FOR: Duration = Duration::from_secs(10);

/// The work behind `stylobate.Scan` where the files are read by this process.
#[pyclass(frozen, module = "stylobate", name = "LocalScan")]
pub(crate) struct PyLocalScan {
    request: ScanRequest,
    cache: Py<PyCache>,
    schema: arrow::datatypes::SchemaRef,
    /// What planning the request gave, for the first run.
    planned: Mutex<Option<(Instant, Owned<Scan>)>>,
}

impl PyLocalScan {
    fn plan(py: Python<'_>, process: &Process, request: ScanRequest, cache: &Py<PyCache>) -> PyResult<Scan> {
        let cache = cache.get().get(py)?;
        process.run(py, async move { request.plan(&cache).await })
    }

    /// The scan, for a run within this crate.
    pub(crate) fn begin(&self, py: Python<'_>, process: &Process) -> PyResult<Scan> {
        self.planned(py, process)
    }

    /// The plan of a run that is about to begin.
    fn planned(&self, py: Python<'_>, process: &Process) -> PyResult<Scan> {
        let kept = self.planned.lock().take().filter(|(made, _)| made.elapsed() < PLAN_IS_GOOD_FOR);
        match kept.and_then(|(_, mut plan)| plan.take()) {
            Some(plan) => Ok(plan),
            None => Self::plan(py, process, self.request.clone(), &self.cache),
        }
    }
}

#[pymethods]
impl PyLocalScan {
    #[new]
    #[pyo3(signature = (
        paths, *, columns=None, filter=None, dictionary=None, limit=None, batch_rows=None, threads=None,
        storage_options=None, cache=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are the keywords of stylobate.scan")]
    fn new(
        py: Python<'_>,
        paths: &Bound<'_, PyAny>,
        columns: Option<Vec<String>>,
        filter: Option<&Bound<'_, PyAny>>,
        dictionary: Option<&Bound<'_, PyAny>>,
        limit: Option<u64>,
        batch_rows: Option<usize>,
        threads: Option<usize>,
        storage_options: Option<&Bound<'_, PyDict>>,
        cache: Option<Py<PyCache>>,
    ) -> PyResult<Self> {
        let options = storage_options.map(options).transpose()?.unwrap_or_default();
        let sources = sources(paths, &options)?;
        let mut request = ScanRequest::over(sources).with_dictionary(dictionaries(dictionary)?);
        if let Some(columns) = columns {
            request = request.with_columns(columns);
        }
        if let Some(filter) = filter {
            request = request.with_filter(self::filter(filter)?);
        }
        if let Some(limit) = limit {
            request = request.with_limit(limit);
        }
        let positive = |name: &str, number: usize| match number {
            0 => Err(Class::Config.error(py, format!("{name}: give at least 1"))),
            number => Ok(number),
        };
        if let Some(rows) = batch_rows {
            request = request.with_batch_rows(positive("batch_rows", rows)?);
        }
        if let Some(threads) = threads {
            request = request.with_threads(positive("threads", threads)?);
        }
        let cache = given_or_default(py, cache)?;
        let process = Process::current(py)?;
        let plan = Self::plan(py, &process, request.clone(), &cache)?;
        let schema = plan.schema().clone();
        let planned = Mutex::new(Some((Instant::now(), Owned::new(process, plan))));
        Ok(Self { request, cache, schema, planned })
    }

    /// The schema of what comes out.
    #[getter]
    fn schema(&self) -> PySchema {
        self.schema.clone().into()
    }

    /// The number of rows.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let process = Process::current(py)?;
        let request = self.request.clone().with_columns(Vec::<String>::new());
        let scan = Self::plan(py, &process, request, &self.cache)?;
        let rows = py.detach(|| {
            let (mut running, mut rows) = (Running::begin(process, of_scan(scan)), 0);
            while let Some(batch) = running.next()? {
                rows += batch.num_rows() as u64;
            }
            Ok(rows)
        });
        rows.map_err(|broken: crate::stream::Broken| broken.raised(py))
    }

    /// All batches, in memory.
    fn collect(&self, py: Python<'_>) -> PyResult<PyBatches> {
        let process = Process::current(py)?;
        let scan = self.planned(py, &process)?;
        let schema = scan.schema().clone();
        let collected = py.detach(|| PyBatches::collect(schema, Running::begin(process, of_scan(scan))));
        collected.map_err(|broken| broken.raised(py))
    }

    /// The batches, one after another.
    fn batches(&self, py: Python<'_>) -> PyResult<PyBatchIterator> {
        let process = Process::current(py)?;
        let scan = self.planned(py, &process)?;
        Ok(PyBatchIterator::begin(process, of_scan(scan)))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let process = Process::current(py)?;
        let scan = self.planned(py, &process)?;
        let schema = scan.schema().clone();
        stream_capsule(py, Reader::new(process, schema, of_scan(scan)), requested_schema)
    }
}

/// Options of a store as the pairs of texts that the object_store crate takes.
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

/// Where files are looked for: one path or several.
pub(crate) fn sources(paths: &Bound<'_, PyAny>, options: &[(String, String)]) -> PyResult<Vec<Source>> {
    let source =
        |path: &Bound<'_, PyAny>| Ok(Source::Url { url: location(path)?, options: options.to_vec() });
    if !paths.is_instance_of::<PyList>() && !paths.is_instance_of::<PyTuple>() {
        return Ok(vec![source(paths)?]);
    }
    let sources: Vec<_> = paths.try_iter()?.map(|path| source(&path?)).collect::<PyResult<_>>()?;
    match sources.is_empty() {
        true => Err(Failure::new(Class::Config, "paths: the list is empty").raised(paths.py())),
        false => Ok(sources),
    }
}

fn dictionaries(given: Option<&Bound<'_, PyAny>>) -> PyResult<Dictionaries> {
    let wrong =
        || PyTypeError::new_err("dictionary: give \"auto\", \"stored\", True, False or a list of columns");
    let Some(given) = given else { return Ok(Dictionaries::Auto) };
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
