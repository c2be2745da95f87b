//! S3 listeners over HTTP: the requests that a connector sends, and the errors after which the next node is asked.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use futures::stream;
use object_store::{Error, ObjectStoreExt, aws::AmazonS3Builder, path::Path};
use parking_lot::Mutex;
use stylobate_client::{ClusterStore, ClusterStoreOptions, NodeDoor, PathHash, S3Connector, parse_node};
use tokio::net::TcpListener;

const CONTENT: &[u8] = b"0123456789";

/// An S3 listener with one object.
#[derive(Clone, Debug, Default)]
struct Door {
    /// Status of all answers about objects; 0 for the correct one.
    status: Arc<AtomicU16>,
    /// Number of bytes after which an answer breaks off; 0 for never.
    break_after: Arc<AtomicUsize>,
    /// Delay before an answer about an object.
    delay: Arc<Mutex<Duration>>,
    /// Method, path, query and authorization of each request.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Door {
    async fn listen(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock())
    }

    /// Returns the number of requests for objects since the last call.
    fn count_requests(&self) -> usize {
        self.take_requests().iter().filter(|request| !request.starts_with("GET /?")).count()
    }
}

async fn answer(State(door): State<Door>, request: Request) -> Response {
    let (request, _) = request.into_parts();
    let header = |name| request.headers.get(name).and_then(|value| value.to_str().ok());
    let signed = if header(header::AUTHORIZATION).is_some() { "signed" } else { "unsigned" };
    door.requests.lock().push(format!("{} {} {signed}", request.method, request.uri));

    let response = Response::builder();
    if request.uri.path() == "/" {
        return response.body(Body::from(r#"{"digest": null, "nodes": []}"#)).unwrap();
    }
    let delay = *door.delay.lock();
    tokio::time::sleep(delay).await;
    let status = door.status.load(Ordering::SeqCst);
    if status != 0 {
        return response.status(status).body(Body::from("<Error/>")).unwrap();
    }

    let range = header(header::RANGE).and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let (first, last) = match range {
        Some((first, last)) => {
            (first.parse().unwrap(), last.parse::<usize>().unwrap().min(CONTENT.len() - 1))
        }
        None => (0, CONTENT.len() - 1),
    };
    let mut response = response.header(header::ETAG, "\"one\"");
    response = response.header(header::LAST_MODIFIED, "Fri, 01 May 2026 00:00:00 GMT");
    response = response.header(header::CONTENT_LENGTH, last + 1 - first);
    if range.is_some() {
        response = response.status(StatusCode::PARTIAL_CONTENT);
        response = response.header(header::CONTENT_RANGE, format!("bytes {first}-{last}/{}", CONTENT.len()));
    }

    let bytes = &CONTENT[first..=last];
    let keep = door.break_after.load(Ordering::SeqCst);
    if request.method == Method::HEAD || keep == 0 || keep >= bytes.len() {
        return response.body(Body::from(bytes)).unwrap();
    }
    let parts = [Ok(Bytes::from_static(&bytes[..keep])), Err(io::Error::other("broken off"))];
    response.body(Body::from_stream(stream::iter(parts))).unwrap()
}

/// Returns two doors in rank order for an object, and a store over both.
async fn doors(path: &Path, builder: AmazonS3Builder) -> (Vec<Door>, ClusterStore) {
    let mut doors = Vec::new();
    let mut nodes = Vec::new();
    for id in ["a", "b"] {
        let door = Door::default();
        let address = door.listen().await;
        nodes.push(parse_node(&format!("{id}={address}"), NodeDoor::S3).unwrap());
        doors.push((id, door));
    }
    let connector = S3Connector::new(builder).unwrap();
    let store = ClusterStore::new(nodes, connector, ClusterStoreOptions::default()).unwrap();
    let key = PathHash::of("lake", path.as_ref()).stripe(0);
    let home = store.view().home(key).unwrap().id().to_string();
    doors.sort_by_key(|(id, _)| *id != home);
    (doors.into_iter().map(|(_, door)| door).collect(), store)
}

fn builder() -> AmazonS3Builder {
    AmazonS3Builder::new()
        .with_bucket_name("lake")
        .with_access_key_id("reader")
        .with_secret_access_key("secret")
        .with_allow_http(true)
}

#[tokio::test]
async fn requests_are_signed_and_sent_to_the_bucket_in_the_path() {
    let path = Path::from("t/part-0");
    let (doors, store) = doors(&path, builder().with_virtual_hosted_style_request(true)).await;
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), CONTENT);
    let mut requests = [doors[0].take_requests(), doors[1].take_requests()].concat();
    requests.retain(|request| !request.starts_with("GET /?"));
    assert_eq!(requests, ["GET /lake/t/part-0 signed"]);
}

#[tokio::test]
async fn the_view_is_asked_for_as_buckets_are_listed() {
    let path = Path::from("a");
    for (builder, signed) in [(builder(), "signed"), (builder().with_skip_signature(true), "unsigned")] {
        let (doors, store) = doors(&path, builder).await;
        store.head(&path).await.unwrap();
        let requests = [doors[0].take_requests(), doors[1].take_requests()].concat();
        let expected = format!("GET /?x-stylobate-cluster {signed}");
        assert!(requests.contains(&expected), "{requests:?}");
    }
}

#[tokio::test]
async fn errors_of_the_server_lead_to_the_next_node() {
    let path = Path::from("a");
    for status in [500, 502, 503, 504, 429, 408] {
        let (doors, store) = doors(&path, builder()).await;
        doors[0].status.store(status, Ordering::SeqCst);
        assert_eq!(store.get_range(&path, 2..5).await.unwrap(), &CONTENT[2..5], "{status}");
    }
}

#[tokio::test]
async fn errors_of_the_request_are_the_answer() {
    let path = Path::from("a");
    for status in [400, 403, 404, 412, 416, 501] {
        let (doors, store) = doors(&path, builder()).await;
        doors[0].status.store(status, Ordering::SeqCst);
        let error = store.get_range(&path, 2..5).await.unwrap_err();
        assert_eq!(matches!(error, Error::NotFound { .. }), status == 404, "{error}");
        assert_eq!(doors[1].count_requests(), 0, "{status}");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_in_mid_answer_leads_to_the_next_node() {
    let path = Path::from("a");
    let (doors, store) = doors(&path, builder()).await;
    doors[0].break_after.store(4, Ordering::SeqCst);
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), CONTENT);
}

#[tokio::test]
async fn a_node_that_is_slow_is_overtaken_by_the_next() {
    let path = Path::from("a");
    let (doors, store) = doors(&path, builder()).await;
    for _ in 0..40 {
        store.get_range(&path, 2..5).await.unwrap();
    }
    for door in &doors {
        door.take_requests();
    }

    *doors[0].delay.lock() = Duration::from_secs(60);
    let begun = Instant::now();
    assert_eq!(store.get_range(&path, 2..5).await.unwrap(), &CONTENT[2..5]);
    assert!(begun.elapsed() < ClusterStoreOptions::default().answer_timeout);
    assert_eq!((doors[0].count_requests(), doors[1].count_requests()), (1, 1));
}

#[tokio::test]
async fn a_node_that_does_not_listen_is_followed_by_the_next() {
    let (door, dead) = (Door::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let nodes = [("a", door.listen().await), ("b", dead.local_addr().unwrap())]
        .map(|(id, address)| parse_node(&format!("{id}={address}"), NodeDoor::S3).unwrap());
    drop(dead);
    let connector = S3Connector::new(builder()).unwrap();
    let store = ClusterStore::new(nodes, connector, ClusterStoreOptions::default()).unwrap();
    for n in 0..20 {
        let path = Path::from(format!("{n}"));
        assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), CONTENT);
    }
}

#[test]
fn a_connector_needs_a_bucket() {
    let error = S3Connector::new(AmazonS3Builder::new()).unwrap_err().to_string();
    assert!(error.contains("name the bucket"), "{error}");
}
