//! Opens the doors, accepts clients, and drains them at shutdown.
//!
//! ```text
//! bind ── accept ── a task per connection ── shutdown ── drain ── close the caches
//!            │                                  │           └─ requests that take too long are cut off
//!            └─ pauses when the system is out    └─ no new connections; idle ones are closed
//! ```

mod connection;
mod lingering;
mod tls;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use async_recursion::async_recursion as boxed;
use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use hyper::{
    body::{Body, Incoming},
    service::Service,
};
use hyper_util::{
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use tokio::{
    io::split,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

pub use self::tls::Tls;
use self::{
    connection::{ConnectionError, serve_http1, serve_http2, serve_upgradable},
    tls::AlpnProtocol,
};
use crate::{
    Node, Result, ServerError, admin,
    cluster::{Cluster, DoorPorts},
    config::{NodeConfig, Secret},
    flight,
    peer_door::{PeerDoor, UpgradeSlot},
    s3,
};

/// Pause after an error of `accept` that would otherwise recur at once, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time that requests of peers have to finish when the peer door closes, after all other doors.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// Doors of a node that are bound but not serving yet. Clients that connect already wait in the backlog.
#[derive(Debug)]
pub struct Doors {
    s3: DoorListener,
    admin: DoorListener,
    flight: Option<DoorListener>,
    peer: Option<DoorListener>,
    ticket_secret: Option<Secret>,
    ticket_lifetime: Duration,
    tls: Option<Arc<Tls>>,
    drain_timeout: Duration,
}

/// A bound door.
#[derive(Debug)]
struct DoorListener {
    name: &'static str,
    listener: TcpListener,
    address: SocketAddr,
    max_connections: usize,
}

impl Doors {
    /// Binds the configured addresses; port 0 takes any free port.
    ///
    /// # Errors
    ///
    /// [`ServerError::Exposed`] for an address beyond loopback if there are no access keys, [`ServerError::OwnDoor`] if
    /// an origin is the S3 door itself, [`ServerError::PortInUse`], and [`ServerError::Bind`].
    #[boxed]
    pub async fn bind(config: &NodeConfig) -> Result<Self> {
        config.check_exposure()?;
        let settings = &config.settings;
        let bind = async |name, setting, address| {
            DoorListener::bind(name, setting, address, settings.max_connections).await
        };
        let s3 = bind("s3", "--listen", settings.listen).await?;
        config.check_endpoints(s3.address, &|name| std::env::var(name).ok())?;
        let flight = match settings.flight {
            Some(address) => Some(bind("flight", "--flight", address).await?),
            None => None,
        };
        let peer = match &config.cluster {
            Some(cluster) => Some(bind("peer", "`listen` of [cluster]", cluster.listen).await?),
            None => None,
        };

        Ok(Self {
            s3,
            admin: bind("admin", "--admin", settings.admin).await?,
            flight,
            peer,
            ticket_secret: config.ticket_secret.clone(),
            ticket_lifetime: settings.ticket_lifetime,
            tls: config.tls.as_ref().map(Tls::open).transpose()?.map(Arc::new),
            drain_timeout: settings.drain_timeout,
        })
    }

    /// Returns the address of the S3 door.
    pub fn s3_address(&self) -> SocketAddr {
        self.s3.address
    }

    /// Returns the address of the admin door.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address
    }

    /// Returns the address of the Flight door, if there is one.
    pub fn flight_address(&self) -> Option<SocketAddr> {
        self.flight.as_ref().map(|door| door.address)
    }

    /// Returns the address of the peer door, if the node is in a cluster.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.peer.as_ref().map(|door| door.address)
    }

    /// Returns the TLS of the doors, so that the caller can reload its files.
    pub fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.clone()
    }

    /// Serves until `shutdown` completes. After that, no connection is accepted, requests in progress have the
    /// drain timeout to finish, and the node is closed, which writes memory-only data to the disk tier. If other
    /// nodes of the cluster answer, the node notifies them that it is draining, and keeps its peer door open for
    /// the drain timeout.
    pub fn serve<'a>(
        self,
        node: Arc<Node>,
        shutdown: impl Future<Output = ()> + Send + 'a,
    ) -> BoxFuture<'a, Result<()>> {
        self.serve_boxed(node, shutdown.boxed())
    }

    // Not generic, unlike `serve`: otherwise each crate that calls it would compile all doors again.
    fn serve_boxed(self, node: Arc<Node>, shutdown: BoxFuture<'_, ()>) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.serve_until(node, shutdown))
    }

    async fn serve_until(self, node: Arc<Node>, shutdown: BoxFuture<'_, ()>) -> Result<()> {
        let stop = CancellationToken::new();
        // The admin and Flight doors run queries in the same memory.
        #[cfg(feature = "sql")]
        let queries = Arc::new(flight::QueryEngine::new(node.clone()));
        let admin = admin::router(
            node.clone(),
            #[cfg(feature = "sql")]
            queries.clone(),
        );
        let admin = TowerToHyperService::new(admin);
        let s3 = s3::service(node.clone());
        let drain_timeout = self.drain_timeout;
        let tls = self.tls;
        let watching = tls.clone().map(|tls| tokio::spawn(tls.watch()));
        let s3_tls = tls.clone();
        let _sampling = AbortOnDropHandle::new(tokio::spawn(admin::sample(node.clone())));
        let peers = match (self.peer, node.cluster()) {
            (Some(door), Some(cluster)) => {
                cluster.set_ports(reported_ports(door.address, &self.s3, self.flight.as_ref()));
                let peers = PeerDoor::new(node.clone(), cluster.clone());
                Some(PeerServing::start(door, peers, tls.clone(), node.clone(), cluster.clone()))
            }
            _ => None,
        };

        let s3 = move |stream: TcpStream, watcher| {
            let door = s3.for_peer(stream.peer_addr().ok());
            accept_http1(s3_tls.clone(), stream, door, watcher)
        };
        let admin_tls = tls.clone();
        let admin =
            move |stream: TcpStream, watcher| accept_http1(admin_tls.clone(), stream, admin.clone(), watcher);

        let mut doors = vec![
            tokio::spawn(self.s3.serve(s3, node.clone(), stop.clone(), drain_timeout)),
            tokio::spawn(self.admin.serve(admin, node.clone(), stop.clone(), drain_timeout)),
        ];
        if let Some(door) = self.flight {
            let service = flight::service(
                node.clone(),
                self.ticket_secret.as_ref(),
                self.ticket_lifetime,
                #[cfg(feature = "sql")]
                queries,
            );
            let service = TowerToHyperService::new(service);
            let stopped = stop.clone();
            let flight = move |stream: TcpStream, watcher| {
                let service = service.clone();
                let tls = tls.clone();
                let stopped = stopped.clone();
                async move {
                    match tls {
                        Some(tls) => {
                            let (read, write) = split(tls.accept(stream, AlpnProtocol::Http2).await?);
                            serve_http2(read, write, service, watcher, stopped).await
                        }
                        None => {
                            let (read, write) = stream.into_split();
                            serve_http2(read, write, service, watcher, stopped).await
                        }
                    }
                }
            };
            doors.push(tokio::spawn(door.serve(flight, node.clone(), stop.clone(), drain_timeout)));
        }

        // Dropping this future closes the doors as well.
        let _closed_at_the_latest = stop.clone().drop_guard();
        shutdown.await;
        let closed_by = Instant::now() + self.drain_timeout;
        if let Some(peers) = &peers {
            peers.cluster.set_draining(true).await;
        }
        tracing::info!(timeout_s = self.drain_timeout.as_secs(), "stopping: requests under way may finish");
        stop.cancel();
        for door in doors {
            if let Err(error) = door.await {
                tracing::error!(%error, "a door failed");
            }
        }

        if let Some(peers) = peers {
            peers.stop(closed_by).await;
        }
        if let Some(watching) = watching {
            watching.abort();
        }
        node.close().await;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Returns the ports to report to peers: those of doors that are reachable from other machines if the peer door is.
fn reported_ports(peer: SocketAddr, s3: &DoorListener, flight: Option<&DoorListener>) -> DoorPorts {
    let port = |door: &DoorListener| {
        let is_reached = peer.ip().is_loopback() || !door.address.ip().is_loopback();
        is_reached.then(|| door.address.port())
    };
    DoorPorts { s3: port(s3), flight: flight.and_then(port) }
}

/// The peer door and the probes of other nodes. Dropping it ends both.
struct PeerServing {
    cluster: Arc<Cluster>,
    door: JoinHandle<()>,
    stop: CancellationToken,
    _stops_when_dropped: DropGuard,
    _probing: AbortOnDropHandle<()>,
}

impl PeerServing {
    fn start(
        door: DoorListener,
        peers: PeerDoor,
        tls: Option<Arc<Tls>>,
        node: Arc<Node>,
        cluster: Arc<Cluster>,
    ) -> Self {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let accept = move |stream: TcpStream, watcher| {
            accept_peer(tls.clone(), stream, peers.clone(), watcher, stopped.clone())
        };
        let door = tokio::spawn(door.serve(accept, node, stop.clone(), PEER_TIMEOUT));
        let _probing = AbortOnDropHandle::new(tokio::spawn(cluster.clone().watch()));
        Self { cluster, door, _stops_when_dropped: stop.clone().drop_guard(), stop, _probing }
    }

    /// Closes the door. If other nodes are up, keeps it open until `closed_by`, since they may still request pages.
    async fn stop(self, closed_by: Instant) {
        if self.cluster.has_company() {
            tracing::info!("the peer door stays open for the other nodes");
            sleep_until(closed_by).await;
        }
        self.stop.cancel();
        if let Err(error) = self.door.await {
            tracing::error!(%error, "the peer door failed");
        }
    }
}

/// Serves an HTTP/1.1 connection, over TLS if the doors have a certificate.
async fn accept_http1<S, B>(
    tls: Option<Arc<Tls>>,
    stream: TcpStream,
    service: S,
    watcher: Watcher,
) -> Result<(), ConnectionError>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<ConnectionError>,
    B: Body + 'static,
    B::Error: Into<ConnectionError>,
{
    match tls {
        Some(tls) => {
            let stream = tls.accept(stream, AlpnProtocol::Http1).await?;
            serve_http1(stream, service, watcher).await
        }
        None => serve_http1(stream, service, watcher).await,
    }
}

/// Serves a connection of a peer, over TLS if the doors have a certificate, until it ends or `stop`. The watcher
/// counts the connection.
async fn accept_peer(
    tls: Option<Arc<Tls>>,
    stream: TcpStream,
    peers: PeerDoor,
    watcher: Watcher,
    stop: CancellationToken,
) -> Result<(), ConnectionError> {
    let upgrade = UpgradeSlot::default();
    let service = peers.service(upgrade.clone());
    match tls {
        Some(tls) => {
            let stream = tls.accept(stream, AlpnProtocol::Http1).await?;
            serve_upgradable(stream, service, &stop).await?;
        }
        None => serve_upgradable(stream, service, &stop).await?,
    }

    peers.serve_pages(&upgrade, &stop).await?;
    drop(watcher);
    Ok(())
}

/// Binds the doors and serves until `shutdown` completes; see [`Doors`].
pub async fn serve(
    node: Arc<Node>,
    config: &NodeConfig,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    Doors::bind(config).await?.serve(node, shutdown).await
}

impl DoorListener {
    async fn bind(
        name: &'static str,
        setting: &'static str,
        address: SocketAddr,
        max_connections: usize,
    ) -> Result<Self> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServerError::PortInUse { door: name, address, setting },
            _ => ServerError::Bind { door: name, address, source },
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { name, listener, address, max_connections })
    }

    /// Accepts connections until `stop`, then drains them.
    async fn serve<C, F>(
        self,
        connection: C,
        node: Arc<Node>,
        stop: CancellationToken,
        drain_timeout: Duration,
    ) where
        C: Fn(TcpStream, Watcher) -> F,
        F: Future<Output = Result<(), ConnectionError>> + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(self.max_connections));
        let graceful = GracefulShutdown::new();
        let cut_off = CancellationToken::new();
        let next = async || {
            let permit = permits.clone().acquire_owned().await;
            loop {
                if let Some(stream) = self.accept().await {
                    return (permit, stream);
                }
            }
        };

        while let Some((permit, stream)) = stop.run_until_cancelled(next()).await {
            let connection = connection(stream, graceful.watcher());
            let cut_off = cut_off.clone();
            let counted = node.metrics().connection();
            let name = self.name;
            tokio::spawn(async move {
                if let Some(Err(error)) = cut_off.run_until_cancelled(connection).await {
                    tracing::debug!(door = name, %error, "connection ended");
                }
                drop((permit, counted));
            });
        }

        drop(self.listener);
        let open = graceful.count();
        if timeout(drain_timeout, graceful.shutdown()).await.is_err() {
            tracing::warn!(door = self.name, connections = open, "requests took too long to finish: cut off");
            cut_off.cancel();
        }
    }

    /// Accepts the next connection. Returns `None` on an error: a client that has already disconnected is ignored;
    /// other errors are followed by a pause.
    async fn accept(&self) -> Option<TcpStream> {
        match self.listener.accept().await {
            Ok((stream, _)) => {
                // Without this, the last packet of an answer would wait for the client's acknowledgement.
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
