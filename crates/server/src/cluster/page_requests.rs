//! Requests on page connections: their encoding, and the server that receives them.
//!
//! ```text
//! request   length of the content u32, little-endian │ signature (32 bytes) │ content, as JSON
//! ```
//!
//! A connection begins as a signed HTTP/1.1 request to upgrade to [`PAGES_PROTOCOL`]. It then carries one request at
//! a time, each answered in frames. The signature of a request covers the signature of the upgrade, the number of the
//! request on the connection, and the content.

use std::{io, time::Duration};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use super::{
    run_frames::FrameSource,
    signature::{PeerKey, RequestSignature},
};

/// Protocol to which a page connection is upgraded.
pub(crate) const PAGES_PROTOCOL: &str = "stylobate-pages";
/// Maximum bytes of the content of a request: a key and an ETag, each byte escaped.
const MAX_CONTENT: usize = 64 << 10;
/// Bytes of the length and the signature.
const HEAD_BYTES: usize = 4 + blake3::OUT_LEN;
/// Time without a request after which a peer door closes a connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time without progress after which a peer door gives up writing. A peer that has no memory to buffer the bytes
/// reads them only as fast as its own client does.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Encodes the request with this number on a connection, and returns it with its signature; `None` if it is too long.
pub(super) fn encode_page_request(
    key: &PeerKey,
    session: RequestSignature,
    number: u64,
    content: &[u8],
) -> Option<(Bytes, RequestSignature)> {
    let length = u32::try_from(content.len()).ok().filter(|_| content.len() <= MAX_CONTENT)?;
    let signature = key.page_request(session, number, content);
    let mut request = BytesMut::with_capacity(HEAD_BYTES + content.len());
    request.put_u32_le(length);
    request.put_slice(signature.as_bytes());
    request.put_slice(content);
    Some((request.freeze(), signature))
}

/// A request whose signature was verified.
#[derive(Clone, Debug)]
pub(crate) struct PageRequest {
    pub(crate) content: Bytes,
    pub(crate) signature: RequestSignature,
}

/// Server side of a page connection.
pub(crate) struct PageRequests<S> {
    source: FrameSource<S>,
    key: PeerKey,
    session: RequestSignature,
    /// Number of the next request.
    number: u64,
}

impl<S: AsyncRead + AsyncWrite + Unpin> PageRequests<S> {
    /// Wraps an upgraded connection; `session` is the signature of the upgrade request.
    pub(crate) fn new(stream: S, key: PeerKey, session: RequestSignature) -> Self {
        Self { source: FrameSource::new(stream), key, session, number: 0 }
    }

    /// Returns the next request; `None` if the peer closes the connection, or sends no request for a minute.
    pub(crate) async fn next(&mut self) -> io::Result<Option<PageRequest>> {
        match timeout(IDLE_TIMEOUT, self.receive()).await {
            Ok(Err(_)) if self.source.received().is_empty() => Ok(None),
            Ok(received) => received.map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Waits for the next request.
    pub(super) async fn receive(&mut self) -> io::Result<PageRequest> {
        let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
        self.source.fill(HEAD_BYTES).await?;
        let length = self.source.received().try_get_u32_le().unwrap_or(u32::MAX) as usize;
        if length > MAX_CONTENT {
            return Err(invalid("a request for pages is too long"));
        }

        self.source.fill(HEAD_BYTES + length).await?;
        let request = self.source.received().get(4..HEAD_BYTES + length).unwrap_or_default();
        let (signature, content) = request.split_at_checked(blake3::OUT_LEN).unwrap_or_default();
        let expected = self.key.page_request(self.session, self.number, content);
        if !expected.is(signature) {
            return Err(invalid("a request for pages is not signed with the secret of this cluster"));
        }

        let request = PageRequest { content: Bytes::copy_from_slice(content), signature: expected };
        self.source.consume(HEAD_BYTES + length);
        self.number += 1;
        Ok(request)
    }

    /// Runs `work`; fails if the peer closes the connection first.
    pub(crate) async fn until_peer_closes<T>(&mut self, work: impl Future<Output = T>) -> io::Result<T> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            error = self.peer_closed() => Err(error),
        }
    }

    /// Waits until the peer closes the connection. A byte received here is a protocol error: the peer sends its next
    /// request only after the answer.
    async fn peer_closed(&mut self) -> io::Error {
        match self.source.stream_mut().read_u8().await {
            Ok(_) => io::Error::new(
                io::ErrorKind::InvalidData,
                "a request arrived before the previous one was answered",
            ),
            Err(error) => error,
        }
    }

    /// Writes a frame: its head and its bytes. Fails if the peer accepts no byte for a minute.
    pub(crate) async fn write(&mut self, head: Bytes, bytes: Bytes) -> io::Result<()> {
        let stream = self.source.stream_mut();
        let mut frame = head.chain(bytes);
        while frame.has_remaining() {
            if timeout(WRITE_TIMEOUT, stream.write_buf(&mut frame)).await?? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        timeout(WRITE_TIMEOUT, stream.flush()).await?
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use tokio::{io::duplex, time::Instant};

    use super::*;
    use crate::config::Secret;

    fn key(secret: &str) -> PeerKey {
        PeerKey::new(&Secret::new(secret))
    }

    fn session(path: &str) -> RequestSignature {
        key("a").sign_request(&mut HeaderMap::new(), "GET", path, b"", std::time::SystemTime::UNIX_EPOCH)
    }

    fn request(number: u64, content: &[u8]) -> Bytes {
        encode_page_request(&key("a"), session("/1"), number, content).unwrap().0
    }

    /// Returns the contents of the accepted requests, and whether the last one was refused.
    async fn accepted(secret: &str, path: &str, bytes: &[u8]) -> (Vec<Bytes>, bool) {
        let (mut peer, own) = duplex(1 << 20);
        peer.write_all(bytes).await.unwrap();
        drop(peer);
        let mut requests = PageRequests::new(own, key(secret), session(path));
        let mut contents = Vec::new();
        loop {
            match requests.next().await {
                Ok(Some(request)) => contents.push(request.content),
                Ok(None) => return (contents, false),
                Err(_) => return (contents, true),
            }
        }
    }

    #[tokio::test]
    async fn a_request_is_valid_only_on_its_connection_and_with_its_number() {
        let long = vec![7; MAX_CONTENT];
        let sent = [request(0, b"first"), request(1, &long), request(2, b"")];
        let expected: Vec<Bytes> = vec!["first".into(), long.clone().into(), Bytes::new()];
        assert_eq!(accepted("a", "/1", &sent.concat()).await, (expected, false));

        for (secret, path) in [("b", "/1"), ("a", "/2")] {
            assert_eq!(accepted(secret, path, &sent[0]).await, (Vec::new(), true), "{secret} {path}");
        }
        let first = vec![Bytes::from("first")];
        let again = [sent[0].clone(), sent[0].clone()].concat();
        assert_eq!(accepted("a", "/1", &again).await, (first.clone(), true), "sent twice");
        let left_out = [sent[0].clone(), sent[2].clone()].concat();
        assert_eq!(accepted("a", "/1", &left_out).await, (first, true), "one is missing");
    }

    #[tokio::test]
    async fn a_changed_cut_or_endless_request_is_refused() {
        let sent = request(0, b"first");
        for at in 0..sent.len() {
            let mut wrong = sent.to_vec();
            wrong[at] ^= 1;
            assert_eq!(accepted("a", "/1", &wrong).await, (Vec::new(), true), "byte {at}");
            assert_eq!(accepted("a", "/1", &sent[..at]).await, (Vec::new(), at > 0), "cut at {at}");
        }
        let endless = [u32::MAX.to_le_bytes().as_slice(), &[0; 100]].concat();
        assert_eq!(accepted("a", "/1", &endless).await, (Vec::new(), true));
        let content = vec![7; MAX_CONTENT + 1];
        assert!(encode_page_request(&key("a"), session("/1"), 0, &content).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_ends_after_a_minute() {
        let (_peer, own) = duplex(1 << 10);
        let began = Instant::now();
        let mut requests = PageRequests::new(own, key("a"), session("/1"));
        assert!(requests.next().await.unwrap().is_none());
        assert_eq!(began.elapsed().as_secs(), IDLE_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_does_not_hold_an_answer_forever() {
        let (mut peer, own) = duplex(1 << 10);
        let mut requests = PageRequests::new(own, key("a"), session("/1"));
        let write = requests.write(Bytes::from_static(b"head"), vec![7; 1 << 20].into());
        let read = async {
            let mut some = [0; 100];
            for _ in 0..5 {
                tokio::time::sleep(WRITE_TIMEOUT / 2).await;
                peer.read_exact(&mut some).await.unwrap();
            }
            std::future::pending::<()>().await;
        };

        let began = Instant::now();
        tokio::select! {
            written = write => assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut),
            () = read => {}
        }
        assert_eq!(began.elapsed().as_secs(), WRITE_TIMEOUT.as_secs() / 2 * 7, "since the last progress");
    }

    #[tokio::test]
    async fn work_for_a_peer_that_has_gone_is_given_up() {
        let (peer, own) = duplex(1 << 10);
        let mut requests = PageRequests::new(own, key("a"), session("/1"));
        assert_eq!(requests.until_peer_closes(async { 7 }).await.unwrap(), 7);
        let leave = async move { drop(peer) };
        let (work, ()) = tokio::join!(requests.until_peer_closes(std::future::pending::<()>()), leave);
        assert_eq!(work.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
