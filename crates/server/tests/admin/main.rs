//! The admin door over a socket: health, statistics, metrics, warming and eviction, keys, and the drain.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

#[path = "../../../storage/tests/support/eventually.rs"]
mod eventually;
mod page;
#[cfg(feature = "sql")]
mod sql;

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use eventually::eventually;
use serde_json::{Value, json};
use stylobate_server::{
    Doors, Node, ServerError, check_origins,
    config::{AccessKeyConfig, BucketConfig, NodeConfig, Secret},
};
use stylobate_storage::ByteSize;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

/// A running node over a folder, and its shutdown signal.
struct Running {
    folder: TempDir,
    s3: SocketAddr,
    admin: SocketAddr,
    node: Arc<Node>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServerError>>,
}

impl Running {
    async fn start(keys: Vec<AccessKeyConfig>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tables")).unwrap();
        for (name, size) in [("tables/a", 1_000), ("tables/b", 3_000_000), ("tablets", 10), ("z", 20)] {
            write_settled(&folder.path().join(name), vec![7; size]);
        }
        let mut config = config(folder.path());
        config.access_keys = keys;
        let doors = Doors::bind(&config).await.unwrap();
        let node = Node::open(&config).await.unwrap();
        let s3 = doors.s3_address();
        let admin = doors.admin_address();
        let (stop, stopped) = oneshot::channel();
        let serving = doors.serve(node.clone(), async { drop(stopped.await) });

        Self { folder, s3, admin, node, stop, served: tokio::spawn(serving) }
    }

    async fn get(&self, path: &str) -> Answer {
        request(self.admin, &format!("GET {path} HTTP/1.1\r\n")).await
    }

    async fn get_as(&self, path: &str, authorization: &str) -> Answer {
        request(self.admin, &format!("GET {path} HTTP/1.1\r\nauthorization: {authorization}\r\n")).await
    }

    async fn post(&self, path: &str, body: &str, headers: &str) -> Answer {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\ncontent-length: {length}\r\n{headers}");
        exchange(self.admin, &format!("{head}host: localhost\r\nconnection: close\r\n\r\n{body}")).await
    }

    async fn post_json(&self, path: &str, body: Value) -> Answer {
        self.post(path, &body.to_string(), "content-type: application/json\r\n").await
    }
}

/// Writes a file dated some time back: a recent file may change again unnoticed, and is not cached.
fn write_settled(path: &Path, contents: impl AsRef<[u8]>) {
    fs::write(path, contents).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
}

fn config(folder: &Path) -> NodeConfig {
    let mut config = NodeConfig::default();
    config.buckets.push(BucketConfig::new("lake", folder.to_str().unwrap()));
    config.settings.memory = ByteSize::mib(64);
    config.settings.listen.set_port(0);
    config.settings.admin.set_port(0);
    config.settings.flight = None;
    config.settings.drain_timeout = Duration::from_secs(5);
    config
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }
}

async fn request(address: SocketAddr, head: &str) -> Answer {
    exchange(address, &format!("{head}host: localhost\r\nconnection: close\r\n\r\n")).await
}

async fn exchange(address: SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// Starts an empty origin, which runs as long as the task.
async fn empty_origin() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answering = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer).await;
        }
    });
    (address, answering)
}

fn config_over(origin: SocketAddr) -> NodeConfig {
    let mut config = config("/".as_ref());
    let url = format!("http://user:hunter2@{origin}/");
    config.buckets = vec![BucketConfig {
        options: [("allow_http".into(), "true".into())].into(),
        ..BucketConfig::new("far", url)
    }];
    config.settings.attempts = 1;
    config
}

#[tokio::test]
async fn a_node_is_ready_while_its_origins_answer_and_healthy_all_the_time() {
    let (origin, answering) = empty_origin().await;
    let config = config_over(origin);
    let doors = Doors::bind(&config).await.unwrap();
    let admin = doors.admin_address();
    let node = Node::open(&config).await.unwrap();
    assert!(check_origins(&node).await.is_ok());
    tokio::spawn(doors.serve(node, std::future::pending()));
    let get = async |path: &str| request(admin, &format!("GET {path} HTTP/1.1\r\n")).await;
    assert_eq!(get("/healthz").await.status, 200);
    assert_eq!(get("/readyz").await.status, 200);

    answering.abort();
    // The node caches the state of its origin for two seconds.
    eventually("the node not to be ready", async || get("/readyz").await.status != 200).await;
    let answer = get("/readyz").await;
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert_eq!(answer.json()["failing"][0]["bucket"], "far");
    assert!(!answer.body.contains("hunter2") && !answer.body.contains("127.0.0.1"), "{}", answer.body);
    assert_eq!(get("/healthz").await.status, 200);
}

#[tokio::test]
async fn an_origin_that_does_not_answer_is_told_at_the_start() {
    let (origin, answering) = empty_origin().await;
    answering.abort();
    assert!(answering.await.is_err());
    let node = Node::open(&config_over(origin)).await.unwrap();
    let error = check_origins(&node).await.unwrap_err();
    assert!(matches!(&error, ServerError::OriginUnreachable { bucket, .. } if bucket == "far"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert_eq!(error.exit_code(), 4);
}

#[tokio::test]
async fn warming_loads_what_begins_with_the_prefix() {
    let node = Running::start(Vec::new()).await;
    let answer = node.post_json("/api/warm", json!({ "bucket": "lake", "prefix": "tab" })).await;
    assert_eq!((answer.status, answer.json()["objects"].as_u64()), (200, Some(3)), "{}", answer.body);
    assert_eq!(answer.json()["bytes"], 3_001_010);
    assert_eq!(answer.json()["errors"], json!([]));

    let again = node.post_json("/api/warm", json!({ "bucket": "lake" })).await.json();
    assert_eq!(again["objects"], 4);
    let stats = node.get("/api/stats").await.json();
    let memory = stats["bytes"]["memory"].as_u64().unwrap();
    assert!(memory >= 3_001_010, "the second time, what was loaded came from memory");
    assert!(stats["hit_ratio"].as_f64().unwrap() > 0.4);
}

#[tokio::test]
async fn evicting_drops_what_begins_with_the_prefix() {
    let node = Running::start(Vec::new()).await;
    node.post_json("/api/warm", json!({ "bucket": "lake" })).await;
    let answer = node.post_json("/api/evict", json!({ "bucket": "lake", "prefix": "tables/" })).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "objects": 2 })), "{}", answer.body);

    let before = node.get("/api/stats").await.json()["bytes"]["origin"].as_u64();
    node.post_json("/api/warm", json!({ "bucket": "lake" })).await;
    let after = node.get("/api/stats").await.json()["bytes"]["origin"].as_u64();
    assert_eq!(after.unwrap() - before.unwrap(), 3_001_000);
}

#[tokio::test]
async fn a_post_that_makes_no_sense_is_refused() {
    let node = Running::start(Vec::new()).await;
    assert_eq!(node.post_json("/api/warm", json!({ "bucket": "sea" })).await.status, 404);
    assert_eq!(node.post_json("/api/warm", json!({ "prefix": "a" })).await.status, 422);
    assert_eq!(node.post_json("/api/warm", json!({ "bucket": "lake", "prefx": "a" })).await.status, 422);
    assert_eq!(node.post("/api/evict", "{}", "content-type: text/plain\r\n").await.status, 415);
    assert_eq!(node.get("/api/warm").await.status, 405);
    assert_eq!(node.get("/nothing").await.status, 404);
}

#[tokio::test]
async fn metrics_are_in_the_format_of_prometheus() {
    let node = Running::start(Vec::new()).await;
    node.post_json("/api/warm", json!({ "bucket": "lake" })).await;
    node.node.metrics().bucket(Some("lake")).count("GetObject", 206, 0.004, 100);
    let answer = node.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);

    for line in [
        "stylobate_requests_total{bucket=\"lake\",operation=\"GetObject\",code=\"206\"} 1",
        "stylobate_response_bytes_total{operation=\"GetObject\"} 100",
        "stylobate_request_seconds_bucket{le=\"0.005\",operation=\"GetObject\"} 1",
        "stylobate_request_seconds_bucket{le=\"+Inf\",operation=\"GetObject\"} 1",
        "stylobate_request_seconds_count{operation=\"GetObject\"} 1",
        "stylobate_read_bytes_total{bucket=\"lake\",source=\"origin\"} 3001030",
        "stylobate_read_bytes_total{bucket=\"lake\",source=\"disk\"} 0",
        "stylobate_origin_retries_total{bucket=\"lake\"} 0",
        "stylobate_cache_evictions_total 0",
        "stylobate_cache_dropped_inserts_total{reason=\"queue_full\"} 0",
        "stylobate_requests_in_flight 0.0",
        "# TYPE stylobate_requests_total counter",
        "# TYPE process_resident_memory_bytes gauge",
    ] {
        assert!(answer.body.lines().any(|known| known == line), "no {line} in\n{}", answer.body);
    }
    assert!(answer.body.contains("\nstylobate_fetches_merged_total{bucket=\"lake\"} "));
}

/// Starts an origin that answers each request with these bytes, or never if they are empty.
async fn origin_that_answers(answer: &'static str) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answering = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            if answer.is_empty() {
                open.push(stream);
            }
        }
    });

    (address, answering)
}

#[tokio::test]
async fn requests_are_counted_by_bucket_and_those_to_origins_by_kind_and_failure() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (missing, _missing) = empty_origin().await;
    let (busy, _busy) = origin_that_answers(busy).await;
    let (silent, _silent) = origin_that_answers("").await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut config = config_over(missing);
    config.settings.deadline = Duration::from_millis(300);

    for (name, origin) in [("busy", busy), ("silent", silent), ("gone", gone)] {
        let options = [
            ("endpoint", format!("http://{origin}")),
            ("allow_http", "true".to_owned()),
            ("skip_signature", "true".to_owned()),
        ];
        let options = options.map(|(key, value)| (key.to_owned(), value)).into();
        let url = format!("s3://{name}");
        config.buckets.push(BucketConfig { options, ..BucketConfig::new(name, url) });
    }

    let doors = Doors::bind(&config).await.unwrap();
    let s3 = doors.s3_address();
    let admin = doors.admin_address();
    tokio::spawn(doors.serve(Node::open(&config).await.unwrap(), std::future::pending()));

    let status = async |path: &str| request(s3, &format!("GET {path} HTTP/1.1\r\n")).await.status;
    assert_eq!(status("/far/a").await, 404);
    assert_eq!(status("/busy?list-type=2").await, 503);
    assert_eq!(status("/silent?list-type=2").await, 503);
    assert_eq!(status("/gone?list-type=2").await, 503);
    assert_eq!(status("/nowhere/a").await, 404);
    assert_eq!(status("/").await, 200);

    let metrics = request(admin, "GET /metrics HTTP/1.1\r\n").await.body;
    for line in [
        "stylobate_requests_total{bucket=\"far\",operation=\"GetObject\",code=\"404\"} 1",
        "stylobate_requests_total{bucket=\"busy\",operation=\"ListObjectsV2\",code=\"503\"} 1",
        "stylobate_requests_total{bucket=\"\",operation=\"GetObject\",code=\"404\"} 1",
        "stylobate_requests_total{bucket=\"\",operation=\"ListBuckets\",code=\"200\"} 1",
        "# TYPE stylobate_origin_request_seconds histogram",
        "stylobate_origin_request_seconds_count{bucket=\"far\",kind=\"get\"} 1",
        "stylobate_origin_request_seconds_count{bucket=\"busy\",kind=\"list\"} 1",
        "stylobate_origin_request_seconds_bucket{le=\"+Inf\",bucket=\"busy\",kind=\"list\"} 1",
        "# TYPE stylobate_origin_errors_total counter",
        "stylobate_origin_errors_total{bucket=\"far\",status=\"404\"} 1",
        "stylobate_origin_errors_total{bucket=\"busy\",status=\"503\"} 1",
        "stylobate_origin_errors_total{bucket=\"silent\",status=\"timeout\"} 1",
    ] {
        assert!(metrics.lines().any(|known| known == line), "no {line} in\n{metrics}");
    }

    // A request without a body is retried once on a new connection.
    assert!(metrics.contains("stylobate_origin_errors_total{bucket=\"gone\",status=\"connection\"} 2\n"));
    let seconds = metrics.lines().filter(|line| line.starts_with("stylobate_origin_request_seconds"));
    assert!(seconds.clone().count() > 0 && seconds.clone().all(|line| !line.contains("silent")));
    assert!(!metrics.contains("nowhere"), "a client makes no labels");

    let stats = request(admin, "GET /api/stats HTTP/1.1\r\n").await.json();
    let of = |name: &str| {
        stats["buckets"].as_array().unwrap().iter().find(|bucket| bucket["name"] == name).unwrap()
    };
    assert_eq!(of("far")["origin_requests"]["kinds"]["get"]["answered"], 1);
    assert_eq!(of("busy")["origin_requests"]["errors"], json!({ "503": 1 }));
    let requests = stats["requests"]["buckets"].as_array().unwrap();
    let named: Vec<_> = requests.iter().map(|of| of["bucket"].as_str().unwrap()).collect();
    assert_eq!(named, ["busy", "far", "gone", "silent", ""]);
    assert_eq!(requests[1]["operations"]["GetObject"]["404"], 1);
    assert_eq!(requests[4]["requests"], 2);
}

#[tokio::test]
async fn with_keys_only_health_is_open_to_everybody() {
    let key = |id: &str, buckets: &str, write| AccessKeyConfig {
        id: id.to_owned(),
        secret: Secret::new(format!("{id}-secret")),
        token: None,
        buckets: vec![buckets.to_owned()],
        prefixes: Vec::new(),
        write,
    };

    let node = Running::start(vec![key("viewer", "*", false), key("writer", "lake", true)]).await;
    assert_eq!(node.get("/healthz").await.status, 200);
    assert_eq!(node.get("/readyz").await.status, 200);
    for path in [
        "/",
        "/web/app.js",
        "/metrics",
        "/api/stats",
        "/api/session",
        "/api/health",
        "/api/history?every=1s",
        "/api/hot",
        "/api/reads",
    ] {
        let answer = node.get(path).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.head.contains("www-authenticate: basic"), "{}", answer.head);
        assert_eq!(node.get_as(path, "Bearer viewer-secret").await.status, 200, "{path}");
        assert_eq!(node.get_as(path, "Basic dmlld2VyOnZpZXdlci1zZWNyZXQ=").await.status, 200, "{path}");
        assert_eq!(node.get_as(path, "Bearer writer-secret").await.status, 403, "{path}");
    }

    for (secret, status) in [("viewer-secret", 403), ("writer-secret", 200), ("nonsense", 401)] {
        let headers = format!("content-type: application/json\r\nauthorization: Bearer {secret}\r\n");
        assert_eq!(
            node.post("/api/evict", "{\"bucket\":\"lake\"}", &headers).await.status,
            status,
            "{secret}"
        );
    }
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_the_door() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(folder.path());
    config.settings.admin = taken.local_addr().unwrap();
    let error = Doors::bind(&config).await.unwrap_err();
    assert!(error.to_string().contains("the admin door"), "{error}");
    assert!(error.to_string().contains("--admin"), "{error}");
    assert_eq!(error.exit_code(), 3);
}

#[tokio::test]
async fn a_door_beyond_loopback_needs_keys() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.settings.listen = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(Doors::bind(&config).await, Err(ServerError::Exposed { door: "s3", .. })));
}

/// Sends the head of a request with a body of `length` bytes, and waits until the door asks for the body.
async fn begin_evict(admin: SocketAddr, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let head = format!(
        "POST /api/evict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         expect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();

    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut answer = vec![0; expected.len()];
    let answered = tokio::time::timeout(Duration::from_secs(60), stream.read_exact(&mut answer)).await;
    answered.expect("the door asks for the body").unwrap();
    assert_eq!(answer, expected);

    stream
}

#[tokio::test]
async fn a_drain_finishes_what_is_under_way_and_accepts_nothing_new() {
    let running = Running::start(Vec::new()).await;
    let body = json!({ "bucket": "lake" }).to_string();
    let mut in_flight = begin_evict(running.admin, body.len()).await;

    // An idle connection must not delay the drain.
    let mut idle = TcpStream::connect(running.s3).await.unwrap();
    let connections = || running.node.metrics().snapshot().connections;
    eventually("both connections to be accepted", async || connections() == 2).await;

    running.stop.send(()).unwrap();
    for door in [running.admin, running.s3] {
        eventually("the door to be closed", async || TcpStream::connect(door).await.is_err()).await;
    }

    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(TcpStream::connect(running.admin).await.is_err());
    assert!(TcpStream::connect(running.s3).await.is_err());
    assert!(!running.served.is_finished());

    in_flight.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    in_flight.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let served = tokio::time::timeout(Duration::from_secs(3), running.served).await;
    served.expect("nothing is under way any more").unwrap().unwrap();
    assert_eq!(idle.read(&mut [0; 16]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_drain_cuts_off_what_takes_too_long() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.settings.drain_timeout = Duration::from_millis(300);
    let doors = Doors::bind(&config).await.unwrap();
    let admin = doors.admin_address();
    let (stop, stopped) = oneshot::channel::<()>();
    let node = Node::open(&config).await.unwrap();
    let served = tokio::spawn(doors.serve(node, async { drop(stopped.await) }));

    let mut endless = begin_evict(admin, 9).await;
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(3), served).await.expect("cut off").unwrap().unwrap();
    assert_eq!(endless.read(&mut [0; 16]).await.unwrap_or(0), 0);
}
