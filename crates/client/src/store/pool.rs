//! The nodes known to a cluster store: their view, health and load, and the choice of the next one to try.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use object_store::{Error, Result};
use parking_lot::{Mutex, RwLock};
use tokio::{
    runtime::Handle,
    sync::OnceCell,
    time::{sleep, timeout},
};

use super::{
    connect::{NodeConnector, NodeStores},
    description::ClusterDescription,
    failure::{NodeFailure, NodeFault},
};
use crate::{
    address::NodeAddress,
    health::{Liveness, PeerHealth},
    hedge::HedgePolicy,
    load::RequestsInFlight,
    node::{ClusterNode, NodeState},
    placement::StripeKey,
    view::ClusterView,
};

/// Number of times that all nodes are tried before a request fails.
const ROUNDS: u32 = 3;
/// Wait before the second round; each further wait is four times as long.
const ROUND_BACKOFF: Duration = Duration::from_millis(100);
/// Quantile of the times until nodes begin to answer reads, after which a read is also sent to the next node.
const HEDGE_QUANTILE: f64 = 0.95;
/// Maximum time for a node to describe its cluster.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum nodes probed concurrently.
const MAX_PROBES: usize = 16;

/// Options of a [`ClusterStore`](super::ClusterStore).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterStoreOptions {
    /// Time without an answer to a read, or without progress of one, after which the next node is tried; doubles
    /// each time that all nodes have failed. Default: 10 s.
    pub answer_timeout: Duration,
    /// Interval at which a store in use refreshes the view; after a failure, it does so immediately. Default: 5 s.
    pub refresh_interval: Duration,
}

impl Default for ClusterStoreOptions {
    fn default() -> Self {
        Self { answer_timeout: Duration::from_secs(10), refresh_interval: Duration::from_secs(5) }
    }
}

impl ClusterStoreOptions {
    /// Sets the time without an answer after which the next node is tried. Default: 10 s.
    pub fn with_answer_timeout(self, answer_timeout: Duration) -> Self {
        Self { answer_timeout, ..self }
    }

    /// Sets the interval at which the view is refreshed. Default: 5 s.
    pub fn with_refresh_interval(self, refresh_interval: Duration) -> Self {
        Self { refresh_interval, ..self }
    }
}

/// The effect of repeating a request at another node after one failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepeatEffect {
    /// No effect: a read. It is hedged, and waits for an answer for at most [`ClusterStoreOptions::answer_timeout`].
    Read,
    /// The same result: an unconditional write, or a listing of any length.
    Same,
    /// A conflict with itself: a conditional write. It is repeated only if the node did nothing.
    Conflict,
}

/// A node and its stores.
#[derive(Debug)]
pub(super) struct NodeClient {
    address: NodeAddress,
    stores: NodeStores,
    health: Mutex<PeerHealth>,
    in_flight: AtomicU64,
}

/// The nodes of a store at one moment.
#[derive(Debug)]
struct PoolSnapshot {
    /// The view as described by the cluster, or as given by the user.
    listed: ClusterView,
    /// The same view, with nodes that do not answer marked as down.
    view: ClusterView,
    up: u64,
    /// The nodes of the view, and the given ones.
    nodes: BTreeMap<NodeAddress, Arc<NodeClient>>,
    /// Unranked nodes, tried after all others; those that are down come last.
    last_resorts: Vec<Arc<NodeClient>>,
}

/// The nodes known to a store.
#[derive(Debug)]
pub(super) struct NodePool {
    connector: Arc<dyn NodeConnector>,
    options: ClusterStoreOptions,
    /// The nodes given by the user.
    seeds: ClusterView,
    known: RwLock<Arc<PoolSnapshot>>,
    in_flight: AtomicU64,
    hedge: HedgePolicy,
    first_view: OnceCell<()>,
    refresh: Mutex<RefreshSchedule>,
}

#[derive(Debug)]
struct RefreshSchedule {
    due: Instant,
    is_running: bool,
    /// Number of refreshes so far, which rotates the node to query.
    count: usize,
}

impl NodePool {
    /// Creates a pool of the given nodes. Fails if one of them cannot be connected to.
    pub(super) fn new(
        seeds: ClusterView,
        connector: Arc<dyn NodeConnector>,
        options: ClusterStoreOptions,
    ) -> Result<Self> {
        let mut nodes = BTreeMap::new();
        for address in s3_addresses(&seeds) {
            nodes.insert(address.clone(), NodeClient::connect(&*connector, address)?);
        }

        let refresh = RefreshSchedule { due: Instant::now(), is_running: false, count: 0 };
        Ok(Self {
            connector,
            options,
            known: RwLock::new(Arc::new(PoolSnapshot::new(seeds.clone(), nodes))),
            seeds,
            in_flight: AtomicU64::new(0),
            hedge: HedgePolicy::new(Some(HEDGE_QUANTILE)),
            first_view: OnceCell::new(),
            refresh: Mutex::new(refresh),
        })
    }

    /// Returns the name of the bucket.
    pub(super) fn bucket(&self) -> &str {
        self.connector.bucket()
    }

    /// Returns the options.
    pub(super) fn options(&self) -> &ClusterStoreOptions {
        &self.options
    }

    /// Returns the view that currently determines the placement of requests.
    pub(super) fn view(&self) -> ClusterView {
        self.known().view.clone()
    }

    /// Returns the number of nodes that can be tried.
    pub(super) fn len(&self) -> usize {
        self.known().nodes.len()
    }

    fn known(&self) -> Arc<PoolSnapshot> {
        self.known.read().clone()
    }

    /// Sends a request for a stripe to its home; after a failure, to the deputy, and then to all other nodes, for
    /// several rounds. Nodes to `avoid` are skipped in the first round. A read that takes longer than most is also
    /// sent to the next node before its node has failed.
    ///
    /// Returns the result and the request that yielded it: the caller calls [`NodeRequest::succeeded`] once the
    /// answer is complete.
    pub(super) async fn ask<T, F>(
        self: &Arc<Self>,
        key: StripeKey,
        avoid: &[NodeAddress],
        effect: RepeatEffect,
        send: impl Fn(&NodeStores) -> F,
    ) -> Result<(T, NodeRequest)>
    where
        F: Future<Output = Result<T>>,
    {
        self.prepare().await;

        let mut last = Error::from(NodeFault::NoNode);
        for round in 0..ROUNDS {
            let mut tried = Vec::new();
            if round == 0 {
                tried.extend_from_slice(avoid);
            } else {
                sleep(ROUND_BACKOFF * 4_u32.pow(round - 1)).await;
            }

            while let Some(node) = self.candidate(key, &tried) {
                tried.push(node.address.clone());
                let answer = match effect {
                    RepeatEffect::Read => self.ask_hedged(key, node, &tried, round, &send).await,
                    RepeatEffect::Same | RepeatEffect::Conflict => {
                        let answer = send(&node.stores);
                        self.ask_one(node, answer).await
                    }
                };

                let error = match answer {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                };
                let Some(failure) = NodeFailure::of(&error) else { return Err(error) };
                if effect == RepeatEffect::Conflict && failure == NodeFailure::Broken {
                    return Err(error);
                }
                last = error;
            }
        }
        Err(last)
    }

    /// Sends a read to the node that answered an earlier request.
    pub(super) async fn ask_again<T, F>(
        self: &Arc<Self>,
        earlier: &Arc<NodeClient>,
        send: impl Fn(&NodeStores) -> F,
    ) -> Result<(T, NodeRequest)>
    where
        F: Future<Output = Result<T>>,
    {
        let answer = self.with_deadline(0, send(&earlier.stores));
        self.ask_one(earlier.clone(), answer).await
    }

    /// Sends a read to a node and, if it is slower to begin its answer than most, also to the next in rank that is
    /// not among those `tried`.
    ///
    /// The first node decides: an error that is its answer counts at once, but one from the other node only means
    /// that the hedge failed. That node is tried again in its turn.
    async fn ask_hedged<T, F>(
        self: &Arc<Self>,
        key: StripeKey,
        node: Arc<NodeClient>,
        tried: &[NodeAddress],
        round: u32,
        send: &impl Fn(&NodeStores) -> F,
    ) -> Result<(T, NodeRequest)>
    where
        F: Future<Output = Result<T>>,
    {
        let request = |attempt: usize| {
            let is_first = attempt == 0;
            let asked = if is_first { Some(node.clone()) } else { self.known().next_in_rank(key, tried) };
            async move {
                let asked = asked.ok_or(NodeFault::NoNode)?;
                let answer = self.with_deadline(round, send(&asked.stores));
                match self.ask_one(asked, answer).await {
                    Err(error) if is_first && NodeFailure::of(&error).is_none() => Ok(Err(error)),
                    answer => answer.map(Ok),
                }
            }
        };
        self.hedge.run(request).await?
    }

    /// Awaits the answer of a node, and records whether the node failed.
    async fn ask_one<T>(
        self: &Arc<Self>,
        node: Arc<NodeClient>,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<(T, NodeRequest)> {
        let request = NodeRequest::begin(self, node);
        let answer = answer.await;
        match &answer {
            Ok(_) => {}
            Err(error) if NodeFailure::of(error).is_some() => request.failed(),
            Err(_) => request.succeeded(),
        }
        answer.map(|answer| (answer, request))
    }

    /// Begins a request for a stripe, or for a listing that is placed like it, at a node that is not in `avoid`.
    pub(super) async fn begin(
        self: &Arc<Self>,
        key: StripeKey,
        avoid: &[NodeAddress],
    ) -> Option<NodeRequest> {
        self.prepare().await;
        self.candidate(key, avoid).map(|node| NodeRequest::begin(self, node))
    }

    async fn with_deadline<T>(&self, round: u32, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.options.answer_timeout * 2_u32.pow(round);
        timeout(limit, answer).await.unwrap_or_else(|_| Err(NodeFault::Late.into()))
    }

    /// Returns the next node to try for a stripe.
    fn candidate(&self, key: StripeKey, tried: &[NodeAddress]) -> Option<Arc<NodeClient>> {
        let known = self.known();
        if tried.is_empty()
            && let Some(chosen) = self.by_load(&known, key)
        {
            return Some(chosen);
        }

        let is_untried = |node: &&Arc<NodeClient>| !tried.contains(&node.address);
        known.next_in_rank(key, tried).or_else(|| known.last_resorts.iter().find(is_untried).cloned())
    }

    /// Returns the home of a stripe, or the node that stands in for it while it is overloaded.
    fn by_load(&self, known: &PoolSnapshot, key: StripeKey) -> Option<Arc<NodeClient>> {
        let in_flight = |node: &Arc<NodeClient>| node.in_flight.load(Ordering::Relaxed);
        let ranked = |count| known.view.rank(key, count).into_iter().filter_map(|node| known.client(node));
        let home = ranked(1).next()?;
        if in_flight(home) <= RequestsInFlight::HOME_FLOOR {
            return Some(home.clone());
        }

        let sharers: Vec<_> = ranked(RequestsInFlight::MAX_SHARERS).collect();
        let ranked: Vec<u64> = sharers.iter().map(|node| in_flight(node)).collect();
        let load = RequestsInFlight { total: self.in_flight.load(Ordering::Relaxed), nodes: known.up };
        sharers.get(load.choose(&ranked)).map(|node| Arc::clone(node))
    }

    /// Records what a request reveals about the health of its node.
    fn note(&self, node: &NodeClient, change: impl FnOnce(&mut PeerHealth)) {
        let is_down = |health: &PeerHealth| health.liveness() == Liveness::Down;
        let has_changed = {
            let mut health = node.health.lock();
            let before = is_down(&health);
            change(&mut health);
            before != is_down(&health)
        };

        if has_changed {
            let mut known = self.known.write();
            *known = Arc::new(PoolSnapshot::new(known.listed.clone(), known.nodes.clone()));
        }
    }
}

// The view.
impl NodePool {
    /// Waits for the first view, and starts to refresh it if that is due.
    async fn prepare(self: &Arc<Self>) {
        self.first_view.get_or_init(|| self.ask_for_first_view()).await;
        self.refresh_if_due();
    }

    /// Requests the view from the given nodes until one of them answers.
    async fn ask_for_first_view(&self) {
        let known = self.known();
        let mut answers: FuturesUnordered<_> =
            known.nodes.values().take(MAX_PROBES).map(|node| self.describe(node)).collect();
        while let Some(answer) = answers.next().await {
            if let Some(description) = answer {
                self.adopt(&description);
                break;
            }
        }
        self.refresh.lock().due = Instant::now() + self.options.refresh_interval;
    }

    /// Starts a task that refreshes the view and probes the nodes not known to answer, if that is due.
    fn refresh_if_due(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut refresh = self.refresh.lock();
        if refresh.is_running || Instant::now() < refresh.due {
            return;
        }
        refresh.is_running = true;
        refresh.count += 1;
        let turn = refresh.count;
        drop(refresh);

        let running = RunningRefresh(self.clone());
        runtime.spawn(async move { running.0.refresh(turn).await });
    }

    async fn refresh(&self, turn: usize) {
        let known = self.known();
        let is_up = |node: &&Arc<NodeClient>| node.health.lock().liveness() == Liveness::Up;
        let (up, doubtful): (Vec<_>, Vec<_>) = known.nodes.values().partition(is_up);
        let is_due = |node: &&Arc<NodeClient>| node.health.lock().begin_probe(Instant::now());
        let probed = doubtful.into_iter().filter(is_due).take(MAX_PROBES);

        // The description by a node that is up comes first: one that was down may have an old view.
        let healthy = up.get(turn % up.len().max(1)).copied();
        let asked: Vec<_> = healthy.into_iter().chain(probed).collect();
        let answers = join_all(asked.into_iter().map(|node| self.describe(node))).await;
        if let Some(description) = answers.into_iter().flatten().next() {
            self.adopt(&description);
        }
    }

    /// Requests the description of a node's cluster. Returns `None` if the node fails or refuses.
    async fn describe(&self, node: &NodeClient) -> Option<ClusterDescription> {
        let sent = Instant::now();
        let answer = timeout(DESCRIBE_TIMEOUT, self.connector.describe(&node.address)).await;
        let answer = answer.unwrap_or_else(|_| Err(NodeFault::Late.into()));
        let has_failed = answer.as_ref().is_err_and(|error| NodeFailure::of(error).is_some());

        self.note(node, |health| {
            if has_failed {
                health.failed(sent, Instant::now());
            } else {
                health.probe_succeeded(sent, Instant::now());
            }
        });
        answer.ok().map(|answer| ClusterDescription::parse(&answer))
    }

    /// Adopts the view that a node describes; if it has no nodes, adopts that of the given nodes. An invalid
    /// description is ignored.
    fn adopt(&self, description: &ClusterDescription) {
        let Ok(described) = description.view() else { return };
        let listed = described.unwrap_or_else(|| self.seeds.clone());
        let known = self.known();
        if known.listed == listed {
            return;
        }

        let mut nodes = BTreeMap::new();
        for address in s3_addresses(&listed).chain(s3_addresses(&self.seeds)) {
            let connect = || NodeClient::connect(&*self.connector, address).ok();
            if let Some(node) = known.nodes.get(address).cloned().or_else(connect) {
                nodes.insert(address.clone(), node);
            }
        }
        let mut known = self.known.write();
        *known = Arc::new(PoolSnapshot::new(listed, nodes));
    }
}

/// A refresh of the view. Dropping it, even before it has completed, schedules the next one.
struct RunningRefresh(Arc<NodePool>);

impl Drop for RunningRefresh {
    fn drop(&mut self) {
        let is_doubtful = |node: &Arc<NodeClient>| node.health.lock().liveness() != Liveness::Up;
        let mut interval = self.0.options.refresh_interval;
        if self.0.known().nodes.values().any(is_doubtful) {
            interval = interval.min(PeerHealth::PROBE_INTERVAL);
        }
        let mut refresh = self.0.refresh.lock();
        refresh.is_running = false;
        refresh.due = Instant::now() + interval;
    }
}

impl NodeClient {
    fn connect(connector: &dyn NodeConnector, address: &NodeAddress) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            address: address.clone(),
            stores: connector.connect(address)?,
            health: Mutex::new(PeerHealth::new(Instant::now())),
            in_flight: AtomicU64::new(0),
        }))
    }
}

impl PoolSnapshot {
    fn new(listed: ClusterView, nodes: BTreeMap<NodeAddress, Arc<NodeClient>>) -> Self {
        let client = |node: &ClusterNode| nodes.get(node.addresses().s3.as_ref()?);
        let view = listed.clone().with_states(|node| match client(node) {
            Some(client) => client.health.lock().state_of(node.state()),
            None => NodeState::Down,
        });

        let ranked: BTreeSet<_> = view
            .nodes()
            .iter()
            .filter(|node| node.state() == NodeState::Up)
            .filter_map(|node| node.addresses().s3.clone())
            .collect();
        let unranked = nodes.values().filter(|node| !ranked.contains(&node.address)).cloned();
        let is_down = |node: &Arc<NodeClient>| node.health.lock().liveness() == Liveness::Down;
        let (down, others): (Vec<_>, Vec<_>) = unranked.partition(is_down);
        let last_resorts = others.into_iter().chain(down).collect();

        Self { listed, view, up: ranked.len() as u64, nodes, last_resorts }
    }

    /// Returns the first node in rank for a stripe that is not among those `tried`.
    fn next_in_rank(&self, key: StripeKey, tried: &[NodeAddress]) -> Option<Arc<NodeClient>> {
        let ranked = self.view.rank(key, usize::MAX).into_iter().filter_map(|node| self.client(node));
        let mut untried = ranked.filter(|node| !tried.contains(&node.address));
        untried.next().cloned()
    }

    fn client(&self, node: &ClusterNode) -> Option<&Arc<NodeClient>> {
        self.nodes.get(node.addresses().s3.as_ref()?)
    }
}

fn s3_addresses(view: &ClusterView) -> impl Iterator<Item = &NodeAddress> {
    view.nodes().iter().filter_map(|node| node.addresses().s3.as_ref())
}

/// A request in flight to a node, counted in its load until it is dropped.
#[derive(Debug)]
pub(super) struct NodeRequest {
    pool: Arc<NodePool>,
    node: Arc<NodeClient>,
    sent: Instant,
}

impl NodeRequest {
    fn begin(pool: &Arc<NodePool>, node: Arc<NodeClient>) -> Self {
        node.in_flight.fetch_add(1, Ordering::Relaxed);
        pool.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { pool: pool.clone(), node, sent: Instant::now() }
    }

    /// Returns the node.
    pub(super) fn node(&self) -> &Arc<NodeClient> {
        &self.node
    }

    /// Returns the address of the node.
    pub(super) fn address(&self) -> &NodeAddress {
        &self.node.address
    }

    /// Returns the stores of the node.
    pub(super) fn stores(&self) -> &NodeStores {
        &self.node.stores
    }

    /// Records that the node answered.
    pub(super) fn succeeded(&self) {
        self.pool.note(&self.node, |health| health.probe_succeeded(self.sent, Instant::now()));
    }

    /// Records that the node failed, and makes a refresh of the view due.
    pub(super) fn failed(&self) {
        self.pool.note(&self.node, |health| health.failed(self.sent, Instant::now()));
        self.pool.refresh.lock().due = Instant::now();
        self.pool.refresh_if_due();
    }
}

impl Drop for NodeRequest {
    fn drop(&mut self) {
        self.node.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.pool.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
