//! Maps errors to gRPC statuses, without any error text of an origin.

use stylobate_columnar::Error;
use stylobate_storage::{Error as StorageError, redacted};
use tonic::{Code, Status};

use crate::Bucket;

/// Maximum characters of a message: a status travels in a header, and clients accept headers of a few KiB only.
const MAX_MESSAGE_CHARS: usize = 600;

/// Creates a status whose message is truncated to `MAX_MESSAGE_CHARS` characters.
pub(super) fn status(code: Code, message: impl Into<String>) -> Status {
    let mut message = message.into();
    if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
        message.truncate(end);
        message.push('…');
    }
    Status::new(code, message)
}

/// Creates the status of an invalid request.
pub(super) fn invalid(message: impl Into<String>) -> Status {
    status(Code::InvalidArgument, message)
}

/// Maps origin URLs to the public names of buckets and their objects.
#[derive(Clone, Debug)]
pub(super) struct BucketNaming {
    /// The bucket of errors that give a path without a bucket.
    bucket: String,
    /// The URL of each origin, with the name of its bucket.
    origins: Vec<(String, String)>,
}

impl From<&Bucket> for BucketNaming {
    fn from(bucket: &Bucket) -> Self {
        Self { bucket: bucket.name.clone(), origins: vec![(origin_url(bucket), bucket.name.clone())] }
    }
}

fn origin_url(bucket: &Bucket) -> String {
    format!("{}/", bucket.reader.origin().name().trim_end_matches('/'))
}

impl BucketNaming {
    /// Creates the mapping for all of these buckets.
    #[cfg(feature = "sql")]
    pub(super) fn of_all<'a>(buckets: impl IntoIterator<Item = &'a Bucket>) -> Self {
        let mut origins: Vec<(String, String)> =
            buckets.into_iter().map(|bucket| (origin_url(bucket), bucket.name.clone())).collect();
        let names: Vec<&str> = origins.iter().map(|(_, name)| name.as_str()).collect();
        let bucket = names.join(" or ");
        // The longest first, since an origin may be a folder of another one.
        origins.sort_by_key(|(origin, _)| std::cmp::Reverse(origin.len()));
        Self { bucket, origins }
    }

    /// Replaces the origins' URLs in a text by public names.
    #[cfg(feature = "sql")]
    pub(super) fn in_text(&self, text: &str) -> String {
        let replaced =
            |text: String, (origin, bucket): &(String, String)| text.replace(origin, &format!("{bucket}/"));
        self.origins.iter().fold(text.to_owned(), replaced)
    }

    fn path(&self, within: &str) -> String {
        format!("{}/{within}", self.bucket)
    }

    /// Returns the public name of an origin's URL; for a URL outside these buckets, only its last segment.
    fn object(&self, url: &str) -> String {
        let public = |(origin, bucket): &(String, String)| {
            url.strip_prefix(origin.as_str()).map(|within| format!("{bucket}/{within}"))
        };
        let public = self.origins.iter().find_map(public);
        public.unwrap_or_else(|| url.rsplit('/').next().unwrap_or_default().to_owned())
    }
}

/// Maps an error of a scan of the bucket to a status.
pub(super) fn from_scan(error: &Error, names: &BucketNaming) -> Status {
    let mut named = error.clone();
    match &mut named {
        Error::Format { object }
        | Error::Encrypted { object }
        | Error::Corrupt { object, .. }
        | Error::Schema { object, .. }
        | Error::Unsupported { object, .. }
        | Error::BatchTooLong { object, .. } => *object = names.object(object),
        Error::NoFiles { pattern } | Error::Pattern { pattern, .. } => *pattern = names.path(pattern),
        _ => {}
    }

    let code = match error {
        Error::Storage(error) => return from_storage(error, &names.bucket),
        Error::NoFiles { .. } => Code::NotFound,
        Error::NoSuchColumn { .. }
        | Error::Predicate { .. }
        | Error::Pattern { .. }
        | Error::Option { .. }
        | Error::Format { .. } => Code::InvalidArgument,
        Error::Corrupt { .. } => Code::DataLoss,
        Error::Encrypted { .. }
        | Error::Schema { .. }
        | Error::Unsupported { .. }
        | Error::BatchTooLong { .. } => Code::FailedPrecondition,
        Error::Ended { .. } => Code::Unavailable,
        _ => {
            tracing::warn!(error = %redacted(&error.to_string()), "a scan failed");
            return status(Code::Internal, "the scan failed");
        }
    };

    status(code, redacted(&named.to_string()))
}

/// Maps an error of the storage crate to a status.
pub(super) fn from_storage(error: &StorageError, bucket: &str) -> Status {
    let (code, message) = match error {
        StorageError::NotFound { path } => {
            return status(Code::NotFound, format!("{bucket}/{path}: no such object"));
        }
        StorageError::Changed { path } => {
            return status(
                Code::Aborted,
                format!("{bucket}/{path}: the object changed: ask for the flight again"),
            );
        }
        StorageError::ImpossiblePath { .. } => {
            return status(Code::InvalidArgument, "the bucket's origin cannot hold such a path");
        }
        StorageError::Deadline { .. } => (Code::Unavailable, "the origin did not answer in time"),
        StorageError::Truncated { .. } => (Code::Unavailable, "the origin's answer was cut off"),
        StorageError::Origin { source, .. } => match **source {
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                (Code::Internal, "the bucket's origin denied the node access")
            }
            _ => (Code::Internal, "the bucket's origin failed"),
        },
        _ => (Code::Internal, "the object cannot be read"),
    };
    tracing::warn!(error = %redacted(&error.to_string()), "origin failed");

    status(code, message)
}

/// Returns the name of a code in the gRPC specification.
pub(super) fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn names() -> BucketNaming {
        BucketNaming {
            bucket: "lake".to_owned(),
            origins: vec![("s3://far/prefix/".to_owned(), "lake".to_owned())],
        }
    }

    fn origin(source: object_store::Error) -> Error {
        StorageError::Origin { path: "a".into(), source: Arc::new(source) }.into()
    }

    #[test]
    fn every_kind_of_error_has_a_code() {
        let text = || "a".to_owned();
        for (error, code) in [
            (Error::NoFiles { pattern: text() }, Code::NotFound),
            (StorageError::NotFound { path: text() }.into(), Code::NotFound),
            (Error::NoSuchColumn { column: text(), available: text() }, Code::InvalidArgument),
            (Error::Predicate { reason: text() }, Code::InvalidArgument),
            (Error::Pattern { pattern: text(), reason: text() }, Code::InvalidArgument),
            (Error::Format { object: text() }, Code::InvalidArgument),
            (Error::Encrypted { object: text() }, Code::FailedPrecondition),
            (Error::Unsupported { object: text(), column: None, reason: text() }, Code::FailedPrecondition),
            (Error::BatchTooLong { object: text(), column: None, reason: text() }, Code::FailedPrecondition),
            (Error::Schema { object: text(), column: text(), reason: text() }, Code::FailedPrecondition),
            (StorageError::Changed { path: text() }.into(), Code::Aborted),
            (StorageError::Deadline { path: text(), deadline_ms: 1 }.into(), Code::Unavailable),
        ] {
            assert_eq!(from_scan(&error, &names()).code(), code, "{error}");
        }
    }

    #[test]
    fn nothing_that_an_origin_says_reaches_the_client() {
        let source = "GET https://b.s3.amazonaws.com/a?X-Amz-Signature=abc failed".into();
        let status = from_scan(&origin(object_store::Error::Generic { store: "S3", source }), &names());
        assert_eq!(status.code(), Code::Internal);
        assert!(!format!("{status:?}").contains("abc") && !format!("{status:?}").contains("amazonaws"));
    }

    #[test]
    fn objects_are_called_by_their_bucket() {
        let said = |object: &str| {
            from_scan(&Error::Encrypted { object: object.to_owned() }, &names()).message().to_owned()
        };
        assert!(said("s3://far/prefix/a/b.parquet").starts_with("lake/a/b.parquet: "));
        assert!(said("file:///secret/folder/b.parquet").starts_with("b.parquet: "));
        let gone = from_scan(&Error::NoFiles { pattern: "a/*".into() }, &names());
        assert!(gone.message().starts_with("lake/a/*: "));
    }

    #[test]
    fn a_message_is_short_enough_for_a_header() {
        assert!(invalid("é".repeat(70_000)).message().len() < 2_000);
        assert_eq!(invalid("short").message(), "short");
    }
}
