//! `ObjectStoreReader` and `ObjectFile`: objects below a URL, read through the page cache.

use std::ops::Range;

use object_store::{ObjectMeta, path::Path};
use parking_lot::Mutex;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};
use stylobate_storage::{
    Consistency, ConsistencyRules, FolderReads, ListRequest, OpenObject, Origin, ReadOptions, ReadThrough,
};

use crate::{
    cache::{PyCache, given_or_default},
    cluster::cluster_origin,
    errors::{ErrorClass, ResultExt, UnraisedError},
    location::{is_local, location},
    process::{ProcessOwned, ProcessRuntime, SignalPoller},
    scan::options,
};

/// Maximum entries of a listing request; stores that return fewer are queried again.
const PAGE_OF_LISTING: usize = 5_000;

/// Reads objects below a URL through the page cache.
#[pyclass(frozen, module = "stylobate", name = "ObjectStoreReader")]
pub(crate) struct PyObjectStoreReader {
    url: String,
    /// Entries of the nodes that the bucket is read through; if empty, it is read directly.
    nodes: Vec<String>,
    options: Vec<(String, String)>,
    cache: Py<PyCache>,
    store: Mutex<ProcessOwned<ReadThrough>>,
}

/// One version of an object: reads are consistent, and fail with ObjectChangedError after the object was replaced.
#[pyclass(frozen, module = "stylobate", name = "ObjectFile")]
pub(crate) struct PyObjectFile {
    object: ProcessOwned<OpenObject>,
}

impl PyObjectStoreReader {
    fn opened(
        py: Python<'_>,
        url: &str,
        nodes: &[String],
        options: &[(String, String)],
        cache: &Py<PyCache>,
    ) -> PyResult<ProcessOwned<ReadThrough>> {
        let process = ProcessRuntime::current(py)?;
        let read = ReadOptions { folders: FolderReads::Pages, ..ReadOptions::default() };
        let origin = if nodes.is_empty() {
            Origin::parse(url, options, &read.requests).map_err(UnraisedError::from)
        } else {
            cluster_origin(url, nodes, options)
        };
        let origin = origin.map_err(|error| error.raised(py))?;
        let pages = cache.get().get(py)?.pages().clone();
        let rules = if is_local(url) {
            ConsistencyRules::new(Consistency::Strict)
        } else {
            ConsistencyRules::default()
        };

        Ok(ProcessOwned::new(process, ReadThrough::new(origin, pages, rules, read)))
    }

    /// Returns the store of this process; after a fork, a new one.
    fn store(&self, py: Python<'_>) -> PyResult<(ProcessRuntime, ReadThrough)> {
        if let Some(found) = owned(&self.store.lock()) {
            return Ok(found);
        }

        let opened = Self::opened(py, &self.url, &self.nodes, &self.options, &self.cache)?;
        let found = (opened.process().clone(), opened.get().cloned());
        *self.store.lock() = opened;

        match found {
            (process, Some(store)) => Ok((process, store)),
            (_, None) => Err(forked(py)),
        }
    }
}

fn owned<T: Clone>(owned: &ProcessOwned<T>) -> Option<(ProcessRuntime, T)> {
    owned.get().map(|value| (owned.process().clone(), value.clone()))
}

fn forked(py: Python<'_>) -> PyErr {
    ErrorClass::Stylobate
        .error(py, "this file was opened before the process was forked: open it again in the child")
}

fn path(py: Python<'_>, path: &str) -> PyResult<Path> {
    Path::parse(path).map_err(|error| ErrorClass::Config.error(py, error.to_string()))
}

fn described<'py>(py: Python<'py>, meta: &ObjectMeta) -> PyResult<Bound<'py, PyDict>> {
    let described = PyDict::new(py);
    described.set_item("path", meta.location.as_ref())?;
    described.set_item("size", meta.size)?;
    described.set_item("modified", meta.last_modified.timestamp_micros() as f64 / 1e6)?;
    described.set_item("etag", meta.e_tag.as_deref())?;
    described.set_item("version", meta.version.as_deref())?;
    Ok(described)
}

#[pymethods]
impl PyObjectStoreReader {
    #[new]
    #[pyo3(signature = (url, *, nodes=None, storage_options=None, cache=None))]
    fn new(
        py: Python<'_>,
        url: &Bound<'_, PyAny>,
        nodes: Option<Vec<String>>,
        storage_options: Option<&Bound<'_, PyDict>>,
        cache: Option<Py<PyCache>>,
    ) -> PyResult<Self> {
        let options = storage_options.map(options).transpose()?.unwrap_or_default();
        let url = location(url)?;
        let cache = given_or_default(py, cache)?;
        if nodes.as_ref().is_some_and(Vec::is_empty) {
            return Err(ErrorClass::Config.error(py, "nodes: give one or more"));
        }
        let nodes = nodes.unwrap_or_default();
        let store = Mutex::new(Self::opened(py, &url, &nodes, &options, &cache)?);
        Ok(Self { url, nodes, options, cache, store })
    }

    /// Returns size, modification time in seconds since 1970, ETag and version of an object.
    fn head<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyDict>> {
        let (process, store) = self.store(py)?;
        let path = self::path(py, path)?;
        let object = process.run(py, async move { store.open_object(&path).await })?;
        described(py, object.meta())
    }

    /// Opens the current version of the object.
    fn open(&self, py: Python<'_>, path: &str) -> PyResult<PyObjectFile> {
        let (process, store) = self.store(py)?;
        let path = self::path(py, path)?;
        let object = process.run(py, async move { store.open_object(&path).await })?;
        Ok(PyObjectFile { object: ProcessOwned::new(process, object) })
    }

    /// Lists the objects whose path begins with the prefix. With `delimiter`, paths that continue after a `/` are
    /// returned as folders.
    #[pyo3(signature = (prefix="", *, delimiter=true))]
    fn list<'py>(
        &self,
        py: Python<'py>,
        prefix: &str,
        delimiter: bool,
    ) -> PyResult<(Vec<Bound<'py, PyDict>>, Vec<String>)> {
        let (process, store) = self.store(py)?;
        let mut request = ListRequest {
            prefix: prefix.to_owned(),
            delimiter: if delimiter { "/".to_owned() } else { String::new() },
            // Each page of a listing through several nodes reads all of it.
            max_keys: if self.nodes.is_empty() { PAGE_OF_LISTING } else { usize::MAX / 2 },
            ..ListRequest::default()
        };

        let (objects, folders) = process.run(py, async move {
            let mut objects = Vec::new();
            let mut folders = Vec::new();
            loop {
                let page = store.list_page(request.clone()).await?;
                objects.extend(page.objects);
                folders.extend(page.prefixes);
                match page.next_token {
                    Some(token) => request.token = Some(token),
                    None => return Ok::<_, stylobate_storage::Error>((objects, folders)),
                }
            }
        })?;

        // Keys that end in `/` are directory markers.
        let files = objects.iter().filter(|object| !object.key.ends_with('/'));
        let objects = files.map(|object| described(py, &object.meta)).collect::<PyResult<_>>()?;

        Ok((objects, folders))
    }

    /// Returns the read statistics, in counts and bytes.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (_, store) = self.store(py)?;
        crate::interop::json::to_python(py, &store.stats())
    }

    fn __repr__(&self) -> String {
        let name = owned(&self.store.lock()).map(|(_, store)| store.origin().name().to_owned());
        format!("ObjectStoreReader({:?})", name.unwrap_or_default())
    }
}

#[pymethods]
impl PyObjectFile {
    /// The size in bytes.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.object.get().ok_or_else(|| forked(py))?.meta().size)
    }

    /// Reads the bytes from `start` to `end`, which may be past the end of the object.
    fn read<'py>(&self, py: Python<'py>, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let mut read = self.read_ranges(py, vec![(start, end)])?;
        Ok(read.pop().unwrap_or_else(|| PyBytes::new(py, &[])))
    }

    /// Reads several ranges; nearby ranges are merged into one request.
    fn read_ranges<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(u64, u64)>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let (process, object) = owned(&self.object).ok_or_else(|| forked(py))?;
        let size = object.meta().size;
        let within =
            |(start, end): (u64, u64)| -> Range<u64> { start.min(size)..end.clamp(start.min(size), size) };
        let ranges: Vec<_> = ranges.into_iter().map(within).collect();
        let read = py.detach(|| process.wait_detached(object.read(&ranges), &mut SignalPoller::new()))?;
        let read = read.or_raise(py)?;
        Ok(read.iter().map(|bytes| PyBytes::new(py, bytes)).collect())
    }
}
