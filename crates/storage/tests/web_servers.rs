//! Web servers that send slowly, hang, or refuse HEAD.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod support;

use std::{
    io::{BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
    RequestOptions,
};
use support::http::{read_head, requested_range};

const PIECE: usize = 1_000;
const PIECES: usize = 60;

/// Pause of a slow server before each piece. The whole body takes longer than [`LIMIT`], each piece far less.
const PAUSE: Duration = Duration::from_millis(50);

/// Time limit of the tests.
const LIMIT: Duration = Duration::from_secs(2);

/// A server that has the same object at each path.
#[derive(Debug, Default)]
struct WebServer {
    content: Vec<u8>,
    etag: Option<&'static str>,
    /// Refuses HEAD with this status, like a URL that was signed for GET.
    refuses_head: Option<&'static str>,
    /// Pause before each piece of a body.
    pause: Duration,
    /// Number of pieces of a body after which the server sends nothing.
    hangs_after: Option<usize>,
}

impl WebServer {
    /// Answers the requests of a connection. Returns `None` once it is closed.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut lines = BufReader::new(stream.try_clone().ok()?);
        loop {
            let head = read_head(&mut lines)?;
            let is_head = head.first()?.starts_with("head");
            let etag = self.etag.map(|etag| format!("ETag: {etag}\r\n")).unwrap_or_default();
            let size = self.content.len();
            if let Some(status) = self.refuses_head.filter(|_| is_head) {
                write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").ok()?;
                continue;
            }
            match requested_range(&head) {
                Some((start, _)) if start >= size => {
                    let head = format!("Content-Range: bytes */{size}\r\nContent-Length: 0\r\n");
                    write!(stream, "HTTP/1.1 416 Range Not Satisfiable\r\n{head}\r\n").ok()?;
                }
                Some((start, end)) => {
                    let last = end.min(size - 1);
                    let body = &self.content[start..=last];
                    let len = body.len();
                    let part =
                        format!("Content-Range: bytes {start}-{last}/{size}\r\nContent-Length: {len}\r\n");
                    write!(stream, "HTTP/1.1 206 Partial Content\r\n{etag}{part}\r\n").ok()?;
                    self.send(&mut stream, body)?;
                }
                None => {
                    let body: &[u8] = if is_head { &[] } else { &self.content };
                    write!(stream, "HTTP/1.1 200 OK\r\n{etag}Content-Length: {size}\r\n\r\n").ok()?;
                    self.send(&mut stream, body)?;
                }
            }
        }
    }

    fn send(&self, stream: &mut TcpStream, body: &[u8]) -> Option<()> {
        for (index, piece) in body.chunks(PIECE).enumerate() {
            if self.hangs_after == Some(index) {
                thread::sleep(Duration::from_secs(600));
            }
            thread::sleep(self.pause);
            stream.write_all(piece).ok()?;
        }
        Some(())
    }

    /// Starts the server, and returns a store over it.
    async fn start(self, requests: RequestOptions, options: &[(&str, &str)]) -> ReadThrough {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/files", listener.local_addr().unwrap());
        let server = Arc::new(self);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                thread::spawn(move || server.serve(stream));
            }
        });

        let options: Vec<_> =
            options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let origin = Origin::parse(&url, &options, &requests).unwrap();
        let cache = PageCache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
        let reads = ReadOptions { requests, ..ReadOptions::default() };
        ReadThrough::new(origin, cache, ConsistencyRules::new(Consistency::DEFAULT), reads)
    }
}

fn content() -> Vec<u8> {
    (0..PIECES * PIECE).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// Returns options without retries.
fn one_attempt(deadline: Duration) -> RequestOptions {
    RequestOptions { attempts: 1, deadline, ..RequestOptions::default() }
}

/// The timeout was one of the whole response: a download of an object that cannot be resumed, without a strong ETag,
/// was cut off after 300 seconds.
#[tokio::test]
async fn a_slow_download_may_take_longer_than_the_timeout() {
    for etag in [Some("W/\"a\""), None] {
        let server = WebServer { content: content(), etag, pause: PAUSE, ..WebServer::default() };
        let store = server.start(one_attempt(Duration::from_secs(60)), &[("timeout", "2s")]).await;
        let begun = Instant::now();
        let read = store.get(&Path::from("a")).await.unwrap().bytes().await.unwrap();
        assert!(read == content(), "{etag:?}");
        assert!(begun.elapsed() > LIMIT, "{etag:?}: not slow");
    }
}

/// The deadline was one of the whole range.
#[tokio::test]
async fn a_slow_range_of_an_object_without_a_version_may_take_longer_than_the_deadline() {
    let etag = Some("W/\"a\"");
    let server = WebServer { content: content(), etag, pause: PAUSE, ..WebServer::default() };
    let store = server.start(one_attempt(LIMIT), &[]).await;
    let begun = Instant::now();
    let range = 1..(PIECES * PIECE) as u64;
    let read = store.get_ranges(&Path::from("a"), &[range]).await.unwrap();
    assert!(read[0] == content()[1..]);
    assert!(begun.elapsed() > LIMIT, "not slow");
}

#[tokio::test]
async fn a_server_that_hangs_is_noticed() {
    for (deadline, timeout) in [(Duration::from_secs(60), "2s"), (LIMIT, "60s")] {
        let etag = Some("W/\"a\"");
        let server = WebServer { content: content(), etag, hangs_after: Some(2), ..WebServer::default() };
        let store = server.start(one_attempt(deadline), &[("timeout", timeout)]).await;
        let begun = Instant::now();
        let answer = store.get(&Path::from("a")).await.unwrap();
        answer.bytes().await.unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(30), "{timeout}");
    }
}

#[tokio::test]
async fn an_empty_object_of_a_server_that_refuses_head_is_read() {
    for etag in [Some("\"a\""), Some("W/\"a\""), None] {
        let server = WebServer { etag, refuses_head: Some("403 Forbidden"), ..WebServer::default() };
        let store = server.start(RequestOptions::default(), &[]).await;
        assert_eq!(store.head(&Path::from("a")).await.unwrap().size, 0, "{etag:?}");
        let answer = store.get(&Path::from("a")).await.unwrap();
        assert_eq!((answer.meta.size, answer.range.clone()), (0, 0..0), "{etag:?}");
        assert_eq!(answer.bytes().await.unwrap(), "", "{etag:?}");

        // Opened by its bytes first: the range of the opening request is beyond it.
        let answer = store.get(&Path::from("b")).await.unwrap();
        assert_eq!(answer.bytes().await.unwrap(), "", "{etag:?}");
    }
}

#[tokio::test]
async fn an_object_of_a_server_that_refuses_head_has_the_size_in_its_first_byte() {
    for status in ["403 Forbidden", "405 Method Not Allowed", "501 Not Implemented"] {
        let server = WebServer { content: content(), refuses_head: Some(status), ..WebServer::default() };
        let store = server.start(one_attempt(Duration::from_secs(60)), &[]).await;
        let size = store.head(&Path::from("a")).await.unwrap().size;
        assert_eq!(size, content().len() as u64, "{status}");
    }
}
