//! An S3 server whose answers break off, and which continues them with other bytes than it is asked for.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod support;

use std::{
    io::{BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use object_store::{ObjectStoreExt, path::Path};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
    RequestOptions,
};
use support::http::{read_head, requested_range};

const SIZE: usize = 3 << 20;

fn content() -> Vec<u8> {
    (0..SIZE).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// What the server does with requests for a range after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Sends the range.
    Right,
    /// Sends the whole object, as if there was no range.
    Whole,
    /// Sends the start of the object, and says so.
    Start,
}

/// Answers the requests of a connection. The first answer with a range ends after half of it.
fn answer(
    stream: TcpStream,
    content: &[u8],
    rest: Rest,
    is_first: &std::sync::atomic::AtomicBool,
) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let head = read_head(&mut lines)?;
        let common = "ETag: \"abc\"\r\nLast-Modified: Sun, 29 Nov 2026 12:00:00 GMT\r\n";
        let Some((start, last)) = requested_range(&head) else {
            let body = if head.first()?.starts_with("head") { &[] } else { content };
            write!(stream, "HTTP/1.1 200 OK\r\n{common}Content-Length: {SIZE}\r\n\r\n").ok()?;
            stream.write_all(body).ok()?;
            continue;
        };

        let end = last.min(SIZE - 1) + 1;
        let breaks = is_first.swap(false, std::sync::atomic::Ordering::SeqCst);
        let (start, end) = match rest {
            Rest::Start if !breaks => (0, end - start),
            Rest::Whole if !breaks => {
                write!(stream, "HTTP/1.1 200 OK\r\n{common}Content-Length: {SIZE}\r\n\r\n").ok()?;
                stream.write_all(content).ok()?;
                continue;
            }
            _ => (start, end),
        };
        let (len, last) = (end - start, end - 1);
        let part = format!("Content-Range: bytes {start}-{last}/{SIZE}\r\nContent-Length: {len}\r\n");
        write!(stream, "HTTP/1.1 206 Partial Content\r\n{common}{part}\r\n").ok()?;
        let sent = if breaks { start + len / 2 } else { end };
        stream.write_all(&content[start..sent]).ok()?;
        if breaks {
            return None;
        }
    }
}

async fn store(rest: Rest) -> ReadThrough {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let content: Arc<[u8]> = content().into();
        let is_first = Arc::new(std::sync::atomic::AtomicBool::new(true));
        for stream in listener.incoming().flatten() {
            let (content, is_first) = (content.clone(), is_first.clone());
            thread::spawn(move || answer(stream, &content, rest, &is_first));
        }
    });

    let options = [
        ("endpoint", endpoint.as_str()),
        ("allow_http", "true"),
        ("skip_signature", "true"),
        ("region", "us-east-1"),
    ];
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let requests =
        RequestOptions { backoff: std::time::Duration::from_millis(1), ..RequestOptions::default() };
    let origin = Origin::parse("s3://bucket", &options, &requests).unwrap();
    let cache = PageCache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap();
    let reads = ReadOptions { requests, ..ReadOptions::default() };
    ReadThrough::new(origin, cache, ConsistencyRules::new(Consistency::DEFAULT), reads)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_breaks_off_is_never_continued_with_other_bytes() {
    for rest in [Rest::Right, Rest::Whole, Rest::Start] {
        let store = store(rest).await;
        let path = Path::from("a");
        let content = content();
        // A server that sends other ranges than it is asked for can be an error, but never wrong bytes.
        for range in [0..SIZE, 1 << 20..SIZE, 0..SIZE / 2] {
            match store.get_range(&path, range.start as u64..range.end as u64).await {
                Ok(read) => assert!(read == content[range], "{rest:?}"),
                Err(_) => assert_ne!(rest, Rest::Right),
            }
        }
    }
}
