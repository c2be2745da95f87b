//! Multipart uploads as in S3: parts arrive in any order, over several connections, each identified by its number.
//!
//! Native uploads of the origin are used if it has them. Otherwise parts are staged as objects in a folder that no
//! listing shows, and joined on completion. Parts are also staged if the object is to have attributes (which the
//! object_store crate cannot pass on with parts in any order), and if uploads may hold so little memory that a part
//! of common size exceeds it: a staged part can be sent piece by piece, a native one cannot.

pub(super) mod staging;

use std::{collections::HashMap, fmt};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::{
    Attributes, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions,
    PutPayload, PutResult,
    multipart::{MultipartStore, PartId},
    path::Path,
};

use crate::{
    Error, KeptHeaders, ReadThrough, Result, UploadMode,
    folder::{BESIDE, STAGING},
    object::attribute_record,
    upload::staging::{StagedUpload, UnfinishedUpload, UploadMarker, UploadedPart},
};

/// Size of the parts of the joined object; all but the last have this size, as every provider accepts.
const JOINED_PART_BYTES: u64 = 16 << 20;

/// Maximum parts of a joined object: one less than GCS and S3 accept.
const MAX_JOINED_PARTS: u64 = 9_999;

/// Unit of the size of larger parts of a joined object.
const JOINED_PART_UNIT: u64 = 1 << 20;

/// Suffix of the ETag of a part whose store gave it an unquoted content id, such as the id of a block in Azure.
///
/// Clients return every ETag in quotes, which belong to the content id in some stores only. The suffix also keeps
/// clients from taking a block id, 32 hexadecimal digits, for the MD5 of the part.
const UNQUOTED_SUFFIX: &str = "-block";

/// Maximum size of parts that common clients send.
const MAX_COMMON_PART_BYTES: u64 = 96 << 20;

/// Returns whether the key is reserved by the store, for parts of unfinished uploads or for the records of a folder:
/// clients must not name it.
pub fn is_reserved_key(key: &str) -> bool {
    let is_below =
        |folder: &str| key.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    is_below(STAGING) || is_below(BESIDE)
}

/// A parsed upload id: its kind, followed by the origin's id or our own.
enum ParsedUploadId<'a> {
    Native(&'a str),
    Staged(StagedUpload),
}

impl<'a> ParsedUploadId<'a> {
    fn parse(path: &Path, id: &'a str) -> Result<Self> {
        let upload = match id.split_once('.') {
            Some(("n", native)) => Some(Self::Native(native)),
            Some(("s", id)) => StagedUpload::of(id).map(Self::Staged),
            _ => None,
        };
        upload.ok_or_else(|| no_such_upload(path))
    }
}

impl ReadThrough {
    /// Begins an upload and returns its id; parts can be sent immediately. Only a folder stores `kept`.
    ///
    /// # Errors
    ///
    /// If the origin fails.
    #[boxed]
    pub async fn create_upload(
        &self,
        path: &Path,
        attributes: Attributes,
        kept: KeptHeaders,
    ) -> Result<String> {
        let failed = |error| Error::from_write(path.as_ref(), error);
        self.collect_abandoned_uploads();
        let lacks_memory = self.max_upload_bytes().is_some_and(|max| max < MAX_COMMON_PART_BYTES);
        let stage = !attributes.is_empty() || lacks_memory;

        if let Some(native) = self.origin().native().filter(|_| !stage) {
            let id = native.multipart.create_multipart(&self.origin().locate(path)).await.map_err(failed)?;
            return Ok(format!("n.{id}"));
        }

        let id = format!("{:032x}", rand::random::<u128>());
        let staged = StagedUpload::of(&id).ok_or_else(|| no_such_upload(path))?;
        let marker = UploadMarker {
            path: path.to_string(),
            attributes: attribute_record::to_record(&attributes),
            kept: kept.to_record(),
        };
        self.mark_upload(&staged, &marker).await?;
        Ok(format!("s.{id}"))
    }

    /// Returns the maximum bytes that one upload may hold; `None` if uploads are not limited.
    fn max_upload_bytes(&self) -> Option<u64> {
        self.cache().largest_upload().map(|max| max.as_u64())
    }

    /// Sends a part, numbered from 1, and returns its ETag. Sending a part again replaces the earlier one.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchUpload`] if no staged upload of `path` has this id; the origin's error if it fails, or does not
    /// know a native upload.
    #[boxed]
    pub async fn upload_part(
        &self,
        path: &Path,
        upload: &str,
        number: u32,
        (data, kept): (PutPayload, KeptHeaders),
    ) -> Result<String> {
        let failed = |error| Error::from_origin(path.as_ref(), error);
        match ParsedUploadId::parse(path, upload)? {
            ParsedUploadId::Native(id) => {
                let native = self.origin().native().ok_or_else(|| no_such_upload(path))?;
                let path = self.origin().locate(path);
                put_native_part(native.multipart.as_ref(), &path, id, number, data).await.map_err(failed)
            }
            ParsedUploadId::Staged(staged) => {
                self.staged_marker(path, &staged).await?;
                let options = PutOptions { extensions: kept.into_extensions(), ..PutOptions::default() };
                let put = self.origin().store().put_opts(&staged.part(number), data, options).await;
                Ok(put.map_err(failed)?.e_tag.unwrap_or_default())
            }
        }
    }

    /// Begins to send a part piece by piece; it exists once the result is complete. `None` if the upload is native:
    /// its parts must be sent whole.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchUpload`] if no staged upload of `path` has this id; the origin's error if it fails, or does not
    /// know a native upload.
    #[boxed]
    pub async fn begin_part(
        &self,
        path: &Path,
        upload: &str,
        number: u32,
        kept: KeptHeaders,
    ) -> Result<Option<Box<dyn MultipartUpload>>> {
        let ParsedUploadId::Staged(staged) = ParsedUploadId::parse(path, upload)? else { return Ok(None) };
        self.staged_marker(path, &staged).await?;
        let options =
            PutMultipartOptions { extensions: kept.into_extensions(), ..PutMultipartOptions::default() };
        let part = self.origin().store().put_multipart_opts(&staged.part(number), options).await;
        part.map(Some).map_err(|error| Error::from_origin(path.as_ref(), error))
    }

    /// Returns the parts that were sent, ordered by number. `None` if only the origin knows them.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchUpload`] if no staged upload of `path` has this id; the origin's error if it fails.
    #[boxed]
    pub async fn list_parts(&self, path: &Path, upload: &str) -> Result<Option<Vec<UploadedPart>>> {
        let ParsedUploadId::Staged(staged) = ParsedUploadId::parse(path, upload)? else { return Ok(None) };
        self.staged_marker(path, &staged).await?;
        self.staged_parts(path, &staged).await.map(Some)
    }

    /// Returns the unfinished uploads, ordered by object path. `None` if only the origin knows them.
    ///
    /// # Errors
    ///
    /// If the origin fails.
    #[boxed]
    pub async fn list_uploads(&self) -> Result<Option<Vec<UnfinishedUpload>>> {
        match self.origin().native() {
            Some(_) => Ok(None),
            None => self.staged_uploads().await.map(Some),
        }
    }

    /// Returns the memory that [`complete_upload`](Self::complete_upload) needs to join the parts, in bytes: one part
    /// of the joined object.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchUpload`] if the id is malformed; the origin's error if it fails.
    #[boxed]
    pub async fn completion_memory_bytes(
        &self,
        path: &Path,
        upload: &str,
        parts: &[(u32, String)],
    ) -> Result<u64> {
        let ParsedUploadId::Staged(staged) = ParsedUploadId::parse(path, upload)? else { return Ok(0) };
        // The size of the object does not matter there.
        if self.origin().is_folder() {
            return Ok(self.joined_part_bytes(0));
        }

        let uploaded = self.staged_parts(path, &staged).await?;
        let is_joined =
            |part: &UploadedPart| parts.binary_search_by_key(&part.number, |(number, _)| *number).is_ok();
        let total = uploaded.iter().filter(|part| is_joined(part)).map(|part| part.size).sum();
        Ok(self.joined_part_bytes(total))
    }

    /// Returns the size of the parts of a joined object of `total` bytes.
    fn joined_part_bytes(&self, total: u64) -> u64 {
        let share = self.cache().upload_share();
        let usual = share.map_or(JOINED_PART_BYTES, |share| share.as_u64().min(JOINED_PART_BYTES));
        // A folder accepts any number of parts.
        if self.origin().is_folder() { usual } else { joined_part_bytes(usual, total) }
    }

    /// Joins the parts, given by number and ETag in ascending order, into the object.
    ///
    /// `completion` is ignored for native uploads.
    ///
    /// # Errors
    ///
    /// - [`Error::NoSuchUpload`]: no staged upload of `path` has this id.
    /// - [`Error::InvalidUpload`]: `parts` is empty, not in ascending order, or names a part that is missing or has
    ///   another ETag; or the numbers of a native upload have gaps.
    /// - [`Error::PartTooSmall`]: a part but the last is smaller than `completion.min_part_size`.
    /// - [`Error::WrongChecksum`]: `completion.check` failed.
    /// - [`Error::Precondition`]: the existing object does not match `completion.mode`.
    /// - [`Error::ImpossiblePath`]: the origin cannot hold the object.
    /// - The origin's error if it fails, or does not know a native upload.
    #[boxed]
    pub async fn complete_upload(
        &self,
        path: &Path,
        upload: &str,
        parts: &[(u32, String)],
        completion: Completion,
    ) -> Result<PutResult> {
        if parts.is_empty() || !parts.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(invalid(path, "parts must be given in ascending order, at least one"));
        }

        let written = self.invalidate_after(path);
        let completed = self.complete_parts(path, upload, parts, completion).await;
        written.finish().await;
        completed
    }

    async fn complete_parts(
        &self,
        path: &Path,
        upload: &str,
        parts: &[(u32, String)],
        completion: Completion,
    ) -> Result<PutResult> {
        let failed = |error| Error::from_write(path.as_ref(), error);
        match ParsedUploadId::parse(path, upload)? {
            ParsedUploadId::Native(id) => {
                let native = self.origin().native().ok_or_else(|| no_such_upload(path))?;
                // Origins whose uploads have no id join any list of blocks. The others need numbers, and the
                // object_store crate numbers parts consecutively from 1.
                let counted = !id.is_empty();
                if counted && parts.iter().zip(1..).any(|((number, _), expected)| *number != expected) {
                    return Err(invalid(path, "parts must be numbered 1, 2, 3, ... without gaps"));
                }
                let path = self.origin().locate(path);
                complete_native(native.multipart.as_ref(), &path, id, parts).await.map_err(failed)
            }
            ParsedUploadId::Staged(staged) => {
                let marker = self.staged_marker(path, &staged).await?;
                // Refresh the marker, so that the upload does not count as abandoned while its parts are joined.
                self.mark_upload(&staged, &marker).await?;
                let total = self.check_parts(path, &staged, parts, completion.min_part_size).await?;
                let part_bytes = self.joined_part_bytes(total);

                let kept = KeptHeaders::of_record(&marker.kept);
                kept.extend(&completion.kept);
                let mut options = PutMultipartOptions::from(attribute_record::from_record(marker.attributes));
                options.extensions = kept.into_extensions();
                options.extensions.insert(UploadMode(completion.mode));
                let joined = self.origin().store().put_multipart_opts(path, options).await.map_err(failed)?;
                let result = self.join(path, &staged, parts, part_bytes, (joined, completion.check)).await?;
                if let Err(error) = self.remove_staged(path, &staged).await {
                    tracing::warn!(%path, %error, "failed to remove the parts of a completed upload");
                }

                Ok(result)
            }
        }
    }

    /// Aborts the upload and drops its parts.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchUpload`] if no staged upload of `path` has this id; the origin's error if it fails, or does not
    /// know a native upload.
    #[boxed]
    pub async fn abort_upload(&self, path: &Path, upload: &str) -> Result<()> {
        match ParsedUploadId::parse(path, upload)? {
            ParsedUploadId::Native(id) => {
                let native = self.origin().native().ok_or_else(|| no_such_upload(path))?;
                let aborted =
                    native.multipart.abort_multipart(&self.origin().locate(path), &id.to_owned()).await;
                aborted.map_err(|error| Error::from_origin(path.as_ref(), error))
            }
            ParsedUploadId::Staged(staged) => {
                self.staged_marker(path, &staged).await?;
                self.remove_staged(path, &staged).await
            }
        }
    }

    /// Returns the total size of the parts. Fails if a part is missing, or if any part but the last has fewer than
    /// `min_size` bytes.
    async fn check_parts(
        &self,
        path: &Path,
        staged: &StagedUpload,
        parts: &[(u32, String)],
        min_size: u64,
    ) -> Result<u64> {
        let uploaded: HashMap<u32, UploadedPart> =
            self.staged_parts(path, staged).await?.into_iter().map(|part| (part.number, part)).collect();
        let mut too_small = None;
        let mut total = 0;
        for (index, (number, etag)) in parts.iter().enumerate() {
            let part = uploaded.get(number).ok_or_else(|| invalid_part(path, *number))?;
            if part.e_tag.as_deref().is_some_and(|real| unquoted(real) != unquoted(etag)) {
                return Err(invalid_part(path, *number));
            }
            total += part.size;
            if part.size < min_size && index + 1 < parts.len() {
                too_small.get_or_insert(part);
            }
        }

        match too_small {
            Some(UploadedPart { number, size, .. }) => {
                let path = path.to_string();
                Err(Error::PartTooSmall { path, number: *number, size: *size, min_size })
            }
            None => Ok(total),
        }
    }

    /// Streams the staged parts into `joined`, in parts of `part_bytes`; aborts it if any part fails.
    async fn join(
        &self,
        path: &Path,
        staged: &StagedUpload,
        parts: &[(u32, String)],
        part_bytes: u64,
        (mut joined, mut check): (Box<dyn MultipartUpload>, Option<Box<dyn JoinCheck>>),
    ) -> Result<PutResult> {
        let outcome = self.join_parts(path, staged, parts, part_bytes, (&mut joined, &mut check)).await;
        if outcome.is_err()
            && let Err(error) = joined.abort().await
        {
            tracing::warn!(%path, %error, "failed to abort the upload at the origin");
        }
        outcome
    }

    async fn join_parts(
        &self,
        path: &Path,
        staged: &StagedUpload,
        parts: &[(u32, String)],
        part_bytes: u64,
        (joined, check): (&mut Box<dyn MultipartUpload>, &mut Option<Box<dyn JoinCheck>>),
    ) -> Result<PutResult> {
        let failed = |error| Error::from_write(path.as_ref(), error);
        let part_bytes = part_bytes as usize;

        let mut pending: Vec<Bytes> = Vec::new();
        let mut pending_len = 0;
        for (number, etag) in parts {
            let part =
                self.origin().store().get(&staged.part(*number)).await.map_err(|error| match error {
                    object_store::Error::NotFound { .. } => invalid_part(path, *number),
                    other => failed(other),
                })?;
            if part.meta.e_tag.as_deref().is_some_and(|real| unquoted(real) != unquoted(etag)) {
                return Err(invalid_part(path, *number));
            }

            let mut stream = part.into_stream();
            while let Some(mut bytes) = stream.try_next().await.map_err(failed)? {
                if let Some(check) = check {
                    check.update(&bytes);
                }
                while pending_len + bytes.len() >= part_bytes {
                    pending.push(bytes.split_to(part_bytes - pending_len));
                    let full = PutPayload::from_iter(std::mem::take(&mut pending));
                    joined.put_part(full).await.map_err(failed)?;
                    pending_len = 0;
                }
                pending_len += bytes.len();
                pending.push(bytes);
            }
        }

        if pending_len > 0 {
            joined.put_part(PutPayload::from_iter(pending)).await.map_err(failed)?;
        }

        if let Some(check) = check {
            check.finish().map_err(|JoinMismatchError { reason }| Error::WrongChecksum {
                path: path.to_string(),
                reason,
            })?;
        }
        joined.complete().await.map_err(failed)
    }
}

/// Options of the completion of an upload.
#[derive(Default)]
pub struct Completion {
    /// Condition on the existing object; only a folder checks it.
    pub mode: PutMode,
    /// Headers that a folder stores with the object.
    pub kept: KeptHeaders,
    /// Minimum size of each part but the last.
    pub min_part_size: u64,
    /// A check of the joined bytes before the object becomes visible.
    pub check: Option<Box<dyn JoinCheck>>,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("mode", &self.mode).finish_non_exhaustive()
    }
}

/// A check of the bytes of all parts while they are joined.
pub trait JoinCheck: Send {
    /// Adds the next bytes.
    fn update(&mut self, bytes: &[u8]);

    /// Checks the joined bytes.
    ///
    /// # Errors
    ///
    /// [`JoinMismatchError`] if they are not the bytes that the client described.
    fn finish(&mut self) -> std::result::Result<(), JoinMismatchError>;
}

/// A mismatch that a [`JoinCheck`] found. Upload the parts again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct JoinMismatchError {
    /// The mismatch, for the client.
    pub reason: String,
}

/// Sends a part of an upload of the origin, and returns its ETag.
async fn put_native_part(
    store: &dyn MultipartStore,
    path: &Path,
    id: &str,
    number: u32,
    data: PutPayload,
) -> object_store::Result<String> {
    let index = number.saturating_sub(1) as usize;
    let part = store.put_part(path, &id.to_owned(), index, data).await?;
    Ok(etag_of_part(part))
}

/// Completes an upload of the origin from parts given by number and ETag.
async fn complete_native(
    store: &dyn MultipartStore,
    path: &Path,
    id: &str,
    parts: &[(u32, String)],
) -> object_store::Result<PutResult> {
    let parts = parts.iter().map(|(_, etag)| part_of_etag(etag)).collect();
    store.complete_multipart(path, &id.to_owned(), parts).await
}

/// Returns the ETag of a part for the client; [`part_of_etag`] returns the part again.
fn etag_of_part(PartId { content_id }: PartId) -> String {
    if content_id.ends_with('"') { content_id } else { format!("{content_id}{UNQUOTED_SUFFIX}") }
}

/// Returns the part with this ETag. Its content id is exactly as the store gave it.
fn part_of_etag(etag: &str) -> PartId {
    let content_id = unquoted(etag).strip_suffix(UNQUOTED_SUFFIX).unwrap_or(etag);
    PartId { content_id: content_id.to_owned() }
}

/// Returns the size of the parts of a joined object of `total` bytes: the usual size, unless they would be too many.
fn joined_part_bytes(usual: u64, total: u64) -> u64 {
    let min = total.div_ceil(MAX_JOINED_PARTS);
    if min <= usual { usual } else { min.next_multiple_of(JOINED_PART_UNIT) }
}

fn unquoted(etag: &str) -> &str {
    etag.trim_matches('"')
}

fn no_such_upload(path: &Path) -> Error {
    Error::NoSuchUpload { path: path.to_string() }
}

fn invalid_part(path: &Path, number: u32) -> Error {
    invalid(path, &format!("part {number} was not uploaded, or has another ETag"))
}

fn invalid(path: &Path, reason: &str) -> Error {
    Error::InvalidUpload { path: path.to_string(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use object_store::MultipartId;
    use parking_lot::Mutex;

    use super::*;

    /// A store that names parts by `content_id`, and records the names that it gave and those that it joined.
    struct RecordingStore {
        content_id: fn(usize) -> String,
        given: Mutex<Vec<String>>,
        joined: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl MultipartStore for RecordingStore {
        async fn create_multipart(&self, _: &Path) -> object_store::Result<MultipartId> {
            Ok(String::new())
        }

        async fn put_part(
            &self,
            _: &Path,
            _: &MultipartId,
            part_idx: usize,
            _: PutPayload,
        ) -> object_store::Result<PartId> {
            let content_id = (self.content_id)(part_idx);
            self.given.lock().push(content_id.clone());
            Ok(PartId { content_id })
        }

        async fn complete_multipart(
            &self,
            _: &Path,
            _: &MultipartId,
            parts: Vec<PartId>,
        ) -> object_store::Result<PutResult> {
            self.joined.lock().extend(parts.into_iter().map(|part| part.content_id));
            Ok(PutResult { e_tag: None, version: None })
        }

        async fn abort_multipart(&self, _: &Path, _: &MultipartId) -> object_store::Result<()> {
            Ok(())
        }
    }

    /// The block list of a completion in Azure had the ids in quotes, so no upload was ever completed there. In GCS,
    /// the quotes belong to the ids.
    #[tokio::test]
    async fn parts_are_joined_by_the_ids_that_the_store_gave_them() {
        let formats: [fn(usize) -> String; 3] =
            [|n| format!("{n:032x}"), |n| format!("\"{n:032x}\""), |n| format!("W/\"{n}\"")];
        for content_id in formats {
            let store = RecordingStore { content_id, given: Mutex::default(), joined: Mutex::default() };
            let path = Path::from("a");
            let id = store.create_multipart(&path).await.unwrap();

            let mut parts = Vec::new();
            for number in 1..=3 {
                let etag = put_native_part(&store, &path, &id, number, "x".into()).await.unwrap();
                // Clients return every ETag in quotes.
                let returned = if etag.ends_with('"') { etag } else { format!("\"{etag}\"") };
                parts.push((number, returned));
            }
            complete_native(&store, &path, &id, &parts).await.unwrap();

            assert_eq!(*store.joined.lock(), *store.given.lock());
            assert_eq!(store.joined.lock().len(), 3);
        }
    }

    #[test]
    fn a_joined_object_never_has_more_parts_than_clouds_accept() {
        let usual: u64 = 5 << 20;
        for total in [0, 1, usual, usual * MAX_JOINED_PARTS] {
            assert_eq!(joined_part_bytes(usual, total), usual, "{total}");
        }
        for total in [usual * MAX_JOINED_PARTS + 1, 1 << 40, 5 << 40, u64::MAX >> 20] {
            let part_bytes = joined_part_bytes(usual, total);
            assert!(
                part_bytes > usual && part_bytes.is_multiple_of(JOINED_PART_UNIT),
                "{total}: {part_bytes}"
            );
            assert!(total.div_ceil(part_bytes) <= MAX_JOINED_PARTS, "{total}: {part_bytes}");
            assert!((part_bytes - JOINED_PART_UNIT) * MAX_JOINED_PARTS < total, "{total}: {part_bytes}");
        }
    }
}
