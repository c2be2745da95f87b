//! Opens the doors, lets clients in, and sees them out.
//!
//! ```text
//! bind ── accept ── a task per connection ── shutdown ── drain ── close the caches
//!            │                                  │           └─ what takes too long is cut off
//!            └─ pauses when the system is out    └─ no new connections; idle ones are closed
//! ```

use std::{error::Error as StdError, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::Service,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Node, Result, ServerError, admin,
    config::{AccessKeyConfig, NodeConfig},
    s3,
};

/// A connection that sends no complete request head within this time is closed: a slow one, or an idle one.
const HEAD_PATIENCE: Duration = Duration::from_secs(60);
/// The pause after an error of `accept` that another attempt would meet too, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of an answer that wait for the client before its body is asked for more.
const WRITE_BUFFER: usize = 1 << 20;

/// Both doors of a node, bound and not yet open: clients that come already wait.
#[derive(Debug)]
pub struct Doors {
    s3: Door,
    admin: Door,
    access_keys: Vec<AccessKeyConfig>,
    drain_timeout: Duration,
}

/// A door that is bound.
#[derive(Debug)]
struct Door {
    name: &'static str,
    listener: TcpListener,
    address: SocketAddr,
    max_connections: usize,
}

impl Doors {
    /// Binds both doors where the configuration says; port 0 takes any free port.
    ///
    /// Fails with [`ServerError::Exposed`] for an address beyond loopback while there are no access keys, with
    /// [`ServerError::OwnDoor`] where an origin is the S3 door itself, with [`ServerError::PortInUse`] and with
    /// [`ServerError::Bind`].
    pub async fn bind(config: &NodeConfig) -> Result<Self> {
        config.check_exposure()?;
        let server = &config.server;
        let s3 = Door::bind("s3", "listen", server.listen, server.max_connections).await?;
        config.check_endpoints(s3.address, &|name| std::env::var(name).ok())?;
        Ok(Self {
            s3,
            admin: Door::bind("admin", "admin", server.admin, server.max_connections).await?,
            access_keys: config.access_keys.clone(),
            drain_timeout: server.drain_timeout,
        })
    }

    /// Where the S3 door listens.
    pub fn s3_address(&self) -> SocketAddr {
        self.s3.address
    }

    /// Where the admin door listens.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address
    }

    /// Serves until `shutdown` is ready. Then no connection is accepted any more, requests under way have the drain
    /// timeout to finish, and the node is closed, which writes what only memory holds to the disk tier.
    pub async fn serve(self, node: Arc<Node>, shutdown: impl Future<Output = ()>) -> Result<()> {
        let stop = CancellationToken::new();
        let admin = TowerToHyperService::new(admin::router(node.clone(), &self.access_keys));
        let doors = [
            tokio::spawn(self.s3.serve(
                s3::service(node.clone()),
                node.clone(),
                stop.clone(),
                self.drain_timeout,
            )),
            tokio::spawn(self.admin.serve(admin, node.clone(), stop.clone(), self.drain_timeout)),
        ];
        // Whoever drops this future closes the doors too.
        let _closed_at_the_latest = stop.clone().drop_guard();
        shutdown.await;
        tracing::info!(timeout_s = self.drain_timeout.as_secs(), "stopping: requests under way may finish");
        stop.cancel();
        for door in doors {
            if let Err(error) = door.await {
                tracing::error!(%error, "a door failed");
            }
        }
        node.close().await;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Binds both doors and serves until `shutdown` is ready: see [`Doors`].
pub async fn serve(node: Arc<Node>, config: &NodeConfig, shutdown: impl Future<Output = ()>) -> Result<()> {
    Doors::bind(config).await?.serve(node, shutdown).await
}

impl Door {
    async fn bind(
        name: &'static str,
        flag: &'static str,
        address: SocketAddr,
        max_connections: usize,
    ) -> Result<Self> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServerError::PortInUse { door: name, address, flag },
            _ => ServerError::Bind { door: name, address, source },
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { name, listener, address, max_connections })
    }

    /// Accepts connections until `stop`, then drains them.
    async fn serve<S, B>(self, service: S, node: Arc<Node>, stop: CancellationToken, drain_timeout: Duration)
    where
        S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn StdError + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let places = Arc::new(Semaphore::new(self.max_connections));
        let graceful = GracefulShutdown::new();
        let cut_off = CancellationToken::new();
        let http = http();
        let next = async || {
            let place = places.clone().acquire_owned().await;
            loop {
                if let Some(stream) = self.accept().await {
                    return (place, stream);
                }
            }
        };
        while let Some((place, stream)) = stop.run_until_cancelled(next()).await {
            let connection = http.serve_connection(TokioIo::new(stream), service.clone());
            let connection = graceful.watch(connection);
            let (cut_off, counted) = (cut_off.clone(), node.metrics().connection());
            let name = self.name;
            tokio::spawn(async move {
                if let Some(Err(error)) = cut_off.run_until_cancelled(connection).await {
                    tracing::debug!(door = name, %error, "connection ended");
                }
                drop((place, counted));
            });
        }
        drop(self.listener);
        let open = graceful.count();
        if timeout(drain_timeout, graceful.shutdown()).await.is_err() {
            tracing::warn!(door = self.name, connections = open, "requests took too long to finish: cut off");
            cut_off.cancel();
        }
    }

    /// The next connection. After an error, `None`: a peer that went away is forgotten, anything else costs a pause.
    async fn accept(&self) -> Option<TcpStream> {
        match self.listener.accept().await {
            Ok((stream, _)) => {
                // Without this, the last packet of an answer waits for the client's acknowledgement.
                let _ = stream.set_nodelay(true);
                Some(stream)
            }
            Err(error) if is_of_one_peer(&error) => None,
            Err(error) => {
                tracing::warn!(door = self.name, %error, "cannot accept connections; trying again");
                sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }
}

fn is_of_one_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .keep_alive(true)
        .half_close(false)
        .writev(true)
        .max_buf_size(WRITE_BUFFER);
    http
}
