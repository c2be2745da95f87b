//! `Node`: a storage node in this process.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use pyo3::{prelude::*, types::PyDict};
use stylobate_server::{
    Doors, Node, ServerError,
    config::{BucketConfig, Layer, Layers, NodeConfig, Provenance, check_bucket_name, name_of_url},
};
use stylobate_storage::without_credentials;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    cache::byte_size,
    errors::{ErrorClass, ResultExt},
    interop::json::to_python,
    location::{location, text},
    process::{
        ProcessOwned, ProcessRuntime,
        exit::{CloseAtExit, close_at_exit},
    },
    scan::options,
};

/// Time that in-flight requests have to finish on close, which blocks until then.
const DRAIN: Duration = Duration::from_secs(5);

/// A storage node in this process: serves buckets over S3 and Arrow Flight through a page cache.
///
/// `origin` is a folder or URL, or a dictionary of bucket names and URLs; `storage_options` apply to all of them.
/// Each door listens on a free loopback port unless an address is given. Beyond loopback a node needs access keys,
/// which only a configuration file can define: `config` is its path, and the other arguments override it. The node
/// ends with `close()`, with its `with` block, or with the process.
///
/// >>> import stylobate as st
/// >>> with st.Node(origin=".") as node:
/// ...     node.s3_endpoint.startswith("http://127.0.0.1:")
/// True
#[pyclass(frozen, module = "stylobate", name = "Node")]
pub(crate) struct PyNode {
    s3: SocketAddr,
    admin: SocketAddr,
    flight: Option<SocketAddr>,
    buckets: Vec<(String, String)>,
    state: Arc<ClosableNode>,
}

/// The running node; `None` after it was closed.
struct ClosableNode(Mutex<Option<ProcessOwned<RunningNode>>>);

struct RunningNode {
    node: Arc<Node>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServerError>>,
}

/// Parses `HOST:PORT`; port 0 is any free one.
fn address(py: Python<'_>, name: &str, text: &str) -> PyResult<SocketAddr> {
    text.parse().map_err(|_| {
        let message = format!(
            "{name}: {text:?} is not an address: write it as 127.0.0.1:0, where port 0 is any free one"
        );
        ErrorClass::Config.error(py, message)
    })
}

/// Returns the buckets that `origin` names.
fn buckets(origin: &Bound<'_, PyAny>) -> PyResult<Vec<BucketConfig>> {
    let py = origin.py();
    let bucket = |name: String, url: String| {
        check_bucket_name(&name)
            .map_err(|reason| ErrorClass::Config.error(py, format!("origin: {reason}")))?;
        Ok(BucketConfig::new(name, url))
    };

    if let Ok(named) = origin.cast::<PyDict>() {
        return named.iter().map(|(name, url)| bucket(name.extract()?, location(&url)?)).collect();
    }

    let url = location(origin)?;
    match name_of_url(&url).filter(|name| check_bucket_name(name).is_ok()) {
        Some(name) => Ok(vec![bucket(name, url)?]),
        None => {
            let given = without_credentials(&url);
            let message = format!(
                "origin: {given:?} gives the bucket no name: give it one, as {{\"lake\": {given:?}}}"
            );
            Err(ErrorClass::Config.error(py, message))
        }
    }
}

fn configuration(
    origin: Option<&Bound<'_, PyAny>>,
    storage_options: Option<&Bound<'_, PyDict>>,
    config: Option<&Bound<'_, PyAny>>,
) -> PyResult<NodeConfig> {
    let mut buckets = origin.map(buckets).transpose()?.unwrap_or_default();
    let options = storage_options.map(options).transpose()?.unwrap_or_default();

    for bucket in &mut buckets {
        bucket.options = options.iter().cloned().collect();
    }

    let mut node = match config {
        Some(path) => {
            let mut layers = Layers { file: config_file(path)?, ..Layers::default() };

            for bucket in &buckets {
                layers.flags = layers.flags.with_origin(&format!("{}={}", bucket.name, bucket.url));
            }

            layers.resolve(&|name| std::env::var(name).ok()).or_raise(path.py())?.config
        }
        None => NodeConfig::default(),
    };

    node.buckets.retain(|known| buckets.iter().all(|given| given.name != known.name));
    node.buckets.extend(buckets);

    Ok(node)
}

/// Reads the configuration file that the argument `config` names.
fn config_file(path: &Bound<'_, PyAny>) -> PyResult<Layer> {
    let layer = Layer::file(&PathBuf::from(text(path)?));
    // A file that cannot be read is blamed on the flag of the command that names it.
    if let Err(ServerError::Config { at: Provenance::Flag(_), what }) = &layer {
        return Err(ErrorClass::Config.error(path.py(), format!("config: {what}")));
    }

    layer.or_raise(path.py())
}

impl CloseAtExit for ClosableNode {
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(mut owned) = self.0.lock().take() else { return Ok(()) };
        let process = owned.process().clone();
        // A forked child has nothing to close: the doors belong to the parent.
        let Some(RunningNode { stop, served, .. }) = owned.take() else { return Ok(()) };
        let _ = stop.send(());

        match process.wait(py, served)? {
            Ok(ended) => ended.or_raise(py),
            Err(error) => Err(ErrorClass::Stylobate.error(py, format!("the node failed: {error}"))),
        }
    }
}

impl PyNode {
    async fn opened(config: NodeConfig) -> Result<(Doors, Arc<Node>), ServerError> {
        // Bind first, so that an address in use fails before the cache is opened.
        let doors = Doors::bind(&config).await?;
        Ok((doors, Node::open(&config).await?))
    }
}

#[pymethods]
impl PyNode {
    #[new]
    #[pyo3(signature = (
        origin=None, *, listen=None, flight=None, admin=None, memory=None, storage_options=None, config=None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords")]
    fn new(
        py: Python<'_>,
        origin: Option<&Bound<'_, PyAny>>,
        listen: Option<&str>,
        flight: Option<&str>,
        admin: Option<&str>,
        memory: Option<&Bound<'_, PyAny>>,
        storage_options: Option<&Bound<'_, PyDict>>,
        config: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if origin.is_none() && config.is_none() {
            return Err(ErrorClass::Config.error(py, "origin: name a folder or URL, or give a config"));
        }

        let mut configured = configuration(origin, storage_options, config)?;
        let settings = &mut configured.settings;
        for (name, door, given) in
            [("listen", &mut settings.listen, listen), ("admin", &mut settings.admin, admin)]
        {
            match given {
                Some(text) => *door = address(py, name, text)?,
                None if config.is_none() => door.set_port(0),
                None => {}
            }
        }

        match (flight, &mut settings.flight) {
            (Some(text), door) => *door = Some(address(py, "flight", text)?),
            (None, Some(door)) if config.is_none() => door.set_port(0),
            (None, _) => {}
        }

        settings.drain_timeout = settings.drain_timeout.min(DRAIN);
        if let Some(memory) = memory {
            settings.memory = byte_size("memory", memory)?;
        }

        let buckets = configured.buckets.iter();
        let buckets = buckets.map(|bucket| (bucket.name.clone(), without_credentials(&bucket.url))).collect();
        let process = ProcessRuntime::current(py)?;
        let (doors, node) = process.run(py, Self::opened(configured))?;
        let s3 = doors.s3_address();
        let admin = doors.admin_address();
        let flight = doors.flight_address();
        let (stop, stopped) = oneshot::channel();
        let serve = doors.serve(node.clone(), async move {
            // A dropped sender means stop, too.
            let _ = stopped.await;
        });

        let served = process.runtime().spawn(serve);
        let state = Arc::new(ClosableNode(Mutex::new(Some(ProcessOwned::new(
            process,
            RunningNode { node, stop, served },
        )))));

        close_at_exit(&state);
        Ok(Self { s3, admin, flight, buckets, state })
    }

    /// The endpoint of the S3 door: `http://HOST:PORT`.
    #[getter]
    fn s3_endpoint(&self) -> String {
        format!("http://{}", self.s3)
    }

    /// The endpoint of the admin door: `http://HOST:PORT`.
    #[getter]
    fn admin_endpoint(&self) -> String {
        format!("http://{}", self.admin)
    }

    /// The endpoint of the Flight door: `grpc://HOST:PORT`; None without one.
    #[getter]
    fn flight_endpoint(&self) -> Option<String> {
        self.flight.map(|address| format!("grpc://{address}"))
    }

    /// The origin URLs of the buckets by name.
    #[getter]
    fn buckets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let buckets = PyDict::new(py);
        for (name, url) in &self.buckets {
            buckets.set_item(name, url)?;
        }
        Ok(buckets)
    }

    /// True if the node was closed, or belongs to the parent of this forked process.
    #[getter]
    fn closed(&self) -> bool {
        self.state.0.lock().as_ref().is_none_or(|open| open.get().is_none())
    }

    /// Returns the statistics of the node, in counts and bytes: `"requests"` of clients, `"cache"`, and `"buckets"`,
    /// the reads of each bucket by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let node = self.state.0.lock().as_ref().and_then(|open| Some(open.get()?.node.clone()));
        let node = node.ok_or_else(|| ErrorClass::Stylobate.error(py, "the node is closed"))?;
        let stats = PyDict::new(py);
        stats.set_item("requests", to_python(py, &node.metrics().snapshot())?)?;
        stats.set_item("cache", to_python(py, &node.cache().stats())?)?;
        let buckets = PyDict::new(py);

        for bucket in node.buckets() {
            buckets.set_item(&bucket.name, to_python(py, &bucket.reader.stats())?)?;
        }

        stats.set_item("buckets", buckets)?;
        Ok(stats.into_any())
    }

    /// Closes the doors. Requests in flight have five seconds to finish.
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
        let names: Vec<_> = self.buckets.iter().map(|(name, _)| name.as_str()).collect();
        let closed = if self.closed() { ", closed" } else { "" };
        format!("Node({}, s3_endpoint='{}'{closed})", names.join(", "), self.s3_endpoint())
    }
}
