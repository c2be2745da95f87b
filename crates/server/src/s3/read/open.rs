//! Opens objects for reading, bytes or metadata, at a version that satisfies the conditions.

use object_store::{GetOptions, GetResult, ObjectStore, path::Path};
use s3s::{
    S3Error, S3Result,
    dto::{ETag, ETagCondition},
    s3_error,
};
use stylobate_storage::{ObjectHeaders, ReadThrough};

use super::{
    conditions::{ConditionOutcome, ReadConditions},
    range::RequestedRange,
};
use crate::s3::wire::{error, etag, keys::CheckedKey};

/// Returns the path of a key to read. A key that no object can have is reported as a missing object.
pub(crate) fn readable_path(reader: &ReadThrough, key: &str) -> S3Result<Path> {
    match CheckedKey::at(reader.origin(), key) {
        Ok(CheckedKey::Object(path)) => Ok(path),
        Ok(CheckedKey::Folder) | Err(_) => Err(error::no_such_key()),
    }
}

/// An opened object, and the headers from its S3 origin.
pub(crate) struct OpenedObject {
    pub(crate) result: GetResult,
    pub(crate) headers: Option<ObjectHeaders>,
}

impl OpenedObject {
    /// Opens an object, or its metadata.
    pub(crate) async fn of(reader: &ReadThrough, path: &Path, options: GetOptions) -> S3Result<Self> {
        let opened = reader.get_with_headers(path, options).await;
        let (result, headers) = opened.map_err(|failed| error::from_storage(&failed))?;
        Ok(Self { result, headers })
    }

    fn tag(&self) -> Option<ETag> {
        self.result.meta.e_tag.as_deref().map(etag::from_origin)
    }
}

/// Opens the requested bytes of the object, at a version that satisfies the conditions.
pub(crate) async fn open(
    reader: &ReadThrough,
    path: &Path,
    wanted: &RequestedRange,
    conditions: &ReadConditions,
) -> S3Result<OpenedObject> {
    if *wanted == RequestedRange::Nothing {
        let size = look(reader, path, conditions).await?.result.meta.size;
        return Err(error::invalid_range(size));
    }

    // Avoids requesting bytes that the client already has.
    if conditions.revalidates() {
        look(reader, path, conditions).await?;
    }

    let get = async || {
        let options = GetOptions { range: wanted.to_store(), ..GetOptions::default() };
        OpenedObject::of(reader, path, options).await
    };

    let outcome = match get().await {
        Ok(opened)
            if conditions.check(opened.tag().as_ref(), opened.result.meta.last_modified)
                == ConditionOutcome::Failed =>
        {
            refresh(reader, path, conditions).await?;
            get().await
        }
        outcome => outcome,
    };

    match outcome {
        Ok(opened) => {
            check_conditions(conditions, &opened)?;
            match wanted.within(opened.result.meta.size) {
                Some(_) => Ok(opened),
                None => Err(error::invalid_range(opened.result.meta.size)),
            }
        }
        // A failed condition takes precedence over an unsatisfiable range.
        Err(failed) if is_invalid_range(&failed) && !conditions.is_empty() => {
            look(reader, path, conditions).await?;
            Err(failed)
        }
        Err(failed) => Err(failed),
    }
}

/// Returns the metadata of the object, at a version that satisfies the conditions.
pub(crate) async fn look(
    reader: &ReadThrough,
    path: &Path,
    conditions: &ReadConditions,
) -> S3Result<OpenedObject> {
    let head = async || {
        let options = GetOptions { head: true, ..GetOptions::default() };
        OpenedObject::of(reader, path, options).await
    };

    let mut opened = head().await?;
    if conditions.check(opened.tag().as_ref(), opened.result.meta.last_modified) == ConditionOutcome::Failed {
        refresh(reader, path, conditions).await?;
        opened = head().await?;
    }

    check_conditions(conditions, &opened)?;
    Ok(opened)
}

/// Handles conditions that fail on cached metadata. If the client may know a newer version, consults the origin
/// before the request is refused.
async fn refresh(reader: &ReadThrough, path: &Path, conditions: &ReadConditions) -> S3Result<()> {
    let Some(ETagCondition::ETag(ETag::Strong(tag))) = &conditions.if_match else {
        return Err(conditions.failed());
    };

    // Origins may or may not quote their ETags.
    let if_match = Some(format!("\"{tag}\",{tag}"));
    let options = GetOptions { head: true, if_match, ..GetOptions::default() };
    reader.get_opts(path, options).await.map_err(error::from_store)?;
    Ok(())
}

fn check_conditions(conditions: &ReadConditions, opened: &OpenedObject) -> S3Result<()> {
    let meta = &opened.result.meta;
    match conditions.check(opened.tag().as_ref(), meta.last_modified) {
        ConditionOutcome::Proceed => Ok(()),
        ConditionOutcome::NotModified => Err(error::not_modified(meta, opened.headers.as_ref())),
        ConditionOutcome::Failed => Err(conditions.failed()),
    }
}

fn is_invalid_range(error: &S3Error) -> bool {
    *error.code() == s3s::S3ErrorCode::InvalidRange
}

/// Refuses encryption under a customer key, which only the origin could apply.
pub(crate) fn refuse_customer_key(algorithm: Option<&str>) -> S3Result<()> {
    match algorithm {
        None => Ok(()),
        Some(_) => Err(s3_error!(NotImplemented, "encryption with keys of the client's is not supported")),
    }
}
