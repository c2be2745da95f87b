//! Serves a single connection in the HTTP version of its door.

use std::{error::Error as StdError, io, pin::pin, time::Duration};

use http::{Request, Response};
use hyper::{
    body::{Body, Incoming},
    server::conn::{http1, http2},
    service::Service,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::Watcher,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, join},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::lingering::LingeringStream;

/// Maximum time until a request head is complete; closes slow and idle connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an answer that are buffered for the client before its body is polled for more.
const WRITE_BUFFER: usize = 1 << 20;
/// Bytes of a stream that are buffered for the client, in addition to the message being written.
const STREAM_BUFFER: usize = 256 << 10;
/// Time without data from the client after which it is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum streams of a connection: another node of a cluster opens several for each query that it planned.
const MAX_STREAMS: u32 = 4_096;
/// Connection preface of an HTTP/2 client (RFC 9113, section 3.4).
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Error that ends a connection early.
pub(super) type ConnectionError = Box<dyn StdError + Send + Sync>;

/// Serves an HTTP/1.1 connection until it ends or the watcher shuts it down.
pub(super) async fn serve_http1<I, S, B>(
    stream: I,
    service: S,
    watcher: Watcher,
) -> Result<(), ConnectionError>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<ConnectionError>,
    B: Body + 'static,
    B::Error: Into<ConnectionError>,
{
    Ok(watcher.watch(http1_builder().serve_connection(TokioIo::new(stream), service)).await?)
}

/// Serves an HTTP/1.1 connection until it ends, is upgraded, or `stop` is triggered.
pub(super) async fn serve_upgradable<I, S, B>(
    stream: I,
    service: S,
    stop: &CancellationToken,
) -> Result<(), ConnectionError>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<ConnectionError>,
    B: Body + 'static,
    B::Error: Into<ConnectionError>,
{
    let connection = http1_builder().serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = pin!(connection);
    if let Some(ended) = stop.run_until_cancelled(connection.as_mut()).await {
        return Ok(ended?);
    }
    connection.as_mut().graceful_shutdown();
    Ok(connection.await?)
}

fn http1_builder() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(true)
        .half_close(false)
        .writev(true)
        .max_buf_size(WRITE_BUFFER);
    http
}

/// Serves an HTTP/2 connection with prior knowledge until it ends or the watcher shuts it down. A connection that has
/// not received anything ends with `stop`.
pub(super) async fn serve_http2<R, W, S, B>(
    mut read: R,
    write: W,
    service: S,
    watcher: Watcher,
    stop: CancellationToken,
) -> Result<(), ConnectionError>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<ConnectionError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<ConnectionError>,
{
    let mut preface = [0; PREFACE.len()];
    let said = timeout(HEAD_TIMEOUT, read.read_exact(&mut preface));
    match stop.run_until_cancelled(said).await {
        Some(said) => said??,
        None => return Ok(()),
    };

    if preface != PREFACE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not speak HTTP/2").into());
    }
    let stream = LingeringStream::new(join(io::Cursor::new(PREFACE).chain(read), write));
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_INTERVAL)
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(STREAM_BUFFER);

    Ok(watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await?)
}
