//! `Cache`: decoded columns, metadata and pages that scans share, and the default cache of the process.

use std::{path::PathBuf, sync::Arc};

use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyDict};
use stylobate_columnar as columnar;
use stylobate_datafusion::QueryMemory;
use stylobate_server::config::NodeSettings;
use stylobate_storage::{ByteSize, CacheOptions, EvictionPolicy};

use crate::{
    errors::{ErrorClass, UnraisedError},
    interop::json::to_python,
    location,
    process::{
        ProcessOwned, ProcessRuntime,
        exit::{CloseAtExit, close_at_exit},
    },
};

/// Locked only while the GIL is held, and never across a release of the GIL.
static DEFAULT: Mutex<Option<Py<PyCache>>> = Mutex::new(None);

/// A cache that scans share: decoded columns and metadata of files in memory, and pages of objects in memory and on
/// disk.
///
/// `memory` bounds all of it, as a number of bytes or a string such as `"2GiB"`. Default: a quarter of the memory that
/// the process may use. With `disk`, a folder, pages of objects are kept there too, in at most `disk_capacity` bytes
/// (default: 10 GiB), and outlive the process. `policy` is the eviction policy of pages: `"lirs"` (the default),
/// `"lru"`, `"lfu"`, `"s3fifo"`, `"sieve"` or `"fifo"`.
///
/// A forked child starts with an empty cache of its own, without the disk, which stays with the parent.
///
/// >>> import stylobate as st
/// >>> with st.Cache(memory="256MiB") as cache:
/// ...     rows = st.scan("trips.parquet", cache=cache).count()
/// ...     rows = st.scan("trips.parquet", cache=cache).count()
/// ...     cache.stats()["parsed_files"]
/// 1
#[pyclass(frozen, module = "stylobate", name = "Cache")]
pub(crate) struct PyCache {
    memory: ByteSize,
    disk: Option<(PathBuf, ByteSize)>,
    policy: EvictionPolicy,
    state: Arc<ClosableCache>,
}

/// The open cache; `None` after it was closed.
#[derive(Default)]
struct ClosableCache(Mutex<Option<ProcessOwned<OpenCache>>>);

#[derive(Clone)]
struct OpenCache {
    cache: columnar::Cache,
    /// Shared by all queries that read through the cache.
    query_memory: QueryMemory,
}

impl CloseAtExit for ClosableCache {
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(mut open) = self.0.lock().take() else { return Ok(()) };
        let process = open.process().clone();
        let Some(OpenCache { cache, .. }) = open.take() else { return Ok(()) };
        process.run(py, async move {
            let closed = cache.close().await.map_err(UnraisedError::from);
            cache.clear();
            closed
        })
    }
}

impl PyCache {
    async fn opened(options: CacheOptions) -> Result<OpenCache, UnraisedError> {
        let cache = columnar::Cache::open(options).await.map_err(UnraisedError::from)?;
        let query_memory = QueryMemory::over(cache.clone());
        Ok(OpenCache { cache, query_memory })
    }

    fn options(&self) -> CacheOptions {
        let options = CacheOptions::new(self.memory).with_policy(self.policy);
        match &self.disk {
            Some((folder, capacity)) => options.with_disk(folder, *capacity),
            None => options,
        }
    }

    /// Returns the cache of this process; after a fork, a new one replaces the parent's.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<columnar::Cache> {
        Ok(self.open(py)?.cache)
    }

    /// Like [`Self::get`], with the memory that queries share.
    pub(crate) fn get_for_queries(&self, py: Python<'_>) -> PyResult<(columnar::Cache, QueryMemory)> {
        let OpenCache { cache, query_memory } = self.open(py)?;
        Ok((cache, query_memory))
    }

    fn open(&self, py: Python<'_>) -> PyResult<OpenCache> {
        let closed = || ErrorClass::Config.error(py, "the cache is closed");
        if let Some(cache) = self.state.0.lock().as_ref().ok_or_else(closed)?.get() {
            return Ok(cache.clone());
        }

        let process = ProcessRuntime::current(py)?;
        let options = CacheOptions::new(self.memory).with_policy(self.policy);
        let cache = process.run(py, Self::opened(options))?;
        let mut open = self.state.0.lock();
        let current = open.as_mut().ok_or_else(closed)?;
        // Another thread may have been first.
        if current.get().is_none() {
            *current = ProcessOwned::new(process, cache);
        }

        current.get().cloned().ok_or_else(closed)
    }

    fn is_closed(&self) -> bool {
        self.state.0.lock().is_none()
    }
}

/// Parses a number of bytes, or a string such as `2GiB`.
pub(crate) fn byte_size(name: &str, value: &Bound<'_, PyAny>) -> PyResult<ByteSize> {
    let wrong = |why: String| ErrorClass::Config.error(value.py(), format!("{name}: {why}"));
    if let Ok(text) = value.extract::<String>() {
        return text.parse().map_err(|error: stylobate_storage::ParseByteSizeError| wrong(error.to_string()));
    }
    let bytes = value.extract::<u64>();
    bytes
        .map(ByteSize::bytes)
        .map_err(|_| wrong("give a number of bytes, or a text such as \"2GiB\"".to_owned()))
}

#[pymethods]
impl PyCache {
    #[new]
    #[pyo3(signature = (memory=None, disk=None, disk_capacity=None, policy=None))]
    fn new(
        py: Python<'_>,
        memory: Option<&Bound<'_, PyAny>>,
        disk: Option<&Bound<'_, PyAny>>,
        disk_capacity: Option<&Bound<'_, PyAny>>,
        policy: Option<&str>,
    ) -> PyResult<Self> {
        let defaults = NodeSettings::default();
        let memory = match memory {
            Some(memory) => byte_size("memory", memory)?,
            None => defaults.memory,
        };

        let policy = match policy {
            Some(name) => name
                .parse::<EvictionPolicy>()
                .map_err(|error| ErrorClass::Config.error(py, error.to_string()))?,
            None => defaults.policy,
        };

        let capacity = match disk_capacity {
            Some(_) if disk.is_none() => {
                return Err(ErrorClass::Config.error(py, "disk_capacity: give disk, the folder, as well"));
            }
            Some(capacity) => byte_size("disk_capacity", capacity)?,
            None => defaults.disk_capacity,
        };

        let disk = disk
            .map(|folder| Ok::<_, PyErr>((PathBuf::from(location::text(folder)?), capacity)))
            .transpose()?;
        let cache = Self { memory, disk, policy, state: Arc::default() };
        let process = ProcessRuntime::current(py)?;
        let opened = process.run(py, Self::opened(cache.options()))?;
        *cache.state.0.lock() = Some(ProcessOwned::new(process, opened));
        close_at_exit(&cache.state);

        Ok(cache)
    }

    /// Returns the statistics of the cache, in counts and bytes: of decoded columns and metadata (`hits`, `misses`,
    /// `bytes`, `capacity` and so on), under `"pages"` those of pages of objects, and under `"memory"` the shares of
    /// the memory budget.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let cache = self.get(py)?;
        let stats = to_python(py, &cache.stats())?;
        let pages = to_python(py, &cache.page_stats())?;
        let memory = to_python(py, &cache.budget_stats())?;
        let stats_dict = stats.cast::<PyDict>()?;
        stats_dict.set_item("pages", pages)?;
        stats_dict.set_item("memory", memory)?;
        Ok(stats)
    }

    /// Returns the memory and disk by use as HTML, for notebooks.
    #[pyo3(name = "_repr_html_")]
    fn html(slf: Bound<'_, Self>) -> PyResult<String> {
        let module = slf.py().import("stylobate._html")?;
        module.call_method1("cache_html", (slf,))?.extract()
    }

    /// Drops decoded columns and metadata. Pages of objects stay.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let cache = self.get(py)?;
        py.detach(|| cache.clear());
        Ok(())
    }

    /// Writes dirty pages to disk and releases all memory. Scans can no longer use the cache.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.close(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let disk = match &self.disk {
            Some((folder, capacity)) => format!(", disk={folder:?}, disk_capacity='{capacity}'"),
            None => String::new(),
        };
        let closed = if self.is_closed() { ", closed" } else { "" };
        format!("Cache(memory='{}'{disk}, policy='{}'{closed})", self.memory, self.policy)
    }
}

/// Returns the cache that scans use by default: the one passed to `set_default_cache`, or one created on first use with
/// a quarter of the memory that the process may use.
///
/// >>> import stylobate as st
/// >>> st.default_cache() is st.default_cache()
/// True
#[pyfunction]
pub(crate) fn default_cache(py: Python<'_>) -> PyResult<Py<PyCache>> {
    let known =
        || DEFAULT.lock().as_ref().filter(|cache| !cache.get().is_closed()).map(|cache| cache.clone_ref(py));
    if let Some(cache) = known() {
        return Ok(cache);
    }

    let made = Py::new(py, PyCache::new(py, None, None, None, None)?)?;
    // Another thread may have been first.
    if let Some(cache) = known() {
        return Ok(cache);
    }

    *DEFAULT.lock() = Some(made.clone_ref(py));
    Ok(made)
}

/// Sets the default cache of scans. With None, a new one is created on next use.
#[pyfunction]
#[pyo3(signature = (cache))]
pub(crate) fn set_default_cache(cache: Option<Py<PyCache>>) {
    let before = std::mem::replace(&mut *DEFAULT.lock(), cache);
    drop(before);
}

/// Returns the given cache, or the default one.
pub(crate) fn given_or_default(py: Python<'_>, cache: Option<Py<PyCache>>) -> PyResult<Py<PyCache>> {
    match cache {
        Some(cache) => Ok(cache),
        None => default_cache(py),
    }
}
