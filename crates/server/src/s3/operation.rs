//! Classifies a request as an S3 operation by its method, target, query and headers, and determines the access that
//! it needs.

use http::{HeaderMap, Method};
use s3s::{S3Error, S3Result, s3_error};

use super::{
    auth::authenticate::is_signing_parameter,
    wire::{
        form::multipart::is_form,
        target::{QueryParameters, RequestTarget},
    },
};
use crate::access::Action;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct S3Operation {
    /// Its name in S3.
    pub(super) name: &'static str,
    /// Access that it needs.
    pub(super) action: Action,
}

/// A parameter that selects an operation: method, parameter, operation on a bucket, operation on an object.
type OperationRow = (&'static str, &'static str, Option<&'static str>, Option<&'static str>);

const CHOSEN: &[OperationRow] = &[
    ("GET", "accelerate", Some("GetBucketAccelerateConfiguration"), None),
    ("GET", "acl", Some("GetBucketAcl"), Some("GetObjectAcl")),
    ("GET", "analytics", Some("GetBucketAnalyticsConfiguration"), None),
    ("GET", "attributes", None, Some("GetObjectAttributes")),
    ("GET", "cors", Some("GetBucketCors"), None),
    ("GET", "encryption", Some("GetBucketEncryption"), None),
    ("GET", "intelligent-tiering", Some("GetBucketIntelligentTieringConfiguration"), None),
    ("GET", "inventory", Some("GetBucketInventoryConfiguration"), None),
    ("GET", "legal-hold", None, Some("GetObjectLegalHold")),
    ("GET", "lifecycle", Some("GetBucketLifecycleConfiguration"), None),
    ("GET", "location", Some("GetBucketLocation"), None),
    ("GET", "logging", Some("GetBucketLogging"), None),
    ("GET", "metrics", Some("GetBucketMetricsConfiguration"), None),
    ("GET", "notification", Some("GetBucketNotificationConfiguration"), None),
    ("GET", "object-lock", Some("GetObjectLockConfiguration"), None),
    ("GET", "ownershipControls", Some("GetBucketOwnershipControls"), None),
    ("GET", "policy", Some("GetBucketPolicy"), None),
    ("GET", "policyStatus", Some("GetBucketPolicyStatus"), None),
    ("GET", "publicAccessBlock", Some("GetPublicAccessBlock"), None),
    ("GET", "replication", Some("GetBucketReplication"), None),
    ("GET", "requestPayment", Some("GetBucketRequestPayment"), None),
    ("GET", "retention", None, Some("GetObjectRetention")),
    ("GET", "tagging", Some("GetBucketTagging"), Some("GetObjectTagging")),
    ("GET", "torrent", None, Some("GetObjectTorrent")),
    ("GET", "uploadId", None, Some("ListParts")),
    ("GET", "uploads", Some("ListMultipartUploads"), None),
    ("GET", "versioning", Some("GetBucketVersioning"), None),
    ("GET", "versions", Some("ListObjectVersions"), None),
    ("GET", "website", Some("GetBucketWebsite"), None),
    ("PUT", "accelerate", Some("PutBucketAccelerateConfiguration"), None),
    ("PUT", "acl", Some("PutBucketAcl"), Some("PutObjectAcl")),
    ("PUT", "analytics", Some("PutBucketAnalyticsConfiguration"), None),
    ("PUT", "cors", Some("PutBucketCors"), None),
    ("PUT", "encryption", Some("PutBucketEncryption"), None),
    ("PUT", "intelligent-tiering", Some("PutBucketIntelligentTieringConfiguration"), None),
    ("PUT", "inventory", Some("PutBucketInventoryConfiguration"), None),
    ("PUT", "legal-hold", None, Some("PutObjectLegalHold")),
    ("PUT", "lifecycle", Some("PutBucketLifecycleConfiguration"), None),
    ("PUT", "logging", Some("PutBucketLogging"), None),
    ("PUT", "metrics", Some("PutBucketMetricsConfiguration"), None),
    ("PUT", "notification", Some("PutBucketNotificationConfiguration"), None),
    ("PUT", "object-lock", Some("PutObjectLockConfiguration"), None),
    ("PUT", "ownershipControls", Some("PutBucketOwnershipControls"), None),
    ("PUT", "policy", Some("PutBucketPolicy"), None),
    ("PUT", "publicAccessBlock", Some("PutPublicAccessBlock"), None),
    ("PUT", "replication", Some("PutBucketReplication"), None),
    ("PUT", "requestPayment", Some("PutBucketRequestPayment"), None),
    ("PUT", "retention", None, Some("PutObjectRetention")),
    ("PUT", "tagging", Some("PutBucketTagging"), Some("PutObjectTagging")),
    ("PUT", "uploadId", None, Some("UploadPart")),
    ("PUT", "versioning", Some("PutBucketVersioning"), None),
    ("PUT", "website", Some("PutBucketWebsite"), None),
    ("POST", "delete", Some("DeleteObjects"), None),
    ("POST", "restore", None, Some("RestoreObject")),
    ("POST", "select", None, Some("SelectObjectContent")),
    ("POST", "uploadId", None, Some("CompleteMultipartUpload")),
    ("POST", "uploads", None, Some("CreateMultipartUpload")),
    ("DELETE", "analytics", Some("DeleteBucketAnalyticsConfiguration"), None),
    ("DELETE", "cors", Some("DeleteBucketCors"), None),
    ("DELETE", "encryption", Some("DeleteBucketEncryption"), None),
    ("DELETE", "intelligent-tiering", Some("DeleteBucketIntelligentTieringConfiguration"), None),
    ("DELETE", "inventory", Some("DeleteBucketInventoryConfiguration"), None),
    ("DELETE", "lifecycle", Some("DeleteBucketLifecycle"), None),
    ("DELETE", "metrics", Some("DeleteBucketMetricsConfiguration"), None),
    ("DELETE", "ownershipControls", Some("DeleteBucketOwnershipControls"), None),
    ("DELETE", "policy", Some("DeleteBucketPolicy"), None),
    ("DELETE", "publicAccessBlock", Some("DeletePublicAccessBlock"), None),
    ("DELETE", "replication", Some("DeleteBucketReplication"), None),
    ("DELETE", "tagging", Some("DeleteBucketTagging"), Some("DeleteObjectTagging")),
    ("DELETE", "uploadId", None, Some("AbortMultipartUpload")),
    ("DELETE", "website", Some("DeleteBucketWebsite"), None),
];

/// Parameters that select no operation.
const PLAIN: &[&str] = &[
    "allow-unordered",
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "id",
    "key-marker",
    "list-type",
    "marker",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "partNumber",
    "prefix",
    "select-type",
    "start-after",
    "upload-id-marker",
    "version-id-marker",
    "versionId",
    "x-id",
];

/// Parameter that requests the node's cluster instead of its buckets. It is not part of S3.
const CLUSTER: &str = "x-stylobate-cluster";

/// Parameters of requests that a node refuses: for credentials of the origin, and for annotations, which would be taken
/// for requests for the object.
const REFUSED: &[&str] = &["annotation", "session"];

impl S3Operation {
    /// Classifies a request. An unknown operation cannot be authorized; it is refused with an error that names it.
    pub(super) fn of(
        method: &Method,
        target: &RequestTarget,
        query: &QueryParameters,
        headers: &HeaderMap,
    ) -> S3Result<Self> {
        if let Some(refused) = query.names().find(|name| REFUSED.contains(name)) {
            return Err(not_served(method, refused));
        }
        let on_object = match target {
            RequestTarget::Service => {
                let name = if query.has(CLUSTER) { "DescribeCluster" } else { "ListBuckets" };
                return if *method == Method::GET {
                    Ok(Self { name, action: Action::Read })
                } else {
                    Err(method_not_allowed())
                };
            }
            RequestTarget::Bucket { .. } => false,
            RequestTarget::Object { .. } => true,
        };

        let is_read = matches!(*method, Method::GET | Method::HEAD);
        refuse_repeated(query)?;
        let mut choosing = query.names().filter(|name| !is_plain(name));
        let first = choosing.next();
        let second = choosing.next();
        let is_chosen =
            |(of, parameter, ..): &&OperationRow| *of == method.as_str() && first == Some(*parameter);
        let name = match CHOSEN.iter().find(is_chosen) {
            // Servers differ in which of several such parameters they use.
            Some(_) if second.is_some() => return Err(not_served(method, second.unwrap_or_default())),
            Some((_, parameter, on_bucket, on_key)) => {
                let name = if on_object { on_key } else { on_bucket };
                name.ok_or_else(|| not_served(method, parameter))?
            }
            // Parameters added to the URL do not change the operation of an object read.
            None => match first.filter(|_| !(is_read && on_object)) {
                Some(unknown) => return Err(not_served(method, unknown)),
                None if !on_object && is_form(method, headers) => "PostObject",
                None => unchosen(method, on_object, query)?,
            },
        };

        let lacks = |parameter: &str| query.get(parameter).is_none_or(str::is_empty);
        if name == "UploadPart" && (lacks("partNumber") || lacks("uploadId")) {
            return Err(s3_error!(InvalidArgument, "a part needs both partNumber and uploadId"));
        }
        if name == "SelectObjectContent" && query.get("select-type") != Some("2") {
            return Err(s3_error!(InvalidArgument, "select needs select-type=2"));
        }

        let is_copy = headers.contains_key("x-amz-copy-source");
        let name = match name {
            "PutObject" if is_copy => "CopyObject",
            "UploadPart" if is_copy => "UploadPartCopy",
            _ if is_copy => {
                return Err(s3_error!(InvalidArgument, "{name}: x-amz-copy-source belongs to copies"));
            }
            name => name,
        };
        let reads = is_read || name == "SelectObjectContent";
        Ok(Self { name, action: if reads { Action::Read } else { Action::Write } })
    }

    /// Returns true if the operation lists keys by the parameter `prefix`.
    pub(super) fn lists_keys(&self) -> bool {
        matches!(self.name, "ListObjects" | "ListObjectsV2" | "ListObjectVersions" | "ListMultipartUploads")
    }
}

/// Returns true if a parameter selects no operation.
fn is_plain(name: &str) -> bool {
    PLAIN.contains(&name)
        || is_signing_parameter(name)
        || name.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("x-amz-"))
        || name.starts_with("response-")
}

/// Refuses a repeated parameter: servers differ in which of the two values they use.
fn refuse_repeated(query: &QueryParameters) -> S3Result<()> {
    let mut names: Vec<&str> = query.names().collect();
    names.sort_unstable();
    match names.iter().zip(names.iter().skip(1)).find(|(name, next)| name == next) {
        Some((name, _)) => Err(s3_error!(InvalidArgument, "the query parameter '{name}' is given twice")),
        None => Ok(()),
    }
}

/// Returns the operation of a request without a parameter that selects one.
fn unchosen(method: &Method, on_object: bool, query: &QueryParameters) -> S3Result<&'static str> {
    Ok(match (method.as_str(), on_object) {
        ("GET", true) => "GetObject",
        ("HEAD", true) => "HeadObject",
        ("PUT", true) if query.has("partNumber") => {
            return Err(s3_error!(InvalidArgument, "a part needs both partNumber and uploadId"));
        }
        ("PUT", true) => "PutObject",
        ("DELETE", true) => "DeleteObject",
        ("GET", false) if query.get("list-type") == Some("2") => "ListObjectsV2",
        ("GET", false) => "ListObjects",
        ("HEAD", false) => "HeadBucket",
        ("PUT", false) => "CreateBucket",
        ("DELETE", false) => "DeleteBucket",
        _ => return Err(method_not_allowed()),
    })
}

fn method_not_allowed() -> S3Error {
    s3_error!(MethodNotAllowed, "The specified method is not allowed against this resource.")
}

fn not_served(method: &Method, parameter: &str) -> S3Error {
    s3_error!(
        NotImplemented,
        "{method} with the query parameter '{parameter}' is not an operation that this node serves"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(method: &str, uri: &str) -> Result<(&'static str, Action), String> {
        operation_with(method, uri, HeaderMap::new())
    }

    fn operation_with(method: &str, uri: &str, headers: HeaderMap) -> Result<(&'static str, Action), String> {
        let uri = uri.parse().unwrap();
        let target = RequestTarget::of(&uri, &headers, &[]).unwrap();
        let operation =
            S3Operation::of(&method.parse().unwrap(), &target, &QueryParameters::of(&uri), &headers);
        let code = |error: S3Error| error.code().as_str().to_owned();
        operation.map(|operation| (operation.name, operation.action)).map_err(code)
    }

    #[test]
    fn every_common_request_has_its_operation() {
        for (method, uri, name) in [
            ("GET", "/", "ListBuckets"),
            ("GET", "/?x-stylobate-cluster", "DescribeCluster"),
            ("GET", "/b", "ListObjects"),
            ("GET", "/b?list-type=2&prefix=uploads", "ListObjectsV2"),
            ("GET", "/b?versions", "ListObjectVersions"),
            ("GET", "/b?uploads=", "ListMultipartUploads"),
            ("HEAD", "/b", "HeadBucket"),
            ("GET", "/b/k?versionId=1", "GetObject"),
            ("GET", "/b/k?some=thing", "GetObject"),
            ("GET", "/b/k?uploadId=1", "ListParts"),
            ("GET", "/b/k?acl", "GetObjectAcl"),
            ("HEAD", "/b/k", "HeadObject"),
        ] {
            assert_eq!(operation(method, uri), Ok((name, Action::Read)), "{method} {uri}");
        }
        for (method, uri, name) in [
            ("PUT", "/b", "CreateBucket"),
            ("DELETE", "/b", "DeleteBucket"),
            ("PUT", "/b?policy", "PutBucketPolicy"),
            ("POST", "/b?delete", "DeleteObjects"),
            ("PUT", "/b/k", "PutObject"),
            ("PUT", "/b/k?partNumber=1&uploadId=2", "UploadPart"),
            ("POST", "/b/k?uploads", "CreateMultipartUpload"),
            ("POST", "/b/k?uploadId=2", "CompleteMultipartUpload"),
            ("DELETE", "/b/k?uploadId=2", "AbortMultipartUpload"),
            ("DELETE", "/b/k?versionId=2", "DeleteObject"),
        ] {
            assert_eq!(operation(method, uri), Ok((name, Action::Write)), "{method} {uri}");
        }
    }

    #[test]
    fn a_form_is_told_by_its_type_and_goes_to_a_bucket() {
        let headers = |content_type: &str| -> HeaderMap {
            [(http::header::CONTENT_TYPE, content_type.parse().unwrap())].into_iter().collect()
        };
        let form = || headers("multipart/form-data; boundary=x");
        assert_eq!(operation_with("POST", "/b", form()), Ok(("PostObject", Action::Write)));
        assert_eq!(operation_with("POST", "/b?delete", form()), Ok(("DeleteObjects", Action::Write)));
        for (uri, content_type) in [("/b/k", "multipart/form-data; boundary=x"), ("/b", "text/plain")] {
            assert_eq!(operation_with("POST", uri, headers(content_type)).unwrap_err(), "MethodNotAllowed");
        }
        assert_eq!(operation_with("POST", "/b?renameObject", form()).unwrap_err(), "NotImplemented");
    }

    #[test]
    fn a_copy_is_told_by_its_header() {
        let headers: HeaderMap =
            [("x-amz-copy-source".parse().unwrap(), "/b/a".parse().unwrap())].into_iter().collect();
        assert_eq!(operation_with("PUT", "/b/k", headers.clone()).unwrap().0, "CopyObject");
        assert_eq!(
            operation_with("PUT", "/b/k?partNumber=1&uploadId=2", headers).unwrap().0,
            "UploadPartCopy"
        );
    }

    #[test]
    fn what_cannot_be_authorised_is_refused() {
        for (method, uri) in [
            ("PUT", "/b/k?renameObject"),
            ("PUT", "/b?somethingNew"),
            ("POST", "/b/k?somethingNew"),
            ("DELETE", "/b?somethingNew"),
            ("GET", "/b?session"),
            ("PUT", "/b/k?policy"),
            ("GET", "/b/k?annotation&annotationName=a"),
            ("PUT", "/b/k?annotation&annotationName=a"),
            ("PUT", "/b/k?tagging&renameObject"),
            ("POST", "/b/k?select&select-type=2&uploadId=1"),
            ("GET", "/b?location&uploads"),
            ("GET", "/b?events=s3:*&prefix=a"),
        ] {
            assert_eq!(operation(method, uri), Err("NotImplemented".to_owned()), "{method} {uri}");
        }

        for (method, uri) in [
            ("PUT", "/b/k?uploadId=1"),
            ("PUT", "/b/k?partNumber=1"),
            ("POST", "/b/k?select"),
            ("GET", "/b?prefix=a&prefix="),
        ] {
            assert_eq!(operation(method, uri), Err("InvalidArgument".to_owned()), "{method} {uri}");
        }

        let copy: HeaderMap =
            [("x-amz-copy-source".parse().unwrap(), "/b/a".parse().unwrap())].into_iter().collect();
        assert_eq!(operation_with("PUT", "/b/k?acl", copy).unwrap_err(), "InvalidArgument");
        for (method, uri) in [("POST", "/b"), ("POST", "/b/k"), ("PATCH", "/b/k"), ("PUT", "/")] {
            assert_eq!(operation(method, uri), Err("MethodNotAllowed".to_owned()), "{method} {uri}");
        }
    }
}
