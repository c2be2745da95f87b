//! Routes of reads, by bucket: a snapshot derived from the membership and replaced as a whole.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use stylobate_client::{
    ClusterNode, ClusterView, NodeAddress, NodeDoor, NodeId, NodeState, PathHash, RequestsInFlight,
    STRIPE_BYTES, StripeKey,
};
use stylobate_storage::{PeerId, PeerRole, PeerSource, StripeSources};

/// The routes of all shared buckets.
#[derive(Debug, Default)]
pub(super) struct ReadRoutes {
    buckets: BTreeMap<String, BucketRoutes>,
}

/// The view before the last change of placement, whose homes may still hold pages.
#[derive(Clone, Debug)]
pub(super) struct PreviousView {
    pub(super) view: Arc<ClusterView>,
    /// Time until which its homes may be asked.
    pub(super) until: Instant,
}

/// The nodes that share a bucket.
#[derive(Debug)]
pub(super) struct BucketRoutes {
    own: NodeId,
    /// View in which nodes that do not share the bucket are down.
    view: ClusterView,
    previous: Option<PreviousView>,
    /// Routes by node id, including peers that have left the view.
    peers: BTreeMap<String, PeerRoute>,
}

/// Route to a peer that can be asked.
#[derive(Clone, Debug)]
pub(super) struct PeerRoute {
    id: PeerId,
    pub(super) address: NodeAddress,
    in_flight: Arc<AtomicU64>,
}

/// Guard of a request to a peer, which counts as in flight until it is dropped.
#[derive(Debug)]
pub(super) struct RequestInFlight(Arc<AtomicU64>);

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PeerRoute {
    /// Creates the route to a peer, whose requests in flight are counted in `in_flight`.
    pub(super) fn new(id: &str, address: NodeAddress, in_flight: Arc<AtomicU64>) -> Self {
        Self { id: PeerId::new(id), address, in_flight }
    }

    /// Counts a request.
    pub(super) fn begin_request(&self) -> RequestInFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestInFlight(self.in_flight.clone())
    }

    fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn source(&self, role: PeerRole) -> PeerSource {
        PeerSource { peer: self.id.clone(), role }
    }
}

impl ReadRoutes {
    /// Adds the routes of a bucket that the node `own` shares with `peers`.
    pub(super) fn insert(
        &mut self,
        bucket: String,
        own: &NodeId,
        view: &ClusterView,
        previous: Option<PreviousView>,
        peers: BTreeMap<String, PeerRoute>,
    ) {
        let view = view.clone().with_states(|node| {
            let shares = node.id() == own || peers.contains_key(node.id().as_str());
            if shares { node.state() } else { NodeState::Down }
        });
        self.buckets.insert(bucket, BucketRoutes { own: own.clone(), view, previous, peers });
    }

    /// Returns the routes of a bucket, if it is shared.
    pub(super) fn bucket(&self, name: &str) -> Option<&BucketRoutes> {
        self.buckets.get(name)
    }
}

impl BucketRoutes {
    /// Returns the route to a peer.
    pub(super) fn peer(&self, id: &PeerId) -> Option<&PeerRoute> {
        self.peers.get(id.as_str())
    }

    /// Returns the peers that may answer.
    pub(super) fn others(&self) -> Vec<PeerId> {
        let is_down = |id: &str| self.view.node(id).is_some_and(|node| node.state() == NodeState::Down);
        self.peers.iter().filter(|(id, _)| !is_down(id)).map(|(_, route)| route.id.clone()).collect()
    }

    /// Returns true if there is no other node to ask, so that this node serves everything itself.
    pub(super) fn is_alone(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns the authority of a path; `None` if it is this node.
    pub(super) fn authority(&self, path: PathHash) -> Option<PeerId> {
        let authority = self.view.authority(path)?;
        self.route(authority).map(|route| route.id.clone())
    }

    /// Returns the known addresses of one kind of door of the home and the deputy.
    pub(super) fn home_and_deputy(&self, key: StripeKey, door: NodeDoor) -> Vec<NodeAddress> {
        let ranked = self.view.rank(key, 2);
        ranked.iter().filter_map(|node| node.addresses().get(door).cloned()).collect()
    }

    /// Returns the addresses of one kind of door of all nodes that are up, in rank order for the stripe.
    #[cfg(feature = "distributed")]
    pub(super) fn ranked(&self, key: StripeKey, door: NodeDoor) -> Vec<NodeAddress> {
        let ranked = self.view.rank(key, self.view.nodes().len());
        ranked.iter().filter_map(|node| node.addresses().get(door).cloned()).collect()
    }

    /// Returns the sources of the stripe that has the byte at `offset`.
    pub(super) fn stripe(&self, path: PathHash, offset: u64, now: Instant) -> StripeSources {
        let key = path.stripe_at(offset);
        let end = (offset / STRIPE_BYTES + 1).saturating_mul(STRIPE_BYTES);
        let mut ranked = self.view.rank(key, 2).into_iter();
        let home = ranked.next();
        let deputy = ranked.next();

        // A node without peers serves everything itself, even while it drains.
        match home.filter(|home| *home.id() != self.own) {
            Some(home) => {
                StripeSources { end, is_home: false, peers: self.home_or_stand_in(key, home, deputy) }
            }
            None => {
                let donor = self.donor(key, now).map(|donor| donor.source(PeerRole::Donor));
                StripeSources { end, is_home: true, peers: donor.into_iter().collect() }
            }
        }
    }

    /// Returns the route to a node; `None` if it is this node.
    fn route(&self, node: &ClusterNode) -> Option<&PeerRoute> {
        self.peers.get(node.id().as_str())
    }

    /// Returns the home and its fallback, except this node: the deputy after the home, or, while the home is
    /// overloaded, its stand-in before it.
    fn home_or_stand_in(
        &self,
        key: StripeKey,
        home: &ClusterNode,
        deputy: Option<&ClusterNode>,
    ) -> Vec<PeerSource> {
        let Some(home) = self.route(home) else { return Vec::new() };
        if let Some(stand_in) = self.stand_in(key, home) {
            return vec![stand_in.source(PeerRole::Deputy), home.source(PeerRole::Home)];
        }
        let deputy = deputy.and_then(|deputy| self.route(deputy));
        let deputy = deputy.map(|deputy| deputy.source(PeerRole::Deputy));
        [home.source(PeerRole::Home)].into_iter().chain(deputy).collect()
    }

    /// Returns the node that stands in for an overloaded home. The mean load is taken over the peers only, since a
    /// node sends no requests to itself.
    fn stand_in(&self, key: StripeKey, home: &PeerRoute) -> Option<&PeerRoute> {
        if home.in_flight() <= RequestsInFlight::HOME_FLOOR {
            return None;
        }

        let sharers = self.view.rank(key, RequestsInFlight::MAX_SHARERS);
        let sharers: Vec<_> = sharers.into_iter().filter_map(|node| self.route(node)).collect();
        let ranked: Vec<u64> = sharers.iter().map(|peer| peer.in_flight()).collect();
        let up = self.view.nodes().iter().filter(|node| node.state() == NodeState::Up);
        let load = up.filter_map(|node| self.route(node)).fold(RequestsInFlight::default(), |load, peer| {
            RequestsInFlight { total: load.total + peer.in_flight(), nodes: load.nodes + 1 }
        });
        let chosen = load.choose(&ranked);
        sharers.get(chosen).copied().filter(|_| chosen > 0)
    }

    fn donor(&self, key: StripeKey, now: Instant) -> Option<&PeerRoute> {
        let previous = self.previous.as_ref().filter(|previous| now < previous.until);
        let donor = self.view.donor(previous.map(|previous| previous.view.as_ref()), key)?;
        self.route(donor)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stylobate_client::parse_nodes;

    use super::*;

    const OWN: &str = "a";

    fn view(entries: &[&str]) -> ClusterView {
        ClusterView::new(parse_nodes(entries, NodeDoor::Peer).unwrap()).unwrap()
    }

    fn routes(view: &ClusterView, previous: Option<PreviousView>, peers: &[&str]) -> ReadRoutes {
        let route = |id: &&str| {
            let address = format!("{id}:1").parse().unwrap();
            ((*id).to_owned(), PeerRoute::new(id, address, Arc::default()))
        };
        let mut routes = ReadRoutes::default();
        let peers = peers.iter().map(route).collect();
        routes.insert("lake".to_owned(), &OWN.parse().unwrap(), view, previous, peers);
        routes
    }

    /// Finds a path for which the nodes rank in this order in the view.
    fn path_with_rank(view: &ClusterView, ids: &[&str]) -> PathHash {
        let mut paths = (0..10_000).map(|number| PathHash::of("lake", &number.to_string()));
        let is_wanted = |path: &PathHash| {
            let ranked = view.rank(path.stripe(0), ids.len());
            ranked.iter().map(|node| node.id().as_str()).eq(ids.iter().copied())
        };
        paths.find(is_wanted).unwrap()
    }

    fn names(sources: &StripeSources) -> Vec<(&str, PeerRole)> {
        sources.peers.iter().map(|source| (source.peer.as_str(), source.role)).collect()
    }

    #[test]
    fn a_stripe_is_asked_of_its_home_then_of_its_deputy() {
        let view = view(&["a=a:1", "b=b:1", "c=c:1"]);
        let routes = routes(&view, None, &["b", "c"]);
        let lake = routes.bucket("lake").unwrap();
        let now = Instant::now();

        let of_b = path_with_rank(&view, &["b", "c"]);
        let sources = lake.stripe(of_b, 5, now);
        assert_eq!(names(&sources), [("b", PeerRole::Home), ("c", PeerRole::Deputy)]);
        assert_eq!((sources.is_home, sources.end), (false, STRIPE_BYTES));
        assert_eq!(lake.authority(of_b), Some(PeerId::new("b")));

        let own_deputy = lake.stripe(path_with_rank(&view, &["b", "a"]), 0, now);
        assert_eq!(names(&own_deputy), [("b", PeerRole::Home)]);
        let own = path_with_rank(&view, &["a"]);
        assert!(lake.stripe(own, 0, now).is_home && lake.stripe(own, 0, now).peers.is_empty());
        assert_eq!((lake.authority(own), routes.bucket("sea").is_none()), (None, true));
    }

    #[test]
    fn a_node_that_does_not_share_the_bucket_is_passed_over() {
        let view = view(&["a=a:1", "b=b:1", "c=c:1"]);
        let of_b = path_with_rank(&view, &["b", "c"]);
        let of_c = routes(&view, None, &["c"]);
        let sources = of_c.bucket("lake").unwrap().stripe(of_b, 0, Instant::now());
        assert_eq!(names(&sources), [("c", PeerRole::Home)]);

        let alone = routes(&view, None, &[]);
        let lake = alone.bucket("lake").unwrap();
        let sources = lake.stripe(of_b, 0, Instant::now());
        assert_eq!((sources.is_home, names(&sources), lake.authority(of_b)), (true, Vec::new(), None));
    }

    #[test]
    fn the_deputy_goes_first_while_the_home_has_too_much_to_do() {
        let view = view(&["a=a:1", "b=b:1", "c=c:1"]);
        let of_b = path_with_rank(&view, &["b", "c"]);
        let routes = routes(&view, None, &["b", "c"]);
        let lake = routes.bucket("lake").unwrap();
        let home = lake.peer(&PeerId::new("b")).unwrap();
        let requests: Vec<_> = (0..=RequestsInFlight::HOME_FLOOR).map(|_| home.begin_request()).collect();

        let first = |path| lake.stripe(path, 0, Instant::now()).peers[0].role;
        assert_eq!(first(of_b), PeerRole::Deputy);
        assert_eq!(first(path_with_rank(&view, &["c", "b"])), PeerRole::Home);
        drop(requests);
        assert_eq!(first(of_b), PeerRole::Home);
    }

    #[test]
    fn the_next_in_rank_goes_first_while_the_deputy_has_too_much_to_do_as_well() {
        let view = view(&["a=a:1", "b=b:1", "c=c:1", "d=d:1", "e=e:1", "f=f:1"]);
        let path = path_with_rank(&view, &["b", "c", "d"]);
        let routes = routes(&view, None, &["b", "c", "d", "e", "f"]);
        let lake = routes.bucket("lake").unwrap();
        let begin = |id: &str, count: u64| {
            let peer = lake.peer(&PeerId::new(id)).unwrap();
            (0..count).map(|_| peer.begin_request()).collect::<Vec<_>>()
        };
        let of_home = begin("b", RequestsInFlight::HOME_FLOOR + 1);
        let asked = || {
            let sources = lake.stripe(path, 0, Instant::now());
            sources.peers.iter().map(|source| source.peer.to_string()).collect::<String>()
        };

        assert_eq!(asked(), "cb");
        let of_deputy = begin("c", 2 * RequestsInFlight::STAND_IN_FLOOR);
        let sources = lake.stripe(path, 0, Instant::now());
        assert_eq!(names(&sources), [("d", PeerRole::Deputy), ("b", PeerRole::Home)]);
        drop(of_deputy);
        assert_eq!(asked(), "cb");
        drop(of_home);
        assert_eq!(asked(), "bc");
    }

    #[test]
    fn a_home_asks_a_draining_node_or_the_previous_home() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let before = view(&["b=b:1", "c=c:1"]);
        let joined = view(&["a=a:1", "b=b:1", "c=c:1"]);
        let previous = || Some(PreviousView { view: Arc::new(before.clone()), until: later });
        let path = path_with_rank(&joined, &["a", "b"]);

        let new = routes(&joined, previous(), &["b", "c"]);
        let lake = new.bucket("lake").unwrap();
        assert_eq!(names(&lake.stripe(path, 0, now)), [("b", PeerRole::Donor)]);
        assert!(lake.stripe(path, 0, later).peers.is_empty(), "the previous view is forgotten");
        let unknown = routes(&joined, previous(), &["c"]);
        assert!(unknown.bucket("lake").unwrap().stripe(path, 0, now).peers.is_empty());

        let draining = view(&["a=a:1", "b=b:1,draining", "c=c:1"]);
        let path = path_with_rank(&joined, &["b", "a"]);
        let drained = routes(&draining, None, &["b", "c"]);
        let sources = drained.bucket("lake").unwrap().stripe(path, 0, now);
        assert_eq!((sources.is_home, names(&sources)), (true, vec![("b", PeerRole::Donor)]));
    }
}
