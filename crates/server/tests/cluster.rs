//! Three nodes of a cluster in one process: nodes that are up, down or draining, and settings that are incompatible.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../../storage/tests/support/eventually.rs"]
mod eventually;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use eventually::eventually;
use serde_json::{Value, json};
use stylobate_client::{NodeDoor, parse_nodes};
use stylobate_server::{
    ClusterNodeStatus, ClusterStatus, Doors, Node, ServerError,
    config::{AccessKeyConfig, BucketConfig, ClusterConfig, NodeConfig, NodeListSource, Secret},
    fetch_cluster_status, set_cluster_draining,
};
use stylobate_storage::ByteSize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
};

/// Time for which the peer door of a stopped node remains open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A node whose doors are bound.
struct BoundNode {
    config: NodeConfig,
    doors: Doors,
}

/// A node that is serving.
struct RunningNode {
    config: NodeConfig,
    node: Arc<Node>,
    admin: SocketAddr,
    peer: Option<SocketAddr>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServerError>>,
}

/// Returns the configuration of a node on free ports, without a list of nodes.
fn config(id: &str) -> NodeConfig {
    let mut config = NodeConfig::default();
    config.buckets.push(BucketConfig::new("lake", "memory:///"));
    config.settings.memory = ByteSize::mib(64);
    config.settings.listen.set_port(0);
    config.settings.admin.set_port(0);
    config.settings.flight = None;
    config.settings.drain_timeout = DRAIN_TIMEOUT;
    config.cluster = Some(ClusterConfig {
        id: id.parse().unwrap(),
        listen: ([127, 0, 0, 1], 0).into(),
        nodes: NodeListSource::Fixed(Vec::new()),
        secret: Secret::new("the secret of a cluster"),
    });
    config
}

impl BoundNode {
    async fn new(config: NodeConfig) -> Self {
        let doors = Doors::bind(&config).await.unwrap();
        Self { config, doors }
    }

    /// Returns its entry in a list of nodes.
    fn entry(&self) -> String {
        let id = &self.config.cluster.as_ref().unwrap().id;
        format!("{id}={}", self.doors.peer_address().unwrap())
    }

    async fn start(mut self, nodes: NodeListSource) -> RunningNode {
        if let Some(cluster) = &mut self.config.cluster {
            cluster.nodes = nodes;
        }
        let node = Node::open(&self.config).await.unwrap();
        let admin = self.doors.admin_address();
        let peer = self.doors.peer_address();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = self.doors.serve(node.clone(), async { drop(stopped.await) });
        RunningNode { config: self.config, node, admin, peer, stop, served: tokio::spawn(serving) }
    }
}

impl RunningNode {
    fn status(&self) -> ClusterStatus {
        self.node.cluster_status().unwrap()
    }

    /// Returns another node's state as this node sees it; `None` if the other node is not in its view.
    fn finds(&self, id: &str) -> Option<ClusterNodeStatus> {
        self.status().nodes.into_iter().find(|node| node.id.as_deref() == Some(id))
    }

    /// Returns the state of a node in this node's view.
    fn sees(&self, id: &str) -> ClusterNodeStatus {
        self.finds(id).unwrap_or_else(|| panic!("no node {id} in {:?}", self.status().nodes))
    }

    async fn get(&self, path: &str) -> (u16, String) {
        exchange(self.admin, &format!("GET {path} HTTP/1.1\r\n"), "").await
    }

    async fn drain(&self, body: Value) -> (u16, String) {
        let head = "POST /api/drain HTTP/1.1\r\ncontent-type: application/json\r\n";
        exchange(self.admin, head, &body.to_string()).await
    }
}

fn fixed(entries: &[String]) -> NodeListSource {
    NodeListSource::Fixed(parse_nodes(entries, NodeDoor::Peer).unwrap())
}

/// Starts nodes that know each other.
async fn cluster<const N: usize>(configs: [NodeConfig; N]) -> Vec<RunningNode> {
    let mut bound = Vec::new();
    for config in configs {
        bound.push(BoundNode::new(config).await);
    }

    let entries: Vec<_> = bound.iter().map(BoundNode::entry).collect();
    let mut running = Vec::new();
    for node in bound {
        running.push(node.start(fixed(&entries)).await);
    }
    running
}

async fn eventually_sees(observer: &RunningNode, id: &str, state: &str) {
    eventually(&format!("{id} to be {state}"), async || {
        observer.finds(id).is_some_and(|node| node.state == state)
    })
    .await;
}

async fn exchange(address: SocketAddr, head: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let request =
        format!("{head}host: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn agrees(status: &ClusterStatus) -> bool {
    status.nodes.len() == 3 && status.nodes.iter().all(|node| node.answers && node.same_view == Some(true))
}

#[tokio::test]
async fn three_nodes_see_each_other_up_draining_and_down() {
    let mut nodes = cluster(["a", "b", "c"].map(config)).await;
    for node in &nodes {
        eventually("all nodes to answer", async || agrees(&node.status())).await;
        let status = node.status();
        assert!(status.nodes.iter().all(|node| node.state == "up" && node.problem.is_none()), "{status:?}");
        assert!(status.nodes.iter().all(|node| (node.share - 1.0 / 3.0).abs() < 1e-9), "{status:?}");
    }
    let [c, b, a] = [nodes.pop().unwrap(), nodes.pop().unwrap(), nodes.pop().unwrap()];
    assert_eq!(a.status().digest, c.status().digest);

    let (status, body) = b.drain(json!({})).await;
    assert_eq!(status, 200, "{body}");
    assert!(b.status().draining && b.sees("b").state == "draining");
    eventually_sees(&a, "b", "draining").await;
    eventually_sees(&c, "b", "draining").await;
    assert_eq!((a.sees("a").share, a.sees("b").share), (0.5, 0.0));
    assert_eq!(b.get("/readyz").await.0, 200);
    assert_eq!(b.drain(json!({ "draining": false })).await.0, 200);
    assert_eq!(b.sees("b").state, "up");
    eventually_sees(&a, "b", "up").await;

    c.stop.send(()).unwrap();
    eventually_sees(&a, "c", "draining").await;
    eventually_sees(&a, "c", "down").await;
    eventually_sees(&b, "c", "down").await;
    c.served.await.unwrap().unwrap();
    assert!(!a.sees("c").answers && a.sees("b").answers);
    assert_eq!(a.get("/readyz").await.0, 200, "a dead peer does not make a node unready");
}

#[tokio::test]
async fn a_node_that_breaks_off_is_down_and_up_again_when_it_is_back() {
    let nodes = cluster(["a", "b"].map(config)).await;
    let [a, b] = <[RunningNode; 2]>::try_from(nodes).ok().unwrap();
    eventually("b to answer", async || a.finds("b").is_some_and(|node| node.answers)).await;
    let peer = b.peer.unwrap();
    b.served.abort();
    eventually_sees(&a, "b", "down").await;
    eventually("the port to be free", async || TcpStream::connect(peer).await.is_err()).await;

    let mut config = b.config;
    let nodes = config.cluster.as_ref().unwrap().nodes.clone();
    config.cluster.as_mut().unwrap().listen = peer;
    let again = BoundNode::new(config).await.start(nodes).await;
    eventually_sees(&a, "b", "up").await;
    eventually("a to answer", async || again.finds("a").is_some_and(|node| node.answers)).await;
}

#[tokio::test]
async fn a_node_with_another_secret_or_page_size_is_not_used() {
    let mut stranger = config("b");
    stranger.cluster.as_mut().unwrap().secret = Secret::new("the secret of another cluster");
    let mut large = config("c");
    large.settings.page_size = ByteSize::mib(2);
    let nodes = cluster([config("a"), stranger, large]).await;
    let [a, b, c] = <[RunningNode; 3]>::try_from(nodes).ok().unwrap();

    for (observer, id, said) in [
        (&a, "b", "give all nodes the same secret"),
        (&b, "a", "give all nodes the same secret"),
        (&a, "c", "its page_size is 2MiB, and that of this node is 1MiB"),
        (&c, "a", "its page_size is 1MiB, and that of this node is 2MiB"),
    ] {
        eventually_sees(observer, id, "down").await;
        let problem = observer.sees(id).problem.unwrap();
        assert!(problem.contains(said), "{problem}");
    }
    assert_eq!((a.sees("a").state.as_str(), a.sees("a").share), ("up", 1.0));
    assert_eq!(a.get("/readyz").await.0, 200);
}

#[tokio::test]
async fn a_node_that_its_list_names_otherwise_takes_no_share() {
    let a = BoundNode::new(config("a")).await;
    let b = BoundNode::new(config("b")).await;
    let entries = [a.entry().replace("a=", "x="), b.entry()];
    let a = a.start(fixed(&entries)).await;
    let b = b.start(fixed(&entries)).await;

    eventually_sees(&a, "x", "down").await;
    eventually_sees(&b, "x", "down").await;
    assert!(a.status().problem.unwrap().contains("no node a"));
    assert!(a.sees("x").problem.unwrap().contains("it is this node, whose id is a"));
    assert!(b.sees("x").problem.unwrap().contains("its id is a"));
    assert_eq!((a.sees("a").share, a.sees("b").share, b.sees("b").share), (0.0, 1.0, 1.0));
}

#[tokio::test]
async fn a_file_of_nodes_is_read_again_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("nodes");
    let a = BoundNode::new(config("a")).await;
    let b = BoundNode::new(config("b")).await;
    let entries = [a.entry(), b.entry()];
    let a = a.start(NodeListSource::File(path.clone())).await;
    let _b = b.start(fixed(&entries)).await;

    eventually("the missing file to be told", async || a.status().problem.is_some()).await;
    assert_eq!((a.status().nodes.len(), a.sees("a").share), (1, 1.0), "it goes on alone");
    std::fs::write(&path, entries.join("\n")).unwrap();
    eventually("b to answer", async || {
        a.status().nodes.len() == 2 && a.finds("b").is_some_and(|node| node.answers)
    })
    .await;
    assert_eq!((a.status().problem, a.sees("b").state.as_str()), (None, "up"));

    std::fs::remove_file(&path).unwrap();
    eventually("the missing file to be told", async || a.status().problem.is_some()).await;
    assert_eq!(a.sees("b").state, "up", "the former list stays");
}

#[tokio::test]
async fn the_peer_door_answers_signed_requests_only() {
    let nodes = cluster(["a", "b"].map(config)).await;
    let peer = nodes[0].peer.unwrap();
    let hello = "POST /v1/hello HTTP/1.1\r\ncontent-type: application/json\r\n";
    assert_eq!(exchange(peer, hello, "{}").await.0, 401);
    let signed = format!("{hello}x-stylobate-time: 1\r\nx-stylobate-signature: {}\r\n", "0".repeat(64));
    assert_eq!(exchange(peer, &signed, "{}").await.0, 401);
    assert_eq!(exchange(peer, "GET /metrics HTTP/1.1\r\n", "").await.0, 401);
}

#[tokio::test]
async fn the_admin_door_shows_the_cluster() {
    let nodes = cluster(["a", "b"].map(config)).await;
    let a = &nodes[0];
    eventually("b to answer", async || a.finds("b").is_some_and(|node| node.answers)).await;

    let (status, body) = a.get("/api/cluster").await;
    let shown: ClusterStatus = serde_json::from_str(&body).unwrap();
    assert_eq!((status, shown.id.as_str(), shown.nodes.len()), (200, "a", 2));
    let stats: Value = serde_json::from_str(&a.get("/api/stats").await.1).unwrap();
    assert_eq!(stats["cluster"]["digest"], shown.digest);

    let metrics = a.get("/metrics").await.1;
    for line in [
        "stylobate_cluster_nodes{state=\"up\"} 2.0",
        "stylobate_cluster_nodes{state=\"down\"} 0.0",
        "stylobate_cluster_node_up{node=\"b\"} 1.0",
        "stylobate_cluster_node_share{node=\"a\"} 0.5",
        &format!("stylobate_cluster_view_info{{digest=\"{}\"}} 1.0", shown.digest),
    ] {
        assert!(metrics.lines().any(|known| known == line), "no {line} in\n{metrics}");
    }

    let fetched = fetch_cluster_status(&format!("http://{}/", a.admin), None).await.unwrap();
    assert_eq!(fetched.digest, shown.digest);
    for url in ["localhost", "http://localhost:1", &format!("http://{}", a.peer.unwrap())] {
        let error = fetch_cluster_status(url, None).await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("{url}: ")), "{error}");
        assert_eq!(error.exit_code(), 1);
    }
}

#[tokio::test]
async fn with_access_keys_the_cluster_is_for_those_who_may_see_or_write_all() {
    let key = |id: &str, write| AccessKeyConfig {
        id: id.to_owned(),
        secret: Secret::new(format!("{id}-secret")),
        token: None,
        buckets: vec!["*".to_owned()],
        prefixes: Vec::new(),
        write,
    };
    let mut config = config("a");
    config.access_keys = vec![key("viewer", false), key("writer", true)];
    let nodes = cluster([config]).await;
    let a = &nodes[0];
    let url = format!("http://{}", a.admin);
    let denied = fetch_cluster_status(&url, None).await.unwrap_err().to_string();
    assert!(denied.ends_with("it needs the secret of an access key for all buckets"), "{denied}");
    assert!(fetch_cluster_status(&url, Some(&Secret::new("viewer-secret"))).await.is_ok());

    for (secret, status) in [("viewer-secret", 403), ("nonsense", 401), ("writer-secret", 200)] {
        let head = "POST /api/drain HTTP/1.1\r\ncontent-type: application/json\r\n";
        let head = format!("{head}authorization: Bearer {secret}\r\n");
        assert_eq!(exchange(a.admin, &head, "{}").await.0, status, "{secret}");
    }
    assert!(a.status().draining);

    let secret = Secret::new("writer-secret");
    for draining in [false, true] {
        let shown = set_cluster_draining(&url, Some(&secret), draining).await.unwrap();
        assert_eq!((shown.draining, a.status().draining), (draining, draining));
    }
    let denied = set_cluster_draining(&url, Some(&Secret::new("viewer-secret")), false).await.unwrap_err();
    assert!(denied.to_string().ends_with("an access key for all buckets that may write"), "{denied}");
}

#[tokio::test]
async fn a_node_without_a_cluster_has_none_to_show() {
    let mut config = config("a");
    config.cluster = None;
    let node = BoundNode::new(config).await.start(NodeListSource::Fixed(Vec::new())).await;
    assert_eq!((node.peer, node.get("/api/cluster").await.0), (None, 404));
    assert_eq!(node.drain(json!({})).await.0, 404);
    let stats: Value = serde_json::from_str(&node.get("/api/stats").await.1).unwrap();
    assert_eq!(stats.get("cluster"), None);
    assert!(!node.get("/metrics").await.1.contains("stylobate_cluster"));
    let error = fetch_cluster_status(&format!("http://{}", node.admin), None).await.unwrap_err().to_string();
    assert!(error.ends_with("the node is in no cluster"), "{error}");
}
