//! State of the cluster's membership, derived from the node list, probes and hellos. Performs no I/O; callers pass
//! the time.
//!
//! ```text
//! list ──▶ peers, each with the last hello and its health ──▶ view ──▶ events for the log
//!                                                               ├──▶ previous view, for donors
//!                                                               └──▶ routes of reads
//! ```
//!
//! If the list contains ids (from the configuration or a file), they are authoritative, and a peer that reports
//! another id is not used. If it contains addresses only (from DNS), each peer reports its id, and joins the view
//! with its first answer.

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use stylobate_client::{
    ClusterNode, ClusterView, Liveness, NodeAddress, NodeAddresses, NodeDoor, NodeId, NodeState, NodeWeight,
    PeerHealth, ViewChange, ViewChangeKind,
};

use super::{
    hello::{DoorPorts, HelloAnswer, HelloVerdict, NodeHello},
    notice::RepeatedNotice,
    routes::{PeerRoute, PreviousView, ReadRoutes},
    sources::ListedPeer,
    status::{ClusterNodeStatus, ClusterStatus, KnownNode, KnownNodes, NodeTraffic},
};

/// The nodes of a cluster, as known from the list and from the nodes' hellos.
#[derive(Debug)]
pub(super) struct Membership {
    own: NodeHello,
    own_id: NodeId,
    /// True if the list contains the ids of nodes.
    has_ids: bool,
    peers: BTreeMap<NodeAddress, PeerState>,
    view: Arc<ClusterView>,
    previous: Option<PreviousView>,
    /// Peers that left the list and may still be asked while the previous view is kept, by address.
    gone: BTreeMap<NodeAddress, PeerState>,
    /// True if the routes of reads must be recomputed.
    has_new_routes: bool,
    /// Time for which previous homes may still be asked after a change of placement.
    keep_previous: Duration,
    started: Instant,
    list_problem: Option<String>,
    own_problem: Option<String>,
    list_notice: RepeatedNotice,
    own_notice: RepeatedNotice,
    id_notice: RepeatedNotice,
}

#[derive(Debug)]
struct PeerState {
    /// The entry in the list, if the list contains ids.
    listed: Option<ClusterNode>,
    health: PeerHealth,
    /// The last answer that was accepted.
    answer: Option<HelloAnswer>,
    round_trip: Option<Duration>,
    /// True if the peer answered the last probe.
    answers: bool,
    /// The problem that the last probe found, as one human-readable line.
    problem: Option<String>,
    /// The reason of the last failure.
    failure: Option<String>,
    notice: RepeatedNotice,
    /// Requests of this node to the peer that are in flight.
    in_flight: Arc<AtomicU64>,
}

/// A change or problem to be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MembershipEvent {
    /// The view changed. The reason is set if the node went down.
    Changed { change: ViewChange, reason: Option<String> },
    /// A problem that keeps nodes from working together.
    Problem(String),
}

/// The reason for a failed probe or request.
#[derive(Clone, Debug)]
pub(super) struct PeerFailure {
    pub(super) reason: String,
    /// True if the peer answered but cannot be used, false if it could not be reached.
    pub(super) is_refusal: bool,
}

impl PeerState {
    fn new(listed: Option<ClusterNode>, now: Instant) -> Self {
        Self {
            listed,
            health: PeerHealth::new(now),
            answer: None,
            round_trip: None,
            answers: false,
            problem: None,
            failure: None,
            notice: RepeatedNotice::default(),
            in_flight: Arc::default(),
        }
    }

    fn hello(&self) -> Option<&NodeHello> {
        self.answer.as_ref().map(|answer| &answer.hello)
    }

    /// Returns the peer's id: the one in the list, or else the one that the peer reported.
    fn id(&self) -> Option<&str> {
        let listed = self.listed.as_ref().map(|node| node.id().as_str());
        listed.or_else(|| self.hello().map(|hello| hello.id.as_str()))
    }

    /// Returns the peer as a node of the view; `None` if its id is unknown.
    fn node(&self, address: &NodeAddress) -> Option<ClusterNode> {
        let node = match &self.listed {
            Some(listed) => listed.clone(),
            None => {
                let id = NodeId::new(self.id()?).ok()?;
                ClusterNode::new(id, NodeAddresses::default().with(NodeDoor::Peer, address.clone()))
            }
        };

        // A draining node that no longer answers is down, and cannot be a donor either.
        let is_draining = self.hello().is_some_and(|hello| hello.draining);
        let state = match self.health.state_of(node.state()) {
            NodeState::Up if is_draining => NodeState::Draining,
            state => state,
        };
        Some(node.with_state(state))
    }

    /// Returns the addresses of the client doors, from the ports that the peer reported.
    fn reported_addresses(&self, address: &NodeAddress) -> impl Iterator<Item = (NodeDoor, NodeAddress)> {
        let DoorPorts { s3, flight } = self.hello().map(|hello| hello.ports).unwrap_or_default();
        let ports = [(NodeDoor::S3, s3), (NodeDoor::Flight, flight)];
        ports.into_iter().filter_map(|(door, port)| Some((door, address.with_port(port?))))
    }

    /// Sets the problem, and returns an event for it unless it was logged recently.
    fn set_problem(
        &mut self,
        address: &NodeAddress,
        problem: Option<String>,
        now: Instant,
    ) -> Option<MembershipEvent> {
        self.problem = problem;
        let name = match self.id() {
            Some(id) => format!("node {id} at {address}"),
            None => format!("the node at {address}"),
        };
        let line = format!("{name}: {}", self.problem.as_ref()?);
        self.notice.is_due(&line, now).then_some(MembershipEvent::Problem(line))
    }
}

impl Membership {
    /// Creates the state of a node without known peers.
    pub(super) fn new(
        own: NodeHello,
        own_id: NodeId,
        has_ids: bool,
        keep_previous: Duration,
        now: Instant,
    ) -> stylobate_client::Result<Self> {
        let view = ClusterView::new([ClusterNode::new(own_id.clone(), NodeAddresses::default())])?;
        Ok(Self {
            own: NodeHello { digest: view.digest().to_string(), ..own },
            own_id,
            has_ids,
            peers: BTreeMap::new(),
            view: Arc::new(view),
            previous: None,
            gone: BTreeMap::new(),
            has_new_routes: true,
            keep_previous,
            started: now,
            list_problem: None,
            own_problem: None,
            list_notice: RepeatedNotice::default(),
            own_notice: RepeatedNotice::default(),
            id_notice: RepeatedNotice::default(),
        })
    }

    /// Returns this node's hello.
    pub(super) fn hello(&self) -> &NodeHello {
        &self.own
    }

    /// Returns the addresses to probe, including this node's own: another process may answer there.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &NodeAddress> {
        self.peers.keys()
    }

    /// Returns true if any other node answers.
    pub(super) fn has_company(&self) -> bool {
        self.peers.values().any(|peer| peer.answers && peer.id() != Some(self.own_id.as_str()))
    }

    /// Returns the time of the next probe; `None` if the address is no longer in the list.
    pub(super) fn next_probe(&self, address: &NodeAddress) -> Option<Instant> {
        self.peers.get(address).map(|peer| peer.health.next_probe())
    }

    /// Schedules the next probe of a peer, given that one is sent now.
    pub(super) fn begin_probe(&mut self, address: &NodeAddress, now: Instant) {
        if let Some(peer) = self.peers.get_mut(address) {
            peer.health.begin_probe(now);
        }
    }

    /// Applies a newly read node list. An error leaves the previous list in use.
    pub(super) fn list(
        &mut self,
        listed: Result<Vec<ListedPeer>, String>,
        now: Instant,
    ) -> Vec<MembershipEvent> {
        let mut events = Vec::new();
        match listed {
            Ok(listed) => {
                self.list_problem = None;
                let mut previous = std::mem::take(&mut self.peers);
                for ListedPeer { address, node } in listed {
                    let id = |node: &Option<ClusterNode>| node.as_ref().map(|node| node.id().clone());
                    let known = previous.remove(&address).filter(|peer| id(&peer.listed) == id(&node));
                    let peer = match known {
                        Some(known) => PeerState { listed: node, ..known },
                        None => PeerState::new(node, now),
                    };
                    self.peers.insert(address, peer);
                }
                self.has_new_routes |= !previous.is_empty();
                self.gone.extend(previous);
            }
            Err(error) => {
                let stays = if self.peers.is_empty() {
                    "this node goes on alone"
                } else {
                    "the previous one stays in use"
                };
                let line = format!("the list of nodes cannot be used, {stays}: {error}");
                events.extend(
                    self.list_notice.is_due(&line, now).then(|| MembershipEvent::Problem(line.clone())),
                );
                self.list_problem = Some(line);
            }
        }

        let is_listed = self.peers.values().any(|peer| peer.id() == Some(self.own_id.as_str()));
        let is_missing = self.has_ids && !self.peers.is_empty() && !is_listed;
        let line = is_missing.then(|| {
            format!(
                "the list of nodes has no node {}, which is the id of this node: it takes no share of the keys",
                self.own_id
            )
        });
        events.extend(self.set_own_problem(line, now));
        events.extend(self.refresh(now));
        events
    }

    /// Records the answer to a probe.
    pub(super) fn answered(
        &mut self,
        address: &NodeAddress,
        answer: HelloAnswer,
        sent: Instant,
        now: Instant,
    ) -> Vec<MembershipEvent> {
        let verdict = self.check_hello(address, &answer.hello);
        let Some(peer) = self.peers.get_mut(address) else { return Vec::new() };
        let problem = match verdict {
            HelloVerdict::Refused(reason) => {
                let failure = PeerFailure { reason, is_refusal: true };
                return self.failed(address, failure, sent, now);
            }
            HelloVerdict::Differs(reason) => Some(reason),
            HelloVerdict::Agrees => None,
        };

        peer.health.probe_succeeded(sent, now);
        let shares_as_before = peer.hello().is_some_and(|hello| hello.buckets == answer.hello.buckets);
        self.has_new_routes |= !shares_as_before;
        peer.answer = Some(answer);
        peer.answers = true;
        peer.round_trip = Some(now.duration_since(sent));
        let mut events: Vec<_> = peer.set_problem(address, problem, now).into_iter().collect();
        events.extend(self.refresh(now));
        events
    }

    /// Records that a probe failed.
    pub(super) fn failed(
        &mut self,
        address: &NodeAddress,
        failure: PeerFailure,
        sent: Instant,
        now: Instant,
    ) -> Vec<MembershipEvent> {
        let Some(peer) = self.peers.get_mut(address) else { return Vec::new() };
        peer.health.failed(sent, now);
        peer.answers = false;
        peer.failure = Some(failure.reason.clone());
        let problem = Some(failure.reason).filter(|_| failure.is_refusal);
        let mut events: Vec<_> = peer.set_problem(address, problem, now).into_iter().collect();
        events.extend(self.refresh(now));
        events
    }

    /// Records that a request other than a probe failed, which makes a probe due.
    pub(super) fn request_failed(
        &mut self,
        address: &NodeAddress,
        reason: String,
        sent: Instant,
        now: Instant,
    ) -> Vec<MembershipEvent> {
        let Some(peer) = self.peers.get_mut(address) else {
            self.has_new_routes |= self.gone.remove(address).is_some();
            return Vec::new();
        };
        peer.health.failed(sent, now);
        peer.failure = Some(reason);
        self.refresh(now)
    }

    /// Applies the hello that a peer sent when it probed this node.
    pub(super) fn apply_hello(&mut self, hello: &NodeHello, now: Instant) -> Vec<MembershipEvent> {
        if hello.instance == self.own.instance {
            return Vec::new();
        }
        if hello.id == self.own.id {
            let line =
                format!("another node that probes this one has its id, {}: give each its own", hello.id);
            let is_due = self.id_notice.is_due(&line, now);
            return is_due.then_some(MembershipEvent::Problem(line)).into_iter().collect();
        }

        let answers = self.peers.values_mut().filter_map(|peer| peer.answer.as_mut());
        for answer in answers.filter(|answer| answer.hello.instance == hello.instance) {
            answer.hello.draining = hello.draining;
        }
        self.refresh(now)
    }

    /// Takes this node out of placement, or back into it.
    pub(super) fn set_draining(&mut self, is_draining: bool, now: Instant) -> Vec<MembershipEvent> {
        self.own.draining = is_draining;
        self.refresh(now)
    }

    /// Sets the ports of the client doors that this node reports to others.
    pub(super) fn set_ports(&mut self, ports: DoorPorts) {
        self.own.ports = ports;
    }

    /// Returns the routes of reads, if they changed since the last call.
    pub(super) fn take_routes(&mut self) -> Option<ReadRoutes> {
        if !std::mem::take(&mut self.has_new_routes) {
            return None;
        }

        let mut routes = ReadRoutes::default();
        for (bucket, origin) in &self.own.buckets {
            let mut peers = BTreeMap::new();
            for (address, peer) in self.peers.iter().chain(&self.gone) {
                let shares = peer.hello().is_some_and(|hello| hello.buckets.get(bucket) == Some(origin));
                let Some(id) = peer.id().filter(|id| shares && *id != self.own_id.as_str()) else { continue };
                // A node that moved may still be known at its previous address.
                let at = self.view.node(id).and_then(|node| node.addresses().peer.as_ref());
                if at.is_none_or(|at| at == address) {
                    let route = PeerRoute::new(id, address.clone(), peer.in_flight.clone());
                    peers.entry(id.to_owned()).or_insert(route);
                }
            }
            routes.insert(bucket.clone(), &self.own_id, &self.view, self.previous.clone(), peers);
        }
        Some(routes)
    }

    /// Decides whether the node that answered at a listed address can be used.
    fn check_hello(&self, address: &NodeAddress, hello: &NodeHello) -> HelloVerdict {
        let refused = |reason: String| HelloVerdict::Refused(reason);
        let is_own = hello.instance == self.own.instance;
        let listed = self.peers.get(address).and_then(|peer| peer.listed.as_ref());
        match listed.map(|node| node.id().as_str()) {
            Some(id) if id == self.own.id && is_own => return HelloVerdict::Agrees,
            Some(id) if id == self.own.id && hello.id == id => {
                return refused(
                    "another process there has the id of this node: give each its own".to_owned(),
                );
            }
            Some(id) if is_own => {
                return refused(format!(
                    "it is this node, whose id is {}: set id = \"{id}\" in [cluster], or correct the list",
                    self.own.id
                ));
            }
            Some(id) if id != hello.id => {
                return refused(format!(
                    "its id is {}: set its id in [cluster], or correct the list",
                    hello.id
                ));
            }
            Some(_) => {}
            None if is_own => return HelloVerdict::Agrees,
            None if hello.id == self.own.id => {
                return refused(format!("it has the id of this node, {}: give each its own", hello.id));
            }
            None => {
                let has_id = |peer: &PeerState| {
                    let other = peer.hello().filter(|other| other.id == hello.id);
                    other.is_some_and(|other| other.instance != hello.instance)
                };
                let other = self.peers.iter().find(|(other, peer)| {
                    *other != address && has_id(peer) && peer.health.liveness() == Liveness::Up
                });
                if let Some((other, _)) = other {
                    return refused(format!(
                        "the node at {other} has its id, {}: give each its own",
                        hello.id
                    ));
                }
            }
        }

        self.own.compare(hello)
    }

    fn set_own_problem(&mut self, problem: Option<String>, now: Instant) -> Option<MembershipEvent> {
        self.own_problem = problem;
        let line = self.own_problem.clone()?;
        self.own_notice.is_due(&line, now).then_some(MembershipEvent::Problem(line))
    }

    /// Replaces the view if the known state of the nodes yields a different one, and drops an expired previous view.
    fn refresh(&mut self, now: Instant) -> Vec<MembershipEvent> {
        self.previous = self.previous.take().filter(|previous| now < previous.until);
        let events = self.replace_view(now);
        if self.previous.is_none() {
            self.gone.clear();
        }
        events
    }

    fn replace_view(&mut self, now: Instant) -> Vec<MembershipEvent> {
        let newer = match self.to_view() {
            Ok(view) => view,
            Err(error) => {
                let line = format!("the nodes do not fit together, the previous view stays in use: {error}");
                let is_due = self.list_notice.is_due(&line, now);
                return is_due.then_some(MembershipEvent::Problem(line)).into_iter().collect();
            }
        };

        let mut changes = self.view.changes_to(&newer);
        if changes.is_empty() {
            return Vec::new();
        }
        // Address changes of this node, and of client doors, are not events: they are learned from the list and from
        // hellos.
        let peer_address = |view: &ClusterView, id: &NodeId| {
            view.node(id.as_str()).and_then(|node| node.addresses().peer.clone())
        };
        changes.retain(|ViewChange { id, kind }| {
            let has_moved = *id != self.own_id && peer_address(&self.view, id) != peer_address(&newer, id);
            *kind != ViewChangeKind::Moved || has_moved
        });
        if placed(&self.view).ne(placed(&newer)) {
            self.previous = self.previous_of(&newer, now);
        }
        self.view = Arc::new(newer);
        self.has_new_routes = true;
        self.own.digest = self.view.digest().to_string();

        let event = |change: ViewChange| {
            let is_down = matches!(change.kind, ViewChangeKind::State { to: NodeState::Down, .. });
            let peer = self.peers.values().find(|peer| peer.id() == Some(change.id.as_str()));
            let reason = peer.filter(|_| is_down).and_then(|peer| peer.failure.clone());
            MembershipEvent::Changed { change, reason }
        };
        changes.into_iter().map(event).collect()
    }

    /// Returns the view whose homes may hold pages that `newer` places elsewhere. Shortly after this node has
    /// started, that is the view without this node: the other nodes had its share of the keys.
    fn previous_of(&self, newer: &ClusterView, now: Instant) -> Option<PreviousView> {
        let settled = self.started + self.keep_previous;
        if now >= settled {
            return Some(PreviousView { view: self.view.clone(), until: now + self.keep_previous });
        }
        let others = newer.nodes().iter().filter(|node| *node.id() != self.own_id).cloned();
        let view = ClusterView::new(others).ok()?;
        Some(PreviousView { view: Arc::new(view), until: settled })
    }

    /// Builds the view from the known state of the nodes.
    fn to_view(&self) -> stylobate_client::Result<ClusterView> {
        let mut nodes: BTreeMap<NodeId, ClusterNode> = BTreeMap::new();
        let mut reported = Vec::new();
        let (live, down): (Vec<_>, Vec<_>) =
            self.peers.iter().partition(|(_, peer)| peer.health.liveness() != Liveness::Down);
        // A node that moved may still be known at its previous address; live peers come first.
        for (address, peer) in live.into_iter().chain(down) {
            let Some(node) = peer.node(address) else { continue };
            if let Entry::Vacant(entry) = nodes.entry(node.id().clone()) {
                let addresses = peer.reported_addresses(address);
                reported.extend(addresses.map(|(door, at)| (node.id().clone(), door, at)));
                entry.insert(node);
            }
        }
        add_reported_addresses(&mut nodes, reported);

        let entry = nodes.remove(&self.own_id);
        // If the list does not contain this node, it leaves placement, as it does for every other reader of that
        // list.
        let is_left_out = self.has_ids && entry.is_none() && !self.peers.is_empty();
        let listed =
            self.peers.values().find_map(|peer| peer.listed.as_ref().filter(|it| *it.id() == self.own_id));
        let state = match listed.map_or(NodeState::Up, ClusterNode::state) {
            _ if self.own.draining || is_left_out => NodeState::Draining,
            state => state,
        };
        let own = entry.unwrap_or_else(|| ClusterNode::new(self.own_id.clone(), NodeAddresses::default()));
        nodes.insert(self.own_id.clone(), own.with_state(state));

        ClusterView::new(nodes.into_values())
    }

    /// Returns the Flight doors of the nodes that are up, run queries, and have the same version as this node.
    #[cfg(feature = "distributed")]
    pub(super) fn query_doors(&self) -> Vec<NodeAddress> {
        let runs_ours = |hello: &NodeHello| hello.runs_queries && hello.version == self.own.version;
        let is_worker = |id: &str| {
            let mut hellos =
                self.peers.values().filter(|peer| peer.id() == Some(id)).filter_map(PeerState::hello);
            id == self.own.id || hellos.any(runs_ours)
        };
        let up = self.view.nodes().iter().filter(|node| node.state() == NodeState::Up);
        let workers = up.filter(|node| is_worker(node.id().as_str()));
        workers.filter_map(|node| node.addresses().flight.clone()).collect()
    }

    /// Returns the address of a node's Flight door, if known.
    #[cfg(feature = "distributed")]
    pub(super) fn flight_door(&self, id: &str) -> Option<NodeAddress> {
        self.view.node(id)?.addresses().flight.clone()
    }

    /// Returns the address of another node's peer door, given that of its Flight door.
    #[cfg(feature = "distributed")]
    pub(super) fn peer_with_flight_door(
        &self,
        is_door: impl Fn(&NodeAddress) -> bool,
    ) -> Option<NodeAddress> {
        let others = self.view.nodes().iter().filter(|node| *node.id() != self.own_id);
        let mut found = others.filter(|node| node.addresses().flight.as_ref().is_some_and(&is_door));
        found.next()?.addresses().peer.clone()
    }

    /// Returns the nodes, for clients that place reads themselves.
    pub(super) fn known_nodes(&self) -> KnownNodes {
        let node = |node: &ClusterNode| KnownNode {
            id: node.id().to_string(),
            weight: node.weight().get(),
            state: node.state().name(),
            s3: node.addresses().s3.as_ref().map(NodeAddress::to_string),
            flight: node.addresses().flight.as_ref().map(NodeAddress::to_string),
        };
        KnownNodes {
            digest: Some(self.own.digest.clone()),
            nodes: self.view.nodes().iter().map(node).collect(),
        }
    }

    /// Returns the status report of the cluster. `traffic` is that of this node.
    pub(super) fn status(&self, source: String, traffic: NodeTraffic, now: Instant) -> ClusterStatus {
        let weights = placed(&self.view).map(|(_, weight)| u64::from(weight.get()));
        let all_weights: u64 = weights.sum();
        let known = self.view.nodes().iter().map(|node| {
            let this = *node.id() == self.own_id;
            let at = node.addresses().peer.as_ref();
            let peer = at.and_then(|address| self.peers.get(address));
            let weight = node.weight().get();
            let share = match node.state() {
                NodeState::Up => f64::from(weight) / all_weights as f64,
                NodeState::Draining | NodeState::Down => 0.0,
            };

            let hello = peer.and_then(PeerState::hello);
            let version = if this { Some(&self.own.version) } else { hello.map(|hello| &hello.version) };
            let reported_traffic = peer.and_then(|peer| peer.answer.as_ref()).map(|answer| answer.traffic);
            ClusterNodeStatus {
                id: Some(node.id().to_string()),
                this,
                address: at.map(NodeAddress::to_string),
                state: node.state().to_string(),
                answers: this || peer.is_some_and(|peer| peer.answers),
                weight,
                share,
                version: version.cloned(),
                same_view: if this { Some(true) } else { hello.map(|hello| hello.digest == self.own.digest) },
                probe_ms: peer.filter(|_| !this).and_then(PeerState::probe_ms),
                traffic: if this { Some(traffic) } else { reported_traffic },
                problem: peer.and_then(|peer| peer.problem.clone()),
            }
        });

        let is_unknown = |peer: &PeerState| peer.id().is_none();
        let unknown =
            self.peers.iter().filter(|(_, peer)| is_unknown(peer)).map(|(address, peer)| ClusterNodeStatus {
                id: None,
                this: false,
                address: Some(address.to_string()),
                state: "unknown".to_owned(),
                answers: peer.answers,
                weight: NodeWeight::default().get(),
                share: 0.0,
                version: None,
                same_view: None,
                probe_ms: None,
                traffic: None,
                problem: peer.problem.clone().or_else(|| peer.failure.clone()),
            });

        let previous = self.previous.as_ref().filter(|previous| now < previous.until);
        let previous = previous.iter().flat_map(|previous| placed(&previous.view));
        ClusterStatus {
            id: self.own_id.to_string(),
            digest: self.own.digest.clone(),
            draining: self.own.draining,
            source,
            problem: self.list_problem.clone().or_else(|| self.own_problem.clone()),
            former: previous.map(|(id, _)| id.to_string()).collect(),
            nodes: known.chain(unknown).collect(),
        }
    }
}

/// Adds addresses that nodes reported, unless the list gives others. An address that several nodes report is dropped:
/// those nodes are reached through a host or port that they do not know, such as a proxy, and the list must give it.
fn add_reported_addresses(
    nodes: &mut BTreeMap<NodeId, ClusterNode>,
    reported: Vec<(NodeId, NodeDoor, NodeAddress)>,
) {
    let is_listed =
        |id: &NodeId, door| nodes.get(id).is_some_and(|node| node.addresses().get(door).is_some());
    let reported: Vec<_> = reported.into_iter().filter(|(id, door, _)| !is_listed(id, *door)).collect();

    let mut uses: HashMap<(NodeDoor, NodeAddress), usize> = HashMap::new();
    let listed = nodes.values().flat_map(|node| {
        NodeDoor::ALL.into_iter().filter_map(|door| Some((door, node.addresses().get(door)?.clone())))
    });
    for used in listed.chain(reported.iter().map(|(_, door, at)| (*door, at.clone()))) {
        *uses.entry(used).or_default() += 1;
    }

    for (id, door, at) in reported {
        if let Some(node) = nodes.get_mut(&id).filter(|_| uses.get(&(door, at.clone())) == Some(&1)) {
            *node = node.clone().with_addresses(node.addresses().clone().with(door, at));
        }
    }
}

impl PeerState {
    fn probe_ms(&self) -> Option<f64> {
        self.round_trip.filter(|_| self.answers).map(|time| time.as_secs_f64() * 1_000.0)
    }
}

/// Returns the nodes that have a share of the keys, with their weights.
fn placed(view: &ClusterView) -> impl Iterator<Item = (&NodeId, NodeWeight)> {
    let up = view.nodes().iter().filter(|node| node.state() == NodeState::Up);
    up.map(|node| (node.id(), node.weight()))
}

#[cfg(test)]
mod tests;
