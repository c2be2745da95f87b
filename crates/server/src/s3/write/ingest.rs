//! Writes bytes to an origin: verified, within memory limits, and all or nothing.
//!
//! Up to [`MAX_WHOLE_PUT_BYTES`] are buffered and put in one request, so that nothing appears at the origin before the
//! bytes are verified. A larger object is uploaded in parts while it arrives, and the parts are joined only after the
//! verification. If uploads have little memory, parts are smaller and fewer are in flight.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{
    GetResult, MultipartUpload, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    path::Path,
};
use s3s::{
    S3Result,
    dto::{Checksum, StreamingBlob},
    s3_error,
};
use stylobate_storage::{ByteSize, KeptHeaders, ReadThrough, UploadMode, traced};
use tokio::task::JoinSet;

use super::checksum::BodyVerifier;
use crate::s3::{
    upload::{
        kept::{FULL_OBJECT, keep_checksums, keep_etag},
        upload_buffer::{MIB, MIN_PART, PartBuffer, UploadMemory, UploadPermit},
    },
    wire::error,
};

/// Maximum bytes put in one request.
const MAX_WHOLE_PUT_BYTES: u64 = 32 * MIB;

/// Maximum bytes of each part of a larger object.
const MAX_PART_BYTES: u64 = 16 * MIB;

/// Maximum parts in flight while the next one arrives.
const MAX_PARTS_IN_FLIGHT: u64 = 4;

/// Maximum time that a client may stall in the middle of a body, since other uploads wait for its memory.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of an object in one PUT, as in S3.
const MAX_PUT_BYTES: u64 = 5 * 1024 * MIB;

/// Bytes to upload.
pub(crate) struct UploadBody {
    body: BoxStream<'static, S3Result<Bytes>>,
    length: Option<u64>,
    received: u64,
    ended: bool,
    verifier: BodyVerifier,
    /// Receives the ETag and the checksums, if the origin is a folder.
    kept: Option<KeptHeaders>,
    idle_timeout: Duration,
}

impl UploadBody {
    /// Creates the upload from the body of a request, with its announced length.
    pub(crate) fn from_request(
        body: Option<StreamingBlob>,
        length: Option<i64>,
        verifier: BodyVerifier,
    ) -> S3Result<Self> {
        let length = length
            .map(u64::try_from)
            .transpose()
            .map_err(|_| s3_error!(InvalidArgument, "content-length"))?;
        let body = match body {
            Some(body) => body.map_err(|failed| error::from_body(&*failed)).boxed(),
            None => futures::stream::empty().boxed(),
        };
        Ok(Self { body, length, received: 0, ended: false, verifier, kept: None, idle_timeout: IDLE_TIMEOUT })
    }

    /// Creates the upload from an object that is copied.
    pub(crate) fn from_object(object: GetResult) -> Self {
        let length = Some(object.range.end - object.range.start);
        let body = object.into_stream().map_err(error::from_store).boxed();
        let verifier = BodyVerifier::default();
        // The origin's own read timeout applies.
        Self { body, length, received: 0, ended: false, verifier, kept: None, idle_timeout: Duration::MAX }
    }

    /// Keeps the MD5 of the bytes as the object's ETag, and their checksums.
    pub(crate) fn with_kept_headers(mut self, kept: &KeptHeaders) -> Self {
        self.verifier.want_md5();
        self.kept = Some(kept.clone());
        self
    }

    /// Verifies the bytes, and returns their checksums.
    fn verify(&mut self) -> S3Result<Checksum> {
        let verified = std::mem::take(&mut self.verifier).finish()?;
        if let (Some(kept), Some(md5)) = (&self.kept, verified.md5) {
            keep_etag(kept, &hex::encode(md5));
            keep_checksums(kept, &verified.checksum, FULL_OBJECT);
        }
        Ok(verified.checksum)
    }

    /// Returns the total number of bytes, if known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    async fn next(&mut self) -> S3Result<Option<Bytes>> {
        let next = tokio::time::timeout(self.idle_timeout, self.body.try_next()).await;
        let Some(bytes) = next.map_err(|_| error::request_timeout())?? else {
            self.ended = true;
            return match self.length {
                Some(length) if length != self.received => Err(error::incomplete_body()),
                _ => Ok(None),
            };
        };

        self.received += bytes.len() as u64;
        if self.received > self.length.unwrap_or(MAX_PUT_BYTES) {
            return Err(match self.length {
                Some(_) => error::incomplete_body(),
                None => too_large(),
            });
        }
        self.verifier.update(&bytes);

        Ok(Some(bytes))
    }

    /// Buffers bytes until all have arrived, or more than `limit` have.
    async fn buffer_until(&mut self, limit: u64) -> S3Result<PartBuffer> {
        let mut buffered = PartBuffer::default();
        while buffered.len() <= limit {
            match self.next().await? {
                Some(bytes) => buffered.push(bytes),
                None => break,
            }
        }
        Ok(buffered)
    }

    /// Returns all bytes, at most `limit`, once they have been verified.
    pub(crate) async fn into_verified_payload(mut self, limit: u64) -> S3Result<(PutPayload, Checksum)> {
        let mut buffered = self.buffer_until(limit).await?;
        if !self.ended {
            return Err(too_large());
        }
        let checksum = self.verify()?;
        Ok((buffered.take(u64::MAX), checksum))
    }
}

fn too_large() -> s3s::S3Error {
    s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size")
}

/// Buffer and part sizes of an upload.
#[derive(Clone, Copy, Debug)]
struct PartSizing {
    /// Bytes that are buffered before the upload is split into parts.
    buffer_bytes: u64,
    /// Bytes of each part but the last.
    part_bytes: u64,
    /// Parts in flight while the next one arrives.
    parts_in_flight: usize,
    /// Maximum bytes held in memory.
    memory_bytes: u64,
}

impl PartSizing {
    /// Returns the sizes for an upload that may hold `share` bytes.
    fn within(share: u64) -> Self {
        let memory_bytes = share.clamp(MIN_PART, MAX_WHOLE_PUT_BYTES + MAX_PARTS_IN_FLIGHT * MAX_PART_BYTES);
        let buffer_bytes = memory_bytes.min(MAX_WHOLE_PUT_BYTES);
        let part_bytes = (memory_bytes / 4).clamp(MIN_PART, MAX_PART_BYTES);
        let parts_in_flight = (memory_bytes / part_bytes - 1).min(MAX_PARTS_IN_FLIGHT) as usize;
        Self { buffer_bytes, part_bytes, parts_in_flight, memory_bytes }
    }
}

/// A stored object.
pub(crate) struct StoredObject {
    pub(crate) result: PutResult,
    pub(crate) checksum: Checksum,
}

/// Writes an object to the origin once its bytes have been verified.
pub(crate) async fn store(
    memory: &UploadMemory,
    reader: &ReadThrough,
    path: &Path,
    mut incoming: UploadBody,
    options: PutOptions,
) -> S3Result<StoredObject> {
    if incoming.length.is_some_and(|length| length > MAX_PUT_BYTES) {
        return Err(too_large());
    }
    let limit = memory.max_upload_bytes().min(MAX_WHOLE_PUT_BYTES);
    // A folder checks the condition when it renames the object into place, regardless of its size.
    let conditional = options.mode != PutMode::Overwrite && reader.origin().folder().is_none();
    if conditional && incoming.length.is_some_and(|length| length > limit) {
        return Err(large_and_conditional(limit));
    }

    let sizing = PartSizing::within(memory.share());
    let small = incoming.length.filter(|length| *length <= limit);
    let permit = memory.take(small.unwrap_or(sizing.memory_bytes)).await?;
    let buffered = incoming.buffer_until(small.unwrap_or(sizing.buffer_bytes)).await?;
    if !incoming.ended {
        if conditional {
            return Err(large_and_conditional(sizing.buffer_bytes));
        }
        let PutOptions { mode, tags, attributes, mut extensions } = options;
        extensions.insert(UploadMode(mode));
        let options = PutMultipartOptions { tags, attributes, extensions };
        let upload = reader.put_multipart_opts(path, options).await.map_err(error::from_write)?;
        return send_in_parts(upload, incoming, buffered, sizing).await;
    }

    put_whole(reader, path, incoming, (buffered, permit), options).await
}

/// Puts the bytes in one request, and holds their memory until the origin has answered: the request goes on if the
/// client disconnects.
async fn put_whole(
    reader: &ReadThrough,
    path: &Path,
    mut incoming: UploadBody,
    (mut buffered, permit): (PartBuffer, UploadPermit),
    options: PutOptions,
) -> S3Result<StoredObject> {
    let checksum = incoming.verify()?;
    let reader = reader.clone();
    let path = path.clone();
    let payload = buffered.take(u64::MAX);
    let put = async move {
        let outcome = reader.put_opts(&path, payload, options).await;
        drop(permit);
        outcome
    };

    let result = run_detached(put).await?;
    Ok(StoredObject { result, checksum })
}

/// Uploads a part once its bytes have been verified. Returns the origin's ETag.
pub(crate) async fn store_part(
    memory: &UploadMemory,
    reader: &ReadThrough,
    (path, upload, number): (&Path, &str, u32),
    incoming: UploadBody,
) -> S3Result<(String, Checksum)> {
    let kept = KeptHeaders::default();
    let incoming =
        if reader.origin().folder().is_some() { incoming.with_kept_headers(&kept) } else { incoming };
    let Some(length) = incoming.length else {
        return Err(s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."));
    };
    if length > MAX_PUT_BYTES {
        return Err(too_large());
    }

    if length > memory.share() {
        let sizing = PartSizing::within(memory.share());
        let memory = memory.take(sizing.memory_bytes).await?;
        let part = reader.begin_part(path, upload, number, kept.clone()).await;
        if let Some(part) = part.map_err(|failed| error::from_storage(&failed))? {
            let stored = send_in_parts(part, incoming, PartBuffer::default(), sizing).await?;
            return Ok((stored.result.e_tag.unwrap_or_default(), stored.checksum));
        }
        drop(memory);
    }

    if length > memory.max_upload_bytes() {
        return Err(large_part(memory.max_upload_bytes()));
    }
    let _memory = memory.take(length).await?;
    let (payload, checksum) = incoming.into_verified_payload(length).await?;
    let uploaded = reader.upload_part(path, upload, number, (payload, kept)).await;
    Ok((uploaded.map_err(|failed| error::from_storage(&failed))?, checksum))
}

/// Completes a change at an origin even if the client disconnects. An abandoned write may still have been carried
/// out, so the cache must be invalidated after it in any case.
pub(crate) async fn run_detached<T: Send + 'static>(
    work: impl Future<Output = object_store::Result<T>> + Send + 'static,
) -> S3Result<T> {
    match tokio::spawn(traced(work)).await {
        Ok(outcome) => outcome.map_err(error::from_write),
        Err(failed) => {
            error::log(&failed);
            Err(s3_error!(InternalError))
        }
    }
}

async fn send_in_parts(
    upload: Box<dyn MultipartUpload>,
    mut incoming: UploadBody,
    mut buffered: PartBuffer,
    sizing: PartSizing,
) -> S3Result<StoredObject> {
    let mut upload = AbortOnDrop(Some(upload));
    let mut parts = JoinSet::new();
    loop {
        while buffered.len() >= sizing.part_bytes || (incoming.ended && buffered.len() > 0) {
            parts.spawn(traced(upload.get()?.put_part(buffered.take(sizing.part_bytes))));
            while parts.len() > sizing.parts_in_flight {
                join_one_part(&mut parts).await?;
            }
        }

        if incoming.ended {
            break;
        }
        if let Some(bytes) = incoming.next().await? {
            buffered.push(bytes);
        }
    }

    while !parts.is_empty() {
        join_one_part(&mut parts).await?;
    }
    let checksum = incoming.verify()?;
    let result = run_detached(upload.complete()).await?;
    Ok(StoredObject { result, checksum })
}

async fn join_one_part(parts: &mut JoinSet<object_store::Result<()>>) -> S3Result<()> {
    match parts.join_next().await {
        Some(Ok(outcome)) => outcome.map_err(error::from_write),
        Some(Err(failed)) => {
            error::log(&failed);
            Err(s3_error!(InternalError))
        }
        None => Ok(()),
    }
}

fn large_and_conditional(limit: u64) -> s3s::S3Error {
    let limit = ByteSize::bytes(limit);
    s3_error!(NotImplemented, "conditional writes of more than {limit} are not supported")
}

fn large_part(limit: u64) -> s3s::S3Error {
    let limit = ByteSize::bytes(limit);
    s3_error!(
        EntityTooLarge,
        "a part may have {limit} at most: send smaller parts, or give the node more memory"
    )
}

/// An upload that is aborted at the origin if it is dropped before it is complete.
struct AbortOnDrop(Option<Box<dyn MultipartUpload>>);

impl AbortOnDrop {
    fn get(&mut self) -> S3Result<&mut Box<dyn MultipartUpload>> {
        self.0.as_mut().ok_or_else(|| s3_error!(InternalError))
    }

    async fn complete(mut self) -> object_store::Result<PutResult> {
        let Some(mut upload) = self.0.take() else {
            return Err(object_store::Error::Generic {
                store: "Stylobate",
                source: "no upload to complete".into(),
            });
        };

        let outcome = upload.complete().await;
        if outcome.is_err() {
            self.0 = Some(upload);
        }
        outcome
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        let Some(mut upload) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(failed) = upload.abort().await {
                error::log(&failed);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::{
        ObjectStoreExt,
        memory::InMemory,
        throttle::{ThrottleConfig, ThrottledStore},
    };
    use stylobate_storage::{CacheOptions, ConsistencyRules, Holder, Origin, PageCache, ReadOptions};

    use super::*;

    #[test]
    fn part_sizes_never_exceed_the_memory() {
        for share in [0, 1, 5, 6, 8, 10, 16, 20, 24, 40, 64, 80, 96, 512].map(|mib| mib * MIB) {
            let sizing = PartSizing::within(share);
            assert!(sizing.memory_bytes <= share.max(MIN_PART), "{sizing:?}");
            assert!(sizing.buffer_bytes <= sizing.memory_bytes, "{sizing:?}");
            assert!(sizing.part_bytes >= MIN_PART, "{sizing:?}");

            let parts = sizing.parts_in_flight as u64 + 1;
            assert!(parts * sizing.part_bytes <= sizing.memory_bytes, "{sizing:?}");
        }
        assert_eq!(PartSizing::within(512 * MIB).parts_in_flight, 4);
    }

    #[tokio::test]
    async fn a_stalled_body_times_out() {
        let body = futures::stream::iter([Ok(Bytes::from_static(b"a"))]).chain(futures::stream::pending());
        let mut incoming = UploadBody::from_request(None, Some(2), BodyVerifier::default()).unwrap();
        (incoming.body, incoming.idle_timeout) = (body.boxed(), Duration::from_millis(10));
        let failed = incoming.into_verified_payload(2).await.err().unwrap();
        assert_eq!(failed.code().as_str(), "RequestTimeout");
    }

    #[tokio::test(start_paused = true)]
    async fn a_put_whose_client_left_holds_its_memory_until_the_origin_has_answered() {
        let objects = Arc::new(InMemory::new());
        let wait_put_per_call = Duration::from_secs(1);
        let config = ThrottleConfig { wait_put_per_call, ..ThrottleConfig::default() };
        let origin = Origin::new("test", Arc::new(ThrottledStore::new(objects.clone(), config)));
        let cache = PageCache::open(CacheOptions::new(ByteSize::mib(64)).with_uploads()).await.unwrap();
        let budget = cache.budget().clone();
        let memory = UploadMemory::beside(&cache);
        let reader = ReadThrough::new(origin, cache, ConsistencyRules::default(), ReadOptions::default());

        let path = Path::from("a");
        let length = Some(MIB as i64);
        let mut incoming = UploadBody::from_request(None, length, BodyVerifier::default()).unwrap();
        incoming.body = futures::stream::iter([Ok(Bytes::from(vec![7_u8; MIB as usize]))]).boxed();
        let mut put = Box::pin(store(&memory, &reader, &path, incoming, PutOptions::default()));
        assert!(futures::poll!(put.as_mut()).is_pending());
        drop(put);

        // The clock stands still as long as a task is ready, so the origin is still waiting.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(budget.held_by(Holder::Uploads), MIB);
        assert!(objects.head(&path).await.is_err());

        tokio::time::sleep(wait_put_per_call * 2).await;
        assert_eq!(objects.head(&path).await.unwrap().size, MIB);
        assert_eq!(budget.held_by(Holder::Uploads), 0);
    }
}
