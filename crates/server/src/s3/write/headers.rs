//! Headers of write requests: those that are refused, and those that are stored with the object.
//!
//! s3s has separate input types for PutObject, CopyObject and CreateMultipartUpload, without a trait for their common
//! fields, so macros access these.

use http::{
    HeaderMap, HeaderName,
    header::{IF_MATCH, IF_NONE_MATCH},
};
use s3s::{S3Error, S3Result, dto::ObjectCannedACL, s3_error};

/// Refuses headers that no origin keeps, and those that only a folder keeps. `also` lists further headers of an
/// operation.
macro_rules! refuse_unsupported {
    ($input:ident, is_folder: $is_folder:expr, is_tagged: $is_tagged:expr $(, also: $also:expr)?) => {
        $crate::s3::write::headers::refuse(&[
            (
                "x-amz-server-side-encryption",
                $input.server_side_encryption.is_some() || $input.ssekms_key_id.is_some(),
            ),
            ("x-amz-tagging", $is_tagged && !$is_folder),
            ("x-amz-object-lock-mode", $input.object_lock_mode.is_some()),
            ("x-amz-object-lock-retain-until-date", $input.object_lock_retain_until_date.is_some()),
            ("x-amz-object-lock-legal-hold", $input.object_lock_legal_hold_status.is_some()),
            ("x-amz-website-redirect-location", $input.website_redirect_location.is_some() && !$is_folder),
            $($also,)?
            ("x-amz-grant-full-control", $input.grant_full_control.is_some()),
            ("x-amz-grant-read", $input.grant_read.is_some() || $input.grant_read_acp.is_some()),
            ("x-amz-grant-write-acp", $input.grant_write_acp.is_some()),
            ("expires", $input.expires.is_some() && !$is_folder),
        ])
    };
}

/// Moves the headers that describe the object out of the input.
macro_rules! descriptive_headers {
    ($input:ident) => {
        $crate::s3::wire::attributes::DescriptiveHeaders {
            content_type: $input.content_type,
            cache_control: $input.cache_control,
            content_disposition: $input.content_disposition,
            content_encoding: $input.content_encoding,
            content_language: $input.content_language,
            storage_class: $input.storage_class,
            metadata: $input.metadata,
        }
    };
}

/// Borrows the headers that only a folder keeps.
macro_rules! folder_only_headers {
    ($input:ident) => {
        $crate::s3::upload::kept::FolderOnlyHeaders {
            expires: $input.expires.as_ref(),
            tagging: $input.tagging.as_deref(),
            redirect: $input.website_redirect_location.as_deref(),
        }
    };
}

pub(super) use {descriptive_headers, folder_only_headers, refuse_unsupported};

/// Refuses an unsupported header rather than ignoring it.
pub(super) fn refuse(headers: &[(&'static str, bool)]) -> S3Result<()> {
    match headers.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(s3_error!(NotImplemented, "the header {name} is not supported")),
        None => Ok(()),
    }
}

/// Kinds of checksums that a node verifies, and other headers of that prefix.
const CHECKSUM_HEADERS: [&str; 8] =
    ["algorithm", "crc32", "crc32c", "crc64nvme", "mode", "sha1", "sha256", "type"];

/// Refuses headers that the protocol layer does not read, rather than ignoring them: conditions on the target of a
/// copy, and checksums of other kinds, which may also be announced to follow the body.
pub(crate) fn refuse_unread(headers: &HeaderMap) -> S3Result<()> {
    let unsupported = |name: &str| Err(s3_error!(NotImplemented, "the header {name} is not supported"));
    if headers.contains_key("x-amz-copy-source") {
        let condition = [IF_MATCH, IF_NONE_MATCH].into_iter().find(|name| headers.contains_key(name));
        if let Some(name) = condition {
            return Err(s3_error!(NotImplemented, "{name}: a copy cannot depend on its target"));
        }
    }

    let announced = headers.get_all("x-amz-trailer").iter().filter_map(|names| names.to_str().ok());
    let announced = announced.flat_map(|names| names.split(',')).map(str::trim);
    let mut names = headers.keys().map(HeaderName::as_str).chain(announced);
    let unread = names.find(|name| {
        let name = name.to_ascii_lowercase();
        name.strip_prefix("x-amz-checksum-").is_some_and(|kind| !CHECKSUM_HEADERS.contains(&kind))
    });
    unread.map_or(Ok(()), unsupported)
}

/// Refuses an ACL other than the bucket's own.
pub(super) fn refuse_acl(acl: Option<&ObjectCannedACL>) -> S3Result<()> {
    match acl.map(ObjectCannedACL::as_str) {
        None | Some("" | ObjectCannedACL::PRIVATE | ObjectCannedACL::BUCKET_OWNER_FULL_CONTROL) => Ok(()),
        Some(_) => Err(acl_error()),
    }
}

fn acl_error() -> S3Error {
    s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs")
}
