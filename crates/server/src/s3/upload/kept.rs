//! Headers that a folder keeps with an object in addition to the object_store attributes: ETag, checksums, tags,
//! expiry.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{ETAG, EXPIRES},
};
use s3s::{
    S3Result,
    dto::{Checksum, Timestamp, TimestampFormat},
    s3_error,
};
use stylobate_storage::KeptHeaders;

use crate::s3::wire::{attributes::DescriptiveHeaders, target::QueryParameters};

pub(crate) const TAGGING: HeaderName = HeaderName::from_static("x-amz-tagging");
const REDIRECT: HeaderName = HeaderName::from_static("x-amz-website-redirect-location");
const CHECKSUM_TYPE: HeaderName = HeaderName::from_static("x-amz-checksum-type");

/// Type of a checksum over all bytes, as opposed to one over the checksums of parts.
pub(crate) const FULL_OBJECT: &str = "FULL_OBJECT";

const MAX_TAGS: usize = 10;
const MAX_TAG_KEY: usize = 128;
const MAX_TAG_VALUE: usize = 256;

/// Headers of a write that only a folder keeps.
#[derive(Default)]
pub(crate) struct FolderOnlyHeaders<'a> {
    pub(crate) expires: Option<&'a Timestamp>,
    pub(crate) tagging: Option<&'a str>,
    pub(crate) redirect: Option<&'a str>,
}

impl FolderOnlyHeaders<'_> {
    /// Returns the headers to keep. Fails if the tags are invalid.
    pub(crate) fn to_kept(&self) -> S3Result<KeptHeaders> {
        let kept = KeptHeaders::default();
        if let Some(tagging) = self.tagging.filter(|tagging| !tagging.is_empty()) {
            set(&kept, TAGGING, &tagging_text(&tags_of(tagging)?));
        }
        if let Some(redirect) = self.redirect {
            set(&kept, REDIRECT, redirect);
        }

        let mut expires = Vec::new();
        if let Some(time) = self.expires
            && time.format(TimestampFormat::HttpDate, &mut expires).is_ok()
        {
            set(&kept, EXPIRES, &String::from_utf8_lossy(&expires));
        }
        Ok(kept)
    }
}

/// Adds the descriptive headers, which any store keeps.
pub(crate) fn keep_described(kept: &KeptHeaders, described: DescriptiveHeaders) {
    for (name, value) in described.into_headers() {
        kept.set(name, value);
    }
}

/// Adds the verified checksums.
pub(crate) fn keep_checksums(kept: &KeptHeaders, checksum: &Checksum, kind: &str) {
    let mut is_any = false;
    for (name, value) in [
        ("x-amz-checksum-crc32", &checksum.checksum_crc32),
        ("x-amz-checksum-crc32c", &checksum.checksum_crc32c),
        ("x-amz-checksum-crc64nvme", &checksum.checksum_crc64nvme),
        ("x-amz-checksum-sha1", &checksum.checksum_sha1),
        ("x-amz-checksum-sha256", &checksum.checksum_sha256),
    ] {
        if let Some(value) = value {
            set(kept, HeaderName::from_static(name), value);
            is_any = true;
        }
    }

    if is_any {
        set(kept, CHECKSUM_TYPE, kind);
    }
}

/// Returns the checksums among the headers of an object.
pub(crate) fn checksums_of(headers: &HeaderMap) -> Checksum {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Checksum {
        checksum_crc32: value("x-amz-checksum-crc32"),
        checksum_crc32c: value("x-amz-checksum-crc32c"),
        checksum_crc64nvme: value("x-amz-checksum-crc64nvme"),
        checksum_sha1: value("x-amz-checksum-sha1"),
        checksum_sha256: value("x-amz-checksum-sha256"),
        ..Default::default()
    }
}

/// Adds an ETag, given without quotes.
pub(crate) fn keep_etag(kept: &KeptHeaders, etag: &str) {
    set(kept, ETAG, &format!("\"{etag}\""));
}

fn set(kept: &KeptHeaders, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        kept.set(name, value);
    }
}

/// Parses the tags of a header, in order.
pub(crate) fn tags_of(header: &str) -> S3Result<Vec<(String, String)>> {
    let uri = http::Uri::builder().path_and_query(format!("/?{header}")).build();
    let uri =
        uri.map_err(|_| s3_error!(InvalidArgument, "The header 'x-amz-tagging' shall be encoded as UTF-8"))?;
    let query = QueryParameters::of(&uri);
    let tags = query.0.into_iter().map(|tag| (tag.name, tag.value.unwrap_or_default()));
    check_tags(tags.collect())
}

/// Checks the tags against S3's rules.
pub(crate) fn check_tags(tags: Vec<(String, String)>) -> S3Result<Vec<(String, String)>> {
    if tags.len() > MAX_TAGS {
        return Err(s3_error!(InvalidTag, "Object tags cannot be greater than {MAX_TAGS}"));
    }
    for (index, (key, value)) in tags.iter().enumerate() {
        if key.is_empty() || key.chars().count() > MAX_TAG_KEY {
            return Err(s3_error!(InvalidTag, "The TagKey you have provided is invalid"));
        }
        if value.chars().count() > MAX_TAG_VALUE {
            return Err(s3_error!(InvalidTag, "The TagValue you have provided is invalid"));
        }
        if tags.iter().take(index).any(|(other, _)| other == key) {
            return Err(s3_error!(InvalidTag, "Cannot provide multiple Tags with the same key"));
        }
    }

    Ok(tags)
}

/// Formats tags as a header.
pub(crate) fn tagging_text(tags: &[(String, String)]) -> String {
    let parameters = tags.iter().map(|(name, value)| crate::s3::wire::target::QueryParameter {
        name: name.clone(),
        value: Some(value.clone()),
    });
    QueryParameters(parameters.collect()).to_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_back_from_their_header() {
        let tags = tags_of("a=1&b%20c=x%26y&empty=").unwrap();
        assert_eq!(tags[1], ("b c".to_owned(), "x&y".to_owned()));
        assert_eq!(tags_of(&tagging_text(&tags)).unwrap(), tags);
        assert!(tags_of("").unwrap().is_empty());
    }

    #[test]
    fn tags_that_no_object_may_have_are_refused() {
        let code = |header: &str| tags_of(header).unwrap_err().code().as_str().to_owned();
        assert_eq!(code("a=1&a=2"), "InvalidTag");
        assert_eq!(code("=1"), "InvalidTag");
        assert_eq!(code(&format!("a={}", "x".repeat(257))), "InvalidTag");
        let many: Vec<_> = (0..11).map(|i| format!("k{i}=v")).collect();
        assert_eq!(code(&many.join("&")), "InvalidTag");
    }
}
