//! Multipart uploads in S3's manner: parts in any order, from several connections, each named by its number.
//!
//! Where the origin has such uploads itself, they are its own. Elsewhere, and where the object is to have attributes
//! (which the object_store crate cannot hand on with parts that come in any order), parts are staged as objects
//! under a folder that no listing shows, and joined on completion:
//!
//! ```text
//! .stylobate-uploads/<id>/attributes.json    content type, user metadata, ...
//! .stylobate-uploads/<id>/00001              part 1
//! ```

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};
use object_store::{
    Attribute, AttributeValue, Attributes, MultipartUpload, ObjectStore, ObjectStoreExt, PutMultipartOptions,
    PutPayload, PutResult, multipart::PartId, path::Path,
};

use crate::{Error, ReadThrough, Result};

const STAGING: &str = ".stylobate-uploads";
const ATTRIBUTES: &str = "attributes.json";
/// Parts of the joined object; all but the last are of this size, as every provider accepts.
const JOINED_PART: usize = 16 << 20;

/// Whether the key belongs to the store itself, for parts of uploads under way: no client may name it.
pub fn is_reserved_key(key: &str) -> bool {
    key.strip_prefix(STAGING).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// An upload's id: which kind it is, then the origin's id or our own.
enum Upload<'a> {
    Native(&'a str),
    Staged(Path),
}

impl<'a> Upload<'a> {
    fn parse(id: &'a str) -> Option<Self> {
        match id.split_once('.') {
            Some(("n", native)) => Some(Self::Native(native)),
            // Our ids are hexadecimal: nothing else may become part of a path.
            Some(("s", id)) if id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Some(Self::Staged(Path::from(STAGING).join(id)))
            }
            _ => None,
        }
    }
}

fn part_path(staging: &Path, number: u32) -> Path {
    staging.clone().join(format!("{number:05}"))
}

impl ReadThrough {
    /// Begins an upload; its parts can be sent from now on. Returns its id.
    pub async fn create_upload(&self, path: &Path, attributes: Attributes) -> Result<String> {
        let failed = |error| Error::from_origin(path.as_ref(), error);
        let attributes = self.storable(attributes).map_err(failed)?;
        if let Some(native) = self.origin().native().filter(|_| attributes.is_empty()) {
            let id = native.multipart.create_multipart(&self.origin().locate(path)).await.map_err(failed)?;
            return Ok(format!("n.{id}"));
        }
        let id = format!("{:032x}", rand::random::<u128>());
        let kept = Path::from(STAGING).join(id.as_str()).join(ATTRIBUTES);
        let record = Record { path: path.to_string(), attributes: to_record(&attributes) };
        let json = serde_json::to_vec(&record).map_err(|error| invalid(path, &error.to_string()))?;
        self.origin().store().put(&kept, json.into()).await.map_err(failed)?;
        Ok(format!("s.{id}"))
    }

    /// Sends a part, numbered from 1. Returns its ETag. A part sent again replaces the former one.
    pub async fn upload_part(
        &self,
        path: &Path,
        upload: &str,
        number: u32,
        data: PutPayload,
    ) -> Result<String> {
        let failed = |error| Error::from_origin(path.as_ref(), error);
        match Upload::parse(upload) {
            Some(Upload::Native(id)) => {
                let native = self.origin().native().ok_or_else(|| no_such_upload(path))?;
                let (path, index) = (self.origin().locate(path), number.saturating_sub(1) as usize);
                let part = native.multipart.put_part(&path, &id.to_owned(), index, data).await;
                part.map(|part| part.content_id).map_err(failed)
            }
            Some(Upload::Staged(staging)) => {
                self.staged_record(path, &staging).await?;
                let put =
                    self.origin().store().put(&part_path(&staging, number), data).await.map_err(failed)?;
                Ok(put.e_tag.unwrap_or_default())
            }
            None => Err(no_such_upload(path)),
        }
    }

    /// Joins the parts, given by number and ETag in ascending order, into the object.
    pub async fn complete_upload(
        &self,
        path: &Path,
        upload: &str,
        parts: &[(u32, String)],
    ) -> Result<PutResult> {
        let failed = |error| Error::from_origin(path.as_ref(), error);
        if parts.is_empty() || !parts.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(invalid(path, "parts must be given in ascending order, at least one"));
        }
        let _written = self.invalidate_after(path);
        match Upload::parse(upload) {
            Some(Upload::Native(id)) => {
                let native = self.origin().native().ok_or_else(|| no_such_upload(path))?;
                if parts.iter().zip(1..).any(|((number, _), expected)| *number != expected) {
                    return Err(invalid(path, "parts must be numbered 1, 2, 3, ... without gaps"));
                }
                let parts = parts.iter().map(|(_, etag)| PartId { content_id: etag.clone() }).collect();
                let path = self.origin().locate(path);
                native.multipart.complete_multipart(&path, &id.to_owned(), parts).await.map_err(failed)
            }
            Some(Upload::Staged(staging)) => {
                let record = self.staged_record(path, &staging).await?;
                let options = PutMultipartOptions::from(from_record(record.attributes));
                let joined = self.origin().store().put_multipart_opts(path, options).await.map_err(failed)?;
                let result = self.join(path, &staging, parts, joined).await?;
                self.remove_staged(path, &staging).await?;
                Ok(result)
            }
            None => Err(no_such_upload(path)),
        }
    }

    /// Gives the upload up, and drops its parts.
    pub async fn abort_upload(&self, path: &Path, upload: &str) -> Result<()> {
        match Upload::parse(upload) {
            Some(Upload::Native(id)) => {
                let native = self.origin().native().ok_or_else(|| no_such_upload(path))?;
                let aborted =
                    native.multipart.abort_multipart(&self.origin().locate(path), &id.to_owned()).await;
                aborted.map_err(|error| Error::from_origin(path.as_ref(), error))
            }
            Some(Upload::Staged(staging)) => {
                self.staged_record(path, &staging).await?;
                self.remove_staged(path, &staging).await
            }
            None => Err(no_such_upload(path)),
        }
    }

    async fn staged_record(&self, path: &Path, staging: &Path) -> Result<Record> {
        let kept = staging.clone().join(ATTRIBUTES);
        let json = match self.origin().store().get(&kept).await {
            Ok(found) => found.bytes().await,
            Err(error) => Err(error),
        };
        let json = json.map_err(|error| match error {
            object_store::Error::NotFound { .. } => no_such_upload(path),
            other => Error::from_origin(path.as_ref(), other),
        })?;
        let record: Record = serde_json::from_slice(&json).map_err(|_| no_such_upload(path))?;
        if record.path == path.as_ref() { Ok(record) } else { Err(no_such_upload(path)) }
    }

    /// Streams the staged parts into `joined`; aborts it if any of them fails.
    async fn join(
        &self,
        path: &Path,
        staging: &Path,
        parts: &[(u32, String)],
        mut joined: Box<dyn MultipartUpload>,
    ) -> Result<PutResult> {
        let outcome = self.join_parts(path, staging, parts, &mut joined).await;
        if outcome.is_err()
            && let Err(error) = joined.abort().await
        {
            tracing::warn!(%path, %error, "upload not aborted at the origin");
        }
        outcome
    }

    async fn join_parts(
        &self,
        path: &Path,
        staging: &Path,
        parts: &[(u32, String)],
        joined: &mut Box<dyn MultipartUpload>,
    ) -> Result<PutResult> {
        let failed = |error| Error::from_origin(path.as_ref(), error);
        let mut pending: Vec<bytes::Bytes> = Vec::new();
        let mut pending_len = 0;
        for (number, etag) in parts {
            let part =
                self.origin().store().get(&part_path(staging, *number)).await.map_err(
                    |error| match error {
                        object_store::Error::NotFound { .. } => invalid_part(path, *number),
                        other => failed(other),
                    },
                )?;
            let unquoted = |etag: &str| etag.trim_matches('"').to_owned();
            if part.meta.e_tag.as_deref().is_some_and(|real| unquoted(real) != unquoted(etag)) {
                return Err(invalid_part(path, *number));
            }
            let mut stream = part.into_stream();
            while let Some(mut bytes) = stream.try_next().await.map_err(failed)? {
                while pending_len + bytes.len() >= JOINED_PART {
                    pending.push(bytes.split_to(JOINED_PART - pending_len));
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
        joined.complete().await.map_err(failed)
    }

    async fn remove_staged(&self, path: &Path, staging: &Path) -> Result<()> {
        let store = self.origin().store();
        let staged = store.list(Some(staging)).map_ok(|meta| meta.location).boxed();
        let removed = store.delete_stream(staged).try_for_each(|_| async { Ok(()) }).await;
        removed.map_err(|error| Error::from_origin(path.as_ref(), error))
    }
}

/// What is kept of an upload beside its parts.
#[derive(serde::Serialize, serde::Deserialize)]
struct Record {
    path: String,
    attributes: BTreeMap<String, String>,
}

const USER_METADATA: &str = "metadata:";

fn to_record(attributes: &Attributes) -> BTreeMap<String, String> {
    let name = |attribute: &Attribute| match attribute {
        Attribute::ContentDisposition => Some("content-disposition".to_owned()),
        Attribute::ContentEncoding => Some("content-encoding".to_owned()),
        Attribute::ContentLanguage => Some("content-language".to_owned()),
        Attribute::ContentType => Some("content-type".to_owned()),
        Attribute::CacheControl => Some("cache-control".to_owned()),
        Attribute::Metadata(name) => Some(format!("{USER_METADATA}{name}")),
        _ => None,
    };
    attributes.iter().filter_map(|(key, value)| Some((name(key)?, value.to_string()))).collect()
}

fn from_record(record: BTreeMap<String, String>) -> Attributes {
    let attribute = |name: &str| match name {
        "content-disposition" => Some(Attribute::ContentDisposition),
        "content-encoding" => Some(Attribute::ContentEncoding),
        "content-language" => Some(Attribute::ContentLanguage),
        "content-type" => Some(Attribute::ContentType),
        "cache-control" => Some(Attribute::CacheControl),
        other => other.strip_prefix(USER_METADATA).map(|name| Attribute::Metadata(name.to_owned().into())),
    };
    let known = |(name, value): (String, String)| Some((attribute(&name)?, AttributeValue::from(value)));
    record.into_iter().filter_map(known).collect()
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
