//! Queries about a bucket that SDKs send on their own, answered as for a bucket without such settings: no versions,
//! no policy, no default encryption, one owner.

use s3s::{S3Error, S3ErrorCode, S3Response, S3Result, dto::*, s3_error};

use super::{
    conditions::{ReadConditions, timestamp},
    object::describe_copy,
    open as read,
};
use crate::s3::{
    door::{S3Backend, refuse_version},
    upload::kept::checksums_of,
    wire::etag,
};

/// Owner of all buckets of a node.
const OWNER: &str = "stylobate";

/// Returns the error for a setting that the bucket does not have.
pub(crate) fn none<T>(door: &S3Backend, bucket: &str, code: &str, message: &'static str) -> S3Result<T> {
    door.readable(bucket)?;
    let code = S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InvalidRequest);
    let mut error = S3Error::with_message(code, message);
    error.set_status_code(http::StatusCode::NOT_FOUND);
    Err(error)
}

pub(crate) fn owner() -> Owner {
    Owner { display_name: Some(OWNER.to_owned()), id: Some(OWNER.to_owned()) }
}

/// Returns grants of full control to the owner.
pub(crate) fn grants() -> Grants {
    let grantee = Grantee {
        display_name: Some(OWNER.to_owned()),
        id: Some(OWNER.to_owned()),
        type_: Type::from_static(Type::CANONICAL_USER),
        email_address: None,
        uri: None,
    };
    let permission = Permission::from_static(Permission::FULL_CONTROL);
    vec![Grant { grantee: Some(grantee), permission: Some(permission) }]
}

pub(crate) async fn object_acl(
    door: &S3Backend,
    input: GetObjectAclInput,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let bucket = door.readable(&input.bucket)?;
    refuse_version(input.version_id.as_deref())?;
    let path = read::readable_path(&bucket.reader, &input.key)?;
    read::look(&bucket.reader, &path, &ReadConditions::default()).await?;
    let output = GetObjectAclOutput { grants: Some(grants()), owner: Some(owner()), ..Default::default() };
    Ok(S3Response::new(output))
}

pub(crate) async fn object_attributes(
    door: &S3Backend,
    input: GetObjectAttributesInput,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let bucket = door.readable(&input.bucket)?;
    refuse_version(input.version_id.as_deref())?;
    read::refuse_customer_key(input.sse_customer_algorithm.as_deref())?;
    // Clients send one header per attribute, or one header with commas.
    let attributes: Vec<&str> = input
        .object_attributes
        .iter()
        .flat_map(|attribute| attribute.as_str().split(','))
        .map(str::trim)
        .collect();

    let asked = |name: &str| attributes.contains(&name);
    let known = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"];
    if attributes.is_empty() || !attributes.iter().all(|attribute| known.contains(attribute)) {
        return Err(s3_error!(InvalidArgument, "Invalid attribute name specified."));
    }

    let path = read::readable_path(&bucket.reader, &input.key)?;
    let opened = read::look(&bucket.reader, &path, &ReadConditions::default()).await?;
    let headers = describe_copy(&opened, path.as_ref());
    let meta = &opened.result.meta;
    let checksum = checksums_of(&headers);
    let has_checksum = checksum != Checksum::default();
    let tag = meta.e_tag.as_deref().map(etag::from_origin);
    let class =
        headers.get("x-amz-storage-class").and_then(|class| class.to_str().ok()).unwrap_or("STANDARD");

    Ok(S3Response::new(GetObjectAttributesOutput {
        checksum: Some(checksum).filter(|_| has_checksum && asked("Checksum")),
        e_tag: tag.filter(|_| asked("ETag")),
        last_modified: Some(timestamp(meta.last_modified)),
        object_size: Some(meta.size as i64).filter(|_| asked("ObjectSize")),
        storage_class: asked("StorageClass").then(|| StorageClass::from(class.to_owned())),
        ..Default::default()
    }))
}
