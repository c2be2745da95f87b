//! CopyObject: by the origin itself within a bucket, and by reading and writing between buckets, where metadata is
//! replaced, or where a condition binds the copy to one version.

use object_store::{CopyOptions, ObjectStore, PutOptions};
use s3s::{
    S3Error, S3ErrorCode, S3Response, S3Result,
    dto::{
        CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, MetadataDirective, TaggingDirective,
    },
    s3_error,
};

use super::{
    attributes::Described,
    conditions::{Conditions, timestamp},
    door::{Door, refuse_version},
    error, etag,
    ingest::{self, Incoming, to_its_end},
    range::Wanted,
    read,
    write::{refuse, refuse_acl, writable_path},
};

pub(super) async fn copy_object(
    door: &Door,
    input: CopyObjectInput,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let target = door.writable(&input.bucket)?;
    let (source_bucket, source_key) = source_of(&input.copy_source)?;
    let source = door.readable(source_bucket)?;
    let to = writable_path(&input.key)?;
    let from = read::readable_path(source_key)?;
    refuse_acl(input.acl.as_ref())?;
    read::refuse_customer_key(input.sse_customer_algorithm.as_deref())?;
    read::refuse_customer_key(input.copy_source_sse_customer_algorithm.as_deref())?;
    let retagged = input.tagging_directive.is_some_and(|tags| tags.as_str() == TaggingDirective::REPLACE);
    refuse(&[
        (
            "x-amz-server-side-encryption",
            input.server_side_encryption.is_some() || input.ssekms_key_id.is_some(),
        ),
        ("x-amz-tagging", input.tagging.is_some() || retagged),
        ("x-amz-object-lock-mode", input.object_lock_mode.is_some()),
        ("x-amz-object-lock-retain-until-date", input.object_lock_retain_until_date.is_some()),
        ("x-amz-object-lock-legal-hold", input.object_lock_legal_hold_status.is_some()),
        ("x-amz-website-redirect-location", input.website_redirect_location.is_some()),
        ("x-amz-grant-full-control", input.grant_full_control.is_some()),
        ("x-amz-grant-read", input.grant_read.is_some() || input.grant_read_acp.is_some()),
        ("x-amz-grant-write-acp", input.grant_write_acp.is_some()),
        ("expires", input.expires.is_some()),
    ])?;
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
    let conditions = Conditions {
        if_match: input.copy_source_if_match,
        if_none_match: input.copy_source_if_none_match,
        if_modified_since: input.copy_source_if_modified_since,
        if_unmodified_since: input.copy_source_if_unmodified_since,
    };
    if same_bucket && !replace && conditions.is_empty() && input.storage_class.is_none() {
        let (reader, path, to) = (target.reader.clone(), from.clone(), to.clone());
        let copied =
            to_its_end(async move { reader.copy_opts(&path, &to, CopyOptions::default()).await }).await;
        if copied.is_err() {
            // That the source is not there says more than that the target cannot be.
            read::look(&source.reader, &from, &Conditions::default()).await?;
        }
        copied?;
    } else {
        let object = read::open(&source.reader, &from, &Wanted::All, &conditions)
            .await
            .map_err(as_precondition)?
            .result;
        let described = match replace {
            true => Described {
                content_type: input.content_type,
                cache_control: input.cache_control,
                content_disposition: input.content_disposition,
                content_encoding: input.content_encoding,
                content_language: input.content_language,
                storage_class: input.storage_class,
                metadata: input.metadata,
            },
            false => Described {
                storage_class: input.storage_class,
                ..Described::from_origin(&object.attributes, from.as_ref())
            },
        };
        let options = PutOptions { attributes: described.into_attributes(), ..PutOptions::default() };
        ingest::store(&door.memory, &target.reader, &to, Incoming::of_object(object), options).await?;
    }
    let copied = read::look(&target.reader, &to, &Conditions::default()).await?.result.meta;
    let result = CopyObjectResult {
        e_tag: copied.e_tag.as_deref().map(etag::from_origin),
        last_modified: Some(timestamp(copied.last_modified)),
        ..Default::default()
    };
    Ok(S3Response::new(CopyObjectOutput { copy_object_result: Some(result), ..Default::default() }))
}

/// The bucket and the key of what is to be copied.
pub(super) fn source_of(source: &CopySource) -> S3Result<(&str, &str)> {
    match source {
        CopySource::Bucket { bucket, key, version_id } => {
            refuse_version(version_id.as_deref())?;
            Ok((bucket, key))
        }
        CopySource::AccessPoint { .. } | CopySource::Outpost { .. } => {
            Err(s3_error!(NotImplemented, "access points cannot be copied from"))
        }
    }
}

/// In a copy, every condition that does not hold is a failed precondition.
pub(super) fn as_precondition(failed: S3Error) -> S3Error {
    match failed.code() {
        S3ErrorCode::NotModified => error::precondition_failed("x-amz-copy-source-If-None-Match"),
        _ => failed,
    }
}
