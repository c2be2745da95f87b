//! Three nodes of a cluster in one process over one counting origin: which node reads which bytes from where, which
//! nodes are notified of writes, and which node checks the rights of clients.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../../storage/tests/support/mod.rs"]
mod support;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow_flight::{Action, FlightClient, FlightDescriptor};
use bytes::Bytes;
use futures::{TryStreamExt, future::join_all};
use object_store::{
    Error, ObjectStoreExt, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path,
};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use stylobate_client::{ClusterView, NodeDoor, PathHash, parse_nodes};
use stylobate_server::{
    ClusterStatus, Doors, Node, NodeTraffic, ServerError,
    config::{AccessKeyConfig, BucketConfig, ClusterConfig, NodeConfig, NodeListSource, Secret},
};
use stylobate_storage::{ByteSize, Consistency, Origin, ReadStats};
use support::{Counting, eventually::eventually, noise};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tonic::transport::Endpoint;

const MIB: usize = 1 << 20;
const HOUR: Consistency = Consistency::Ttl(Duration::from_secs(3600));
const IDS: [&str; 3] = ["a", "b", "c"];

/// A node that is serving.
struct RunningNode {
    node: Arc<Node>,
    s3: SocketAddr,
    admin: SocketAddr,
    flight: Option<SocketAddr>,
    client: AmazonS3,
    served: JoinHandle<Result<(), ServerError>>,
}

/// Nodes over one origin.
struct ReadCluster {
    origin: Arc<Counting>,
    nodes: Vec<RunningNode>,
}

fn config(id: &str, consistency: Consistency) -> NodeConfig {
    let mut config = NodeConfig::default();
    let mut bucket = BucketConfig::new("lake", "memory:///");
    bucket.consistency = consistency;
    config.buckets.push(bucket);
    config.settings.memory = ByteSize::mib(64);
    config.settings.listen.set_port(0);
    config.settings.admin.set_port(0);
    config.settings.flight = None;
    config.settings.drain_timeout = Duration::from_secs(5);
    config.cluster = Some(ClusterConfig {
        id: id.parse().unwrap(),
        listen: ([127, 0, 0, 1], 0).into(),
        nodes: NodeListSource::Fixed(Vec::new()),
        secret: Secret::new("the secret of a cluster"),
    });
    config
}

impl ReadCluster {
    /// Starts nodes that know each other, without waiting for them.
    async fn start(configs: impl IntoIterator<Item = NodeConfig>) -> Self {
        let mut bound = Vec::new();
        for config in configs {
            let doors = Doors::bind(&config).await.unwrap();
            bound.push((config, doors));
        }
        let entry = |(config, doors): &(NodeConfig, Doors)| {
            let id = &config.cluster.as_ref().unwrap().id;
            format!("{id}={}", doors.peer_address().unwrap())
        };
        let entries: Vec<_> = bound.iter().map(entry).collect();
        let list = parse_nodes(&entries, NodeDoor::Peer).unwrap();

        let origin = Arc::new(Counting::default());
        let mut nodes = Vec::new();
        for (mut config, doors) in bound {
            config.cluster.as_mut().unwrap().nodes = NodeListSource::Fixed(list.clone());
            let lake = Origin::new("lake", origin.clone());
            let node = Node::open_over(&config, vec![lake]).await.unwrap();
            let s3 = doors.s3_address();
            let admin = doors.admin_address();
            let flight = doors.flight_address();
            let served = tokio::spawn(doors.serve(node.clone(), std::future::pending()));
            nodes.push(RunningNode { node, s3, admin, flight, client: client(s3), served });
        }
        Self { origin, nodes }
    }

    /// Starts three nodes, and waits until all of them know each other.
    async fn three(consistency: Consistency) -> Self {
        let cluster = Self::start(IDS.map(|id| config(id, consistency))).await;
        cluster.eventually_all_see("up").await;
        cluster
    }

    async fn eventually_all_see(&self, state: &str) {
        for node in &self.nodes {
            let agrees = async || {
                let nodes = node.status().nodes;
                let is_well = |node: &stylobate_server::ClusterNodeStatus| {
                    node.answers && node.same_view == Some(true) && node.state == state
                };
                // A node learns its own address from the list once it has answered its own probe.
                let (status, known) = exchange(node.s3, "GET /?x-stylobate-cluster HTTP/1.1\r\n", "").await;
                nodes.len() == self.nodes.len()
                    && nodes.iter().all(is_well)
                    && (status == 403 || known.matches("\"s3\":").count() == nodes.len())
            };
            eventually("all nodes to agree", agrees).await;
        }
    }

    /// Puts objects into the origin directly, bypassing all nodes.
    async fn put(&self, count: u64) -> Vec<(Path, Bytes)> {
        let mut objects = Vec::new();
        for number in 0..count {
            let path = Path::from(format!("object-{number}"));
            let bytes = noise(MIB + 100_000, number + 1);
            self.origin.memory.put(&path, bytes.clone().into()).await.unwrap();
            objects.push((path, bytes));
        }
        objects
    }

    async fn check(&self, node: usize, objects: &[(Path, Bytes)]) {
        for (path, bytes) in objects {
            let read = read(&self.nodes[node].client, path).await;
            assert!(read.as_ref() == Some(bytes), "{path} through {}", IDS[node]);
        }
    }

    /// Returns the indexes of an object's home and of the other nodes.
    fn placement(&self, path: &Path) -> (usize, [usize; 2]) {
        let entries: Vec<_> = (0..3).map(|id| format!("{}={}", IDS[id], self.nodes[id].s3)).collect();
        let view = ClusterView::new(parse_nodes(&entries, NodeDoor::S3).unwrap()).unwrap();
        let home = view.home(PathHash::of("lake", path.as_ref()).stripe(0)).unwrap();
        let home = IDS.iter().position(|id| *id == home.id().as_str()).unwrap();
        (home, [(home + 1) % 3, (home + 2) % 3])
    }

    fn stats(&self) -> Vec<ReadStats> {
        self.nodes.iter().map(|node| node.node.bucket("lake").unwrap().reader.stats()).collect()
    }

    fn traffic(&self) -> Vec<NodeTraffic> {
        self.nodes.iter().map(RunningNode::traffic).collect()
    }
}

impl RunningNode {
    fn status(&self) -> ClusterStatus {
        self.node.cluster_status().unwrap()
    }

    fn state_of(&self, id: &str) -> Option<String> {
        let nodes = self.status().nodes;
        nodes.into_iter().find(|node| node.id.as_deref() == Some(id)).map(|node| node.state)
    }

    /// Returns the bytes that the node's own readers and its peers received.
    fn traffic(&self) -> NodeTraffic {
        self.status().nodes.into_iter().find(|node| node.this).unwrap().traffic.unwrap()
    }
}

fn client(address: SocketAddr) -> AmazonS3 {
    builder(address).with_skip_signature(true).build().unwrap()
}

/// Returns a client with an access key.
fn client_of(key: &str, secret: &str, address: SocketAddr) -> AmazonS3 {
    builder(address).with_access_key_id(key).with_secret_access_key(secret).build().unwrap()
}

fn builder(address: SocketAddr) -> AmazonS3Builder {
    AmazonS3Builder::new()
        .with_endpoint(format!("http://{address}"))
        .with_allow_http(true)
        .with_bucket_name("lake")
        .with_region("us-east-1")
        .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
}

/// Reads an object; `None` if it does not exist.
async fn read(client: &AmazonS3, path: &Path) -> Option<Bytes> {
    match client.get(path).await {
        Ok(object) => Some(object.bytes().await.unwrap()),
        Err(object_store::Error::NotFound { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn total(objects: &[(Path, Bytes)]) -> u64 {
    objects.iter().map(|(_, bytes)| bytes.len() as u64).sum()
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_comes_from_the_origin_once_through_any_node() {
    let cluster = ReadCluster::three(HOUR).await;
    let objects = cluster.put(24).await;
    for node in [0, 1, 2, 0] {
        cluster.check(node, &objects).await;
    }
    assert_eq!(cluster.origin.bytes(), total(&objects));

    let traffic = cluster.traffic();
    assert!(traffic.iter().all(|node| node.bytes_peer > 0 && node.bytes_to_peers > 0), "{traffic:?}");
    assert!(traffic.iter().all(|node| node.peer_reads > 0), "{traffic:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_cold_objects_through_all_nodes_cost_each_page_once() {
    let cluster = ReadCluster::three(HOUR).await;
    let objects = cluster.put(6).await;
    *cluster.origin.latency.lock() = Duration::from_millis(20);
    join_all([0, 1, 2].map(|node| cluster.check(node, &objects))).await;
    assert_eq!(cluster.origin.bytes(), total(&objects));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_write_through_any_node_is_seen_through_all() {
    for consistency in [HOUR, Consistency::Strict] {
        let cluster = ReadCluster::three(consistency).await;
        let paths: Vec<Path> = (0..6).map(|number| Path::from(format!("object-{number}"))).collect();
        for (round, writer) in [0, 1, 2, 0].into_iter().enumerate() {
            for (number, path) in paths.iter().enumerate() {
                let bytes = noise(300_000, (10 * round + number + 1) as u64);
                cluster.nodes[writer].client.put(path, bytes.clone().into()).await.unwrap();
                for node in &cluster.nodes {
                    assert!(read(&node.client, path).await == Some(bytes.clone()), "{path}, round {round}");
                }
            }
        }

        for path in &paths {
            cluster.nodes[2].client.delete(path).await.unwrap();
            for node in &cluster.nodes {
                assert_eq!(read(&node.client, path).await, None, "{path}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_breaks_off_is_no_error_for_readers_through_others() {
    let cluster = ReadCluster::three(HOUR).await;
    let objects = cluster.put(24).await;
    let reading = async {
        for _ in 0..3 {
            cluster.check(0, &objects).await;
            cluster.check(2, &objects).await;
        }
    };
    let breaking = async {
        eventually("the origin to be asked", async || cluster.origin.bytes() > 0).await;
        cluster.nodes[1].served.abort();
    };
    tokio::join!(reading, breaking);

    eventually("b to be down", async || cluster.nodes[0].state_of("b").as_deref() == Some("down")).await;
    let more = cluster.put(30).await;
    cluster.check(0, &more).await;
    cluster.check(2, &more).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_secret_page_size_or_origin_is_not_read_from() {
    let mut secret = config("b", HOUR);
    secret.cluster.as_mut().unwrap().secret = Secret::new("the secret of another cluster");
    let mut pages = config("b", HOUR);
    pages.settings.page_size = ByteSize::mib(2);
    let mut bucket = config("b", HOUR);
    bucket.buckets[0].name = "sea".to_owned();

    for stranger in [secret, pages, bucket] {
        let is_usable = stranger.buckets[0].name == "sea";
        let cluster = ReadCluster::start([config("a", HOUR), stranger]).await;
        let expected = if is_usable { "up" } else { "down" };
        eventually("b to be known", async || {
            let nodes = cluster.nodes[0].status().nodes;
            let b = nodes.iter().find(|node| node.id.as_deref() == Some("b"));
            b.is_some_and(|node| node.state == expected && node.problem.is_some())
        })
        .await;

        let objects = cluster.put(12).await;
        cluster.check(0, &objects).await;
        assert_eq!(cluster.origin.bytes(), total(&objects));
        let traffic = cluster.traffic();
        assert_eq!((traffic[0].peer_reads, traffic[1].bytes_to_peers), (0, 0), "{traffic:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_node_gives_its_pages_to_the_new_homes() {
    let cluster = ReadCluster::three(HOUR).await;
    let objects = cluster.put(24).await;
    cluster.check(0, &objects).await;
    assert_eq!(cluster.origin.bytes(), total(&objects));

    let head = "POST /api/drain HTTP/1.1\r\ncontent-type: application/json\r\n";
    assert_eq!(exchange(cluster.nodes[1].admin, head, "{}").await.0, 200);
    for node in &cluster.nodes {
        eventually("b to drain", async || node.state_of("b").as_deref() == Some("draining")).await;
    }

    let before = cluster.traffic();
    cluster.check(2, &objects).await;
    assert_eq!(cluster.origin.bytes(), total(&objects), "the new homes ask the draining node");
    let after = cluster.traffic();
    let donors = |traffic: &[NodeTraffic]| traffic.iter().map(|node| node.donor_reads).sum::<u64>();
    assert!(donors(&after) > donors(&before), "{after:?}");
    assert!(after[1].bytes_to_peers > before[1].bytes_to_peers, "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eviction_through_one_node_is_one_of_all() {
    let cluster = ReadCluster::three(HOUR).await;
    let objects = cluster.put(6).await;
    cluster.check(0, &objects).await;
    cluster.check(1, &objects).await;

    let head = "POST /api/evict HTTP/1.1\r\ncontent-type: application/json\r\n";
    let target = json!({ "bucket": "lake", "prefix": "" }).to_string();
    assert_eq!(exchange(cluster.nodes[2].admin, head, &target).await.0, 200);
    cluster.check(0, &objects).await;
    assert_eq!(cluster.origin.bytes(), 2 * total(&objects));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_learn_the_nodes_and_their_doors() {
    let cluster = ReadCluster::three(HOUR).await;
    for node in &cluster.nodes {
        let (status, body) = exchange(node.s3, "GET /?x-stylobate-cluster HTTP/1.1\r\n", "").await;
        let node_of = |id: usize| json!({ "id": IDS[id], "weight": 1, "state": "up", "s3": cluster.nodes[id].s3.to_string() });
        let expected =
            json!({ "digest": node.status().digest, "nodes": [node_of(0), node_of(1), node_of(2)] });
        assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()), (200, expected));
    }
    let (_, buckets) = exchange(cluster.nodes[0].s3, "GET / HTTP/1.1\r\n", "").await;
    assert!(buckets.contains("<Name>lake</Name>"), "{buckets}");

    // A client that places reads by this view sends each request to the object's home, which then needs no bytes from
    // other nodes.
    let objects = cluster.put(12).await;
    for (path, bytes) in &objects {
        let (home, _) = cluster.placement(path);
        assert!(read(&cluster.nodes[home].client, path).await == Some(bytes.clone()));
    }
    assert!(cluster.traffic().iter().all(|node| node.bytes_peer == 0), "{:?}", cluster.traffic());
}

/// Returns the configuration of a node with a key for writing, a key for reading, and a key limited to one prefix.
fn guarded(id: &str) -> NodeConfig {
    let key = |id: &str, prefixes: &[&str], write| AccessKeyConfig {
        id: id.to_owned(),
        secret: Secret::new(format!("{id}-secret")),
        token: None,
        buckets: vec!["lake".to_owned()],
        prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(),
        write,
    };
    let mut config = config(id, HOUR);
    config.access_keys =
        vec![key("writer", &[], true), key("reader", &[], false), key("tenant", &["tenant/"], true)];
    config
}

/// Returns clients of a node that may not read, each with a description of what it lacks.
fn strangers(address: SocketAddr) -> [(&'static str, AmazonS3); 4] {
    [
        ("without a signature", client(address)),
        ("with an unknown key", client_of("stranger", "stranger-secret", address)),
        ("with a wrong secret", client_of("reader", "writer-secret", address)),
        ("with a key for other objects", client_of("tenant", "tenant-secret", address)),
    ]
}

async fn check_refused(client: &AmazonS3, path: &Path, what: &str) {
    let answers = [
        ("GET", client.get(path).await.map(drop)),
        ("GET of a range", client.get_range(path, 0..10).await.map(drop)),
        ("HEAD", client.head(path).await.map(drop)),
        ("PUT", client.put(path, "x".into()).await.map(drop)),
    ];
    for (request, answer) in answers {
        assert!(matches!(answer, Err(Error::PermissionDenied { .. })), "{request} {what}: {answer:?}");
    }
    assert!(client.delete(path).await.is_err(), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_that_a_client_asks_checks_its_rights() {
    let cluster = ReadCluster::start(IDS.map(guarded)).await;
    cluster.eventually_all_see("up").await;
    let objects = cluster.put(6).await;

    // Nothing is cached, so a node that skipped the check would ask the home.
    for node in &cluster.nodes {
        for (what, stranger) in &strangers(node.s3) {
            check_refused(stranger, &objects[0].0, what).await;
        }
        let reader = client_of("reader", "reader-secret", node.s3);
        let written = reader.put(&objects[0].0, "x".into()).await;
        assert!(matches!(written, Err(Error::PermissionDenied { .. })), "{written:?}");
    }
    assert_eq!(cluster.stats(), [ReadStats::default(); 3]);
    assert_eq!((cluster.origin.gets(), cluster.origin.heads()), (0, 0));

    // A key with sufficient rights gets the bytes through every node, from the home of each object.
    for (path, bytes) in &objects {
        let (home, others) = cluster.placement(path);
        for node in [others[0], home, others[1]] {
            let reader = client_of("reader", "reader-secret", cluster.nodes[node].s3);
            assert!(read(&reader, path).await.as_ref() == Some(bytes), "{path} through {}", IDS[node]);
        }
    }
    assert_eq!(cluster.origin.bytes(), total(&objects));
    let sent = || {
        let stats = cluster.stats().into_iter();
        stats.map(|stats| [stats.peer_reads, stats.peer_lookups, stats.origin_gets]).collect::<Vec<_>>()
    };
    let before = sent();
    assert!(before.iter().any(|[peer_reads, ..]| *peer_reads > 0), "{before:?}");

    // Now that everything is cached, the other clients are still refused, and no node asks another on their behalf.
    for node in &cluster.nodes {
        for (what, stranger) in &strangers(node.s3) {
            for (path, _) in &objects {
                check_refused(stranger, path, what).await;
            }
        }
    }
    assert_eq!(sent(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_with_rights_through_any_node_is_seen_through_the_others() {
    let cluster = ReadCluster::start(IDS.map(guarded)).await;
    cluster.eventually_all_see("up").await;
    let readers = [0, 1, 2].map(|node| client_of("reader", "reader-secret", cluster.nodes[node].s3));
    for (number, (path, bytes)) in cluster.put(6).await.into_iter().enumerate() {
        for reader in &readers {
            assert!(read(reader, &path).await.as_ref() == Some(&bytes), "{path}");
        }

        let (_, others) = cluster.placement(&path);
        let writer = client_of("writer", "writer-secret", cluster.nodes[others[number % 2]].s3);
        let newer = noise(200_000, number as u64 + 100);
        writer.put(&path, newer.clone().into()).await.unwrap();
        for reader in &readers {
            assert!(read(reader, &path).await.as_ref() == Some(&newer), "{path}");
        }
        writer.delete(&path).await.unwrap();
        for reader in &readers {
            assert_eq!(read(reader, &path).await, None, "{path}");
        }
    }
}

#[tokio::test]
async fn a_node_without_a_cluster_knows_no_nodes() {
    let mut config = config("a", HOUR);
    config.cluster = None;
    let doors = Doors::bind(&config).await.unwrap();
    let s3 = doors.s3_address();
    let node = Node::open(&config).await.unwrap();
    tokio::spawn(doors.serve(node, std::future::pending()));
    let (status, body) = exchange(s3, "GET /?x-stylobate-cluster HTTP/1.1\r\n", "").await;
    assert_eq!((status, body.as_str()), (200, r#"{"digest":null,"nodes":[]}"#));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_door_counts_the_traffic_between_nodes() {
    let cluster = ReadCluster::three(HOUR).await;
    let objects = cluster.put(12).await;
    cluster.check(0, &objects).await;

    let get =
        async |path: &str| exchange(cluster.nodes[0].admin, &format!("GET {path} HTTP/1.1\r\n"), "").await.1;
    let stats: Value = serde_json::from_str(&get("/api/stats").await).unwrap();
    let reads = &stats["buckets"][0]["reads"];
    assert!(stats["bytes"]["peer"].as_u64().unwrap() > 0);
    assert_eq!(stats["bytes"]["peer"], reads["bytes_peer"]);

    let metrics = get("/metrics").await;
    let lookups = format!("stylobate_peer_lookups_total{{bucket=\"lake\"}} {}", reads["peer_lookups"]);
    let peer =
        format!("stylobate_read_bytes_total{{bucket=\"lake\",source=\"peer\"}} {}", reads["bytes_peer"]);
    for line in [lookups, peer] {
        assert!(metrics.lines().any(|known| known == line), "no {line} in\n{metrics}");
    }
    for start in [
        "stylobate_peer_reads_total{bucket=\"lake\",role=\"home\"} ",
        "stylobate_peer_reads_total{bucket=\"lake\",role=\"donor\"} ",
        "stylobate_peer_sent_bytes_total{bucket=\"lake\"} ",
    ] {
        assert!(metrics.lines().any(|known| known.starts_with(start)), "no {start} in\n{metrics}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flight_names_home_and_deputy_and_all_nodes_take_its_tickets() {
    let configs = IDS.map(|id| {
        let mut config = config(id, HOUR);
        config.settings.flight = Some(([127, 0, 0, 1], 0).into());
        config.ticket_secret = Some(Secret::new("the secret of all tickets"));
        config
    });
    let cluster = ReadCluster::start(configs).await;
    cluster.eventually_all_see("up").await;

    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    cluster.origin.memory.put(&Path::from("rows.parquet"), file.into()).await.unwrap();

    let mut clients = Vec::new();
    for node in &cluster.nodes {
        let endpoint = Endpoint::from_shared(format!("http://{}", node.flight.unwrap())).unwrap();
        clients.push(FlightClient::new(endpoint.connect().await.unwrap()));
    }
    let entries: Vec<_> =
        (0..3).map(|id| format!("{}={}", IDS[id], cluster.nodes[id].flight.unwrap())).collect();
    let view = ClusterView::new(parse_nodes(&entries, NodeDoor::Flight).unwrap()).unwrap();
    let ranked = view.rank(PathHash::of("lake", "rows.parquet").stripe(0), 2);
    let expected: Vec<_> =
        ranked.iter().map(|node| format!("grpc://{}", node.addresses().flight.as_ref().unwrap())).collect();

    let descriptor = FlightDescriptor::new_path(vec!["lake".to_owned(), "rows.parquet".to_owned()]);
    let info = clients[0].get_flight_info(descriptor).await.unwrap();
    let [endpoint] = info.endpoint.as_slice() else { panic!("{:?}", info.endpoint) };
    let locations: Vec<_> = endpoint.location.iter().map(|location| location.uri.clone()).collect();
    assert_eq!(locations, expected);
    for client in &mut clients {
        let batches = client.do_get(endpoint.ticket.clone().unwrap()).await.unwrap();
        let batches: Vec<RecordBatch> = batches.try_collect().await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1_000);
    }

    let answers = clients[1].do_action(Action::new("cluster", "")).await.unwrap();
    let answers: Vec<Bytes> = answers.try_collect().await.unwrap();
    let answer: Value = serde_json::from_slice(&answers[0]).unwrap();
    assert_eq!(answer["digest"], cluster.nodes[1].status().digest);
    assert_eq!(answer["nodes"][2]["flight"], cluster.nodes[2].flight.unwrap().to_string());
}
