//! Entry points for fuzzing outside this crate: parsers of the data that peers send on page connections.

use std::{io, time::SystemTime};

use bytes::{Buf, Bytes};
use futures::{Stream, stream};
use http::HeaderMap;
use stylobate_storage::PeerError;
use tokio::io::sink;
use tokio_util::io::StreamReader;

use super::{
    page_requests::PageRequests,
    run_frames::{FrameSource, RunReader},
    signature::{PeerKey, RequestSignature},
};
use crate::config::Secret;

/// The part of an answer that could be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedAnswer {
    /// Bytes and checksums of each run.
    pub runs: Vec<(Vec<u8>, Vec<u64>)>,
    /// The error that ended the answer, if any.
    pub error: Option<PeerError>,
    /// True if the answer was read to its end.
    pub is_complete: bool,
}

/// Reads an answer to a request for `len` bytes, which arrives `step` bytes at a time.
pub async fn receive_answer(bytes: &[u8], len: u64, step: usize) -> ReceivedAnswer {
    let source = FrameSource::new(StreamReader::new(arriving(bytes, step)));
    let mut reader = RunReader::new(key(), signature(), source, len);
    let mut runs = Vec::new();
    let error = loop {
        match reader.next().await {
            Ok(Some(run)) => runs.push((run.bytes.to_vec(), run.checksums.to_vec())),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    ReceivedAnswer { runs, error, is_complete: reader.is_complete() }
}

/// Writes valid signatures into the frames of an answer, up to the first frame that is cut off.
pub fn sign_answer(bytes: &mut [u8]) {
    let mut rest = bytes;
    for number in 0.. {
        let Some((signed, after)) = rest.split_at_mut_checked(blake3::OUT_LEN) else { return };
        let mut fixed: &[u8] = after;
        let length = fixed.try_get_u32_le().unwrap_or_default() as usize;
        let count = fixed.try_get_u32_le().unwrap_or_default() as usize;
        let head = if length == 0 { 8 } else { 8 + 8 * count };
        let Some((head, after)) = after.split_at_mut_checked(head) else { return };
        signed.copy_from_slice(key().frame(signature(), number, head).as_bytes());
        let Some((_, after)) = after.split_at_mut_checked(length) else { return };
        rest = after;
    }
}

/// Decodes requests that arrive `step` bytes at a time, and returns their contents up to the first invalid one.
pub async fn receive_requests(bytes: &[u8], step: usize) -> Vec<Vec<u8>> {
    let stream = tokio::io::join(StreamReader::new(arriving(bytes, step)), sink());
    let mut requests = PageRequests::new(stream, key(), signature());
    let mut contents = Vec::new();
    while let Ok(request) = requests.receive().await {
        contents.push(request.content.to_vec());
    }
    contents
}

/// Writes valid signatures into requests, up to the first one that is cut off.
pub fn sign_requests(bytes: &mut [u8]) {
    let mut rest = bytes;
    for number in 0.. {
        let Some((mut length, after)) = rest.split_at_mut_checked(4).map(|(length, after)| (&*length, after))
        else {
            return;
        };
        let length = length.try_get_u32_le().unwrap_or_default() as usize;
        let Some((signed, after)) = after.split_at_mut_checked(blake3::OUT_LEN) else { return };
        let Some((content, after)) = after.split_at_mut_checked(length) else { return };
        signed.copy_from_slice(key().page_request(signature(), number, content).as_bytes());
        rest = after;
    }
}

fn key() -> PeerKey {
    PeerKey::new(&Secret::new("fuzzing"))
}

fn signature() -> RequestSignature {
    key().sign_request(&mut HeaderMap::new(), "GET", "/", b"", SystemTime::UNIX_EPOCH)
}

fn arriving(bytes: &[u8], step: usize) -> impl Stream<Item = io::Result<Bytes>> + Unpin + use<> {
    let pieces: Vec<_> = bytes.chunks(step.max(1)).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    stream::iter(pieces)
}
