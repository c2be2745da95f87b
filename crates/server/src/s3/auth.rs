//! Who is asking and whether they may: the secrets for signatures, and the check before each operation.
//!
//! The check runs for every request, on hits as on misses, and on a node without keys too, where only a read-only
//! bucket refuses anything. An operation that is not known to read is taken to write.

use std::{cell::Cell, sync::Arc};

use async_trait::async_trait;
use http::{Method, Uri, header::AUTHORIZATION};
use s3s::{
    S3Error, S3ErrorCode, S3Request, S3Result,
    access::{S3Access, S3AccessContext},
    auth::{Credentials, S3Auth, SecretKey},
    dto::{CopyObjectInput, CopySource, UploadPartCopyInput},
    path::S3Path,
    s3_error,
};

use crate::{access::Action, node::Node};

tokio::task_local! {
    /// The operation of the request in hand, for its metrics.
    pub(super) static OPERATION: Cell<&'static str>;
}

/// Stands before every operation.
pub(super) struct Gate {
    pub(super) node: Arc<Node>,
}

#[async_trait]
impl S3Auth for Gate {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let secret = self.node.keys().secret(access_key).map(|secret| SecretKey::from(secret.expose()));
        secret.ok_or_else(|| {
            s3_error!(InvalidAccessKeyId, "The access key id you provided does not exist here.")
        })
    }
}

#[async_trait]
impl S3Access for Gate {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let name = cx.s3_op().name();
        note_operation(known(name));
        let key = cx.credentials().map(|credentials| credentials.access_key.as_str());
        if !self.node.keys().is_empty() {
            if key.is_none() {
                return Err(denied("Sign the request: this node admits nobody without an access key."));
            }
            if !matches!(*cx.method(), Method::GET | Method::HEAD) {
                refuse_unsigned_headers(cx)?;
            }
        }
        match cx.s3_path() {
            S3Path::Root if name == "ListBuckets" => Ok(()),
            S3Path::Root => Err(s3_error!(NotImplemented)),
            S3Path::Bucket { bucket } | S3Path::Object { bucket, .. } => {
                self.allow(key, bucket, action(name))
            }
        }
    }

    async fn copy_object(&self, request: &mut S3Request<CopyObjectInput>) -> S3Result<()> {
        self.allow_source(request.credentials.as_ref(), &request.input.copy_source)
    }

    async fn upload_part_copy(&self, request: &mut S3Request<UploadPartCopyInput>) -> S3Result<()> {
        self.allow_source(request.credentials.as_ref(), &request.input.copy_source)
    }
}

impl Gate {
    /// Whether the key may do this to the bucket.
    pub(super) fn allow(&self, key: Option<&str>, bucket: &str, action: Action) -> S3Result<()> {
        if !self.node.keys().allows(key, bucket, action) {
            return Err(denied("Access Denied"));
        }
        let read_only = self.node.bucket(bucket).is_some_and(|bucket| bucket.read_only);
        match action {
            Action::Write if read_only => Err(denied("The bucket is read-only.")),
            Action::Read | Action::Write => Ok(()),
        }
    }

    /// What is copied is read: the right to write elsewhere is no right to read it.
    fn allow_source(&self, credentials: Option<&Credentials>, source: &CopySource) -> S3Result<()> {
        let key = credentials.map(|credentials| credentials.access_key.as_str());
        match source {
            CopySource::Bucket { bucket, .. } => self.allow(key, bucket, Action::Read),
            CopySource::AccessPoint { .. } | CopySource::Outpost { .. } => {
                Err(s3_error!(NotImplemented, "access points cannot be copied from"))
            }
        }
    }
}

/// Remembers which operation the request in hand is.
pub(super) fn note_operation(operation: &'static str) {
    // Outside of a request, as in a test of a part, there is nothing to note.
    let _ = OPERATION.try_with(|cell| cell.set(operation));
}

fn denied(message: &'static str) -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, message)
}

fn action(operation: &str) -> Action {
    match ["Get", "Head", "List"].iter().any(|verb| operation.starts_with(verb)) {
        true => Action::Read,
        false => Action::Write,
    }
}

/// The operation's name for as long as the process lives; metrics count those that the node serves.
fn known(operation: &str) -> &'static str {
    const SERVED: &[&str] = &[
        "GetObject",
        "HeadObject",
        "ListObjectsV2",
        "ListObjects",
        "PutObject",
        "DeleteObject",
        "DeleteObjects",
        "CopyObject",
        "CreateMultipartUpload",
        "UploadPart",
        "UploadPartCopy",
        "CompleteMultipartUpload",
        "AbortMultipartUpload",
        "ListMultipartUploads",
        "ListParts",
        "ListBuckets",
        "HeadBucket",
        "GetBucketLocation",
        "GetBucketVersioning",
        "CreateBucket",
    ];
    SERVED.iter().find(|name| **name == operation).copied().unwrap_or("Other")
}

/// Refuses an x-amz-* header that the signature does not cover, as S3 does: whoever was given a signed URL to put
/// one object could otherwise add a header that makes it a copy of another.
fn refuse_unsigned_headers(cx: &S3AccessContext<'_>) -> S3Result<()> {
    let authorization = cx.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let in_query = signed_headers_of_query(cx.uri());
    let signed =
        in_query.as_deref().or_else(|| authorization.and_then(signed_headers_of)).unwrap_or_default();
    let covered = |name: &str| signed.split(';').any(|covered| covered.eq_ignore_ascii_case(name));
    // The hash of the body proves itself.
    let needs_cover = |name: &str| name.starts_with("x-amz-") && name != "x-amz-content-sha256";
    match cx.headers().keys().map(http::HeaderName::as_str).find(|name| needs_cover(name) && !covered(name)) {
        Some(name) => Err(s3_error!(
            AccessDenied,
            "There were headers present in the request which were not signed: {name}"
        )),
        None => Ok(()),
    }
}

fn signed_headers_of(authorization: &str) -> Option<&str> {
    let (_, rest) = authorization.split_once("SignedHeaders=")?;
    rest.split([',', ' ']).next()
}

fn signed_headers_of_query(uri: &Uri) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.find(|(name, _)| name == "X-Amz-SignedHeaders").map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_read_writes() {
        for operation in ["GetObject", "HeadBucket", "ListObjectsV2", "ListParts"] {
            assert_eq!(action(operation), Action::Read, "{operation}");
        }
        for operation in ["PutObject", "DeleteObjects", "CreateSession", "SelectObjectContent", "Anything"] {
            assert_eq!(action(operation), Action::Write, "{operation}");
        }
    }

    #[test]
    fn the_signed_headers_are_found_in_the_header_and_in_the_url() {
        let header = "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;x-amz-date, Signature=0";
        assert_eq!(signed_headers_of(header), Some("host;x-amz-date"));
        let uri = Uri::from_static("/b/k?X-Amz-SignedHeaders=host%3Bx-amz-acl&X-Amz-Signature=0");
        assert_eq!(signed_headers_of_query(&uri).as_deref(), Some("host;x-amz-acl"));
    }

    #[test]
    fn metrics_name_the_operations_that_are_served() {
        assert_eq!(known("GetObject"), "GetObject");
        assert_eq!(known("PutBucketAcl"), "Other");
    }
}
