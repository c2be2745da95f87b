//! Paths that clients send: a bucket, and a path, pattern or prefix within it.

use stylobate_storage::is_reserved_key;
use tonic::{Code, Status};

use super::error::{invalid, status};
use crate::{Action, Bucket, Node};

/// Maximum length of a path in bytes of UTF-8, as for keys.
const MAX_PATH_BYTES: usize = 1024;

/// A bucket's name and a path within it, empty for the whole bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BucketPath<'a> {
    pub(super) bucket: &'a str,
    pub(super) within: &'a str,
}

impl<'a> BucketPath<'a> {
    /// Parses `bucket`, `bucket/path` or `bucket/folder/`. Nothing is normalized: a path with a `..` is refused.
    pub(super) fn parse(path: &'a str) -> Result<Self, Status> {
        let (bucket, within) = path.split_once('/').unwrap_or((path, ""));
        let segments = within.strip_suffix('/').unwrap_or(within);
        let odd = |segment: &str| matches!(segment, "" | "." | "..");
        let refused = bucket.is_empty()
            || path.len() > MAX_PATH_BYTES
            || path.contains('\\')
            || path.chars().any(char::is_control)
            || !within.is_empty() && segments.split('/').any(odd)
            || is_reserved_key(within)
            || begins_with_hidden_pattern(within);

        if refused {
            Err(invalid(
                "path: write bucket/path, without a leading slash, empty segments, '.' and '..' as segments, \
                 backslashes and control characters",
            ))
        } else {
            Ok(Self { bucket, within })
        }
    }

    /// Returns the bucket, if the caller has this access. A caller without access does not learn whether the bucket
    /// exists.
    pub(super) fn open(
        self,
        node: &'a Node,
        caller: Option<&str>,
        action: Action,
    ) -> Result<&'a Bucket, Status> {
        let literal = self.within.split(['*', '?', '[']).next().unwrap_or_default();
        if !node.keys().allows_key(caller, self.bucket, literal, action) {
            return Err(status(Code::PermissionDenied, "this token does not allow it"));
        }
        node.bucket(self.bucket).ok_or_else(|| status(Code::NotFound, "no such bucket"))
    }
}

/// Returns true if a pattern could match the node's own hidden names, which begin with a dot.
fn begins_with_hidden_pattern(within: &str) -> bool {
    let first = within.split('/').next().unwrap_or_default();
    within.starts_with('.') && first.contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_segment_is_the_bucket() {
        for (path, bucket, within) in [
            ("lake", "lake", ""),
            ("lake/", "lake", ""),
            ("lake/a/b.parquet", "lake", "a/b.parquet"),
            ("lake/a/*.parquet", "lake", "a/*.parquet"),
            ("lake/day=1/", "lake", "day=1/"),
            ("lake/a b/%2e%2e/ключ", "lake", "a b/%2e%2e/ключ"),
        ] {
            assert_eq!(BucketPath::parse(path).unwrap(), BucketPath { bucket, within }, "{path}");
        }
    }

    #[test]
    fn a_path_that_would_have_to_be_repaired_is_refused() {
        let long = format!("lake/{}", "a".repeat(1024));
        for path in [
            "",
            "/",
            "/lake",
            "lake//",
            "lake//a",
            "lake/a//b",
            "lake/..",
            "lake/../b",
            "lake/a/../../b",
            "lake/.",
            "lake/./a",
            "lake/a\\b",
            "lake/a\0",
            "lake/a\nb",
            "s3://lake/a",
            "lake/.stylobate-uploads/a",
            "lake/.stylobate-upload?/a",
            &long,
        ] {
            assert_eq!(BucketPath::parse(path).unwrap_err().code(), Code::InvalidArgument, "{path:?}");
        }
    }
}
