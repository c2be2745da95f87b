//! `LocalQuery`: a SQL query in this process, planned on creation and run any number of times.

pub(super) mod exported;
mod table;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::datatypes::SchemaRef;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyDict},
};
use pyo3_arrow::error::PyArrowResult;
use stylobate_datafusion::{SqlQuery, SqlSession, remove_spill_folder};

use self::table::GivenTable;
use crate::{
    cache::{PyCache, given_or_default},
    errors::ResultExt,
    interop::{
        batches::{PyBatchIterator, PyBatches},
        exported::PySchema,
        source::StreamSource,
    },
    location::text,
    options::write::positive,
    process::{
        ProcessOwned, ProcessRuntime,
        exit::{CloseAtExit, close_at_exit},
    },
    scan::options,
};

/// Maximum age of a reused plan: its files may be replaced.
const PLAN_LIFETIME: Duration = Duration::from_secs(10);

/// Implements `stylobate.Query`.
#[pyclass(frozen, module = "stylobate", name = "LocalQuery")]
pub(crate) struct PyLocalQuery {
    request: QueryRequest,
    /// The schema of the rows, without views.
    schema: SchemaRef,
    planned: Mutex<(Instant, ProcessOwned<PlannedQuery>)>,
}

/// The arguments of `stylobate.sql`.
struct QueryRequest {
    sql: String,
    tables: Vec<(String, GivenTable)>,
    threads: Option<usize>,
    spill: Option<PathBuf>,
    options: Vec<(String, String)>,
    cache: Py<PyCache>,
}

#[derive(Clone)]
struct PlannedQuery {
    query: Arc<SqlQuery>,
    spill: Arc<SpillFolder>,
}

/// The folder that the query spills to. It is removed with the query, or at exit.
struct SpillFolder(ProcessOwned<Option<PathBuf>>);

impl CloseAtExit for SpillFolder {
    fn close(&self, _py: Python<'_>) -> PyResult<()> {
        if let Some(Some(folder)) = self.0.get() {
            remove_spill_folder(folder);
        }
        Ok(())
    }
}

impl QueryRequest {
    fn plan(&self, py: Python<'_>, process: &ProcessRuntime) -> PyResult<PlannedQuery> {
        let (cache, memory) = self.cache.get().get_for_queries(py)?;
        let mut builder =
            SqlSession::builder(cache).with_memory(memory).with_store_options(self.options.clone());
        if let Some(threads) = self.threads {
            builder = builder.with_threads(threads);
        }
        if let Some(folder) = &self.spill {
            builder = builder.with_spill_folder(folder);
        }

        let session = builder.build().or_raise(py)?;
        for (name, table) in &self.tables {
            table.add_to(py, process, &session, name)?;
        }

        let sql = self.sql.clone();
        let query = process.run(py, async move { session.prepare(&sql).await })?;
        let folder = ProcessOwned::new(process.clone(), query.spill_folder().map(Path::to_owned));
        let spill = Arc::new(SpillFolder(folder));
        close_at_exit(&spill);
        Ok(PlannedQuery { query: Arc::new(query), spill })
    }
}

impl PyLocalQuery {
    /// Returns the plan for a new run.
    fn planned(&self, py: Python<'_>, process: &ProcessRuntime) -> PyResult<PlannedQuery> {
        let known = {
            let planned = self.planned.lock();
            let (made, query) = &*planned;
            query.get().filter(|_| made.elapsed() < PLAN_LIFETIME).cloned()
        };
        if let Some(query) = known {
            return Ok(query);
        }

        let query = self.request.plan(py, process)?;
        *self.planned.lock() = (Instant::now(), ProcessOwned::new(process.clone(), query.clone()));
        Ok(query)
    }

    /// Returns the stream of a new run, with strings and bytes as views if requested.
    fn source(&self, py: Python<'_>, views: bool) -> PyResult<StreamSource> {
        let process = ProcessRuntime::current(py)?;
        let PlannedQuery { query, spill } = self.planned(py, &process)?;
        let schema = if views { query.schema().clone() } else { query.schema_without_views() };

        let run = async move {
            let rows = query.run().await?;
            let rows = if views { rows } else { rows.without_views() };
            // Computing the batches on this thread would delay the check for signals.
            Ok::<_, stylobate_datafusion::Error>(rows.in_task())
        };
        let begin = move || {
            stream::once(run).try_flatten().map(move |batch| {
                let _folder = &spill;
                batch
            })
        };
        Ok(StreamSource::new(process, schema, begin))
    }
}

#[pymethods]
impl PyLocalQuery {
    #[new]
    #[pyo3(signature = (sql, tables, *, threads=None, spill=None, storage_options=None, cache=None))]
    fn new(
        py: Python<'_>,
        sql: String,
        tables: Vec<(String, String, Bound<'_, PyAny>)>,
        threads: Option<&Bound<'_, PyAny>>,
        spill: Option<&Bound<'_, PyAny>>,
        storage_options: Option<&Bound<'_, PyDict>>,
        cache: Option<Py<PyCache>>,
    ) -> PyResult<Self> {
        let process = ProcessRuntime::current(py)?;
        let table = |(name, kind, value): (String, String, Bound<'_, PyAny>)| {
            let table = GivenTable::of(py, &process, &kind, &value)?;
            Ok((name, table))
        };
        let request = QueryRequest {
            sql,
            tables: tables.into_iter().map(table).collect::<PyResult<_>>()?,
            threads: threads.map(|threads| positive("threads", threads)).transpose()?,
            spill: spill.map(|folder| Ok::<_, PyErr>(PathBuf::from(text(folder)?))).transpose()?,
            options: storage_options.map(options).transpose()?.unwrap_or_default(),
            cache: given_or_default(py, cache)?,
        };

        let planned = request.plan(py, &process)?;
        let schema = planned.query.schema_without_views();
        let planned = Mutex::new((Instant::now(), ProcessOwned::new(process, planned)));
        Ok(Self { request, schema, planned })
    }

    /// The schema of the rows.
    #[getter]
    fn schema(&self) -> PySchema {
        self.schema.clone().into()
    }

    /// Runs the query, and counts its rows.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        self.source(py, true)?.count(py)
    }

    /// Collects all batches in memory; strings and bytes as views if requested.
    #[pyo3(signature = (views=false))]
    fn collect(&self, py: Python<'_>, views: bool) -> PyResult<PyBatches> {
        self.source(py, views)?.collect(py)
    }

    /// Returns an iterator over the batches.
    fn batches(&self, py: Python<'_>) -> PyResult<PyBatchIterator> {
        Ok(self.source(py, false)?.batches())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        self.source(py, false)?.capsule(py, requested_schema)
    }
}
