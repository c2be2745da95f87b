//! Runs of blocks on the wire: the answer to a read, in signed frames.
//!
//! ```text
//! frame   signature (32 bytes) │ length u32 │ count u32 │ checksum u64 of each of the count blocks │ bytes
//! ```
//!
//! Integers are little-endian. The answer is complete with the last byte of the requested range. A frame without
//! bytes ends it early; its count then holds the status of the error. The signature covers the number of the frame
//! and the fields between the signature and the bytes, so frames cannot be omitted, repeated or reordered. The reader
//! of the blocks verifies their checksums, which detects corruption but not an attacker who modifies the traffic:
//! that requires TLS.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::StatusCode;
use stylobate_storage::{BlockRun, PeerError};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{
    peer_status::error_of,
    signature::{PeerKey, RequestSignature},
};

const SIGNATURE_BYTES: usize = blake3::OUT_LEN;
/// Bytes of the signature, the length and the count.
const FIXED_BYTES: usize = SIGNATURE_BYTES + 8;
const CHECKSUM_BYTES: usize = 8;
/// Maximum blocks of a run: a page has no more.
const MAX_BLOCKS: usize = 64;
/// Maximum bytes of a run: the size of the largest page.
const MAX_RUN: usize = 16 << 20;
/// Minimum size of the read buffer while the length of a run is unknown: no smaller than the longest head. Bytes of
/// the run that are read into it are copied.
const HEAD_BUFFER: usize = 1 << 10;

/// Signs the frames of one answer.
pub(crate) struct RunFrames {
    key: PeerKey,
    request: RequestSignature,
    /// Number of the next frame.
    number: u64,
}

impl RunFrames {
    pub(crate) fn new(key: PeerKey, request: RequestSignature) -> Self {
        Self { key, request, number: 0 }
    }

    /// Encodes the head of the next frame; the bytes of the run follow it.
    pub(crate) fn head(&mut self, run: &BlockRun) -> Bytes {
        let length = u32::try_from(run.bytes.len()).unwrap_or(u32::MAX);
        let count = u32::try_from(run.checksums.len()).unwrap_or(u32::MAX);
        self.signed(length, count, &run.checksums)
    }

    /// Encodes the frame that ends the answer early.
    pub(crate) fn end(&mut self, status: StatusCode) -> Bytes {
        self.signed(0, u32::from(status.as_u16()), &[])
    }

    fn signed(&mut self, length: u32, count: u32, checksums: &[u64]) -> Bytes {
        let mut frame = BytesMut::with_capacity(FIXED_BYTES + CHECKSUM_BYTES * checksums.len());
        frame.put_bytes(0, SIGNATURE_BYTES);
        frame.put_u32_le(length);
        frame.put_u32_le(count);
        checksums.iter().for_each(|checksum| frame.put_u64_le(*checksum));

        if let Some((signature, head)) = frame.split_at_mut_checked(SIGNATURE_BYTES) {
            let signed = self.key.frame(self.request, self.number, head);
            signature.copy_from_slice(signed.as_bytes());
        }
        self.number += 1;
        frame.freeze()
    }
}

/// A stream of frames, with a buffer of received bytes that are not consumed yet.
#[derive(Debug)]
pub(super) struct FrameSource<R> {
    stream: R,
    buffer: BytesMut,
}

impl<R> FrameSource<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// Returns the underlying stream, for writing.
    pub(super) fn stream_mut(&mut self) -> &mut R {
        &mut self.stream
    }

    /// Returns the received bytes that are not consumed yet.
    pub(super) fn received(&self) -> &[u8] {
        &self.buffer
    }

    /// Consumes received bytes.
    pub(super) fn consume(&mut self, len: usize) {
        self.buffer.advance(len);
    }
}

impl<R: AsyncRead + Unpin> FrameSource<R> {
    /// Waits until the buffer holds at least `len` bytes.
    pub(super) async fn fill(&mut self, len: usize) -> io::Result<()> {
        while self.buffer.len() < len {
            let free = HEAD_BUFFER.max(len) - self.buffer.len();
            self.buffer.reserve(free);
            if self.stream.read_buf(&mut (&mut self.buffer).limit(free)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Receives bytes into an allocation of their own.
    async fn bytes(&mut self, len: usize) -> io::Result<Bytes> {
        let mut bytes = BytesMut::with_capacity(len);
        let received = self.buffer.len().min(len);
        bytes.put((&mut self.buffer).take(received));

        while bytes.len() < len {
            let missing = len - bytes.len();
            if self.stream.read_buf(&mut (&mut bytes).limit(missing)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(bytes.freeze())
    }
}

/// Reads the frames of one answer.
#[derive(Debug)]
pub(super) struct RunReader<R> {
    key: PeerKey,
    request: RequestSignature,
    source: FrameSource<R>,
    /// Number of the next frame.
    number: u64,
    /// Bytes of the range that have not arrived yet.
    missing: u64,
    state: AnswerState,
}

/// The progress of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerState {
    /// No byte of the answer has arrived.
    Awaited,
    UnderWay,
    /// The answer was read to its end, so the connection can be reused.
    Complete,
}

impl<R> RunReader<R> {
    /// Creates the reader of the answer to a request for `len` bytes.
    pub(super) fn new(key: PeerKey, request: RequestSignature, source: FrameSource<R>, len: u64) -> Self {
        Self { key, request, source, number: 0, missing: len, state: AnswerState::Awaited }
    }

    /// Returns true until the first byte of the answer arrives.
    pub(super) fn is_awaited(&self) -> bool {
        self.state == AnswerState::Awaited
    }

    /// Returns true if the answer was read to its end.
    pub(super) fn is_complete(&self) -> bool {
        self.state == AnswerState::Complete
    }

    /// Returns the source of the frames.
    pub(super) fn into_source(self) -> FrameSource<R> {
        self.source
    }
}

impl<R: AsyncRead + Unpin> RunReader<R> {
    /// Returns the next run; `None` after the last one. Must not be called again after an error.
    pub(super) async fn next(&mut self) -> Result<Option<BlockRun>, PeerError> {
        if self.is_complete() {
            return Ok(None);
        }

        let filled = self.source.fill(FIXED_BYTES).await;
        if !self.source.received().is_empty() {
            self.state = AnswerState::UnderWay;
        }
        filled.map_err(|error| broken(&error))?;

        let mut fixed = self.source.received().get(SIGNATURE_BYTES..FIXED_BYTES).unwrap_or_default();
        let length = fixed.try_get_u32_le().unwrap_or_default() as usize;
        let count = fixed.try_get_u32_le().unwrap_or_default();
        let blocks = if length == 0 { 0 } else { count as usize };
        if length > MAX_RUN || blocks > MAX_BLOCKS {
            return Err(failed("a part of its answer is too long"));
        }

        let checksums = self.checked_head(FIXED_BYTES + CHECKSUM_BYTES * blocks).await?;
        self.number += 1;
        if length == 0 {
            self.state = AnswerState::Complete;
            let status = u16::try_from(count).ok().and_then(|status| StatusCode::from_u16(status).ok());
            return Err(error_of(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)));
        }

        let Some(missing) = self.missing.checked_sub(length as u64) else {
            return Err(failed("its answer has more bytes than were asked for"));
        };
        let bytes = self.source.bytes(length).await.map_err(|error| broken(&error))?;
        self.missing = missing;
        if missing == 0 {
            self.state = AnswerState::Complete;
        }
        Ok(Some(BlockRun { bytes, checksums }))
    }

    /// Consumes the head of a frame, which is `len` bytes long, verifies its signature, and returns its checksums.
    async fn checked_head(&mut self, len: usize) -> Result<Box<[u64]>, PeerError> {
        self.source.fill(len).await.map_err(|error| broken(&error))?;
        let frame = self.source.received().get(..len).unwrap_or_default();
        let (signature, head) = frame.split_at_checked(SIGNATURE_BYTES).unwrap_or_default();

        // The `==` of hashes takes constant time.
        let expected = self.key.frame(self.request, self.number, head);
        if !blake3::Hash::from_slice(signature).is_ok_and(|signature| signature == expected) {
            return Err(failed("a part of its answer is not signed with the secret of this cluster"));
        }

        let (checksums, _) = head.get(8..).unwrap_or_default().as_chunks();
        let checksums = checksums.iter().map(|checksum| u64::from_le_bytes(*checksum)).collect();
        self.source.consume(len);
        Ok(checksums)
    }
}

fn broken(error: &io::Error) -> PeerError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => failed("the answer broke off"),
        _ => failed(&format!("the answer broke off: {error}")),
    }
}

fn failed(reason: &str) -> PeerError {
    PeerError::Failed { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http::HeaderMap;
    use tokio_util::io::StreamReader;

    use super::*;
    use crate::{cluster::peer_status::status_of, config::Secret};

    fn key() -> PeerKey {
        PeerKey::new(&Secret::new("a"))
    }

    fn request(path: &str) -> RequestSignature {
        let now = std::time::SystemTime::UNIX_EPOCH;
        key().sign_request(&mut HeaderMap::new(), "POST", path, b"", now)
    }

    fn run(byte: u8, len: usize, blocks: u64) -> BlockRun {
        let checksums = (0..blocks).map(|block| u64::from(byte) << 32 | block).collect();
        BlockRun { bytes: vec![byte; len].into(), checksums }
    }

    /// Returns the frames of an answer.
    fn sent(runs: &[Result<BlockRun, PeerError>]) -> Vec<Vec<u8>> {
        let mut frames = RunFrames::new(key(), request("/1"));
        let framed = runs.iter().map(|run| match run {
            Ok(run) => [frames.head(run).as_ref(), &run.bytes].concat(),
            Err(error) => frames.end(status_of(error)).to_vec(),
        });
        framed.collect()
    }

    /// Returns the result of decoding the bytes when they arrive in chunks of this length, for a request of `len`
    /// bytes.
    async fn received(
        path: &str,
        bytes: &[u8],
        chunk: usize,
        len: u64,
    ) -> (Vec<Result<BlockRun, PeerError>>, bool) {
        let chunks = bytes.chunks(chunk).map(|chunk| Ok::<_, io::Error>(Bytes::copy_from_slice(chunk)));
        let source = FrameSource::new(StreamReader::new(stream::iter(chunks.collect::<Vec<_>>())));
        let mut reader = RunReader::new(key(), request(path), source, len);
        let mut runs = Vec::new();
        while let Some(run) = reader.next().await.transpose() {
            let is_over = run.is_err();
            runs.push(run);
            if is_over {
                break;
            }
        }
        (runs, reader.is_complete())
    }

    #[tokio::test]
    async fn runs_arrive_as_they_were_sent_in_chunks_of_any_size() {
        let runs = vec![Ok(run(1, 100, 2)), Ok(run(2, 1, 1)), Ok(run(3, 70_000, 64))];
        let bytes = sent(&runs).concat();
        for chunk in [1, 7, 40, 41, 145, 1_024, 100_000] {
            assert_eq!(received("/1", &bytes, chunk, 70_101).await, (runs.clone(), true), "{chunk}");
        }
    }

    #[tokio::test]
    async fn the_bytes_of_a_run_have_an_allocation_of_their_own() {
        let bytes = sent(&[Ok(run(1, 100, 1)), Ok(run(2, 200, 1))]).concat();
        for chunk in [50, 1_000] {
            let (runs, _) = received("/1", &bytes, chunk, 300).await;
            for (run, len) in runs.into_iter().zip([100, 200]) {
                let bytes = run.unwrap().bytes;
                assert!(bytes.is_unique());
                assert_eq!(Vec::from(bytes).capacity(), len);
            }
        }
    }

    #[tokio::test]
    async fn bytes_after_the_answer_are_left_to_the_next_one() {
        let bytes = sent(&[Ok(run(1, 100, 1))]).concat();
        let twice = [bytes.as_slice(), b"the next answer"].concat();
        let mut reader = RunReader::new(key(), request("/1"), FrameSource::new(twice.as_slice()), 100);
        assert!(reader.is_awaited());
        assert_eq!(reader.next().await, Ok(Some(run(1, 100, 1))));
        assert_eq!((reader.is_complete(), reader.next().await), (true, Ok(None)));
        let mut source = reader.into_source();
        assert_eq!(source.bytes(15).await.unwrap(), "the next answer");
    }

    #[tokio::test]
    async fn an_error_after_some_runs_arrives() {
        for error in [PeerError::Changed, PeerError::Declined, PeerError::NotFound] {
            let runs = vec![Ok(run(1, 10, 1)), Err(error)];
            let bytes = sent(&runs).concat();
            assert_eq!(received("/1", &bytes, 9, 20).await, (runs, true));
        }
    }

    #[tokio::test]
    async fn a_changed_head_is_found() {
        let frames = sent(&[Ok(run(1, 10, 2)), Ok(run(2, 10, 1))]);
        for at in 0..FIXED_BYTES + 2 * CHECKSUM_BYTES {
            let mut wrong = frames.concat();
            wrong[at] ^= 1;
            let (runs, is_complete) = received("/1", &wrong, 1_000, 20).await;
            assert!(runs.len() == 1 && runs[0].is_err() && !is_complete, "byte {at}");
        }
        assert!(
            received("/2", &frames.concat(), 1_000, 20).await.0[0].is_err(),
            "the answer to another request"
        );
    }

    #[tokio::test]
    async fn missing_repeated_and_reordered_frames_are_found() {
        let frames = sent(&[Ok(run(1, 10, 1)), Ok(run(2, 10, 1)), Ok(run(3, 10, 1))]);
        let [a, b, c] = [0, 1, 2].map(|number: usize| frames[number].as_slice());
        for (wrong, right_ones) in [(vec![b, c], 0), (vec![a, c], 1), (vec![a, a, b], 1), (vec![b, a, c], 0)]
        {
            let (runs, is_complete) = received("/1", &wrong.concat(), 1_000, 30).await;
            assert_eq!((runs.len(), is_complete), (right_ones + 1, false));
            assert!(runs[right_ones].is_err());
        }

        let whole = frames.concat();
        for end in 0..whole.len() {
            let (runs, is_complete) = received("/1", &whole[..end], 1_000, 30).await;
            assert!(runs.last().unwrap().is_err() && !is_complete, "{end}");
        }
    }

    #[tokio::test]
    async fn frames_of_more_bytes_or_blocks_than_there_can_be_are_refused() {
        for run in [run(1, 21, 1), run(1, 20, 65)] {
            let (runs, is_complete) = received("/1", &sent(&[Ok(run)]).concat(), 1_000, 20).await;
            assert!(matches!(runs.as_slice(), [Err(PeerError::Failed { .. })]) && !is_complete);
        }

        // The length is verified before any memory is allocated for it.
        let unsigned = [[0; SIGNATURE_BYTES].as_slice(), &u32::MAX.to_le_bytes(), &[1, 0, 0, 0]].concat();
        let (runs, _) = received("/1", &unsigned, 1_000, u64::MAX).await;
        assert_eq!(runs, [Err(failed("a part of its answer is too long"))]);
    }
}
