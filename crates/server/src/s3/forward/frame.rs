//! Wraps a body into an aws-chunked frame, so that a checksum in its trailer reaches the origin.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::Stream;
use s3s::{
    Body, StdError,
    stream::{ByteStream, RemainingLength},
};

use crate::s3::wire::chunked::{ChunkedError, Trailers};

/// Bytes per chunk.
const CHUNK: u64 = 1 << 20;

/// Length of a base64 checksum, by the suffix of its header's name.
const CHECKSUMS: [(&str, u64); 6] =
    [("crc32", 8), ("crc32c", 8), ("crc64nvme", 12), ("sha1", 28), ("sha256", 44), ("md5", 24)];

/// A body in an unsigned frame.
pub(super) struct UnsignedChunkedBody {
    body: Body,
    /// Remaining bytes.
    remaining: u64,
    /// Remaining bytes of the current chunk.
    in_chunk: u64,
    trailers: Trailers,
    /// Names of the trailers announced to the origin.
    announced: Vec<String>,
    /// Bytes to be sent before more of the body is read.
    ready: VecDeque<Bytes>,
    has_ended: bool,
}

impl UnsignedChunkedBody {
    /// Frames a body of `length` bytes; its trailers become available once it has been read.
    pub(super) fn new(body: Body, length: u64, trailers: Trailers, announced: Vec<String>) -> Self {
        let ready = VecDeque::new();
        Self { body, remaining: length, in_chunk: 0, trailers, announced, ready, has_ended: false }
    }

    /// Returns the length of a frame around `length` bytes with these trailers, if the lengths of the trailers are
    /// known in advance.
    pub(super) fn len(length: u64, trailers: &[String]) -> Option<u64> {
        let head = |size: u64| format!("{size:x}").len() as u64 + 2;
        let full = length / CHUNK * (head(CHUNK) + CHUNK + 2);
        let rest = match length % CHUNK {
            0 => 0,
            rest => head(rest) + rest + 2,
        };

        let mut total = full + rest + head(0) + 2;
        for name in trailers {
            total += name.len() as u64 + 1 + checksum_len(name)? + 2;
        }
        Some(total)
    }

    fn frame(&mut self, mut bytes: Bytes) {
        while !bytes.is_empty() {
            if self.in_chunk == 0 {
                self.in_chunk = self.remaining.min(CHUNK);
                self.ready.push_back(Bytes::from(format!("{:x}\r\n", self.in_chunk)));
            }
            let taken = (self.in_chunk.max(1)).min(bytes.len() as u64);
            self.ready.push_back(bytes.split_to(taken as usize));
            self.in_chunk = self.in_chunk.saturating_sub(taken);
            self.remaining = self.remaining.saturating_sub(taken);

            if self.in_chunk == 0 {
                self.ready.push_back(Bytes::from_static(b"\r\n"));
            }
        }
    }

    /// Ends the frame with the trailers, which must be the announced ones, since the announced length depends on
    /// them.
    fn end(&mut self) -> Result<(), ChunkedError> {
        self.has_ended = true;
        let found = self.trailers.take().unwrap_or_default();

        let mut end = String::from("0\r\n");
        let mut length = 0;
        for name in &self.announced {
            let value =
                found.get(name).and_then(|value| value.to_str().ok()).ok_or(ChunkedError::Malformed)?;
            end.push_str(&format!("{name}:{value}\r\n"));
            length += value.len() as u64;
        }

        let expected: Option<u64> = self.announced.iter().map(|name| checksum_len(name)).sum();
        if found.len() != self.announced.len() || expected.is_some_and(|expected| expected != length) {
            return Err(ChunkedError::Malformed);
        }
        end.push_str("\r\n");
        self.ready.push_back(Bytes::from(end));
        Ok(())
    }
}

/// Returns the length of a checksum header's value.
fn checksum_len(name: &str) -> Option<u64> {
    let kind = name.strip_prefix("x-amz-checksum-")?;
    CHECKSUMS.iter().find(|(known, _)| *known == kind).map(|(_, length)| *length)
}

impl Stream for UnsignedChunkedBody {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            if self.has_ended {
                return Poll::Ready(None);
            }

            match ready!(Pin::new(&mut self.body).poll_next(cx)) {
                Some(Ok(bytes)) => self.frame(bytes),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    if let Err(error) = self.end() {
                        return Poll::Ready(Some(Err(error.into())));
                    }
                }
            }
        }
    }
}

impl ByteStream for UnsignedChunkedBody {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::unknown()
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, TryStreamExt};

    use super::*;
    use crate::s3::wire::chunked::ChunkedBody;

    async fn framed(length: u64, trailers: &[(&str, &str)]) -> Vec<u8> {
        let found = Trailers::default();
        let map = trailers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        found.set(map.collect());
        let body = Body::from(vec![7; length as usize]);
        let names = trailers.iter().map(|(name, _)| (*name).to_owned()).collect();
        let all: Vec<Bytes> =
            UnsignedChunkedBody::new(body, length, found, names).try_collect().await.unwrap();
        all.concat()
    }

    #[tokio::test]
    async fn a_frame_has_the_length_that_was_foretold_and_holds_what_was_put_in() {
        for length in [0, 1, 9, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
            for trailers in [&[][..], &[("x-amz-checksum-crc32", "NhCmhg==")]] {
                let names: Vec<String> = trailers.iter().map(|(name, _)| (*name).to_owned()).collect();
                let framed = framed(length, trailers).await;
                assert_eq!(UnsignedChunkedBody::len(length, &names), Some(framed.len() as u64), "{length}");

                let found = Trailers::default();
                let body = ChunkedBody::new(Body::from(framed), length, found.clone(), None);
                let unframed: Vec<Bytes> = body.boxed().try_collect().await.unwrap();
                assert_eq!(unframed.concat(), vec![7; length as usize]);
                assert_eq!(found.take().unwrap().len(), trailers.len());
            }
        }
    }
}
