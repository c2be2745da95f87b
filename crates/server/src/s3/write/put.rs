//! PutObject.

use std::sync::Arc;

use object_store::{PutMode, PutOptions, UpdateVersion, path::Path};
use s3s::{
    S3Request, S3Response, S3Result,
    dto::{Checksum, ETag, ETagCondition, PutObjectInput, PutObjectOutput},
    s3_error,
};
use stylobate_storage::ReadThrough;

use super::{
    checksum::{BodyVerifier, ClaimedChecksums},
    headers::{descriptive_headers, folder_only_headers, refuse_acl, refuse_unsupported},
    ingest::{self, UploadBody},
    payload::AnnouncedTrailers,
};
use crate::s3::{
    door::S3Backend,
    read::{conditions::ReadConditions, open as read},
    wire::{error, etag, keys::CheckedKey},
};

/// ETag of an empty object: the MD5 of an empty string.
const EMPTY: &str = "d41d8cd98f00b204e9800998ecf8427e";

pub(crate) async fn put_object(
    door: &S3Backend,
    mut request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let claims = claims(&mut request);
    let input = request.input;
    let bucket = door.writable(&input.bucket)?;
    let is_folder = bucket.reader.origin().folder().is_some();

    refuse_acl(input.acl.as_ref())?;
    read::refuse_customer_key(input.sse_customer_algorithm.as_deref())?;
    refuse_unsupported!(
        input,
        is_folder: is_folder,
        is_tagged: input.tagging.is_some(),
        also: ("x-amz-write-offset-bytes", input.write_offset_bytes.is_some())
    )?;

    let checksum = Checksum {
        checksum_crc32: input.checksum_crc32,
        checksum_crc32c: input.checksum_crc32c,
        checksum_crc64nvme: input.checksum_crc64nvme,
        checksum_sha1: input.checksum_sha1,
        checksum_sha256: input.checksum_sha256,
        ..Default::default()
    };

    let verifier = BodyVerifier::new(ClaimedChecksums { md5: input.content_md5, checksum, ..claims })?;
    let mut incoming = UploadBody::from_request(input.body, input.content_length, verifier)?;

    let path = match CheckedKey::at(bucket.reader.origin(), &input.key).map_err(|_| error::refused_key())? {
        CheckedKey::Object(path) => path,
        CheckedKey::Folder => return mark_folder(incoming).await,
    };
    let described = descriptive_headers!(input);

    let reader = &bucket.reader;
    let mode = mode(reader, &path, input.if_match, input.if_none_match).await?;
    let mut options = PutOptions { mode, attributes: described.into_attributes(), ..PutOptions::default() };
    if is_folder {
        let kept = folder_only_headers!(input).to_kept()?;
        incoming = incoming.with_kept_headers(&kept);
        options.extensions.insert(kept);
    }

    let stored = ingest::store(&door.memory, reader, &path, incoming, options).await?;

    let etag = match stored.result.e_tag {
        Some(raw) => Some(etag::from_origin(&raw)),
        None => current_etag(reader, &path).await?,
    };
    Ok(answer(etag, stored.checksum))
}

fn answer(etag: Option<ETag>, checksum: Checksum) -> S3Response<PutObjectOutput> {
    S3Response::new(PutObjectOutput {
        e_tag: etag,
        checksum_crc32: checksum.checksum_crc32,
        checksum_crc32c: checksum.checksum_crc32c,
        checksum_crc64nvme: checksum.checksum_crc64nvme,
        checksum_sha1: checksum.checksum_sha1,
        checksum_sha256: checksum.checksum_sha256,
        ..Default::default()
    })
}

/// Returns the origin's current ETag of the object.
pub(crate) async fn current_etag(reader: &ReadThrough, path: &Path) -> S3Result<Option<ETag>> {
    let result = read::look(reader, path, &ReadConditions::default()).await?.result;
    Ok(result.meta.e_tag.as_deref().map(etag::from_origin))
}

/// Returns the path of a key to write.
pub(crate) fn writable_path(reader: &ReadThrough, key: &str) -> S3Result<Path> {
    match CheckedKey::at(reader.origin(), key) {
        Ok(CheckedKey::Object(path)) => Ok(path),
        Ok(CheckedKey::Folder) | Err(_) => Err(error::refused_key()),
    }
}

/// Accepts the empty object with which some clients mark a folder. The marker is discarded: a folder exists once it
/// has an object.
async fn mark_folder(incoming: UploadBody) -> S3Result<S3Response<PutObjectOutput>> {
    let refused = || s3_error!(InvalidArgument, "key: an object whose key ends in '/' can hold no bytes");
    if incoming.length().is_some_and(|length| length > 0) {
        return Err(refused());
    }

    let (payload, checksum) = incoming.into_verified_payload(1 << 10).await?;
    match payload.content_length() {
        0 => Ok(answer(Some(ETag::Strong(EMPTY.to_owned())), checksum)),
        _ => Err(refused()),
    }
}

/// Returns the put mode for the write conditions.
pub(crate) async fn mode(
    reader: &ReadThrough,
    path: &Path,
    if_match: Option<ETagCondition>,
    if_none_match: Option<ETagCondition>,
) -> S3Result<PutMode> {
    match (if_match, if_none_match) {
        (None, None) => Ok(PutMode::Overwrite),
        (None, Some(ETagCondition::Any)) => Ok(PutMode::Create),
        (Some(ETagCondition::Any), None) if reader.origin().folder().is_some() => {
            read::look(reader, path, &ReadConditions::default()).await?;
            Ok(PutMode::Update(UpdateVersion { e_tag: None, version: None }))
        }
        (Some(ETagCondition::ETag(tag)), None) => {
            let if_match = Some(ETagCondition::ETag(tag));
            let known =
                read::look(reader, path, &ReadConditions { if_match, ..Default::default() }).await?.result;
            // The version in the origin's own format, which the origin compares again when it writes.
            let version = known.meta.version.filter(|_| reader.origin().folder().is_none());
            Ok(PutMode::Update(UpdateVersion { e_tag: known.meta.e_tag, version }))
        }
        _ => Err(s3_error!(NotImplemented, "writes know If-None-Match: * and If-Match with one ETag")),
    }
}

/// Returns the checksums that the request head claims for its body, except those in the input.
pub(crate) fn claims<T>(request: &mut S3Request<T>) -> ClaimedChecksums {
    let announced = request.extensions.remove::<Arc<AnnouncedTrailers>>();

    let (trailer_names, trailers) = match announced {
        Some(announced) => (Some(announced.names.join(",")), Some(announced.found.clone())),
        None => (None, None),
    };

    ClaimedChecksums { trailer_names, trailers, ..ClaimedChecksums::default() }
}
