//! A node's membership in its cluster: the other nodes, their health, and the requests sent to them.
//!
//! One task rereads the list of nodes periodically, and one task per peer probes it every second. A probe is a hello,
//! in which the two nodes exchange their settings and whether they are draining. Each change of the membership yields
//! new routes, which the buckets use to read from peers.

pub mod fuzzing;
mod hello;
mod membership;
mod notice;
mod page_client;
mod page_requests;
mod peer_client;
mod peer_status;
mod reads;
mod routes;
mod run_frames;
mod signature;
mod sources;
mod status;
mod status_client;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::{ArcSwap, Guard};
use futures::future::join_all;
use parking_lot::RwLock;
use stylobate_client::{NodeAddress, NodeDoor, NodeId, PathHash};
use stylobate_storage::{ByteSize, Peers};
use tokio::{
    sync::Notify,
    time::{sleep, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;

#[cfg(feature = "distributed")]
pub(crate) use self::signature::{CallNonce, MAX_CLOCK_DIFFERENCE};
pub(crate) use self::{
    hello::{DoorPorts, HelloAnswer, NodeHello, PROTOCOL, origin_hash},
    notice::RepeatedNotice,
    page_requests::{PAGES_PROTOCOL, PageRequest, PageRequests},
    peer_client::{BucketRequest, DESCRIBE_PATH, EVICT_PATH, HELLO_PATH, PAGES_PATH, PeerClient, WROTE_PATH},
    peer_status::status_of,
    run_frames::RunFrames,
    signature::{PeerKey, RequestSignature},
    status::KnownNodes,
};
use self::{
    membership::{Membership, MembershipEvent, PeerFailure},
    reads::BucketPeers,
    routes::ReadRoutes,
};
pub use self::{
    status::{ClusterNodeStatus, ClusterStatus, NodeTraffic},
    status_client::{fetch_cluster_status, set_cluster_draining},
};
use crate::config::{ClusterConfig, NodeListSource};

/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time to notify all peers that this node drains.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// A node's membership in its cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    source: NodeListSource,
    client: PeerClient,
    id: NodeId,
    shared: SharedSettings,
    membership: RwLock<Membership>,
    /// Replaced as a whole, so that reads use the routes without holding a lock.
    routes: ArcSwap<ReadRoutes>,
    /// Wakes the probes when a request has failed.
    has_failed: Notify,
}

/// Settings of a node that its peers compare with their own.
#[derive(Clone, Debug)]
pub(crate) struct SharedSettings {
    pub(crate) page_size: ByteSize,
    /// Buckets whose pages can be shared, each with the hash of its origin.
    pub(crate) buckets: BTreeMap<String, String>,
    /// Time for which a page is still requested from a draining node, or from the page's previous home.
    pub(crate) drain_timeout: Duration,
    /// True if the doors have a certificate; peers are then reached over TLS.
    pub(crate) has_tls: bool,
}

impl Cluster {
    /// Creates the membership. No other node is known until [`Self::watch`] runs.
    pub(crate) fn new(config: &ClusterConfig, shared: SharedSettings) -> stylobate_client::Result<Self> {
        let own = NodeHello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            id: config.id.to_string(),
            instance: rand::random(),
            page_size: shared.page_size.as_u64(),
            buckets: shared.buckets.clone(),
            digest: String::new(),
            draining: false,
            ports: DoorPorts::default(),
            runs_queries: cfg!(feature = "distributed"),
        };

        let source = config.nodes.clone();
        let name = source.certificate_name();
        let client = PeerClient::new(PeerKey::new(&config.secret), shared.has_tls, name);
        let has_ids = source.has_ids();
        let id = config.id.clone();
        let mut membership = Membership::new(own, id.clone(), has_ids, shared.drain_timeout, Instant::now())?;
        let routes = Arc::new(membership.take_routes().unwrap_or_default());

        Ok(Self {
            source,
            client,
            id,
            shared,
            membership: RwLock::new(membership),
            routes: ArcSwap::new(routes),
            has_failed: Notify::new(),
        })
    }

    /// Returns true if the configuration has the same node id and the same source of the node list.
    pub(crate) fn is_of(&self, config: &ClusterConfig) -> bool {
        self.source == config.nodes && self.membership.read().hello().id == config.id.as_str()
    }

    /// Returns the key with which the nodes of the cluster sign.
    pub(crate) fn key(&self) -> &PeerKey {
        self.client.key()
    }

    /// Returns the other nodes for reads of a bucket; `None` if no other machine can read its bytes.
    pub(crate) fn peers_of(self: &Arc<Self>, bucket: &str) -> Option<Arc<dyn Peers>> {
        let origin = self.shared.buckets.get(bucket)?;
        Some(Arc::new(BucketPeers::new(self.clone(), bucket.to_owned(), origin.clone())))
    }

    /// Returns true if this node has the bucket of a request, with the same origin and page size.
    pub(crate) fn shares<T>(&self, request: &BucketRequest<T>) -> bool {
        request.page_size == self.shared.page_size.as_u64()
            && self.shared.buckets.get(&request.bucket) == Some(&request.origin)
    }

    fn routes(&self) -> Guard<Arc<ReadRoutes>> {
        self.routes.load()
    }

    /// Sets the ports of the client doors that this node reports to others.
    pub(crate) fn set_ports(&self, ports: DoorPorts) {
        self.membership.write().set_ports(ports);
    }

    /// Returns the nodes, for clients that place reads themselves.
    pub(crate) fn known_nodes(&self) -> KnownNodes {
        self.membership.read().known_nodes()
    }

    /// Returns the known URIs of the Flight doors of the home and the deputy for a byte of an object.
    pub(crate) fn flight_locations(&self, bucket: &str, path: &str, offset: u64) -> Vec<String> {
        let routes = self.routes();
        let Some(routes) = routes.bucket(bucket) else { return Vec::new() };
        let scheme = if self.shared.has_tls { "grpc+tls" } else { "grpc" };
        let flight = routes.home_and_deputy(PathHash::of(bucket, path).stripe_at(offset), NodeDoor::Flight);
        flight.iter().map(|address| format!("{scheme}://{address}")).collect()
    }

    /// Returns the URLs of the Flight doors of the nodes that run queries together: those that are up and have the
    /// same version as this node.
    #[cfg(feature = "distributed")]
    pub(crate) fn query_workers(&self) -> Vec<String> {
        let doors = self.membership.read().query_doors();
        doors.iter().map(|address| self.query_url(address)).collect()
    }

    /// Returns the URLs of the Flight doors of the nodes that read a byte of an object, the home first; empty if the
    /// bucket is not shared.
    #[cfg(feature = "distributed")]
    pub(crate) fn query_homes(&self, bucket: &str, path: &str, offset: u64) -> Vec<String> {
        let routes = self.routes();
        let Some(routes) = routes.bucket(bucket) else { return Vec::new() };
        let ranked = routes.ranked(PathHash::of(bucket, path).stripe_at(offset), NodeDoor::Flight);
        ranked.iter().map(|address| self.query_url(address)).collect()
    }

    /// Returns the URL at which other nodes reach this node's Flight door.
    #[cfg(feature = "distributed")]
    pub(crate) fn own_query_url(&self) -> Option<String> {
        let address = self.membership.read().flight_door(self.id.as_str())?;
        Some(self.query_url(&address))
    }

    /// Records that a node's Flight door did not answer.
    #[cfg(feature = "distributed")]
    pub(crate) fn query_failed(&self, url: &str) {
        let peer = self.membership.read().peer_with_flight_door(|address| self.query_url(address) == url);
        if let Some(peer) = peer {
            self.request_failed(&peer, "its Flight door did not answer".to_owned(), Instant::now());
        }
    }

    #[cfg(feature = "distributed")]
    fn query_url(&self, address: &NodeAddress) -> String {
        format!("{}://{address}/", if self.shared.has_tls { "https" } else { "http" })
    }

    /// Returns the host name that certificates of nodes must have, if it is not the host of their addresses.
    #[cfg(feature = "distributed")]
    pub(crate) fn certificate_name(&self) -> Option<&str> {
        self.source.certificate_name()
    }

    /// Returns this node's hello.
    pub(crate) fn hello(&self) -> NodeHello {
        self.membership.read().hello().clone()
    }

    /// Applies the hello of a peer.
    pub(crate) fn apply_hello(&self, hello: &NodeHello) {
        self.change(|membership, now| membership.apply_hello(hello, now));
    }

    /// Returns true if any other node answers.
    pub(crate) fn has_company(&self) -> bool {
        self.membership.read().has_company()
    }

    /// Returns the cluster as this node sees it. `traffic` is that of this node.
    pub(crate) fn status(&self, traffic: NodeTraffic) -> ClusterStatus {
        self.membership.read().status(self.source.to_string(), traffic, Instant::now())
    }

    /// Takes this node out of placement or back into it, and notifies the peers that answer within a second.
    pub(crate) async fn set_draining(&self, is_draining: bool) {
        self.change(|membership, now| membership.set_draining(is_draining, now));
        let addresses: Vec<_> = self.membership.read().addresses().cloned().collect();
        let probes = join_all(addresses.iter().map(|address| self.probe(address)));
        if timeout(FAREWELL_TIMEOUT, probes).await.is_err() {
            tracing::debug!("not all peers could be told at once");
        }
    }

    /// Rereads the list of nodes and probes them. Never returns; dropping the future ends all probes.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut probes = BTreeMap::new();
        loop {
            self.client.close_old_connections();
            let listed = self.source.read().await;
            self.change(|membership, now| membership.list(listed, now));

            let addresses: Vec<_> = self.membership.read().addresses().cloned().collect();
            probes.retain(|address, _| addresses.contains(address));
            for address in addresses {
                let probing =
                    || AbortOnDropHandle::new(tokio::spawn(self.clone().keep_probing(address.clone())));
                probes.entry(address.clone()).or_insert_with(probing);
            }

            match self.source.interval() {
                Some(interval) => sleep(interval).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Probes a peer until it is no longer in the list.
    async fn keep_probing(self: Arc<Self>, address: NodeAddress) {
        loop {
            // Created before the time of the next probe is read, so that a failure in between wakes it as well.
            let has_failed = self.has_failed.notified();
            let Some(due) = self.membership.read().next_probe(&address) else { return };
            tokio::select! {
                () = sleep_until(due.into()) => self.probe(&address).await,
                () = has_failed => {}
            }
        }
    }

    /// Records that a request to a peer, other than a probe, failed.
    fn request_failed(&self, address: &NodeAddress, reason: String, sent: Instant) {
        self.change(|membership, now| membership.request_failed(address, reason, sent, now));
        self.has_failed.notify_waiters();
    }

    async fn probe(&self, address: &NodeAddress) {
        let sent = Instant::now();
        let hello = {
            let mut membership = self.membership.write();
            membership.begin_probe(address, sent);
            membership.hello().clone()
        };

        let answer = self.client.hello(address, &hello, PROBE_TIMEOUT).await;
        self.change(|membership, now| match answer {
            Ok(answer) => membership.answered(address, answer, sent, now),
            Err(error) => {
                let failure = PeerFailure { reason: error.to_string(), is_refusal: error.is_refusal() };
                membership.failed(address, failure, sent, now)
            }
        });
    }

    /// Applies a change to the membership, and logs the resulting events.
    fn change(&self, change: impl FnOnce(&mut Membership, Instant) -> Vec<MembershipEvent>) {
        let (events, view) = {
            let mut membership = self.membership.write();
            let events = change(&mut membership, Instant::now());
            if let Some(routes) = membership.take_routes() {
                self.routes.store(Arc::new(routes));
            }
            (events, membership.hello().digest.clone())
        };

        for event in events {
            match event {
                MembershipEvent::Changed { change, reason: None } => {
                    tracing::info!(view, "cluster: {change}");
                }
                MembershipEvent::Changed { change, reason: Some(reason) } => {
                    tracing::info!(view, "cluster: {change}: {reason}");
                }
                MembershipEvent::Problem(line) => tracing::warn!("cluster: {line}"),
            }
        }
    }
}
