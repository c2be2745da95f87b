//! Blocks on the wire: the body of an answer to a read, in signed frames.
//!
//! ```text
//! frame   signature (32 bytes) │ length u32 │ checksum u64 │ bytes          little-endian
//! ```
//!
//! A frame without bytes ends the answer early, and its checksum is the status that tells why. The signature is of the
//! length, the checksum and the number of the frame, so frames cannot be left out, repeated or put in another order. The
//! reader of the blocks verifies the checksum, which detects damage. It does not detect an attacker who modifies the
//! traffic: that takes TLS.

use std::convert::Infallible;

use axum::body::{Body, BodyDataStream};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use http::StatusCode;
use stylobate_storage::{PeerBlock, PeerBlocks, PeerError};

use super::{
    peer_status::{error_of, status_of},
    signature::{PeerKey, RequestSignature},
};

const SIGNATURE_BYTES: usize = blake3::OUT_LEN;
/// Bytes of the length and the checksum.
const HEAD_BYTES: usize = 12;
/// Maximum bytes of a block: more than the blocks of the largest pages have.
const MAX_BLOCK: usize = 16 << 20;

/// Returns the body of an answer to a request: a frame for each block.
pub(crate) fn frames(
    key: PeerKey,
    request: RequestSignature,
    blocks: PeerBlocks,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let framed = blocks.enumerate().map(move |(number, block)| {
        let (checksum, bytes) = match block {
            Ok(PeerBlock { bytes, checksum }) => (checksum, bytes),
            Err(error) => (u64::from(status_of(&error).as_u16()), Bytes::new()),
        };
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut head = [0; HEAD_BYTES];
        let mut rest = head.as_mut_slice();
        rest.put_u32_le(length);
        rest.put_u64_le(checksum);

        let signature = key.frame(request, number as u64, &head);
        let mut begin = BytesMut::with_capacity(SIGNATURE_BYTES + HEAD_BYTES);
        begin.extend_from_slice(signature.as_bytes());
        begin.extend_from_slice(&head);
        [begin.freeze(), bytes]
    });

    let pieces = framed.flat_map(stream::iter);
    pieces.filter(|piece| std::future::ready(!piece.is_empty())).map(Ok)
}

/// Reads the frames of an answer.
pub(super) struct FrameReader {
    key: PeerKey,
    request: RequestSignature,
    body: BodyDataStream,
    /// Number of the next frame.
    number: u64,
    /// Bytes that were received and not used yet.
    rest: Bytes,
}

impl FrameReader {
    pub(super) fn new(key: PeerKey, request: RequestSignature, body: Body) -> Self {
        Self { key, request, body: body.into_data_stream(), number: 0, rest: Bytes::new() }
    }

    /// Returns the blocks; nothing follows an error.
    pub(super) fn blocks(self) -> PeerBlocks {
        let blocks = stream::try_unfold(self, |mut reader| async move {
            Ok::<_, PeerError>(reader.next().await?.map(|block| (block, reader)))
        });
        blocks.boxed()
    }

    async fn next(&mut self) -> Result<Option<PeerBlock>, PeerError> {
        if self.rest.is_empty() {
            match self.chunk().await? {
                Some(chunk) => self.rest = chunk,
                None => return Ok(None),
            }
        }

        let signature = self.take(SIGNATURE_BYTES).await?;
        let head = self.take(HEAD_BYTES).await?;
        let mut fields = head.clone();
        let length = fields.get_u32_le() as usize;
        let checksum = fields.get_u64_le();
        if length > MAX_BLOCK {
            return Err(failed("a block of its answer is too long"));
        }

        let expected = self.key.frame(self.request, self.number, &head);
        if !blake3::Hash::from_slice(&signature).is_ok_and(|signature| signature == expected) {
            return Err(failed("a block of its answer is not signed with the secret of this cluster"));
        }
        self.number += 1;

        let bytes = self.take(length).await?;
        if bytes.is_empty() {
            let status = u16::try_from(checksum).ok().and_then(|status| StatusCode::from_u16(status).ok());
            return Err(error_of(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)));
        }
        Ok(Some(PeerBlock { bytes, checksum }))
    }

    /// Takes exactly `len` bytes. They are copied only if several chunks have them.
    async fn take(&mut self, len: usize) -> Result<Bytes, PeerError> {
        if self.rest.len() >= len {
            return Ok(self.rest.split_to(len));
        }

        let mut taken = BytesMut::with_capacity(len);
        loop {
            let part = self.rest.split_to(self.rest.len().min(len - taken.len()));
            taken.extend_from_slice(&part);
            if taken.len() == len {
                return Ok(taken.freeze());
            }
            self.rest = self.chunk().await?.ok_or_else(|| failed("the answer broke off"))?;
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, PeerError> {
        loop {
            match self.body.next().await {
                Some(Ok(chunk)) if chunk.is_empty() => {}
                Some(Ok(chunk)) => return Ok(Some(chunk)),
                Some(Err(error)) => return Err(failed(&format!("the answer broke off: {error}"))),
                None => return Ok(None),
            }
        }
    }
}

fn failed(reason: &str) -> PeerError {
    PeerError::Failed { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::config::Secret;

    fn key() -> PeerKey {
        PeerKey::new(&Secret::new("a"))
    }

    fn request(path: &str) -> RequestSignature {
        let now = std::time::SystemTime::UNIX_EPOCH;
        key().sign_request(&mut HeaderMap::new(), "POST", path, b"", now)
    }

    fn block(byte: u8, len: usize) -> PeerBlock {
        PeerBlock { bytes: vec![byte; len].into(), checksum: u64::from(byte) }
    }

    async fn sent(blocks: Vec<Result<PeerBlock, PeerError>>) -> Vec<u8> {
        let pieces: Vec<_> = frames(key(), request("/1"), stream::iter(blocks).boxed()).collect().await;
        pieces.into_iter().flat_map(|piece| piece.unwrap().to_vec()).collect()
    }

    async fn received(path: &str, bytes: &[u8], chunk: usize) -> Vec<Result<PeerBlock, PeerError>> {
        let chunks: Vec<_> =
            bytes.chunks(chunk).map(|chunk| Ok::<_, Infallible>(Bytes::copy_from_slice(chunk))).collect();
        let body = Body::from_stream(stream::iter(chunks));
        FrameReader::new(key(), request(path), body).blocks().collect().await
    }

    #[tokio::test]
    async fn blocks_arrive_as_they_were_sent_in_chunks_of_any_size() {
        let blocks = vec![Ok(block(1, 100)), Ok(block(2, 1)), Ok(block(3, 70_000))];
        let bytes = sent(blocks.clone()).await;
        for chunk in [1, 7, 44, 145, 100_000] {
            assert_eq!(received("/1", &bytes, chunk).await, blocks);
        }
        assert_eq!(received("/1", &[], 1).await, []);
    }

    #[tokio::test]
    async fn an_error_after_some_blocks_arrives() {
        for error in [PeerError::Changed, PeerError::Declined, PeerError::NotFound] {
            let blocks = vec![Ok(block(1, 10)), Err(error)];
            assert_eq!(received("/1", &sent(blocks.clone()).await, 9).await, blocks);
        }
    }

    #[tokio::test]
    async fn a_changed_head_and_a_missing_or_repeated_frame_are_found() {
        let bytes = sent(vec![Ok(block(1, 10)), Ok(block(2, 10))]).await;
        let frame = bytes.len() / 2;
        for at in 0..SIGNATURE_BYTES + HEAD_BYTES {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(received("/1", &wrong, 1_000).await[0].is_err(), "byte {at}");
        }

        for wrong in [&bytes[frame..], &bytes[..frame - 1], &[&bytes[..frame], &bytes[..frame]].concat()] {
            assert!(received("/1", wrong, 1_000).await.last().unwrap().is_err());
        }
        assert!(received("/2", &bytes, 1_000).await[0].is_err(), "the answer to another request");
    }
}
