//! Headers with which an origin describes an object, kept with the version that they describe.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{
        ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE,
        ETAG, EXPIRES, LAST_MODIFIED,
    },
};
use parking_lot::Mutex;

/// Headers that describe an object, regardless of the request.
const OF_OBJECT: [HeaderName; 9] = [
    ACCEPT_RANGES,
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_TYPE,
    ETAG,
    EXPIRES,
    LAST_MODIFIED,
];

/// S3 headers that describe the request rather than the object.
const OF_REQUEST: [&str; 3] = ["x-amz-request-id", "x-amz-id-2", "x-amz-request-charged"];

const CHECKSUM: &str = "x-amz-checksum-";

/// The headers with which an origin describes an object, as received. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ObjectHeaders {
    headers: Arc<[(HeaderName, HeaderValue)]>,
    /// True if they come with a part of the object: such a response has no checksums of the whole.
    is_of_part: bool,
}

impl ObjectHeaders {
    /// Returns the names and values, in the order of the response.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.headers.iter().map(|(name, value)| (name, value))
    }

    /// Returns false if the object may have checksums that are not among the headers.
    pub fn has_all_checksums(&self) -> bool {
        !self.is_of_part
    }

    /// Returns about how much memory the headers take, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of_val(&*self.headers)
            + self.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
    }

    /// Returns the first value of a header.
    pub fn get(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.iter().find_map(|(found, value)| (found == name).then_some(value))
    }

    /// Returns the names and values as text; values are decoded as Latin-1, so that each byte is a character.
    pub(crate) fn to_record(&self) -> Vec<(String, String)> {
        let text = |value: &HeaderValue| value.as_bytes().iter().copied().map(char::from).collect();
        self.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    /// Returns the headers with these names and values; `None` if any of them is not a valid header.
    pub(crate) fn of_record(record: &[(String, String)]) -> Option<Self> {
        let value = |text: &str| {
            let bytes: Option<Vec<u8>> = text.chars().map(|letter| u8::try_from(letter).ok()).collect();
            HeaderValue::from_bytes(&bytes?).ok()
        };
        let headers = record.iter().map(|(name, text)| Some((name.parse().ok()?, value(text)?)));
        Some(Self { headers: headers.collect::<Option<_>>()?, is_of_part: false })
    }

    /// Keeps the headers that describe the object. The values share one allocation, so that they do not retain the
    /// response's buffer.
    fn of_answer(headers: &HeaderMap, status: StatusCode) -> Self {
        let is_part = status == StatusCode::PARTIAL_CONTENT;
        let kept = || {
            headers.iter().filter(|(name, _)| {
                let text = name.as_str();
                let of_s3 = text.starts_with("x-amz-") && !OF_REQUEST.contains(&text);
                OF_OBJECT.contains(name) || of_s3 && !(is_part && text.starts_with(CHECKSUM))
            })
        };

        let mut text = BytesMut::with_capacity(kept().map(|(_, value)| value.len()).sum());
        kept().for_each(|(_, value)| text.extend_from_slice(value.as_bytes()));

        let mut text: Bytes = text.freeze();
        let copied = kept().filter_map(|(name, value)| {
            let copy = HeaderValue::from_maybe_shared(text.split_to(value.len())).ok()?;
            Some((name.clone(), copy))
        });
        Self { headers: copied.collect(), is_of_part: is_part }
    }
}

/// A slot for the headers of a response, passed to an origin's client with the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapturedHeaders(Arc<Mutex<Option<ObjectHeaders>>>);

impl CapturedHeaders {
    /// Returns extensions of a request that carry this slot.
    pub(crate) fn to_extensions(&self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(self.clone());
        extensions
    }

    pub(crate) fn set(&self, headers: &HeaderMap, status: StatusCode) {
        *self.0.lock() = Some(ObjectHeaders::of_answer(headers, status));
    }

    /// Takes the headers if they describe the version with this ETag. If two requests were sent for one read, either
    /// response may have been captured last.
    pub(crate) fn take(&self, etag: Option<&str>) -> Option<ObjectHeaders> {
        let headers = self.0.lock().take()?;
        let seen = headers.get(&ETAG).and_then(|value| value.to_str().ok());
        (seen == etag).then_some(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> HeaderMap {
        let pairs = [
            ("etag", "\"x\""),
            ("content-type", "text/plain"),
            ("content-length", "3"),
            ("date", "now"),
            ("x-amz-meta-who", "me"),
            ("x-amz-request-id", "1"),
            ("x-amz-checksum-crc32", "AAAA"),
        ];
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn names(headers: &ObjectHeaders) -> Vec<&str> {
        let mut names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_is_about_the_object_is_kept() {
        let kept = ObjectHeaders::of_answer(&answer(), StatusCode::OK);
        assert_eq!(names(&kept), ["content-type", "etag", "x-amz-checksum-crc32", "x-amz-meta-who"]);
        assert_eq!(kept.get(&ETAG).unwrap(), "\"x\"");
    }

    #[test]
    fn the_checksum_of_a_part_is_not_that_of_the_object() {
        let kept = ObjectHeaders::of_answer(&answer(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(names(&kept), ["content-type", "etag", "x-amz-meta-who"]);
    }

    #[test]
    fn headers_survive_as_texts() {
        let mut answer = answer();
        answer.insert("x-amz-meta-odd", HeaderValue::from_bytes(b"caf\xe9 \xff").unwrap());
        let kept = ObjectHeaders::of_answer(&answer, StatusCode::OK);
        let back = ObjectHeaders::of_record(&kept.to_record()).unwrap();
        assert!(kept.iter().eq(back.iter()));
        assert!(ObjectHeaders::of_record(&[("a b".to_owned(), "x".to_owned())]).is_none());
        assert!(ObjectHeaders::of_record(&[("a".to_owned(), "\u{20ac}".to_owned())]).is_none());
    }

    #[test]
    fn headers_of_another_version_are_not_taken() {
        let seen = CapturedHeaders::default();
        seen.set(&answer(), StatusCode::OK);
        assert!(seen.clone().take(Some("\"y\"")).is_none());
        seen.set(&answer(), StatusCode::OK);
        assert!(seen.take(Some("\"x\"")).is_some());
    }
}
