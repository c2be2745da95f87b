//! Entry points for fuzzing outside this crate.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use hmac::KeyInit;
use s3s::{Body, dto::StreamingBlob, stream::DynByteStream};

use super::{
    sigv4::HmacSha256,
    wire::chunked::{ChunkSignatures, ChunkedBody, Trailers},
};

/// The decoded content of an aws-chunked body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedBody {
    /// Bytes of the object.
    pub data: Vec<u8>,
    /// Names and values of the trailers, by name.
    pub trailers: Vec<(String, String)>,
}

/// Decodes an aws-chunked body that contains `length` bytes and arrives `step` bytes at a time; `None` if it is
/// refused. If `is_signed`, its signatures are checked against an arbitrary key.
pub async fn decode_chunked(body: &[u8], length: u64, step: usize, is_signed: bool) -> Option<DecodedBody> {
    let signatures = if is_signed {
        let key = HmacSha256::new_from_slice(b"fuzzing").ok()?;
        let [time, scope, seed] =
            ["20260101T000000Z", "20260101/fuzz/s3/aws4_request", "0"].map(str::to_owned);
        Some(ChunkSignatures::new(key, time, scope, seed, false))
    } else {
        None
    };

    let pieces: Vec<Bytes> = body.chunks(step.max(1)).map(Bytes::copy_from_slice).collect();
    let pieces = stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    let body = Body::from(DynByteStream::from(StreamingBlob::wrap(pieces)));
    let trailers = Trailers::default();
    let decoded = ChunkedBody::new(body, length, trailers.clone(), signatures).boxed();
    let data = decoded.try_collect::<Vec<Bytes>>().await.ok()?.concat();

    let trailers = trailers.take()?;
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let mut trailers: Vec<(String, String)> =
        trailers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect();
    trailers.sort_by(|one, other| one.0.cmp(&other.0));
    Some(DecodedBody { data, trailers })
}
