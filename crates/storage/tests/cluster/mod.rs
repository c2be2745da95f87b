//! Nodes of a cluster in one process, connected by calls that can be slow, wrong, cut off or unanswered.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use object_store::{ObjectStoreExt, path::Path};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_client::{ClusterNode, ClusterView, NodeAddresses, NodeId, PathHash};
use stylobate_storage::{
    BlockRun, BlockRuns, CacheOptions, Consistency, ConsistencyRules, DescribeRequest, DescribedObject,
    Origin, PageCache, PathsChanged, PeerDeadlines, PeerError, PeerFault, PeerId, PeerRead, PeerRole,
    PeerSource, Peers, ReadThrough, StripeSources,
};

use crate::support::{Counting, quick};

/// A fault in a peer's answer, after this many good runs of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFault {
    /// The connection breaks.
    Break(usize),
    /// The answer ends as if complete.
    End(usize),
    /// Nothing more arrives.
    Stall(usize),
    /// One byte of the next run is changed.
    Flip(usize),
    /// The next run is one byte short.
    Shrink(usize),
    /// The next run is that of another page, with its checksums.
    Repeat(usize),
}

/// One request from a node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub from: usize,
    pub to: usize,
    pub role: PeerRole,
}

/// The nodes and the connections between them.
#[derive(Debug)]
pub struct Network {
    /// Bytes of a stripe.
    stripe: u64,
    state: Mutex<NetworkState>,
}

#[derive(Debug, Default)]
struct NetworkState {
    /// `None` while the node is down.
    stores: Vec<Option<ReadThrough>>,
    /// The nodes that each node believes to be up.
    views: Vec<Vec<usize>>,
    /// The view before the last change.
    former: Option<Vec<usize>>,
    /// Pairs of nodes that cannot reach each other.
    cut: BTreeSet<(usize, usize)>,
    latency: Duration,
    /// Adds random times up to the given one to the latency.
    jitter: Option<(StdRng, Duration)>,
    /// A node whose answers take this much longer.
    slow: Option<(usize, Duration)>,
    asks_deputies_first: bool,
    /// Set to rank nodes by hash, as in a cluster, instead of round-robin, which tests of a single case rely on.
    ranks_by_hash: bool,
    faults: VecDeque<AnswerFault>,
    asked: Vec<Asked>,
    suspects: Vec<(usize, usize, PeerFault)>,
}

impl Network {
    pub fn new(nodes: usize, stripe: u64) -> Arc<Self> {
        let all: Vec<usize> = (0..nodes).collect();
        let state = NetworkState {
            stores: vec![None; nodes],
            views: vec![all; nodes],
            latency: Duration::from_micros(200),
            ..NetworkState::default()
        };
        Arc::new(Self { stripe, state: Mutex::new(state) })
    }

    /// Returns the home of the stripe in the view of node 0.
    pub fn home(&self, path: &Path, stripe: u64) -> usize {
        let state = self.state.lock();
        state.ranked(&state.views[0], path, stripe, 0)
    }

    /// Ranks the nodes by the views and the placement of the crate `stylobate-client`.
    pub fn rank_by_hash(&self) {
        self.state.lock().ranks_by_hash = true;
    }

    pub fn set_view(&self, node: usize, view: &[usize]) {
        let mut state = self.state.lock();
        state.former = Some(std::mem::replace(&mut state.views[node], view.to_vec()));
    }

    /// Changes the view of all nodes.
    pub fn set_views(&self, view: &[usize]) {
        let mut state = self.state.lock();
        state.former = Some(state.views[0].clone());
        state.views.iter_mut().for_each(|own| *own = view.to_vec());
    }

    /// Starts or stops a node.
    pub fn set_store(&self, node: usize, store: Option<ReadThrough>) {
        self.state.lock().stores[node] = store;
    }

    pub fn cut(&self, a: usize, b: usize) {
        self.state.lock().cut.extend([(a, b), (b, a)]);
    }

    pub fn heal(&self) {
        self.state.lock().cut.clear();
    }

    pub fn set_latency(&self, latency: Duration) {
        self.state.lock().latency = latency;
    }

    pub fn jitter(&self, seed: u64, max: Duration) {
        self.state.lock().jitter = Some((StdRng::seed_from_u64(seed), max));
    }

    /// Delays each answer of a node by this time.
    pub fn slow_down(&self, node: usize, by: Duration) {
        self.state.lock().slow = Some((node, by));
    }

    /// Returns the store of a node, unless it is down.
    pub fn store(&self, node: usize) -> Option<ReadThrough> {
        self.state.lock().stores[node].clone()
    }

    pub fn ask_deputies_first(&self) {
        self.state.lock().asks_deputies_first = true;
    }

    /// Injects faults into the next answers, one each.
    pub fn spoil(&self, faults: impl IntoIterator<Item = AnswerFault>) {
        self.state.lock().faults.extend(faults);
    }

    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state.lock().asked)
    }

    pub fn take_suspects(&self) -> Vec<(usize, usize, PeerFault)> {
        std::mem::take(&mut self.state.lock().suspects)
    }

    /// Calls a node: waits for the latency, or forever if the two cannot reach each other.
    async fn reach(&self, from: usize, to: usize) -> Result<ReadThrough, PeerError> {
        let latency = self.next_latency() + self.slowness(to);
        tokio::time::sleep(latency).await;
        if self.is_cut(from, to) {
            std::future::pending::<()>().await;
        }
        let store = self.state.lock().stores[to].clone();
        store.ok_or_else(|| PeerError::Failed { reason: "connection refused".to_owned() })
    }

    fn next_latency(&self) -> Duration {
        let NetworkState { latency, jitter, .. } = &mut *self.state.lock();
        let more = jitter.as_mut().map(|(rng, max)| max.mul_f64(rng.random()));
        *latency + more.unwrap_or_default()
    }

    fn slowness(&self, node: usize) -> Duration {
        let slow = self.state.lock().slow;
        slow.filter(|(slow, _)| *slow == node).map_or(Duration::ZERO, |(_, by)| by)
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.state.lock().cut.contains(&(from, to))
    }

    fn is_running(&self, node: usize) -> bool {
        self.state.lock().stores[node].is_some()
    }
}

impl NetworkState {
    /// Returns the node with this rank for a stripe in a view.
    fn ranked(&self, view: &[usize], path: &Path, stripe: u64, rank: usize) -> usize {
        let rank = rank % view.len();
        if !self.ranks_by_hash {
            let sum: u64 = path.as_ref().bytes().map(u64::from).sum();
            return view[(sum + stripe + rank as u64) as usize % view.len()];
        }

        let nodes = view.iter().map(|node| {
            let id = NodeId::new(node.to_string()).unwrap();
            ClusterNode::new(id, NodeAddresses::default())
        });
        let view = ClusterView::new(nodes).unwrap();
        let key = PathHash::of("bucket", path.as_ref()).stripe(stripe);
        view.rank(key, rank + 1)[rank].id().as_str().parse().unwrap()
    }
}

/// The peers of one node.
#[derive(Debug)]
pub struct FakePeers {
    me: usize,
    network: Arc<Network>,
}

pub fn id(node: usize) -> PeerId {
    PeerId::new(node.to_string())
}

fn node_of(peer: &PeerId) -> usize {
    peer.as_str().parse().unwrap()
}

#[async_trait]
impl Peers for FakePeers {
    fn stripe(&self, path: &Path, offset: u64) -> StripeSources {
        let state = self.network.state.lock();
        let stripe = offset / self.network.stripe;
        let view = &state.views[self.me];
        let home = state.ranked(view, path, stripe, 0);
        let deputy = state.ranked(view, path, stripe, 1);
        let source = |node: usize, role| PeerSource { peer: id(node), role };

        let mut peers = Vec::new();
        if home == self.me {
            let donor = state.former.as_ref().map(|former| state.ranked(former, path, stripe, 0));
            peers.extend(donor.filter(|donor| *donor != home).map(|donor| source(donor, PeerRole::Donor)));
        } else {
            peers.push(source(home, PeerRole::Home));
            if deputy != self.me && deputy != home {
                peers.push(source(deputy, PeerRole::Deputy));
            }
            if state.asks_deputies_first {
                peers.reverse();
            }
        }
        StripeSources { end: (stripe + 1) * self.network.stripe, is_home: home == self.me, peers }
    }

    fn authority(&self, path: &Path) -> Option<PeerId> {
        let state = self.network.state.lock();
        let authority = state.ranked(&state.views[self.me], path, 0, 0);
        (authority != self.me).then(|| id(authority))
    }

    async fn describe(&self, peer: &PeerId, request: DescribeRequest) -> Result<DescribedObject, PeerError> {
        let to = node_of(peer);
        let store = self.network.reach(self.me, to).await?;
        let described = store.describe_for_peer(&id(self.me), request).await;
        self.network.reach(to, self.me).await?;
        described
    }

    async fn tell(&self, peer: &PeerId, change: PathsChanged) -> Result<(), PeerError> {
        let to = node_of(peer);
        let store = self.network.reach(self.me, to).await?;
        store.note_changed(change).await;
        self.network.reach(to, self.me).await.map(drop)
    }

    async fn read(&self, peer: &PeerId, read: PeerRead) -> Result<BlockRuns, PeerError> {
        let network = self.network.clone();
        let from = self.me;
        let to = node_of(peer);
        network.state.lock().asked.push(Asked { from, to, role: read.role });
        let store = network.reach(from, to).await?;
        let runs = store.read_for_peer(read).await?.map(|run| run.map(|run| copied(&run)));
        let fault = network.state.lock().faults.pop_front();

        let broken = || Some(Err(PeerError::Failed { reason: "connection reset".to_owned() }));
        let sent = futures::stream::unfold((runs.boxed(), 0, None), move |(mut runs, number, before)| {
            let network = network.clone();
            async move {
                if network.is_cut(from, to) {
                    std::future::pending::<()>().await;
                }
                let next = if network.is_running(to) { runs.next().await } else { broken() };
                let next = match fault {
                    Some(AnswerFault::Break(after)) if number == after => broken(),
                    Some(AnswerFault::End(after)) if number == after => None,
                    Some(AnswerFault::Stall(after)) if number == after => std::future::pending().await,
                    Some(AnswerFault::Flip(after)) if number == after => next.map(|run| run.map(flip)),
                    Some(AnswerFault::Shrink(after)) if number == after => next.map(|run| run.map(shrink)),
                    Some(AnswerFault::Repeat(after)) if number == after => before.clone().or(next),
                    _ => next,
                };
                let run = next?;
                let sent = run.as_ref().map(copied).map_err(Clone::clone);
                Some((run, (runs, number + 1, Some(sent))))
            }
        });
        Ok(sent.boxed())
    }

    fn others(&self) -> Vec<PeerId> {
        let nodes = self.network.state.lock().stores.len();
        (0..nodes).filter(|node| *node != self.me).map(id).collect()
    }

    fn deadlines(&self) -> PeerDeadlines {
        PeerDeadlines { evict: Duration::from_secs(5), ..PeerDeadlines::default() }
    }

    async fn evict(&self, peer: &PeerId, prefix: &str) -> Result<u64, PeerError> {
        let to = node_of(peer);
        let store = self.network.reach(self.me, to).await?;
        let evicted = store.evict_for_peer(prefix).await;
        self.network.reach(to, self.me).await?;
        evicted
    }

    fn suspect(&self, peer: &PeerId, _: Instant, fault: PeerFault) {
        self.network.state.lock().suspects.push((self.me, node_of(peer), fault));
    }
}

/// Returns the run with a copy of its bytes, as if it had come from another machine.
fn copied(run: &BlockRun) -> BlockRun {
    BlockRun { bytes: Bytes::copy_from_slice(&run.bytes), checksums: run.checksums.clone() }
}

fn flip(run: BlockRun) -> BlockRun {
    let mut bytes = run.bytes.to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    BlockRun { bytes: bytes.into(), ..run }
}

fn shrink(run: BlockRun) -> BlockRun {
    BlockRun { bytes: run.bytes.slice(1..), ..run }
}

/// A node: its store and its cache.
pub struct Node {
    pub store: ReadThrough,
    pub cache: PageCache,
}

/// Nodes over one counting origin.
pub struct Cluster {
    pub origin: Arc<Counting>,
    pub network: Arc<Network>,
    pub nodes: Vec<Node>,
}

impl Cluster {
    /// Starts nodes, each with its own cache.
    pub async fn start(
        caches: impl IntoIterator<Item = CacheOptions>,
        stripe: u64,
        consistency: Consistency,
    ) -> Self {
        let caches: Vec<_> = caches.into_iter().collect();
        let origin = Arc::new(Counting::default());
        let network = Network::new(caches.len(), stripe);
        let mut cluster = Self { origin, network, nodes: Vec::new() };
        for (number, options) in caches.into_iter().enumerate() {
            let node = cluster.open(number, options, consistency).await;
            cluster.nodes.push(node);
        }
        cluster
    }

    /// Opens the store of a node, and connects it.
    pub async fn open(&self, number: usize, options: CacheOptions, consistency: Consistency) -> Node {
        let cache = PageCache::open(options).await.unwrap();
        let peers = Arc::new(FakePeers { me: number, network: self.network.clone() });
        let origin = Origin::new("origin", self.origin.clone());
        let rules = ConsistencyRules::new(consistency);
        let store = ReadThrough::in_cluster(origin, cache.clone(), rules, quick(), peers);
        self.network.set_store(number, Some(store.clone()));
        Node { store, cache }
    }

    /// Puts an object at the origin, bypassing all nodes.
    pub async fn put(&self, path: &str, bytes: impl Into<Bytes>) -> Path {
        let path = Path::from(path);
        self.origin.memory.put(&path, bytes.into().into()).await.unwrap();
        path
    }

    /// Puts an object whose first stripe has its home at the given node. Its path begins with `name`.
    pub async fn put_at(&self, node: usize, name: &str, bytes: impl Into<Bytes>) -> Path {
        let paths = (0..).map(|number| Path::from(format!("{name}-{number}")));
        let path = paths.into_iter().find(|path| self.network.home(path, 0) == node).unwrap();
        self.put(path.as_ref(), bytes).await
    }

    pub async fn read(&self, node: usize, path: &Path) -> object_store::Result<Bytes> {
        self.nodes[node].store.get(path).await?.bytes().await
    }

    /// Checks that the origin sent no byte of an object twice since the ranges were last taken.
    pub fn check_sent_once(&self) {
        let mut ranges = std::mem::take(&mut *self.origin.ranges.lock());
        ranges.sort_by_key(|range| range.start);
        let overlap = ranges.windows(2).find(|pair| pair[0].end > pair[1].start);
        assert_eq!(overlap, None, "{ranges:?}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The network and the stores refer to each other.
        for node in 0..self.nodes.len() {
            self.network.set_store(node, None);
        }
    }
}

/// Runs work that must end within a minute, in virtual time if the clock is paused.
pub async fn in_a_minute(work: impl Future<Output = ()>) {
    let ended = tokio::time::timeout(Duration::from_secs(60), work).await;
    assert!(ended.is_ok(), "waited a minute");
}
