//! Decodes aws-chunked bodies, and verifies the signatures of their chunks if the node has the key.
//!
//! ```text
//! 400;chunk-signature=…\r\n  <1024 bytes>  \r\n
//! 0;chunk-signature=…\r\n
//! x-amz-checksum-crc32:NhCmhg==\r\n
//! \r\n
//! ```

use std::{
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::Stream;
use hmac::Mac;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use s3s::{
    Body, StdError,
    stream::{ByteStream, RemainingLength},
};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::s3::sigv4::{HmacSha256, to_hex};

/// Maximum length of a chunk header or trailer line, and of all trailers together.
const MAX_LINE: usize = 8 * 1024;

/// Verifies the chunks of a signed body. Each signature covers the previous one; the first covers that of the request
/// head.
#[derive(Clone)]
pub(crate) struct ChunkSignatures {
    key: HmacSha256,
    time: String,
    /// `day/region/s3/aws4_request`.
    scope: String,
    previous: String,
    hasher: Sha256,
    /// Expected signature of the current chunk.
    announced: String,
    has_trailers: bool,
}

impl ChunkSignatures {
    /// Creates the verifier for a body whose request head has the signature `seed`.
    pub(crate) fn new(
        key: HmacSha256,
        time: String,
        scope: String,
        seed: String,
        has_trailers: bool,
    ) -> Self {
        let hasher = Sha256::new();
        let announced = String::new();
        Self { key, time, scope, previous: seed, hasher, announced, has_trailers }
    }

    fn begin(&mut self, announced: &str) {
        announced.clone_into(&mut self.announced);
        self.hasher = Sha256::new();
    }

    fn finish_chunk(&mut self) -> Result<(), ChunkedError> {
        let digest = to_hex(std::mem::take(&mut self.hasher).finalize().into());
        let empty = to_hex(Sha256::digest(b"").into());
        let digests = format!("{}\n{}", String::from_utf8_lossy(&empty), String::from_utf8_lossy(&digest));
        let announced = mem::take(&mut self.announced);
        self.verify("AWS4-HMAC-SHA256-PAYLOAD", &digests, announced)
    }

    fn finish_trailers(&mut self, trailers: &str, announced: String) -> Result<(), ChunkedError> {
        let digest = to_hex(Sha256::digest(trailers.as_bytes()).into());
        self.verify("AWS4-HMAC-SHA256-TRAILER", &String::from_utf8_lossy(&digest), announced)
    }

    fn verify(&mut self, algorithm: &str, digests: &str, announced: String) -> Result<(), ChunkedError> {
        let Self { time, scope, previous, .. } = &*self;
        let text = format!("{algorithm}\n{time}\n{scope}\n{previous}\n{digests}");
        let computed = self.key.clone().chain_update(text).finalize().into_bytes();
        let computed = to_hex(computed.into());
        if !bool::from(announced.as_bytes().ct_eq(&computed)) {
            return Err(ChunkedError::Signature);
        }
        self.previous = announced;
        Ok(())
    }
}

/// Error of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChunkedError {
    /// It ended early, or its length differs from the announced one.
    #[error("the aws-chunked body is incomplete")]
    Incomplete,
    /// Its frame cannot be read.
    #[error("the aws-chunked body is malformed")]
    Malformed,
    /// The signature of a chunk or of the trailers is missing or wrong.
    #[error("the signature of a chunk does not match")]
    Signature,
}

/// The SHA-256 of the body differs from x-amz-content-sha256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not the one that was signed")]
pub(crate) struct PayloadMismatch;

/// Trailers of a body, available once the body has been read to its end.
#[derive(Clone, Default)]
pub(crate) struct Trailers(Arc<Mutex<Option<HeaderMap>>>);

impl Trailers {
    /// Stores the trailers.
    pub(crate) fn set(&self, trailers: HeaderMap) {
        *self.0.lock() = Some(trailers);
    }

    /// Takes the trailers; `None` if they were taken before.
    pub(crate) fn take(&self) -> Option<HeaderMap> {
        self.0.lock().take()
    }
}

/// The bytes within an aws-chunked body.
pub(crate) struct ChunkedBody {
    body: Body,
    state: ChunkedBodyState,
    /// Received bytes that are not decoded yet.
    pending: Bytes,
    line: Vec<u8>,
    /// Remaining bytes of the object.
    remaining: u64,
    found: HeaderMap,
    trailers: Trailers,
    signatures: Option<ChunkSignatures>,
    /// The trailers in signed form.
    signed_trailers: String,
    trailer_signature: Option<String>,
    /// The last piece of data, held back until the next one arrives or the whole body is verified, so that a consumer
    /// never receives all bytes of a body that is rejected afterwards.
    held: Option<Bytes>,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkedBodyState {
    Size,
    Data(u64),
    DataEnd,
    Trailer,
    Done,
}

impl ChunkedBody {
    /// Decodes the `length` bytes in `body`. Stores the trailers in `trailers`, and verifies the chunks with
    /// `signatures`.
    pub(crate) fn new(
        body: Body,
        length: u64,
        trailers: Trailers,
        signatures: Option<ChunkSignatures>,
    ) -> Self {
        Self {
            body,
            state: ChunkedBodyState::Size,
            pending: Bytes::new(),
            line: Vec::new(),
            remaining: length,
            found: HeaderMap::new(),
            trailers,
            signatures,
            signed_trailers: String::new(),
            trailer_signature: None,
            held: None,
            ended: false,
        }
    }

    /// Decodes the next data bytes from `pending`; `None` if more bytes must be received first.
    fn step(&mut self) -> Result<Option<Bytes>, ChunkedError> {
        while !self.pending.is_empty() && self.state != ChunkedBodyState::Done {
            if let ChunkedBodyState::Data(left) = self.state {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(self.pending.len());
                let data = self.pending.split_to(taken);
                self.remaining = self.remaining.checked_sub(taken as u64).ok_or(ChunkedError::Incomplete)?;
                if let Some(signatures) = &mut self.signatures {
                    signatures.hasher.update(&data);
                }
                self.state = match left - taken as u64 {
                    0 => self.end_chunk(ChunkedBodyState::DataEnd)?,
                    left => ChunkedBodyState::Data(left),
                };
                return Ok(Some(data));
            }
            if let Some(line) = self.next_line()? {
                self.state = self.after(&line)?;
            }
        }
        Ok(None)
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, ChunkedError> {
        let end = self.pending.iter().position(|&byte| byte == b'\n');
        let taken = self.pending.split_to(end.map_or(self.pending.len(), |end| end + 1));
        if self.line.len() + taken.len() > MAX_LINE {
            return Err(ChunkedError::Malformed);
        }
        self.line.extend_from_slice(&taken);
        if end.is_none() {
            return Ok(None);
        }

        let mut line = mem::take(&mut self.line);
        line.pop();
        match line.pop() {
            Some(b'\r') => Ok(Some(line)),
            // Some clients end a trailer with a line feed only.
            Some(byte) if self.state == ChunkedBodyState::Trailer => {
                line.push(byte);
                Ok(Some(line))
            }
            _ => Err(ChunkedError::Malformed),
        }
    }

    /// Processes a line, and returns the state after it.
    fn after(&mut self, line: &[u8]) -> Result<ChunkedBodyState, ChunkedError> {
        let line = std::str::from_utf8(line).map_err(|_| ChunkedError::Malformed)?;
        match self.state {
            ChunkedBodyState::Size => {
                let digits = line.split(';').next().unwrap_or_default();
                // `from_str_radix` accepts a sign, but a chunk size must not have one.
                if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(ChunkedError::Malformed);
                }
                if let Some(signatures) = &mut self.signatures {
                    let announced = line.split_once(";chunk-signature=").ok_or(ChunkedError::Signature)?.1;
                    signatures.begin(announced.trim());
                }

                match u64::from_str_radix(digits, 16).map_err(|_| ChunkedError::Malformed)? {
                    0 => self.end_chunk(ChunkedBodyState::Trailer),
                    size => Ok(ChunkedBodyState::Data(size)),
                }
            }
            ChunkedBodyState::DataEnd if line.is_empty() => Ok(ChunkedBodyState::Size),
            // Some clients put an empty line before the signature of the trailers.
            ChunkedBodyState::Trailer if line.is_empty() && self.awaits_signature() => {
                Ok(ChunkedBodyState::Trailer)
            }
            ChunkedBodyState::Trailer if line.is_empty() => Ok(ChunkedBodyState::Done),
            ChunkedBodyState::Trailer => {
                let (name, value) = line.split_once(':').ok_or(ChunkedError::Malformed)?;
                let name: HeaderName = name.trim().parse().map_err(|_| ChunkedError::Malformed)?;
                let value: HeaderValue = value.trim().parse().map_err(|_| ChunkedError::Malformed)?;
                if self.found.len() >= 32 {
                    return Err(ChunkedError::Malformed);
                }
                if name.as_str() == "x-amz-trailer-signature" {
                    self.trailer_signature = value.to_str().ok().map(str::to_owned);
                    return Ok(ChunkedBodyState::Trailer);
                }

                self.signed_trailers.push_str(name.as_str());
                self.signed_trailers.push(':');
                self.signed_trailers.push_str(value.to_str().map_err(|_| ChunkedError::Malformed)?);
                self.signed_trailers.push('\n');
                self.found.append(name, value);
                Ok(ChunkedBodyState::Trailer)
            }
            ChunkedBodyState::DataEnd | ChunkedBodyState::Data(_) | ChunkedBodyState::Done => {
                Err(ChunkedError::Malformed)
            }
        }
    }

    fn awaits_signature(&self) -> bool {
        self.signatures.is_some() && !self.found.is_empty() && self.trailer_signature.is_none()
    }

    fn end_chunk(&mut self, next: ChunkedBodyState) -> Result<ChunkedBodyState, ChunkedError> {
        if let Some(signatures) = &mut self.signatures {
            signatures.finish_chunk()?;
        }
        Ok(next)
    }

    /// Fails if the body must not end here.
    fn finish(&mut self) -> Result<(), ChunkedError> {
        // Some clients omit the empty line after the last chunk.
        let ended =
            matches!(self.state, ChunkedBodyState::Done | ChunkedBodyState::Trailer) && self.line.is_empty();
        if !ended || self.remaining != 0 {
            return Err(ChunkedError::Incomplete);
        }

        let is_signed = |signatures: &&mut ChunkSignatures| signatures.has_trailers || !self.found.is_empty();
        if let Some(signatures) = self.signatures.as_mut().filter(is_signed) {
            let announced = self.trailer_signature.take().ok_or(ChunkedError::Signature)?;
            signatures.finish_trailers(&self.signed_trailers, announced)?;
        }
        self.trailers.set(mem::take(&mut self.found));
        Ok(())
    }
}

impl Stream for ChunkedBody {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        loop {
            match self.step() {
                Ok(Some(data)) => match self.held.replace(data) {
                    Some(before) => return Poll::Ready(Some(Ok(before))),
                    None => continue,
                },
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(self.fail(error)))),
            }
            match ready!(Pin::new(&mut self.body).poll_next(cx)) {
                Some(Ok(bytes)) => self.pending = bytes,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    return Poll::Ready(match self.finish() {
                        Ok(()) => {
                            self.ended = true;
                            self.held.take().map(Ok)
                        }
                        Err(error) => Some(Err(self.fail(error))),
                    });
                }
            }
        }
    }
}

impl ChunkedBody {
    /// Ends the body with an error; no further bytes are produced.
    fn fail(&mut self, error: ChunkedError) -> StdError {
        self.ended = true;
        self.held = None;
        error.into()
    }
}

impl ByteStream for ChunkedBody {
    fn remaining_length(&self) -> RemainingLength {
        let held = self.held.as_ref().map_or(0, |bytes| bytes.len() as u64);
        RemainingLength::new_exact(usize::try_from(self.remaining + held).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, TryStreamExt, stream};

    use super::*;

    /// Decodes `text`, which arrives `step` bytes at a time.
    async fn decode(text: &str, length: u64, step: usize) -> Result<(String, HeaderMap), String> {
        let pieces: Vec<_> = text.as_bytes().chunks(step).map(Bytes::copy_from_slice).collect();
        let pieces = stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
        let trailers = Trailers::default();
        let body = Body::from(s3s::stream::DynByteStream::from(s3s::dto::StreamingBlob::wrap(pieces)));
        let decoded: Result<Vec<Bytes>, _> =
            ChunkedBody::new(body, length, trailers.clone(), None).boxed().try_collect().await;
        let decoded = decoded.map_err(|error| error.to_string())?.concat();
        Ok((String::from_utf8(decoded).unwrap(), trailers.take().unwrap()))
    }

    #[tokio::test]
    async fn chunks_are_joined_and_trailers_found_wherever_the_pieces_are_cut() {
        let text = "3;chunk-signature=ab\r\nhel\r\n2\r\nlo\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
        for step in 1..text.len() {
            let (data, trailers) = decode(text, 5, step).await.unwrap();
            assert_eq!(data, "hello");
            assert_eq!(trailers["x-amz-checksum-crc32"], "NhCmhg==");
        }
    }

    #[tokio::test]
    async fn a_body_may_be_empty_and_may_lack_its_last_line() {
        assert_eq!(decode("0\r\n\r\n", 0, 1).await.unwrap().0, "");
        assert_eq!(decode("1\r\na\r\n0\r\n", 1, 1).await.unwrap().0, "a");
    }

    #[tokio::test]
    async fn a_trailer_may_end_with_a_line_feed_alone() {
        let text = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\n\r\n\r\n";
        for step in [1, 7, 100] {
            let (data, trailers) = decode(text, 5, step).await.unwrap();
            assert_eq!((data.as_str(), trailers.len()), ("hello", 1));
        }
    }

    #[tokio::test]
    async fn a_body_of_another_length_than_announced_is_incomplete() {
        for (text, length) in
            [("1\r\na\r\n0\r\n\r\n", 2), ("1\r\na\r\n0\r\n\r\n", 0), ("5\r\nab", 5), ("", 0)]
        {
            assert_eq!(
                decode(text, length, 3).await.unwrap_err(),
                ChunkedError::Incomplete.to_string(),
                "{text:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_frame_that_cannot_be_read_is_malformed() {
        let long = format!("{}\r\n", "1".repeat(MAX_LINE));
        for text in ["x\r\n", "+1\r\na\r\n", "1\nab", "1\r\nabc\r\n", "0\r\nno colon\r\n\r\n", &long] {
            assert_eq!(
                decode(text, 5, 7).await.unwrap_err(),
                ChunkedError::Malformed.to_string(),
                "{text:?}"
            );
        }
    }
}
