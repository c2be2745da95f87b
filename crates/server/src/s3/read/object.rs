//! GET and HEAD of an object, answered from the cache: conditions, ranges, and the headers that describe the object.
//!
//! The headers that an S3 origin sent for an object are passed on unchanged, and unusual requests are forwarded to
//! the origin.

use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{
        ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE,
        CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, EXPIRES, IF_MATCH, IF_MODIFIED_SINCE,
        IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, RANGE,
    },
};
use object_store::GetResult;
use s3s::{
    Body, HttpResponse, S3Result,
    dto::{self, ETag, ETagCondition, StreamingBlob, Timestamp, TimestampFormat},
    s3_error,
};
use stylobate_storage::ObjectHeaders;

use super::{
    body::ObjectBody,
    conditions::{ReadConditions, timestamp},
    open::{self as read, OpenedObject},
    range::{RangeHeaderAction, RequestedRange, classify_range_header, content_range},
};
use crate::{
    node::Bucket,
    s3::{
        door::refuse_version,
        wire::{
            attributes::{DescriptiveHeaders, METADATA, STORAGE_CLASS, type_of},
            error, etag, header_text,
            keys::CheckedKey,
            target::QueryParameters,
        },
    },
};

/// Prefixes of headers that make a read unsuitable for the cache: encryption under a customer key, and an expected
/// bucket owner that the origin must compare.
const UNUSUAL: [&str; 2] = ["x-amz-server-side-encryption-customer-", "x-amz-expected-bucket-owner"];

const CHECKSUM: &str = "x-amz-checksum-";
const CHECKSUM_MODE: &str = "x-amz-checksum-mode";
const CUSTOMER_KEY: HeaderName = HeaderName::from_static("x-amz-server-side-encryption-customer-algorithm");

/// Parameters that override headers of the answer.
const OVERRIDES: [(&str, HeaderName); 6] = [
    ("response-cache-control", CACHE_CONTROL),
    ("response-content-disposition", CONTENT_DISPOSITION),
    ("response-content-encoding", CONTENT_ENCODING),
    ("response-content-language", CONTENT_LANGUAGE),
    ("response-content-type", CONTENT_TYPE),
    ("response-expires", EXPIRES),
];

/// A GET or HEAD of an object.
#[derive(Clone, Copy)]
pub(crate) struct ObjectRead<'a> {
    pub(crate) bucket: &'a Bucket,
    pub(crate) key: &'a str,
    pub(crate) is_head: bool,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: &'a QueryParameters,
}

impl ObjectRead<'_> {
    /// Answers from the cache; `None` if the request must be forwarded to an S3 origin.
    pub(crate) async fn answer(&self) -> S3Result<Option<HttpResponse>> {
        let asks_origin = self.bucket.reader.origin().s3().is_some();
        if asks_origin && !self.is_usual() {
            return Ok(None);
        }
        self.refuse_unserved()?;
        let path = match CheckedKey::at(self.bucket.reader.origin(), self.key) {
            Ok(CheckedKey::Object(path)) => path,
            Ok(CheckedKey::Folder) | Err(_) if asks_origin => return Ok(None),
            // A key that no object can have is reported as a missing object.
            Ok(CheckedKey::Folder) | Err(_) => return Err(error::no_such_key()),
        };

        let conditions = match conditions(self.headers) {
            Some(conditions) if !(asks_origin && conditions.name_any()) => conditions,
            _ if asks_origin => return Ok(None),
            _ => return Err(s3_error!(NotImplemented, "conditions know one ETag or *")),
        };
        let reader = &self.bucket.reader;
        let (reader, path) = match self.query.get("versionId").filter(|_| asks_origin) {
            Some(version) => match reader.object_version(&path, version) {
                Some(version) => version,
                None => return Ok(None),
            },
            None => (reader, path),
        };

        let mut wanted = wanted(self.headers, self.part()?)?;
        if wanted.is_partial() && self.headers.contains_key(IF_RANGE) {
            let current = read::look(reader, &path, &conditions).await?;
            if !is_current(self.headers, &current.result) {
                wanted = RequestedRange::All;
            }
        }

        let mut opened = if self.is_head {
            read::look(reader, &path, &conditions).await?
        } else {
            read::open(reader, &path, &wanted, &conditions).await?
        };
        // The object may have been replaced since its metadata was read.
        let is_bound = wanted.is_partial() && self.headers.contains_key(IF_RANGE);
        if is_bound && !is_current(self.headers, &opened.result) {
            wanted = RequestedRange::All;
            opened = read::open(reader, &path, &wanted, &conditions).await?;
        }

        let with_checksums = asks_for_checksums(self.headers);
        let has_checksums = opened.headers.as_ref().is_none_or(ObjectHeaders::has_all_checksums);
        if self.is_head && asks_origin && with_checksums && !has_checksums {
            return Ok(None);
        }

        let size = opened.result.meta.size;
        if wanted.within(size).is_none() {
            return Err(error::invalid_range(size));
        }
        if !self.is_head {
            let range = &opened.result.range;
            self.bucket.hot_keys().record(path.as_ref(), range.end - range.start);
        }
        let mut answer = respond(opened, &wanted, path.as_ref(), self.is_head, with_checksums);

        for (parameter, name) in OVERRIDES {
            if let Some(value) = self.query.get(parameter) {
                let value = HeaderValue::from_bytes(value.as_bytes())
                    .map_err(|_| s3_error!(InvalidArgument, "invalid {parameter}"))?;
                answer.headers_mut().insert(name, value);
            }
        }

        Ok(Some(answer))
    }

    /// Refuses requests that only S3 origins support.
    fn refuse_unserved(&self) -> S3Result<()> {
        refuse_version(self.query.get("versionId"))?;
        read::refuse_customer_key(header_text::value(self.headers, &CUSTOMER_KEY))
    }

    /// Returns the requested part number.
    fn part(&self) -> S3Result<Option<i32>> {
        let number = self.query.get("partNumber").map(str::parse).transpose();
        number.map_err(|_| s3_error!(InvalidArgument, "partNumber must be a number"))
    }

    /// Returns true if this is an ordinary read of the current version.
    fn is_usual(&self) -> bool {
        let is_usual =
            |name: &HeaderName| !UNUSUAL.iter().any(|beginning| name.as_str().starts_with(beginning));
        self.headers.keys().all(is_usual) && !self.query.has("partNumber")
    }
}

/// Returns true if a client requests the object's checksums, which cover the whole object.
pub(crate) fn asks_for_checksums(headers: &HeaderMap) -> bool {
    headers.get(CHECKSUM_MODE).is_some_and(|mode| mode.as_bytes().eq_ignore_ascii_case(b"enabled"))
}

/// Builds the answer with the requested bytes of an object.
pub(crate) fn respond(
    opened: OpenedObject,
    wanted: &RequestedRange,
    path: &str,
    is_head: bool,
    with_checksums: bool,
) -> HttpResponse {
    let OpenedObject { result, headers: described } = opened;
    let size = result.meta.size;
    let range = if is_head { wanted.within(size).unwrap_or(0..size) } else { result.range.clone() };
    let length = range.end - range.start;

    let mut headers = HeaderMap::with_capacity(12);
    match described {
        Some(described) => {
            let with_checksums = with_checksums && !wanted.is_partial();
            let kept = |name: &HeaderName| with_checksums || !name.as_str().starts_with(CHECKSUM);
            for (name, value) in described.iter().filter(|(name, _)| kept(name)) {
                headers.append(name.clone(), value.clone());
            }
            if !headers.contains_key(CONTENT_TYPE) {
                header_text::set(&mut headers, CONTENT_TYPE, type_of(path));
            }
        }
        None => describe(&mut headers, &result, path),
    }

    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    if wanted.is_partial() {
        header_text::set(&mut headers, CONTENT_RANGE, &content_range(&range, size));
    }

    let body = if is_head {
        Body::empty()
    } else {
        Body::from(StreamingBlob::new(ObjectBody::new(result.into_stream(), length)))
    };
    let mut answer = HttpResponse::new(body);
    if wanted.is_partial() {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    *answer.headers_mut() = headers;

    answer
}

/// Sets S3's headers that describe an object of a non-S3 origin.
fn describe(headers: &mut HeaderMap, result: &GetResult, path: &str) {
    let described = DescriptiveHeaders::from_origin(&result.attributes, path);
    let tag = result.meta.e_tag.as_deref().map(|tag| etag::quoted(&etag::from_origin(tag)));
    let mut last_modified = Vec::new();
    let is_date = timestamp(result.meta.last_modified).format(TimestampFormat::HttpDate, &mut last_modified);
    let last_modified = is_date.ok().and_then(|()| String::from_utf8(last_modified).ok());
    let class = described.storage_class.map(|class| class.as_str().to_owned());

    for (name, value) in [
        (ETAG, tag),
        (LAST_MODIFIED, last_modified),
        (CONTENT_TYPE, described.content_type),
        (CACHE_CONTROL, described.cache_control),
        (CONTENT_DISPOSITION, described.content_disposition),
        (CONTENT_ENCODING, described.content_encoding),
        (CONTENT_LANGUAGE, described.content_language),
        (STORAGE_CLASS, class),
    ] {
        if let Some(value) = value {
            header_text::set(headers, name, &value);
        }
    }

    for (key, value) in described.metadata.into_iter().flatten() {
        if let Ok(name) = HeaderName::try_from(format!("{METADATA}{key}")) {
            header_text::set(headers, name, &value);
        }
    }
}

/// Parses the Range header or the part number; an invalid range is ignored.
fn wanted(headers: &HeaderMap, part: Option<i32>) -> S3Result<RequestedRange> {
    let mut values = headers.get_all(RANGE).iter();
    let text = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().unwrap_or_default(),
        _ => "",
    };
    let text = match classify_range_header(text) {
        RangeHeaderAction::Use => text.to_owned(),
        RangeHeaderAction::Ignore => return RequestedRange::new(None, part),
        RangeHeaderAction::Replace(text) => text,
    };

    let range = dto::Range::parse(&text).map_err(|_| s3_error!(InvalidArgument, "invalid range"))?;
    RequestedRange::new(Some(range), part)
}

/// Parses the conditions of a request; `None` if they have an unusual form. A condition with an invalid date is
/// ignored.
fn conditions(headers: &HeaderMap) -> Option<ReadConditions> {
    let date = |name: HeaderName| {
        let text = headers.get(name)?.to_str().ok()?;
        Timestamp::parse(TimestampFormat::HttpDate, text).ok()
    };
    Some(ReadConditions {
        if_match: tag_condition(headers, &IF_MATCH)?,
        if_none_match: tag_condition(headers, &IF_NONE_MATCH)?,
        if_modified_since: date(IF_MODIFIED_SINCE),
        if_unmodified_since: date(IF_UNMODIFIED_SINCE),
    })
}

/// Parses one ETag, quoted or not, or `*`; `None` for a list.
pub(crate) fn tag_condition(headers: &HeaderMap, name: &HeaderName) -> Option<Option<ETagCondition>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Some(None) };
    let text = value.to_str().ok()?.trim();
    if values.next().is_some() || text.contains(',') || text.is_empty() {
        return None;
    }
    Some(Some(match text {
        "*" => ETagCondition::Any,
        text => ETagCondition::ETag(parse_tag(text)),
    }))
}

fn parse_tag(text: &str) -> ETag {
    let (is_weak, quoted) = match text.strip_prefix("W/") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let opaque = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(quoted);
    if is_weak { ETag::Weak(opaque.to_owned()) } else { ETag::Strong(opaque.to_owned()) }
}

/// Returns true if an If-Range header names the current version: by its strong ETag, or by its exact modification
/// time in seconds.
fn is_current(headers: &HeaderMap, current: &GetResult) -> bool {
    let Some(text) = headers.get(IF_RANGE).and_then(|value| value.to_str().ok()) else { return false };
    if let Ok(date) = Timestamp::parse(TimestampFormat::HttpDate, text) {
        return date == timestamp(current.meta.last_modified);
    }
    let tag = current.meta.e_tag.as_deref().map(etag::from_origin);
    tag.is_some_and(|tag| tag.strong_cmp(&parse_tag(text)))
}

/// Returns the headers that describe the object, for a copy of it.
pub(crate) fn describe_copy(opened: &OpenedObject, path: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    match &opened.headers {
        Some(described) => {
            headers.extend(described.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        None => describe(&mut headers, &opened.result, path),
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        [(HeaderName::from_static(name), HeaderValue::from_static(value))].into_iter().collect()
    }

    #[test]
    fn an_etag_may_be_quoted_or_not_and_a_list_is_none() {
        let condition = |value| tag_condition(&headers("if-match", value), &IF_MATCH);
        let strong = || Some(Some(ETagCondition::ETag(ETag::Strong("a".into()))));
        assert_eq!(condition("\"a\""), strong());
        assert_eq!(condition("a"), strong());
        assert_eq!(condition("W/\"a\""), Some(Some(ETagCondition::ETag(ETag::Weak("a".into())))));
        assert_eq!(condition("*"), Some(Some(ETagCondition::Any)));
        assert_eq!(condition("\"a\", \"b\""), None);
        assert_eq!(tag_condition(&HeaderMap::new(), &IF_MATCH), Some(None));
    }

    #[test]
    fn a_range_that_makes_no_sense_asks_for_everything() {
        for value in ["bytes=0-1,3-4", "lines=1-2", "bytes=5-2"] {
            assert_eq!(wanted(&headers("range", value), None).unwrap(), RequestedRange::All);
        }
        assert!(wanted(&headers("range", "bytes=0-1"), None).unwrap().is_partial());
    }
}
