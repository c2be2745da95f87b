//! Authorization: checks the rights of an access key before each operation, on cache hits and misses alike. On a node
//! without keys, only writes to a read-only bucket are refused.

use std::cell::Cell;

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use super::{
    operation::S3Operation,
    wire::target::{QueryParameters, RequestTarget},
};
use crate::{access::Action, node::Node};

pub(super) const COPY_SOURCE: &str = "x-amz-copy-source";

tokio::task_local! {
    /// Operation of the current request, for the metrics.
    pub(super) static OPERATION: Cell<&'static str>;
}

/// Records the operation of the current request.
pub(super) fn note_operation(operation: &'static str) {
    // Outside a request, as in a unit test, there is nothing to record.
    let _ = OPERATION.try_with(|cell| cell.set(operation));
}

/// Source of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopySourceHeader {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) version: Option<String>,
}

impl CopySourceHeader {
    /// Parses the header x-amz-copy-source, if present: `/bucket/key?versionId=…`, with escapes.
    pub(super) fn of(headers: &HeaderMap) -> S3Result<Option<Self>> {
        let Some(value) = headers.get(COPY_SOURCE) else { return Ok(None) };
        let invalid = || {
            s3_error!(
                InvalidArgument,
                "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"
            )
        };

        let text = value.to_str().map_err(|_| invalid())?;
        let (text, version) = match text.split_once("?versionId=") {
            Some((text, version)) => (text, Some(version)),
            None => (text, None),
        };
        let decode =
            |text: &str| percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| invalid());
        let decoded: String = decode(text)?;
        if decoded.starts_with("arn:") {
            return Err(s3_error!(NotImplemented, "access points cannot be copied from"));
        }

        let (bucket, key) =
            decoded.strip_prefix('/').unwrap_or(&decoded).split_once('/').ok_or_else(invalid)?;
        if bucket.is_empty() || key.is_empty() {
            return Err(invalid());
        }
        let version = version.map(decode).transpose()?;
        Ok(Some(Self { bucket: bucket.to_owned(), key: key.to_owned(), version }))
    }
}

/// Authorizes the requests of one caller.
pub(super) struct AccessCheck<'a> {
    pub(super) node: &'a Node,
    pub(super) access_key: Option<&'a str>,
}

impl AccessCheck<'_> {
    /// Checks that the caller may perform the operation on everything that it reads and writes, except for keys that
    /// only the body names.
    pub(super) fn check(
        &self,
        operation: &S3Operation,
        target: &RequestTarget,
        query: &QueryParameters,
        headers: &HeaderMap,
    ) -> S3Result<()> {
        let action = operation.action;
        match target {
            // The listing contains only buckets that the caller may read.
            RequestTarget::Service => Ok(()),
            RequestTarget::Object { bucket, key } => {
                self.check_key(bucket, key, action)?;
                match CopySourceHeader::of(headers)?.filter(|_| operation.name.contains("Copy")) {
                    // A copy reads its source, which the right to write the target does not include.
                    Some(source) => self.check_key(&source.bucket, &source.key, Action::Read),
                    None => Ok(()),
                }
            }
            RequestTarget::Bucket { bucket } => {
                self.check_bucket(bucket, action)?;
                let keys = self.node.keys();
                if !keys.is_limited_to_prefixes(self.access_key) {
                    return Ok(());
                }
                // Keys in a body are checked when the body is read.
                let is_about_keys = operation.name == "DeleteObjects" || is_about_nothing(operation.name);
                let prefix = query.get("prefix").unwrap_or_default();
                let lists_its_own =
                    operation.lists_keys() && keys.allows_key(self.access_key, bucket, prefix, action);

                if is_about_keys || lists_its_own {
                    Ok(())
                } else {
                    Err(denied("The access key is limited to prefixes: name one of them."))
                }
            }
        }
    }

    /// Checks that the caller may do `action` to the object.
    pub(super) fn check_key(&self, bucket: &str, key: &str, action: Action) -> S3Result<()> {
        self.check_bucket(bucket, action)?;
        // An origin that maps keys to paths would leave the prefix through such a segment.
        let is_climbing = key.split(['/', '\\']).any(|segment| matches!(segment, "." | ".."));
        if is_climbing && self.node.keys().is_limited_to_prefixes(self.access_key) {
            return Err(denied("Access Denied"));
        }

        if self.node.keys().allows_key(self.access_key, bucket, key, action) {
            Ok(())
        } else {
            Err(denied("Access Denied"))
        }
    }

    fn check_bucket(&self, bucket: &str, action: Action) -> S3Result<()> {
        if !self.node.keys().allows(self.access_key, bucket, action) {
            return Err(denied("Access Denied"));
        }
        let read_only = self.node.bucket(bucket).is_some_and(|bucket| bucket.rules().read_only);
        match action {
            Action::Write if read_only => Err(denied("The bucket is read-only.")),
            Action::Read | Action::Write => Ok(()),
        }
    }
}

/// Returns true if the operation reveals nothing secret to a caller that may read the bucket.
fn is_about_nothing(operation: &str) -> bool {
    matches!(operation, "HeadBucket" | "GetBucketLocation" | "GetBucketVersioning")
}

fn denied(message: &'static str) -> S3Error {
    S3Error::with_message(S3ErrorCode::AccessDenied, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &'static str) -> Option<CopySourceHeader> {
        let headers: HeaderMap =
            [(COPY_SOURCE.parse().unwrap(), http::HeaderValue::from_static(text))].into_iter().collect();
        CopySourceHeader::of(&headers).ok().flatten()
    }

    #[test]
    fn the_source_of_a_copy_is_found_however_it_is_escaped() {
        let expected = |key: &str, version: Option<&str>| {
            Some(CopySourceHeader {
                bucket: "b".into(),
                key: key.into(),
                version: version.map(str::to_owned),
            })
        };

        assert_eq!(source("b/k"), expected("k", None));
        assert_eq!(source("/b/a//k%3F+%25"), expected("a//k?+%", None));
        assert_eq!(source("b%2Fk?versionId=a%2B"), expected("k", Some("a+")));
        for wrong in ["b", "/b/", "", "//k", "arn:aws:s3:x/object/k"] {
            assert_eq!(source(wrong), None, "{wrong:?}");
        }
    }
}
