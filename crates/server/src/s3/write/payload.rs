//! The body of a request, decoded from an aws-chunked frame and verified against the hash in the request head.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING},
};
use s3s::{
    Body, S3Result, StdError,
    dto::Checksum,
    s3_error,
    stream::{ByteStream, DynByteStream, RemainingLength},
};
use sha2::{Digest, Sha256};

use super::checksum::{BodyVerifier, ClaimedChecksums};
use crate::s3::{
    sigv4::to_hex,
    wire::{
        attributes::{names_aws_chunked, without_aws_chunked},
        chunked::{ChunkSignatures, ChunkedBody, PayloadMismatch, Trailers},
        error, header_text,
    },
};

const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
const TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");

/// Keywords that x-amz-content-sha256 may have in place of a hash.
const WORDS: [&str; 4] = [
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    "UNSIGNED-PAYLOAD",
];

/// The body of a request.
pub(crate) struct RequestPayload {
    /// The bytes of the body, without a frame.
    pub(crate) body: Body,
    /// Number of bytes, if the request head announces it.
    pub(crate) length: Option<u64>,
    /// Trailers of an aws-chunked body.
    pub(crate) trailers: Option<AnnouncedTrailers>,
    /// Expected SHA-256 in hexadecimal.
    pub(crate) sha256: Option<String>,
}

/// Trailers and the names that the request head announced.
pub(crate) struct AnnouncedTrailers {
    pub(crate) names: Vec<String>,
    pub(crate) found: Trailers,
}

impl RequestPayload {
    /// Opens the body of a request, and removes the headers that describe its frame.
    pub(crate) fn open(
        headers: &mut HeaderMap,
        body: Body,
        signatures: Option<ChunkSignatures>,
    ) -> S3Result<Self> {
        join_encodings(headers);
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let hash = text(&CONTENT_SHA256).map(str::to_owned);
        let is_streaming = hash.as_deref().is_some_and(|hash| hash.starts_with("STREAMING-"));
        let is_encoded = text(&CONTENT_ENCODING).is_some_and(names_aws_chunked);
        let is_hash = |hash: &str| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit());
        if let Some(hash) = hash.as_deref().filter(|hash| !is_hash(hash) && !WORDS.contains(hash)) {
            return Err(s3_error!(
                InvalidArgument,
                "x-amz-content-sha256: {hash:?} is neither a hash nor a word that is known"
            ));
        }

        if is_encoded && hash.as_deref().is_some_and(is_hash) {
            return Err(s3_error!(
                InvalidRequest,
                "an aws-chunked body needs x-amz-content-sha256: STREAMING-..."
            ));
        }

        if !is_streaming && !is_encoded {
            // If both headers are given, the length is not that of the body.
            if headers.contains_key(TRANSFER_ENCODING) {
                headers.remove(CONTENT_LENGTH);
            }
            let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
            let length = text(&CONTENT_LENGTH).and_then(|length| length.parse().ok());
            return Ok(Self { body, length, trailers: None, sha256: hash.filter(|hash| is_hash(hash)) });
        }

        let length = text(&DECODED_LENGTH).and_then(|length| length.parse::<u64>().ok());
        let length = length
            .ok_or_else(|| s3_error!(MissingContentLength, "missing header: x-amz-decoded-content-length"))?;
        let names = header_text::list(headers, &TRAILER);
        let kept = text(&CONTENT_ENCODING).and_then(without_aws_chunked);
        for name in [&CONTENT_SHA256, &DECODED_LENGTH, &TRAILER, &CONTENT_ENCODING, &TRANSFER_ENCODING] {
            headers.remove(name);
        }
        if let Some(kept) = kept.and_then(|kept| HeaderValue::try_from(kept).ok()) {
            headers.insert(CONTENT_ENCODING, kept);
        }
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));

        let found = Trailers::default();
        let stream: DynByteStream = Box::pin(ChunkedBody::new(body, length, found.clone(), signatures));
        let trailers = Some(AnnouncedTrailers { names, found });
        Ok(Self { body: Body::from(stream), length: Some(length), trailers, sha256: None })
    }

    /// Returns the body as a stream that fails at its end if the hash differs from the expected one.
    pub(crate) fn checked(self) -> Body {
        match self.sha256 {
            Some(expected) => {
                let stream: DynByteStream = Box::pin(HashedBody {
                    body: self.body,
                    expected: expected.to_ascii_lowercase(),
                    hasher: Some(Sha256::new()),
                    length: self.length,
                });
                Body::from(stream)
            }
            None => self.body,
        }
    }

    /// Collects a body of at most `limit` bytes.
    pub(crate) async fn collect(self, limit: usize) -> S3Result<Bytes> {
        let mut body = self.checked();
        let mut collected = bytes::BytesMut::new();
        while let Some(bytes) = body.next().await {
            collected.extend_from_slice(&bytes.map_err(|failed| error::from_body(&*failed))?);
            if collected.len() > limit {
                return Err(s3_error!(
                    MaxMessageLengthExceeded,
                    "Your request was too big: its XML may have {limit} bytes."
                ));
            }
        }

        Ok(collected.freeze())
    }
}

/// Verifies a body against the Content-MD5 and x-amz-checksum-* headers.
pub(crate) fn check_claims(headers: &HeaderMap, body: &[u8]) -> S3Result<()> {
    let text =
        |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let checksum = Checksum {
        checksum_crc32: text("x-amz-checksum-crc32"),
        checksum_crc32c: text("x-amz-checksum-crc32c"),
        checksum_crc64nvme: text("x-amz-checksum-crc64nvme"),
        checksum_sha1: text("x-amz-checksum-sha1"),
        checksum_sha256: text("x-amz-checksum-sha256"),
        ..Checksum::default()
    };

    let mut verifier = BodyVerifier::new(ClaimedChecksums {
        md5: text("content-md5"),
        checksum,
        ..ClaimedChecksums::default()
    })?;
    verifier.update(body);
    verifier.finish().map(drop)
}

/// Joins the encodings that some clients send in separate headers.
fn join_encodings(headers: &mut HeaderMap) {
    let values: Vec<&str> =
        headers.get_all(CONTENT_ENCODING).iter().filter_map(|value| value.to_str().ok()).collect();
    if values.len() > 1
        && let Ok(joined) = HeaderValue::try_from(values.join(","))
    {
        headers.insert(CONTENT_ENCODING, joined);
    }
}

/// A body whose hash is verified at its end.
struct HashedBody {
    body: Body,
    expected: String,
    hasher: Option<Sha256>,
    length: Option<u64>,
}

impl Stream for HashedBody {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(Pin::new(&mut self.body).poll_next(cx));
        match &next {
            Some(Ok(bytes)) => {
                if let Some(hasher) = &mut self.hasher {
                    hasher.update(bytes);
                }
            }
            Some(Err(_)) => self.hasher = None,
            None => {
                let digest = self.hasher.take().map(|hasher| to_hex(hasher.finalize().into()));
                if digest.is_some_and(|digest| digest != self.expected.as_bytes()) {
                    return Poll::Ready(Some(Err(PayloadMismatch.into())));
                }
            }
        }

        Poll::Ready(next)
    }
}

impl ByteStream for HashedBody {
    fn remaining_length(&self) -> RemainingLength {
        match self.length {
            Some(length) => RemainingLength::new_exact(usize::try_from(length).unwrap_or(usize::MAX)),
            None => RemainingLength::unknown(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[tokio::test]
    async fn a_frame_is_taken_off_with_the_headers_that_are_about_it() {
        let mut head = headers(&[
            ("content-encoding", "gzip"),
            ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
            ("x-amz-decoded-content-length", "5"),
            ("x-amz-trailer", "x-amz-checksum-crc32"),
        ]);

        head.append("content-encoding", HeaderValue::from_static("aws-chunked"));
        let body = Body::from("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n".to_owned());
        let payload = RequestPayload::open(&mut head, body, None).unwrap();
        assert_eq!(head, headers(&[("content-encoding", "gzip"), ("content-length", "5")]));
        let trailers = payload.trailers.as_ref().unwrap();
        assert_eq!(trailers.names, ["x-amz-checksum-crc32"]);
        let found = trailers.found.clone();
        assert_eq!(payload.collect(10).await.unwrap(), "hello");
        assert_eq!(found.take().unwrap()["x-amz-checksum-crc32"], "NhCmhg==");
    }

    #[tokio::test]
    async fn a_body_with_another_hash_is_refused() {
        let hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let mut head = headers(&[("x-amz-content-sha256", hash)]);
        let payload = |head: &mut HeaderMap, body: &str| {
            RequestPayload::open(head, Body::from(body.to_owned()), None).unwrap()
        };
        assert_eq!(payload(&mut head, "hello").collect(10).await.unwrap(), "hello");
        let refused = payload(&mut head, "hallo").collect(10).await.unwrap_err();
        assert_eq!(refused.code().as_str(), "XAmzContentSHA256Mismatch");
        assert!(payload(&mut head, "hello").collect(4).await.is_err());
    }
}
