//! Tests of the membership: lists, answers, failures, draining, and bad input.

use stylobate_client::parse_node;

use super::*;
use crate::cluster::hello::tests::hello;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const KEEP: Duration = Duration::from_secs(30);

/// A membership with a clock that advances by a millisecond per call.
struct Observed {
    membership: Membership,
    now: Instant,
}

impl Observed {
    /// Node `a` of process 1.
    fn new(has_ids: bool) -> Self {
        let now = Instant::now();
        let own_id = NodeId::new("a").unwrap();
        let membership = Membership::new(hello("a", 1), own_id, has_ids, KEEP, now).unwrap();
        Self { membership, now }
    }

    /// Node `a` of process 1, with a list of nodes.
    fn with_list(entries: &[&str]) -> Self {
        let mut observed = Self::new(true);
        observed.list(entries);
        observed
    }

    /// Node `a` of process 1 at `h:1`, with a list of addresses from DNS.
    fn with_addresses(addresses: &[&str]) -> Self {
        let mut observed = Self::new(false);
        let peers = addresses.iter().map(|at| ListedPeer { address: at.parse().unwrap(), node: None });
        observed.membership.list(Ok(peers.collect()), observed.now);
        observed.answered("h:1", hello("a", 1));
        observed
    }

    fn list(&mut self, entries: &[&str]) -> Vec<String> {
        let peers = entries.iter().map(|entry| {
            let node = parse_node(entry, NodeDoor::Peer).unwrap();
            ListedPeer { address: node.addresses().peer.clone().unwrap(), node: Some(node) }
        });
        self.now += MS;
        lines(self.membership.list(Ok(peers.collect()), self.now))
    }

    fn answered(&mut self, address: &str, hello: NodeHello) -> Vec<String> {
        let answer = HelloAnswer { hello, traffic: NodeTraffic::default() };
        let sent = self.now;
        self.now += MS;
        lines(self.membership.answered(&address.parse().unwrap(), answer, sent, self.now))
    }

    /// Records that a probe or request sent now fails.
    fn failed(&mut self, address: &str, reason: &str, is_refusal: bool) -> Vec<String> {
        let failure = PeerFailure { reason: reason.to_owned(), is_refusal };
        let sent = self.now;
        self.now += MS;
        lines(self.membership.failed(&address.parse().unwrap(), failure, sent, self.now))
    }

    fn view(&self) -> String {
        let node = |node: &ClusterNode| match node.state() {
            NodeState::Up => node.id().to_string(),
            state => format!("{}:{state}", node.id()),
        };
        self.membership.view.nodes().iter().map(node).collect::<Vec<_>>().join(" ")
    }

    fn former(&self) -> Vec<String> {
        self.status().former
    }

    fn status(&self) -> ClusterStatus {
        self.membership.status("a test".to_owned(), NodeTraffic::default(), self.now)
    }
}

fn lines(events: Vec<MembershipEvent>) -> Vec<String> {
    let line = |event| match event {
        MembershipEvent::Changed { change, reason: None } => change.to_string(),
        MembershipEvent::Changed { change, reason: Some(reason) } => format!("{change}: {reason}"),
        MembershipEvent::Problem(line) => format!("problem: {line}"),
    };
    events.into_iter().map(line).collect()
}

#[test]
fn a_node_without_a_list_is_alone() {
    let mut node = Observed::new(true);
    assert_eq!((node.view().as_str(), node.membership.has_company()), ("a", false));
    let said = lines(node.membership.list(Err("nodes: No such file".to_owned()), node.now));
    let expected = "problem: the list of nodes cannot be used, this node goes on alone: nodes: No such file";
    assert_eq!(said, [expected]);
    assert_eq!((node.view().as_str(), node.status().nodes[0].share), ("a", 1.0));
    assert!(lines(node.membership.list(Err("nodes: No such file".to_owned()), node.now)).is_empty());
}

#[test]
fn listed_nodes_are_in_the_view_at_once_and_down_after_two_failures() {
    let mut node = Observed::new(true);
    assert_eq!(node.list(&["a=h:1", "b=h:2,3", "c=h:3"]), ["node b joined", "node c joined"]);
    assert_eq!(node.view(), "a b c");
    let shares: Vec<_> = node.status().nodes.iter().map(|node| node.share).collect();
    assert_eq!(shares, [0.2, 0.6, 0.2]);

    assert!(node.answered("h:2", hello("b", 2)).is_empty());
    assert!(node.membership.has_company());
    assert!(node.failed("h:2", "connection refused", false).is_empty());
    let down = node.failed("h:2", "connection refused", false);
    assert_eq!(down, ["node b is down and was up: connection refused"]);
    assert_eq!(node.view(), "a b:down c");
    assert_eq!(node.status().nodes[0].share, 0.5);

    assert!(node.answered("h:2", hello("b", 3)).is_empty());
    assert_eq!(node.answered("h:2", hello("b", 3)), ["node b is up and was down"]);
}

#[test]
fn a_list_that_cannot_be_read_changes_nothing() {
    let mut node = Observed::with_list(&["a=h:1", "b=h:2"]);
    let mut read = |error: &str| lines(node.membership.list(Err(error.to_owned()), node.now));
    let first = read("name:9003: no such name");
    assert_eq!(
        first,
        ["problem: the list of nodes cannot be used, the previous one stays in use: name:9003: no such name"]
    );
    assert!(read("name:9003: no such name").is_empty(), "it was told lately");
    assert_eq!(read("name:9003: the name has no address").len(), 1);
    assert_eq!(node.view(), "a b");
    assert!(node.status().problem.unwrap().contains("the name has no address"));

    node.list(&["a=h:1", "b=h:2"]);
    assert_eq!(node.status().problem, None);
}

#[test]
fn a_change_of_the_list_keeps_what_is_known_of_a_node() {
    let mut node = Observed::with_list(&["a=h:1", "b=h:2", "c=h:3"]);
    node.answered("h:2", NodeHello { draining: true, ..hello("b", 2) });
    assert_eq!(node.view(), "a b:draining c");
    assert_eq!(node.list(&["a=h:1", "b=h:2,2"]), ["node b has weight 2 and had 1", "node c left"]);
    assert_eq!(node.view(), "a b:draining");
    node.list(&["a=h:1", "d=h:2"]);
    assert_eq!(node.view(), "a d", "another node at the same address is another node");
}

#[test]
fn a_node_that_drains_leaves_placement_and_one_that_is_gone_is_down() {
    let mut node = Observed::with_list(&["a=h:1", "b=h:2"]);
    node.answered("h:2", hello("b", 2));
    let draining = NodeHello { draining: true, ..hello("b", 2) };
    let stranger = NodeHello { instance: 9, ..draining.clone() };
    assert!(
        lines(node.membership.apply_hello(&stranger, node.now)).is_empty(),
        "not the process that answered"
    );
    assert_eq!(lines(node.membership.apply_hello(&draining, node.now)), ["node b is draining and was up"]);
    assert_eq!(node.status().nodes[0].share, 1.0);

    node.failed("h:2", "connection refused", false);
    let gone = node.failed("h:2", "connection refused", false);
    assert_eq!(gone, ["node b is down and was draining: connection refused"]);
    node.answered("h:2", hello("b", 3));
    assert_eq!(node.answered("h:2", hello("b", 3)), ["node b is up and was down"]);
}

#[test]
fn this_node_drains_and_comes_back() {
    let mut node = Observed::with_list(&["a=h:1", "b=h:2"]);
    let digest = node.membership.hello().digest.clone();
    let drained = lines(node.membership.set_draining(true, node.now));
    assert_eq!(drained, ["node a is draining and was up"]);
    assert!(node.membership.hello().draining && node.status().draining);
    assert_ne!(node.membership.hello().digest, digest);
    assert_eq!(lines(node.membership.set_draining(false, node.now)), ["node a is up and was draining"]);
    assert_eq!(node.membership.hello().digest, digest);

    let listed = Observed::with_list(&["a=h:1,draining", "b=h:2"]);
    assert_eq!(listed.view(), "a:draining b");
}

#[test]
fn previous_homes_are_known_until_the_drain_timeout() {
    let mut node = Observed::with_list(&["a=h:1", "b=h:2", "c=h:3"]);
    assert_eq!(node.former(), ["b", "c"], "this node has just joined");
    node.now += KEEP;
    assert!(node.former().is_empty());

    node.list(&["a=h:1", "b=h:2"]);
    assert_eq!(node.former(), ["a", "b", "c"]);
    node.answered("h:2", NodeHello { draining: true, ..hello("b", 2) });
    assert_eq!(node.former(), ["a", "b"]);
    node.list(&["a=h:1"]);
    assert_eq!(node.former(), ["a", "b"], "a node that was not placed any more has left");
    node.now += KEEP + SECOND;
    assert!(node.former().is_empty());
}

#[test]
fn a_peer_that_does_not_fit_is_down_and_told_once() {
    let mut node = Observed::with_list(&["a=h:1", "b=h:2"]);
    let other = NodeHello { page_size: 2 << 20, ..hello("b", 2) };
    let said = node.answered("h:2", other.clone());
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("problem: node b at h:2: its page_size is 2MiB"), "{said:?}");
    assert!(said[1].starts_with("node b is down and was up: its page_size is 2MiB"), "{said:?}");
    assert!(node.answered("h:2", other).is_empty());
    assert_eq!(node.view(), "a b:down");
    assert!(node.status().nodes[1].problem.as_ref().unwrap().contains("page_size"));

    node.answered("h:2", hello("b", 2));
    node.answered("h:2", hello("b", 2));
    assert_eq!((node.view().as_str(), node.status().nodes[1].problem.as_deref()), ("a b", None));

    let secret = node.failed("h:2", "it refuses requests of this node", true);
    assert_eq!(secret, ["problem: node b at h:2: it refuses requests of this node"]);
}

#[test]
fn a_bucket_that_differs_is_told_and_no_obstacle() {
    let mut node = Observed::with_list(&["a=h:1", "b=h:2"]);
    let other = NodeHello { buckets: BTreeMap::new(), ..hello("b", 2) };
    let said = node.answered("h:2", other.clone());
    assert_eq!(said, ["problem: node b at h:2: it has no bucket lake, which this node has"]);
    assert!(node.answered("h:2", other).is_empty());
    assert_eq!(node.view(), "a b");
}

#[test]
fn two_nodes_with_one_id_are_told_apart_by_their_processes() {
    let mut node = Observed::with_list(&["a=h:1", "b=h:2"]);
    let said = node.answered("h:1", hello("a", 7));
    let own = "problem: node a at h:1: another process there has the id of this node: give each its own";
    assert_eq!(said, [own]);
    assert_eq!(node.view(), "a b", "this node goes on");

    let problems = lines(node.membership.apply_hello(&hello("a", 7), node.now));
    assert_eq!(problems, ["problem: another node that probes this one has its id, a: give each its own"]);
    assert!(lines(node.membership.apply_hello(&hello("a", 7), node.now)).is_empty());
    assert!(lines(node.membership.apply_hello(&hello("a", 1), node.now)).is_empty(), "that is this node");
}

#[test]
fn a_node_that_is_listed_under_another_name_takes_no_share() {
    let mut node = Observed::new(true);
    let said = node.list(&["x=h:1", "b=h:2"]);
    let expected = [
        "problem: the list of nodes has no node a, which is the id of this node: it takes no share of the keys",
        "node a is draining and was up",
        "node b joined",
        "node x joined",
    ];
    assert_eq!(said, expected);

    let said = node.answered("h:1", hello("a", 1));
    let own = "problem: node x at h:1: it is this node, whose id is a: set id = \"x\" in [cluster], or correct the list";
    assert_eq!(said[0], own);
    assert_eq!(node.view(), "a:draining b x:down");

    let other = node.answered("h:2", hello("y", 2));
    assert_eq!(other[0], "problem: node b at h:2: its id is y: set its id in [cluster], or correct the list");
    assert_eq!(node.view(), "a:draining b:down x:down");
}

#[test]
fn nodes_of_dns_are_in_the_view_when_they_have_told_their_ids() {
    let mut node = Observed::with_addresses(&["h:1", "h:2", "h:3"]);
    assert_eq!(node.view(), "a");
    assert_eq!(node.answered("h:2", hello("b", 2)), ["node b joined"]);
    assert_eq!(node.view(), "a b");
    let status = node.status();
    assert_eq!(status.nodes.len(), 3, "with the one that has not answered");
    assert_eq!((status.nodes[2].id.as_deref(), status.nodes[2].state.as_str()), (None, "unknown"));
    assert_eq!(status.nodes[0].address.as_deref(), Some("h:1"));

    node.failed("h:3", "connection refused", false);
    node.failed("h:3", "connection refused", false);
    assert_eq!(node.view(), "a b");
}

#[test]
fn a_second_node_of_dns_with_the_same_id_waits_until_the_first_is_gone() {
    let mut node = Observed::with_addresses(&["h:1", "h:2", "h:3"]);
    node.answered("h:2", hello("b", 2));
    let second = node.answered("h:3", hello("b", 3));
    assert_eq!(second, ["problem: the node at h:3: the node at h:2 has its id, b: give each its own"]);
    let own = node.answered("h:3", hello("a", 3));
    assert_eq!(own, ["problem: the node at h:3: it has the id of this node, a: give each its own"]);
    assert!(node.answered("h:3", hello("b", 2)).is_empty(), "the same process, at a second address");

    node.failed("h:2", "connection refused", false);
    node.failed("h:2", "connection refused", false);
    node.answered("h:3", hello("b", 3));
    node.answered("h:3", hello("b", 3));
    assert_eq!(node.view(), "a b");
    assert_eq!(node.status().nodes[1].address.as_deref(), Some("h:3"));
}

/// Returns the peers that share the bucket, if the routes of reads changed.
fn routed(node: &mut Observed) -> Option<Vec<String>> {
    let routes = node.membership.take_routes()?;
    let others = routes.bucket("lake").unwrap().others();
    Some(others.iter().map(ToString::to_string).collect())
}

#[test]
fn reads_are_routed_to_nodes_that_answered_and_share_the_bucket() {
    let mut node = Observed::with_list(&["a=h:1", "b=h:2", "c=h:3"]);
    assert_eq!(routed(&mut node).unwrap(), [""; 0], "none has answered");
    node.answered("h:1", hello("a", 1));
    node.answered("h:2", hello("b", 2));
    node.answered("h:3", NodeHello { buckets: BTreeMap::new(), ..hello("c", 3) });
    assert_eq!(routed(&mut node).unwrap(), ["b"]);
    node.answered("h:2", hello("b", 2));
    assert_eq!(routed(&mut node), None, "nothing is new");

    node.answered("h:3", hello("c", 3));
    assert_eq!(routed(&mut node).unwrap(), ["b", "c"]);
    for _ in 0..2 {
        let sent = node.now;
        node.now += MS;
        node.membership.request_failed(&"h:2".parse().unwrap(), "wrong bytes".to_owned(), sent, node.now);
    }
    assert_eq!((node.view().as_str(), routed(&mut node).unwrap()), ("a b:down c", vec!["c".to_owned()]));
    assert!(node.status().nodes[1].answers, "its last probe was answered");
}

#[test]
fn a_node_that_left_the_list_is_asked_for_its_pages_for_a_while() {
    let mut node = Observed::with_list(&["a=h:1", "b=h:2"]);
    node.answered("h:2", hello("b", 2));
    node.now += 2 * KEEP;
    node.list(&["a=h:1"]);
    assert_eq!((node.view().as_str(), routed(&mut node).unwrap()), ("a", vec!["b".to_owned()]));

    let address = "h:2".parse().unwrap();
    node.membership.request_failed(&address, "refused".to_owned(), node.now, node.now);
    assert_eq!(routed(&mut node).unwrap(), [""; 0], "it is gone");
}

#[test]
fn clients_learn_addresses_from_the_list_and_from_the_nodes() {
    let reporting =
        |id, instance, s3, flight| NodeHello { ports: DoorPorts { s3, flight }, ..hello(id, instance) };
    let mut node = Observed::with_list(&["a=h:1", "b=i:2,s3=public:80", "c=j:3"]);
    assert!(node.answered("h:1", reporting("a", 1, Some(9000), None)).is_empty());
    assert!(node.answered("i:2", reporting("b", 2, Some(9000), Some(9002))).is_empty(), "no line of the log");
    let known = serde_json::to_value(node.membership.known_nodes()).unwrap();
    let expected = serde_json::json!({ "digest": node.status().digest, "nodes": [
        { "id": "a", "weight": 1, "state": "up", "s3": "h:9000" },
        { "id": "b", "weight": 1, "state": "up", "s3": "public:80", "flight": "i:9002" },
        { "id": "c", "weight": 1, "state": "up" },
    ] });
    assert_eq!(known, expected);
}

#[test]
fn doors_that_seem_to_have_one_address_are_not_told() {
    let reporting =
        |id, instance| NodeHello { ports: DoorPorts { s3: Some(9000), flight: None }, ..hello(id, instance) };
    let mut node = Observed::with_list(&["a=h:1", "b=h:2", "c=h:3,s3=h:9001"]);
    node.answered("h:1", reporting("a", 1));
    assert_eq!(node.membership.known_nodes().nodes[0].s3.as_deref(), Some("h:9000"));
    node.answered("h:2", reporting("b", 2));
    let known = node.membership.known_nodes().nodes;
    let addresses: Vec<_> = known.iter().map(|node| node.s3.as_deref()).collect();
    assert_eq!(addresses, [None, None, Some("h:9001")]);
}

#[cfg(feature = "distributed")]
#[test]
fn nodes_that_run_queries_and_have_the_version_of_this_one_are_its_workers() {
    let mut node = Observed::with_list(&["a=h1:1", "b=h2:1", "c=h3:1", "d=h4:1"]);
    let reporting = |id, instance| {
        let ports = DoorPorts { s3: None, flight: Some(7) };
        NodeHello { ports, ..hello(id, instance) }
    };
    let doors = |node: &Observed| {
        let doors = node.membership.query_doors();
        doors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(doors(&node), [""; 0]);

    node.membership.set_ports(DoorPorts { s3: None, flight: Some(7) });
    node.answered("h1:1", reporting("a", 1));
    node.answered("h2:1", reporting("b", 2));
    node.answered("h3:1", NodeHello { version: "2.0.0".to_owned(), ..reporting("c", 3) });
    node.answered("h4:1", NodeHello { runs_queries: false, ..reporting("d", 4) });
    assert_eq!(doors(&node), ["h1:7", "h2:7"]);
    assert_eq!(node.membership.flight_door("a").unwrap().to_string(), "h1:7");
    let peer = node.membership.peer_with_flight_door(|door| door.to_string() == "h2:7").unwrap();
    assert_eq!(peer.to_string(), "h2:1");

    node.failed("h2:1", "no answer", false);
    node.failed("h2:1", "no answer", false);
    assert_eq!(doors(&node), ["h1:7"]);
}
