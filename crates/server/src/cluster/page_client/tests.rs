//! Reads of pages from a working peer door, and from servers that are not peer doors.

use object_store::{ObjectStoreExt, memory::InMemory, path::Path};
use stylobate_storage::{ByteSize, Origin, PeerRead, PeerRole};
use tokio::{io::AsyncReadExt, net::TcpListener, sync::oneshot, task::JoinHandle};

use super::*;
use crate::{
    Doors, Node,
    cluster::{BucketRequest, PeerClient, origin_hash},
    config::{BucketConfig, ClusterConfig, NodeConfig, NodeListSource, Secret},
};

const MIB: u64 = 1 << 20;
const SECRET: &str = "the secret of a cluster";

/// A node that serves one object.
struct TestDoor {
    address: NodeAddress,
    stop: oneshot::Sender<()>,
    served: JoinHandle<crate::Result<()>>,
}

impl TestDoor {
    async fn open(port: u16, store: &Arc<InMemory>) -> Self {
        let mut config = NodeConfig::default();
        config.buckets.push(BucketConfig::new("lake", "memory:///"));
        config.settings.memory = ByteSize::mib(64);
        config.settings.listen.set_port(0);
        config.settings.admin.set_port(0);
        config.settings.flight = None;
        config.cluster = Some(ClusterConfig {
            id: "a".parse().unwrap(),
            listen: ([127, 0, 0, 1], port).into(),
            nodes: NodeListSource::Fixed(Vec::new()),
            secret: Secret::new(SECRET),
        });

        let doors = Doors::bind(&config).await.unwrap();
        let address = doors.peer_address().unwrap().to_string().parse().unwrap();
        let node = Node::open_over(&config, vec![Origin::new("lake", store.clone())]).await.unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(doors.serve(node, async { drop(stopped.await) }));
        Self { address, stop, served }
    }

    async fn close(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap().unwrap();
    }
}

/// An object at an origin, and a client that reads it from peers.
struct TestReader {
    store: Arc<InMemory>,
    data: Vec<u8>,
    e_tag: Option<String>,
    client: PeerClient,
}

impl TestReader {
    async fn new(secret: &str) -> Self {
        let store = Arc::new(InMemory::new());
        let path = Path::from("object");
        let data: Vec<u8> = (0..3 * MIB + 1_000).map(|at| (at % 251) as u8).collect();
        store.put(&path, data.clone().into()).await.unwrap();
        let e_tag = store.head(&path).await.unwrap().e_tag;
        let client = PeerClient::new(PeerKey::new(&Secret::new(secret)), false, None);
        Self { store, data, e_tag, client }
    }

    fn request(&self) -> BucketRequest<PeerRead> {
        let size = self.data.len() as u64;
        let payload = PeerRead {
            path: "object".to_owned(),
            kept: None,
            size,
            e_tag: self.e_tag.clone(),
            version: None,
            range: 0..size,
            role: PeerRole::Home,
        };
        BucketRequest {
            from: "b".to_owned(),
            bucket: "lake".to_owned(),
            origin: origin_hash(&Origin::new("lake", self.store.clone())).unwrap(),
            page_size: MIB,
            payload,
        }
    }

    /// Reads the object and checks it.
    async fn check(&self, peer: &NodeAddress) {
        let mut runs = self.client.pages(peer, &self.request()).await.unwrap();
        let mut bytes = Vec::new();
        while bytes.len() < self.data.len() {
            bytes.extend_from_slice(&runs.next().await.unwrap().unwrap().bytes);
        }
        assert!(bytes == self.data);
    }

    async fn failure(&self, peer: &NodeAddress, request: &BucketRequest<PeerRead>) -> PeerError {
        self.client.pages(peer, request).await.err().unwrap()
    }

    /// Returns the number of reads made on each idle connection.
    fn reads(&self) -> Vec<u64> {
        let peers = self.client.idle.peers.lock();
        peers.values().flatten().map(|idle| idle.connection.number).collect()
    }
}

#[tokio::test]
async fn reads_one_after_the_other_use_one_connection() {
    let reader = TestReader::new(SECRET).await;
    let door = TestDoor::open(0, &reader.store).await;
    for reads in 1..5 {
        reader.check(&door.address).await;
        assert_eq!(reader.reads(), [reads]);
    }
    tokio::join!(reader.check(&door.address), reader.check(&door.address));
    assert_eq!(reader.reads().len(), 2);

    let began = Instant::now();
    door.close().await;
    assert!(began.elapsed() < Duration::from_secs(3), "connections without a read end at once");
}

#[tokio::test]
async fn a_read_that_is_dropped_half_way_closes_its_connection_and_no_other() {
    let reader = TestReader::new(SECRET).await;
    let door = TestDoor::open(0, &reader.store).await;
    reader.check(&door.address).await;

    let mut runs = reader.client.pages(&door.address, &reader.request()).await.unwrap();
    assert!(runs.next().await.unwrap().is_ok());
    drop(runs);
    assert_eq!(reader.reads(), [0; 0]);
    reader.check(&door.address).await;
    assert_eq!(reader.reads(), [1]);
}

#[tokio::test]
async fn a_connection_that_the_peer_has_closed_is_replaced() {
    let reader = TestReader::new(SECRET).await;
    let door = TestDoor::open(0, &reader.store).await;
    tokio::join!(reader.check(&door.address), reader.check(&door.address));
    assert_eq!(reader.reads().len(), 2);

    let address = door.address.clone();
    let port = address.to_string().rsplit_once(':').unwrap().1.parse().unwrap();
    door.close().await;
    let gone = reader.failure(&address, &reader.request()).await;
    assert!(matches!(gone, PeerError::Failed { .. }), "{gone}");
    assert_eq!(reader.reads(), [0; 0], "all of them were closed");

    let door = TestDoor::open(port, &reader.store).await;
    reader.check(&door.address).await;
    door.close().await;
    let again = TestDoor::open(port, &reader.store).await;
    reader.check(&again.address).await;
    assert_eq!(reader.reads(), [1]);
}

#[tokio::test]
async fn a_connection_goes_on_after_a_refusal() {
    let reader = TestReader::new(SECRET).await;
    let door = TestDoor::open(0, &reader.store).await;
    let other_bucket = BucketRequest { bucket: "sea".to_owned(), ..reader.request() };
    let other_origin = BucketRequest { origin: "another".to_owned(), ..reader.request() };
    for request in [other_bucket, other_origin] {
        let reason = reader.failure(&door.address, &request).await.to_string();
        assert!(reason.contains("the bucket has another origin or page_size there"), "{reason}");
    }

    let mut replaced = reader.request();
    replaced.payload.e_tag = Some("\"another\"".to_owned());
    assert_eq!(reader.failure(&door.address, &replaced).await, PeerError::Changed);
    let mut cached = reader.request();
    cached.payload.role = PeerRole::Donor;
    assert_eq!(reader.failure(&door.address, &cached).await, PeerError::Declined);
    let mut empty = reader.request();
    empty.payload.range = 0..0;
    assert!(matches!(reader.failure(&door.address, &empty).await, PeerError::Failed { .. }));

    reader.check(&door.address).await;
    assert_eq!(reader.reads(), [6]);
    let mut long = reader.request();
    long.payload.path = "x".repeat(1 << 20);
    assert!(reader.failure(&door.address, &long).await.to_string().contains("the request is too long"));
}

#[tokio::test]
async fn another_secret_is_told() {
    let reader = TestReader::new("the secret of another cluster").await;
    let door = TestDoor::open(0, &reader.store).await;
    let reason = reader.failure(&door.address, &reader.request()).await.to_string();
    assert!(reason.contains("give all nodes the same secret"), "{reason}");
    assert_eq!(reader.reads(), [0; 0]);
}

#[tokio::test]
async fn a_server_that_is_no_peer_door_is_told() {
    let reader = TestReader::new(SECRET).await;
    let switching =
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: stylobate-pages\r\n\r\n";
    for (answer, expected) in [
        (
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            "status 404: is there a peer door of a node?",
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "not signed with the secret of this cluster"),
        (switching, "not signed with the secret of this cluster"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1_000];
            let _ = stream.read(&mut request).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        };
        let request = reader.request();
        let (_open, failure) = tokio::join!(answering, reader.failure(&address, &request));
        assert!(failure.to_string().contains(expected), "{failure}");
    }
}
