//! Traces at a collector: names, attributes and parents of spans, and the absence of secrets.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow_flight::{FlightClient, FlightDescriptor};
use futures::{TryStreamExt, future::join_all};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value::Value,
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use parquet::arrow::ArrowWriter;
use prost::Message;
use serde_json::json;
use stylobate_server::{
    Doors, Node, ServerError,
    config::{BucketConfig, NodeConfig},
};
use stylobate_storage::ByteSize;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};
use tonic::transport::Endpoint;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const SECRET: &str = "hunter2";

/// A collector of traces that keeps everything it receives.
struct Collector {
    address: SocketAddr,
    received: JoinHandle<()>,
    batches: Arc<parking_lot::Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let batches: Arc<parking_lot::Mutex<Vec<Vec<u8>>>> = Arc::default();
        let kept = batches.clone();
        let received = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive(stream, kept.clone()));
            }
        });
        Self { address, received, batches }
    }

    /// Returns all spans and their raw bytes, once the node has closed.
    fn end(self) -> Collected {
        self.received.abort();
        let bytes = self.batches.lock().concat();
        let batches = self.batches.lock();
        let exports = batches.iter().map(|batch| ExportTraceServiceRequest::decode(&batch[..]).unwrap());
        let resources: Vec<_> = exports.flat_map(|export| export.resource_spans).collect();
        let named = resources.iter().filter_map(|spans| spans.resource.as_ref());
        let service = named.flat_map(|resource| &resource.attributes).find(|of| of.key == "service.name");
        let service = service.and_then(|of| text(of.value.as_ref()?.value.as_ref()?));
        let scopes = resources.into_iter().flat_map(|spans| spans.scope_spans);
        Collected { spans: scopes.flat_map(|spans| spans.spans).collect(), service, bytes }
    }
}

struct Collected {
    spans: Vec<Span>,
    service: Option<String>,
    bytes: Vec<u8>,
}

impl Collected {
    fn of_kind(&self, kind: SpanKind) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.kind() == kind).collect()
    }

    fn named(&self, name: &str) -> &Span {
        self.spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no span {name}"))
    }

    fn children_of(&self, parent: &Span) -> Vec<&Span> {
        let is_child =
            |span: &&Span| span.parent_span_id == parent.span_id && span.trace_id == parent.trace_id;
        self.spans.iter().filter(is_child).collect()
    }
}

/// Receives the batches of a connection.
async fn receive(mut stream: TcpStream, batches: Arc<parking_lot::Mutex<Vec<Vec<u8>>>>) {
    let mut unread = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
                let rest = unread.split_off(end + 4);
                break String::from_utf8(std::mem::replace(&mut unread, rest)).unwrap().to_ascii_lowercase();
            }
            if stream.read_buf(&mut unread).await.unwrap_or(0) == 0 {
                return;
            }
        };

        assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let length: usize = length.parse().unwrap();
        while unread.len() < length {
            assert_ne!(stream.read_buf(&mut unread).await.unwrap(), 0);
        }
        let rest = unread.split_off(length);
        batches.lock().push(std::mem::replace(&mut unread, rest));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the value of an attribute; empty if it is absent.
fn attribute(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    found.and_then(|of| text(of.value.as_ref()?.value.as_ref()?)).unwrap_or_default()
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A running node, and its shutdown signal.
struct Running {
    s3: SocketAddr,
    flight: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServerError>>,
}

impl Running {
    async fn start(bucket: BucketConfig, otlp_endpoint: Option<String>) -> Self {
        let mut config = NodeConfig::default();
        config.buckets.push(bucket);
        config.settings.memory = ByteSize::mib(64);
        config.settings.listen.set_port(0);
        config.settings.admin.set_port(0);
        config.settings.flight = Some(([127, 0, 0, 1], 0).into());
        config.settings.attempts = 1;
        config.settings.otlp_endpoint = otlp_endpoint;
        let doors = Doors::bind(&config).await.unwrap();
        let s3 = doors.s3_address();
        let flight = doors.flight_address().unwrap();
        let node = Node::open(&config).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = doors.serve(node, async { drop(stopped.await) });

        Self { s3, flight, stop, served: tokio::spawn(serving) }
    }

    /// Returns status and body of the answer to a GET.
    async fn get(&self, path: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.s3).await.unwrap();
        let host = format!("host: {}\r\nconnection: close\r\n", self.s3);
        stream.write_all(format!("GET {path} HTTP/1.1\r\n{host}{headers}\r\n").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap().unwrap();
    }
}

/// A node in front of an S3 server, which is another node over a folder, and a collector of the first one's traces.
struct Setup {
    _folder: TempDir,
    origin: Running,
    node: Running,
    collector: Collector,
}

impl Setup {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "a".repeat(1_000)).unwrap();
        write_table(&folder.path().join("t.parquet"));
        for name in ["a", "t.parquet"] {
            let file = File::options().write(true).open(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
        }

        let origin = Running::start(BucketConfig::new("lake", folder.path().to_str().unwrap()), None).await;
        let collector = Collector::start().await;
        let node =
            Running::start(bucket_at(origin.s3), Some(format!("http://{}/v1/traces", collector.address)));
        Self { _folder: folder, node: node.await, origin, collector }
    }

    async fn end(self) -> Collected {
        self.node.stop().await;
        self.origin.stop().await;
        self.collector.end()
    }
}

fn bucket_at(origin: SocketAddr) -> BucketConfig {
    let options = [
        ("endpoint", format!("http://{origin}")),
        ("allow_http", "true".to_owned()),
        ("region", "us-east-1".to_owned()),
        ("access_key_id", "node".to_owned()),
        ("secret_access_key", SECRET.to_owned()),
    ];
    let options = options.map(|(key, value)| (key.to_owned(), value)).into();
    BucketConfig { options, ..BucketConfig::new("lake", "s3://lake") }
}

/// Writes several row groups of numbers.
fn write_table(path: &Path) {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000));
    let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    for _ in 0..3 {
        writer.write(&batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

fn traceparent(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{PARENT}-{flags}\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_a_span_below_its_clients_and_above_those_to_the_origin() {
    let setup = Setup::start().await;
    let s3 = setup.node.s3;
    let origin = setup.origin.s3;
    assert_eq!(setup.node.get("/lake/a", &traceparent("01")).await, (200, "a".repeat(1_000)));
    let collected = setup.end().await;
    assert_eq!(collected.service.as_deref(), Some("stylobate"));

    let get = collected.named("GetObject");
    assert_eq!(get.kind(), SpanKind::Server);
    assert_eq!((hex(&get.trace_id), hex(&get.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
    assert!(get.end_time_unix_nano > get.start_time_unix_nano);
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("http.response.body.size", "1000"),
        ("url.scheme", "http"),
        ("url.path", "/lake/a"),
        ("server.address", "127.0.0.1"),
        ("server.port", &s3.port().to_string()),
        ("client.address", "127.0.0.1"),
        ("aws.s3.bucket", "lake"),
        ("aws.s3.key", "a"),
        ("stylobate.origin_requests", "1"),
        ("error.type", ""),
    ] {
        assert_eq!(attribute(get, key), value, "{key}");
    }

    let children = collected.children_of(get);
    assert_eq!(children.len(), 1);
    assert_eq!((children[0].kind(), children[0].name.as_str()), (SpanKind::Client, "GET"));
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "206"),
        ("url.full", &format!("http://{origin}/lake/a")),
        ("server.address", "127.0.0.1"),
        ("server.port", &origin.port().to_string()),
        ("stylobate.origin.request", "get"),
    ] {
        assert_eq!(attribute(children[0], key), value, "{key}");
    }
    assert!(children[0].start_time_unix_nano >= get.start_time_unix_nano);
    assert_eq!(collected.spans.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hit_asks_no_origin_and_what_is_forwarded_is_a_child_too() {
    let setup = Setup::start().await;
    setup.node.get("/lake/a", "").await;
    setup.node.get("/lake/a", "").await;
    assert_eq!(setup.node.get("/lake?list-type=2&prefix=a", "").await.0, 200);
    assert_eq!(setup.node.get("/lake/missing", "").await.0, 404);
    let collected = setup.end().await;

    let of_object = |key: &str| {
        let servers = collected.of_kind(SpanKind::Server).into_iter();
        servers.filter(|span| attribute(span, "aws.s3.key") == key).collect::<Vec<_>>()
    };
    let mut asked: Vec<_> =
        of_object("a").iter().map(|span| attribute(span, "stylobate.origin_requests")).collect();
    asked.sort();
    assert_eq!(asked, ["0", "1"]);

    let list = collected.named("ListObjectsV2");
    assert_ne!(hex(&list.trace_id), TRACE);
    assert!(list.parent_span_id.is_empty());
    let children = collected.children_of(list);
    assert_eq!(children.len(), 1);
    assert_eq!(attribute(children[0], "stylobate.origin.request"), "list");
    assert!(attribute(children[0], "url.full").ends_with("/lake"), "{:?}", children[0]);

    // A missing object is not an error of the node, but the request to its origin failed.
    let missing = of_object("missing")[0];
    assert_eq!(attribute(missing, "http.response.status_code"), "404");
    assert_eq!(attribute(missing, "error.type"), "");
    let child = collected.children_of(missing)[0];
    assert_eq!(attribute(child, "error.type"), "404");
    assert_eq!(child.status.as_ref().unwrap().code(), StatusCode::Error);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merged_fetch_is_a_child_of_a_request_that_asked_for_it() {
    let setup = Setup::start().await;
    let all = join_all((0..8).map(|_| setup.node.get("/lake/a", ""))).await;
    assert!(all.iter().all(|(status, body)| *status == 200 && body.len() == 1_000));
    let collected = setup.end().await;

    let servers = collected.of_kind(SpanKind::Server);
    let clients = collected.of_kind(SpanKind::Client);
    assert_eq!(servers.len(), 8);
    assert!(!clients.is_empty() && clients.len() < 8, "{}", clients.len());
    let children = servers.iter().map(|server| collected.children_of(server).len()).sum::<usize>();
    assert_eq!(children, clients.len());
    let counted = servers.iter().map(|server| attribute(server, "stylobate.origin_requests"));
    assert_eq!(counted.map(|count| count.parse::<usize>().unwrap()).sum::<usize>(), clients.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_span_holds_a_secret() {
    let setup = Setup::start().await;
    let authorization = format!(
        "authorization: AWS4-HMAC-SHA256 Credential=me/20260101/us-east-1/s3/aws4_request, \
         SignedHeaders=host, Signature={SECRET}\r\nx-amz-security-token: {SECRET}\r\n"
    );
    setup.node.get("/lake/a", &authorization).await;
    let presigned = format!("X-Amz-Credential=me&X-Amz-Signature={SECRET}&X-Amz-Security-Token={SECRET}");
    setup.node.get(&format!("/lake/a?{presigned}"), "").await;
    setup.node.get(&format!("/lake?list-type=2&{presigned}"), "").await;
    setup.node.get(&format!("/lake/a?versionId=1&{presigned}"), &format!("cookie: {SECRET}\r\n")).await;
    let collected = setup.end().await;

    assert!(
        collected.of_kind(SpanKind::Server).len() == 4 && !collected.of_kind(SpanKind::Client).is_empty()
    );
    for secret in [SECRET, "X-Amz", "Signature", "Credential"] {
        let is_there = collected.bytes.windows(secret.len()).any(|bytes| bytes == secret.as_bytes());
        assert!(!is_there, "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_not_sampled_makes_no_span() {
    let setup = Setup::start().await;
    assert_eq!(setup.node.get("/lake/a", &traceparent("00")).await.0, 200);
    // An invalid parent is ignored.
    assert_eq!(setup.node.get("/lake/a", "traceparent: nonsense\r\n").await.0, 200);
    let collected = setup.end().await;
    assert_eq!(collected.spans.len(), 1);
    assert!(collected.spans[0].parent_span_id.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_over_flight_is_a_span_with_the_reads_of_its_columns() {
    let setup = Setup::start().await;
    let endpoint = Endpoint::from_shared(format!("http://{}", setup.node.flight)).unwrap();
    let mut client = FlightClient::new(endpoint.connect().await.unwrap());
    client.add_header("traceparent", &format!("00-{TRACE}-{PARENT}-01")).unwrap();
    let command = json!({"version": 1, "path": "lake/t.parquet"}).to_string();
    let info = client.get_flight_info(FlightDescriptor::new_cmd(command)).await.unwrap();

    let mut rows = 0;

    for endpoint in &info.endpoint {
        let batches = client.do_get(endpoint.ticket.clone().unwrap()).await.unwrap();
        rows +=
            batches.try_collect::<Vec<_>>().await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>();
    }
    assert_eq!(rows, 3_000);
    drop(client);
    let collected = setup.end().await;

    let info = collected.named("arrow.flight.protocol.FlightService/GetFlightInfo");
    let get = collected.named("arrow.flight.protocol.FlightService/DoGet");
    for span in [info, get] {
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), PARENT.to_owned()));
        assert_eq!(attribute(span, "rpc.system"), "grpc");
        assert_eq!(attribute(span, "rpc.service"), "arrow.flight.protocol.FlightService");
        assert_eq!(attribute(span, "rpc.grpc.status_code"), "0");
    }

    assert_eq!(attribute(get, "rpc.method"), "DoGet");
    // The small file is read by one request or two, on behalf of either call.
    let clients = collected.of_kind(SpanKind::Client);
    assert!(!clients.is_empty());
    assert!(
        clients.iter().all(|span| hex(&span.trace_id) == TRACE && span.parent_span_id != hex_bytes(PARENT))
    );
}

fn hex_bytes(id: &str) -> Vec<u8> {
    (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_collector_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "a").unwrap();
    let origin = Running::start(BucketConfig::new("lake", folder.path().to_str().unwrap()), None).await;
    // One collector refuses connections, the other accepts them and never answers.
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();

    for collector in [refusing, silent.local_addr().unwrap()] {
        let node = Running::start(bucket_at(origin.s3), Some(format!("http://{collector}"))).await;
        // Sends more spans than the queue holds.
        for _ in 0..30 {
            let answers = join_all((0..100).map(|_| node.get("/lake/a", ""))).await;
            assert!(answers.iter().all(|answer| *answer == (200, "a".to_owned())));
        }
        let stopping = Instant::now();
        node.stop().await;
        assert!(stopping.elapsed() < Duration::from_secs(10), "{:?}", stopping.elapsed());
    }
}
