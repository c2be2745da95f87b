//! Maps bucket names and keys between clients and the origin.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use stylobate_storage::S3Endpoint;

use super::xml::{self, MalformedXml};
use crate::{node::Bucket, s3::wire::target::encode_path};

/// The client's and the origin's name of a bucket, and the key prefix at the origin.
pub(super) struct BucketNames<'a> {
    pub(super) bucket: &'a str,
    pub(super) origin_bucket: &'a str,
    pub(super) prefix: &'a str,
}

impl<'a> BucketNames<'a> {
    pub(super) fn of(bucket: &'a Bucket, endpoint: &'a S3Endpoint) -> Self {
        Self { bucket: &bucket.name, origin_bucket: endpoint.bucket(), prefix: endpoint.key_prefix() }
    }

    /// Returns true if client and origin use the same names, so that answers need no rewriting.
    pub(super) fn are_same(&self) -> bool {
        self.bucket == self.origin_bucket && self.prefix.is_empty()
    }

    /// Returns the key at the origin.
    pub(super) fn to_origin(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Rewrites the origin's answer to the names that clients use.
    pub(super) fn rewrite_answer(&self, xml: &str) -> Result<String, MalformedXml> {
        xml::rewrite(xml, |path, text| {
            let name = path.last().copied().unwrap_or_default();
            let parent = path.len().checked_sub(2).and_then(|at| path.get(at)).copied();
            match (name, parent) {
                ("Name" | "Bucket" | "BucketName", _) if text == self.origin_bucket => {
                    Some(self.bucket.to_owned())
                }
                ("Key", Some("Tag")) => None,
                (
                    "Key" | "Prefix" | "Marker" | "NextMarker" | "StartAfter" | "KeyMarker" | "NextKeyMarker",
                    _,
                ) => self.without_prefix(text).map(Cow::into_owned),
                ("Location", Some("CompleteMultipartUploadResult")) => self.rewrite_location(text),
                ("Resource", Some("Error")) => self.rewrite_location(text),
                _ => None,
            }
        })
    }

    /// Rewrites the keys of a deletion request to those of the origin.
    pub(super) fn rewrite_deletion(&self, xml: &str) -> Result<String, MalformedXml> {
        xml::rewrite(xml, |path, key| is_deleted_key(path).then(|| self.to_origin(key)))
    }

    /// Strips the origin's prefix from the key, which may be URL-encoded.
    fn without_prefix<'k>(&self, key: &'k str) -> Option<Cow<'k, str>> {
        if let Some(rest) = key.strip_prefix(self.prefix) {
            return Some(Cow::Borrowed(rest));
        }
        // The shortest beginning of the key that decodes to the prefix.
        let ends = key.char_indices().map(|(at, c)| at + c.len_utf8());
        let end = ends.take_while(|end| *end <= self.prefix.len() * 3).find(|end| {
            let decoded = |head: &str| percent_decode_str(head).decode_utf8_lossy().into_owned();
            key.get(..*end).is_some_and(|head| {
                decoded(head) == self.prefix || decoded(&head.replace('+', " ")) == self.prefix
            })
        })?;

        key.get(end..).map(Cow::Borrowed)
    }

    /// Rewrites the URL or path of an object to the names that clients use.
    fn rewrite_location(&self, location: &str) -> Option<String> {
        let begin = format!("{}/{}", self.origin_bucket, self.prefix);
        let encoded = format!("{}/{}", self.origin_bucket, encode_path(self.prefix));
        let key = location.split_once(&begin).or_else(|| location.split_once(&encoded))?.1;
        Some(format!("/{}/{key}", self.bucket))
    }
}

/// Returns true if this is the XML path of a key in a deletion request.
pub(super) fn is_deleted_key(path: &[&str]) -> bool {
    matches!(path, [_, "Object", "Key"])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: BucketNames<'static> =
        BucketNames { bucket: "lake", origin_bucket: "origin", prefix: "a b/c/" };

    #[test]
    fn a_listing_is_handed_on_in_the_names_of_the_client() {
        let listing = "<ListBucketResult><Name>origin</Name><Prefix>a%20b/c/d</Prefix><Contents><Key>a b/c/d/e</Key>\
            <Owner><DisplayName>origin</DisplayName></Owner></Contents><Contents><Key>a+b%2Fc%2Fx</Key></Contents>\
            <CommonPrefixes><Prefix>a%20b%2Fc%2Ff/</Prefix></CommonPrefixes></ListBucketResult>";
        let tags = "<Tagging><TagSet><Tag><Key>a b/c/k</Key></Tag></TagSet></Tagging>";
        assert_eq!(NAMES.rewrite_answer(tags).unwrap(), tags);
        let rewritten = NAMES.rewrite_answer(listing).unwrap();
        let expected = "<ListBucketResult><Name>lake</Name><Prefix>d</Prefix><Contents><Key>d/e</Key>\
            <Owner><DisplayName>origin</DisplayName></Owner></Contents><Contents><Key>x</Key></Contents>\
            <CommonPrefixes><Prefix>f/</Prefix></CommonPrefixes></ListBucketResult>";
        assert_eq!(rewritten, expected);
    }

    #[test]
    fn keys_to_delete_are_named_as_the_origin_does() {
        let xml = "<Delete><Object><Key>x&amp;y</Key></Object><Quiet>true</Quiet></Delete>";
        let rewritten = NAMES.rewrite_deletion(xml).unwrap();
        assert_eq!(rewritten, xml.replace("x&amp;y", "a b/c/x&amp;y"));
    }
}
