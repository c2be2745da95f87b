//! CopyObject. Within a bucket, the origin performs the copy. Between buckets, if metadata is replaced, or if a
//! condition binds the copy to one version, the node reads and writes the object.

use http::Extensions;
use object_store::{CopyOptions, ObjectStore, PutOptions, path::Path};
use s3s::{
    S3Error, S3ErrorCode, S3Request, S3Response, S3Result,
    dto::{CopyObjectInput, CopyObjectOutput, CopyObjectResult, MetadataDirective, TaggingDirective},
    s3_error,
};
use stylobate_storage::{CopyChange, ReadThrough};

use super::{
    headers::{descriptive_headers, folder_only_headers, refuse_acl, refuse_unsupported},
    ingest::{self, UploadBody, run_detached},
    put::writable_path,
    tagging::read_tags,
};
use crate::s3::{
    authorize::CopySourceHeader,
    door::{S3Backend, refuse_version},
    read::{
        conditions::{ReadConditions, timestamp},
        object::describe_copy,
        open as read,
        range::RequestedRange,
    },
    upload::kept::{FolderOnlyHeaders, keep_described, tagging_text, tags_of},
    wire::{attributes::DescriptiveHeaders, error, etag},
};

pub(crate) async fn copy_object(
    door: &S3Backend,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let S3Request { input, extensions, .. } = request;
    let target = door.writable(&input.bucket)?;
    let CopySourceHeader { bucket: source_bucket, key: source_key, .. } = source_of(&extensions)?;
    let source = door.readable(source_bucket)?;
    let to = writable_path(&target.reader, &input.key)?;
    let from = read::readable_path(&source.reader, source_key)?;
    refuse_acl(input.acl.as_ref())?;
    read::refuse_customer_key(input.sse_customer_algorithm.as_deref())?;
    read::refuse_customer_key(input.copy_source_sse_customer_algorithm.as_deref())?;

    let is_folder = target.reader.origin().folder().is_some();
    let retagged = input.tagging_directive.is_some_and(|tags| tags.as_str() == TaggingDirective::REPLACE);

    refuse_unsupported!(input, is_folder: is_folder, is_tagged: input.tagging.is_some() || retagged)?;

    let replace = match input.metadata_directive.as_ref().map(MetadataDirective::as_str) {
        None | Some("" | MetadataDirective::COPY) => false,
        Some(MetadataDirective::REPLACE) => true,
        Some(_) => return Err(s3_error!(InvalidArgument, "Unknown metadata directive.")),
    };

    let same_bucket = source.name == target.name;
    if same_bucket && from == to && !replace && input.storage_class.is_none() {
        return Err(s3_error!(
            InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata or storage class."
        ));
    }

    let conditions = ReadConditions {
        if_match: input.copy_source_if_match,
        if_none_match: input.copy_source_if_none_match,
        if_modified_since: input.copy_source_if_modified_since,
        if_unmodified_since: input.copy_source_if_unmodified_since,
    };

    let storage_class = input.storage_class.clone();
    let described = descriptive_headers!(input);

    let folder_only = folder_only_headers!(input);

    let is_plain = !replace && conditions.is_empty() && storage_class.is_none();
    if same_bucket && is_folder {
        let opened = read::look(&source.reader, &from, &conditions).await.map_err(as_precondition)?;
        let e_tag = opened.result.meta.e_tag.filter(|_| !conditions.is_empty());
        let mut change = CopyChange { e_tag, ..CopyChange::default() };
        if replace {
            let kept = FolderOnlyHeaders { tagging: None, ..folder_only }.to_kept()?;
            keep_described(&kept, described);
            change.headers = Some(kept);
        } else if let Some(class) = &storage_class {
            change.class = Some(class.as_str().to_owned());
        }

        if retagged {
            change.tags = Some(tagging_text(&tags_of(input.tagging.as_deref().unwrap_or_default())?));
        }

        let mut options = CopyOptions::default();
        options.extensions.insert(change);
        copy_within(&target.reader, &from, &to, options).await?;
    } else if same_bucket && is_plain {
        let copied = copy_within(&target.reader, &from, &to, CopyOptions::default()).await;
        if copied.is_err() {
            // A missing source takes precedence over an invalid target key.
            read::look(&source.reader, &from, &ReadConditions::default()).await?;
        }
        copied?;
    } else {
        let opened = read::open(&source.reader, &from, &RequestedRange::All, &conditions)
            .await
            .map_err(as_precondition)?;

        let of_source = DescriptiveHeaders::from_headers(&describe_copy(&opened, from.as_ref()));
        let described = if replace { described } else { DescriptiveHeaders { storage_class, ..of_source } };

        let mut options = PutOptions { attributes: described.into_attributes(), ..PutOptions::default() };
        let mut incoming = UploadBody::from_object(opened.result);
        if is_folder {
            let tags = match source.reader.origin().folder().filter(|_| !retagged) {
                Some(folder) => Some(read_tags(folder, from.clone()).await?),
                None => input.tagging.clone().filter(|_| retagged),
            };
            let kept = FolderOnlyHeaders { tagging: tags.as_deref(), ..folder_only }.to_kept()?;
            incoming = incoming.with_kept_headers(&kept);
            options.extensions.insert(kept);
        }
        ingest::store(&door.memory, &target.reader, &to, incoming, options).await?;
    }

    let copied = read::look(&target.reader, &to, &ReadConditions::default()).await?.result.meta;
    let result = CopyObjectResult {
        e_tag: copied.e_tag.as_deref().map(etag::from_origin),
        last_modified: Some(timestamp(copied.last_modified)),
        ..Default::default()
    };

    Ok(S3Response::new(CopyObjectOutput { copy_object_result: Some(result), ..Default::default() }))
}

/// Copies an object within its bucket at the origin.
async fn copy_within(reader: &ReadThrough, from: &Path, to: &Path, options: CopyOptions) -> S3Result<()> {
    let reader = reader.clone();
    let from = from.clone();
    let to = to.clone();
    run_detached(async move { reader.copy_opts(&from, &to, options).await }).await
}

/// Returns the source of a copy.
pub(crate) fn source_of(extensions: &Extensions) -> S3Result<&CopySourceHeader> {
    let source = extensions.get::<CopySourceHeader>().ok_or_else(|| s3_error!(InternalError))?;
    refuse_version(source.version.as_deref())?;
    Ok(source)
}

/// Converts the error of a failed condition: in a copy, each one is a failed precondition.
pub(crate) fn as_precondition(failed: S3Error) -> S3Error {
    match failed.code() {
        S3ErrorCode::NotModified => error::precondition_failed("x-amz-copy-source-If-None-Match"),
        _ => failed,
    }
}
