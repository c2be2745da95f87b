//! `LocalGraphStore`: a graph store open in this process.

use std::{sync::Arc, time::Duration};

use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar::Source;
use stylobate_graph::store::{CollectOptions, CompactOptions, GraphStore, PrewarmOptions, StoreOptions};
use stylobate_storage::Durability;
use tokio::sync::Mutex;

use super::{
    entry::{LogEntryTuple, entry},
    schema::{EdgeTypeTuple, VertexTypeTuple, schema},
    snapshot::PyLocalSnapshot,
    writer::PyLocalStoreWriter,
};
use crate::{
    cache::{PyCache, byte_size, given_or_default},
    errors::{ErrorClass, ResultExt},
    graph::GraphHandle,
    interop::json::to_python,
    location::location,
    options::write::{parsed, positive},
    process::ProcessRuntime,
    scan::options,
};

/// Type, version, true if rewritten to one base, rows, bytes.
type CompactionTuple = (String, u64, bool, u64, u64);

/// Implements `stylobate.GraphStore`.
#[pyclass(frozen, module = "stylobate", name = "LocalGraphStore")]
pub(crate) struct PyLocalGraphStore {
    store: GraphHandle<GraphStore>,
    cache: Py<PyCache>,
}

fn store_options(given: &Bound<'_, PyDict>) -> PyResult<StoreOptions> {
    let mut options = StoreOptions::default();
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        options = match name.as_str() {
            "inline_limit" => options.with_inline_limit(byte_size(&name, &value)?),
            "vertex_chunk_size" => options.with_vertex_chunk_size(positive(&name, &value)? as u64),
            "edge_chunk_size" => options.with_edge_chunk_size(positive(&name, &value)? as u64),
            "memory" => options.with_memory(byte_size(&name, &value)?),
            "durability" => options.with_durability(parsed::<Durability>(&name, &value)?),
            "temporary_folder" => options.with_temporary_folder(location(&value)?),
            other => return Err(ErrorClass::Config.error(value.py(), format!("{other}: no such option"))),
        };
    }

    Ok(options)
}

/// Builds the prewarm options: vertex and edge types with some or all columns, and a limit in bytes.
fn prewarm_options(
    types: Vec<(String, Option<Vec<String>>)>,
    limit: Option<&Bound<'_, PyAny>>,
) -> PyResult<PrewarmOptions> {
    let mut options = PrewarmOptions::default();
    for (name, columns) in types {
        options = match columns {
            Some(columns) => options.with_columns(name, columns),
            None => options.with_type(name),
        };
    }

    Ok(match limit {
        Some(limit) => options.with_limit(byte_size("limit", limit)?),
        None => options,
    })
}

/// The location of a store, and the arguments it is opened with.
struct StoreOpenContext {
    process: ProcessRuntime,
    source: Source,
    cache: Py<PyCache>,
    options: StoreOptions,
}

impl StoreOpenContext {
    fn new(
        py: Python<'_>,
        url: &Bound<'_, PyAny>,
        given: &Bound<'_, PyDict>,
        cache: Option<Py<PyCache>>,
        storage_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = storage_options.map(options).transpose()?.unwrap_or_default();
        let source = Source::Url { url: location(url)?, options };
        let process = ProcessRuntime::current(py)?;
        let cache = given_or_default(py, cache)?;
        Ok(Self { process, source, cache, options: store_options(given)? })
    }
}

#[pymethods]
impl PyLocalGraphStore {
    /// Creates an empty store.
    #[staticmethod]
    #[pyo3(signature = (url, vertices, edges, given, cache=None, storage_options=None))]
    fn create(
        py: Python<'_>,
        url: &Bound<'_, PyAny>,
        vertices: Vec<VertexTypeTuple>,
        edges: Vec<EdgeTypeTuple>,
        given: &Bound<'_, PyDict>,
        cache: Option<Py<PyCache>>,
        storage_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let StoreOpenContext { process, source, cache, options } =
            StoreOpenContext::new(py, url, given, cache, storage_options)?;
        let schema = schema(py, vertices, edges)?;
        let shared = cache.get().get(py)?;
        let store =
            process.run(py, async move { GraphStore::create(&shared, source, schema, options).await })?;
        Ok(Self { store: GraphHandle::new(process, store), cache })
    }

    /// Opens the latest version of a store.
    #[staticmethod]
    #[pyo3(signature = (url, given, cache=None, storage_options=None))]
    fn open(
        py: Python<'_>,
        url: &Bound<'_, PyAny>,
        given: &Bound<'_, PyDict>,
        cache: Option<Py<PyCache>>,
        storage_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let StoreOpenContext { process, source, cache, options } =
            StoreOpenContext::new(py, url, given, cache, storage_options)?;
        let shared = cache.get().get(py)?;
        let store = process.run(py, async move { GraphStore::open(&shared, source, options).await })?;
        Ok(Self { store: GraphHandle::new(process, store), cache })
    }

    /// Loads newer versions, and returns the latest.
    fn refresh(&self, py: Python<'_>) -> PyResult<PyLocalSnapshot> {
        let (process, store) = self.store.get(py)?;
        let snapshot = process.run(py, async move { store.refresh().await })?;
        Ok(PyLocalSnapshot { snapshot: GraphHandle::new(process, snapshot) })
    }

    /// Returns a version; by default the latest known one.
    #[pyo3(signature = (version=None))]
    fn snapshot(&self, py: Python<'_>, version: Option<u64>) -> PyResult<PyLocalSnapshot> {
        let (process, store) = self.store.get(py)?;
        let snapshot = process.run(py, async move { store.snapshot(version).await })?;
        Ok(PyLocalSnapshot { snapshot: GraphHandle::new(process, snapshot) })
    }

    fn log(&self, py: Python<'_>) -> PyResult<Vec<LogEntryTuple>> {
        let (process, store) = self.store.get(py)?;
        let entries = process.run(py, async move { store.log().await })?;
        Ok(entries.into_iter().map(entry).collect())
    }

    fn writer(&self, py: Python<'_>) -> PyResult<PyLocalStoreWriter> {
        let (process, store) = self.store.get(py)?;
        let writer = process.run(py, async move { store.writer().await })?;
        Ok(PyLocalStoreWriter { writer: GraphHandle::new(process, Arc::new(Mutex::new(writer))) })
    }

    #[pyo3(signature = (types=None, share=None, force=false))]
    fn compact(
        &self,
        py: Python<'_>,
        types: Option<Vec<String>>,
        share: Option<f64>,
        force: bool,
    ) -> PyResult<Vec<CompactionTuple>> {
        let (process, store) = self.store.get(py)?;
        let mut options = CompactOptions::default().with_force(force);
        if let Some(types) = types {
            options = options.with_types(types);
        }
        if let Some(share) = share {
            options = options.with_share(share);
        }

        let done = process.run(py, async move { store.compact(&options).await })?;
        Ok(done.into_iter().map(|it| (it.of, it.version, it.rewritten, it.rows, it.bytes)).collect())
    }

    /// Removes old versions; returns the versions, files and bytes that were removed, or would be by a dry run.
    #[pyo3(signature = (older_than=None, even_young=false, dry_run=false))]
    fn gc(
        &self,
        py: Python<'_>,
        older_than: Option<f64>,
        even_young: bool,
        dry_run: bool,
    ) -> PyResult<(Vec<u64>, u64, u64)> {
        let (process, store) = self.store.get(py)?;
        let mut options = CollectOptions::default().with_even_young(even_young).with_dry_run(dry_run);
        if let Some(seconds) = older_than {
            let age = Duration::try_from_secs_f64(seconds);
            options = options.with_older_than(age.map_err(|error| {
                ErrorClass::Config.error(py, format!("older_than: {seconds} seconds: {error}"))
            })?);
        }

        let gone = process.run(py, async move { store.collect_garbage(&options).await })?;
        Ok((gone.versions, gone.files, gone.bytes))
    }

    /// Loads types into the cache. With `wait`, returns the bytes and whether the limit was reached; otherwise loads in
    /// the background.
    #[pyo3(signature = (types, limit=None, wait=true))]
    fn prewarm(
        &self,
        py: Python<'_>,
        types: Vec<(String, Option<Vec<String>>)>,
        limit: Option<&Bound<'_, PyAny>>,
        wait: bool,
    ) -> PyResult<Option<(u64, bool)>> {
        let (process, store) = self.store.get(py)?;
        let options = prewarm_options(types, limit)?;
        if !wait {
            let _runtime = process.runtime().enter();
            drop(store.prewarm_in_background(&options).or_raise(py)?);
            return Ok(None);
        }

        let warmed = process.run(py, async move { store.latest().prewarm(&options).await })?;
        Ok(Some((warmed.bytes, warmed.at_limit)))
    }

    /// Returns the memory use of the store by kind, and its request counters.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.store.get(py)?.1.stats())
    }

    /// Returns the statistics of the cache that the store uses.
    fn cache_stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.cache.get().get(py)?.stats())
    }
}
