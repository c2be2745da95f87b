//! Bytes on their way to an origin: checked, held within bounds, and never left half done.
//!
//! Up to [`WHOLE`] bytes are held and put at once, so that nothing appears at the origin before they are known to be
//! right. More are sent in parts while they arrive, and joined only after the check.

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
use stylobate_storage::ReadThrough;
use tokio::task::JoinSet;

use super::{
    checksum::Verifier,
    error,
    held::{Held, MIB, UploadMemory},
};

/// Bytes that are put in one request.
const WHOLE: u64 = 32 * MIB;

/// Bytes of each part of what is larger.
const PART: u64 = 16 * MIB;

/// Parts on their way to the origin at once.
const PARTS_IN_FLIGHT: usize = 4;

/// The largest object that one PUT may bring, as in S3.
const MAX_PUT: u64 = 5 * 1024 * MIB;

/// The bytes that a request brings.
pub(super) struct Incoming {
    body: BoxStream<'static, S3Result<Bytes>>,
    length: Option<u64>,
    received: u64,
    ended: bool,
    verifier: Verifier,
}

impl Incoming {
    /// The body of a request, of as many bytes as it announces.
    pub(super) fn of_request(
        body: Option<StreamingBlob>,
        length: Option<i64>,
        verifier: Verifier,
    ) -> S3Result<Self> {
        let length = length
            .map(u64::try_from)
            .transpose()
            .map_err(|_| s3_error!(InvalidArgument, "content-length"))?;
        let body = match body {
            Some(body) => body.map_err(|failed| error::from_body(&*failed)).boxed(),
            None => futures::stream::empty().boxed(),
        };
        Ok(Self { body, length, received: 0, ended: false, verifier })
    }

    /// The bytes of an object that is copied.
    pub(super) fn of_object(object: GetResult) -> Self {
        let length = Some(object.range.end - object.range.start);
        let body = object.into_stream().map_err(error::from_store).boxed();
        Self { body, length, received: 0, ended: false, verifier: Verifier::default() }
    }

    /// How many bytes there will be, where that is known.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    async fn next(&mut self) -> S3Result<Option<Bytes>> {
        let Some(bytes) = self.body.try_next().await? else {
            self.ended = true;
            return match self.length {
                Some(length) if length != self.received => Err(error::incomplete_body()),
                _ => Ok(None),
            };
        };
        self.received += bytes.len() as u64;
        if self.received > self.length.unwrap_or(MAX_PUT) {
            return Err(match self.length {
                Some(_) => error::incomplete_body(),
                None => too_large(),
            });
        }
        self.verifier.update(&bytes);
        Ok(Some(bytes))
    }

    /// Holds bytes until all are there, or more than `limit`.
    async fn gather(&mut self, limit: u64) -> S3Result<Held> {
        let mut held = Held::default();
        while held.len() <= limit {
            match self.next().await? {
                Some(bytes) => held.push(bytes),
                None => break,
            }
        }
        Ok(held)
    }

    /// All bytes, which must not be more than `limit`, once they are known to be right.
    pub(super) async fn whole(mut self, limit: u64) -> S3Result<(PutPayload, Checksum)> {
        let mut held = self.gather(limit).await?;
        if !self.ended {
            return Err(too_large());
        }
        let checksum = self.verifier.finish()?;
        Ok((held.take(u64::MAX), checksum))
    }
}

fn too_large() -> s3s::S3Error {
    s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size")
}

/// What was stored.
pub(super) struct Stored {
    pub(super) result: PutResult,
    pub(super) checksum: Checksum,
}

/// Writes an object through to the origin, once its bytes are known to be right.
pub(super) async fn store(
    memory: &UploadMemory,
    reader: &ReadThrough,
    path: &Path,
    mut incoming: Incoming,
    options: PutOptions,
) -> S3Result<Stored> {
    let small = incoming.length.is_some_and(|length| length <= WHOLE);
    if incoming.length.is_some_and(|length| length > MAX_PUT) {
        return Err(too_large());
    }
    let conditional = options.mode != PutMode::Overwrite;
    if conditional && incoming.length.is_some_and(|length| length > WHOLE) {
        return Err(large_and_conditional());
    }
    let needed = if small { incoming.length.unwrap_or(WHOLE) } else { WHOLE + PARTS_IN_FLIGHT as u64 * PART };
    let _memory = memory.take(needed).await?;
    let mut held = incoming.gather(WHOLE).await?;
    if !incoming.ended {
        if conditional {
            return Err(large_and_conditional());
        }
        return store_in_parts(reader, path, incoming, held, options).await;
    }
    let checksum = incoming.verifier.finish()?;
    let (reader, path, payload) = (reader.clone(), path.clone(), held.take(u64::MAX));
    let result = to_its_end(async move { reader.put_opts(&path, payload, options).await }).await?;
    Ok(Stored { result, checksum })
}

/// Carries out what changes an origin even if the client goes away meanwhile: a write that was given up on may have
/// been carried out all the same, and what is cached must be dropped after it in any case.
pub(super) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = object_store::Result<T>> + Send + 'static,
) -> S3Result<T> {
    match tokio::spawn(work).await {
        Ok(outcome) => outcome.map_err(error::from_store),
        Err(failed) => {
            error::log(&failed);
            Err(s3_error!(InternalError))
        }
    }
}

async fn store_in_parts(
    reader: &ReadThrough,
    path: &Path,
    mut incoming: Incoming,
    mut held: Held,
    options: PutOptions,
) -> S3Result<Stored> {
    let options = PutMultipartOptions::from(options.attributes);
    let upload = reader.put_multipart_opts(path, options).await.map_err(error::from_store)?;
    let mut upload = Unfinished(Some(upload));
    let mut parts = JoinSet::new();
    loop {
        while held.len() >= PART || (incoming.ended && held.len() > 0) {
            if parts.len() >= PARTS_IN_FLIGHT {
                one_done(&mut parts).await?;
            }
            parts.spawn(upload.get()?.put_part(held.take(PART)));
        }
        if incoming.ended {
            break;
        }
        if let Some(bytes) = incoming.next().await? {
            held.push(bytes);
        }
    }
    while !parts.is_empty() {
        one_done(&mut parts).await?;
    }
    let checksum = incoming.verifier.finish()?;
    let result = to_its_end(upload.complete()).await?;
    Ok(Stored { result, checksum })
}

async fn one_done(parts: &mut JoinSet<object_store::Result<()>>) -> S3Result<()> {
    match parts.join_next().await {
        Some(Ok(outcome)) => outcome.map_err(error::from_store),
        Some(Err(_)) => Err(s3_error!(InternalError)),
        None => Ok(()),
    }
}

fn large_and_conditional() -> s3s::S3Error {
    s3_error!(NotImplemented, "conditional writes of more than 32 MiB are not supported")
}

/// An upload that is aborted at the origin if it is dropped before it is complete.
struct Unfinished(Option<Box<dyn MultipartUpload>>);

impl Unfinished {
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

impl Drop for Unfinished {
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
