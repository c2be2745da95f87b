//! The plainest and most frequent request, answered without the protocol layer: a GET of one object, or of one range
//! of its bytes, on a node without keys or signed by one of them.
//!
//! Whatever else a request asks for, by a query, a condition or a header of S3's own, makes it another one, and the
//! protocol layer answers it. The answers of both are the same.

use std::{borrow::Cow, sync::Arc};

use chrono::Utc;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{
        ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HOST, LAST_MODIFIED, RANGE,
        TRANSFER_ENCODING,
    },
    request::Parts,
};
use object_store::{Attribute, GetOptions, ObjectStore, path::Path};
use s3s::{
    Body, HttpResponse, S3Result,
    dto::{self, StreamingBlob, TimestampFormat},
};

use super::{
    attributes::Described,
    conditions::timestamp,
    error, etag,
    host::names_bucket,
    keys::Key,
    lenient::percent_decoded,
    object_body::ObjectBody,
    range::{Header, Wanted, content_range, judge},
    sigv4::{SigningKeys, is_canonical_path},
};
use crate::{access::Action, node::Node};

/// Headers of S3's own that say nothing about the answer.
const IDLE: [&str; 4] = ["x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "x-amz-user-agent"];

/// A request of this kind.
pub(super) struct PlainGet {
    node: Arc<Node>,
    bucket: String,
    path: Path,
    wanted: Wanted,
}

impl PlainGet {
    /// The request, if it is one, and if its caller may make it.
    pub(super) fn parse(node: &Arc<Node>, signing_keys: &SigningKeys, parts: &Parts) -> Option<Self> {
        if parts.method != Method::GET || !are_plain(&parts.headers) {
            return None;
        }

        let path = decoded(parts.uri.path())?;
        let (bucket, key) = path.strip_prefix('/')?.split_once('/')?;
        let host = parts.headers.get(HOST)?.to_str().ok()?;
        if names_bucket(host, node.domains()) || node.bucket(bucket).is_none() {
            return None;
        }

        let Ok(Key::Object(path)) = Key::parse(key) else { return None };
        let wanted = wanted(&parts.headers)?;
        if !is_admitted(node, signing_keys, parts, bucket) {
            return None;
        }
        Some(Self { node: node.clone(), bucket: bucket.to_owned(), path, wanted })
    }

    /// The answer; `None` where the object says more of itself than its type.
    pub(super) async fn answer(self) -> S3Result<Option<HttpResponse>> {
        let Some(bucket) = self.node.bucket(&self.bucket) else { return Ok(None) };
        let options = GetOptions { range: self.wanted.to_store(), ..GetOptions::default() };
        let result = bucket.reader.get_opts(&self.path, options).await.map_err(error::from_store)?;
        if result.attributes.iter().any(|(name, _)| *name != Attribute::ContentType) {
            return Ok(None);
        }
        let (size, range) = (result.meta.size, result.range.clone());
        if self.wanted.within(size).is_none() {
            return Err(error::invalid_range(size));
        }
        let length = range.end - range.start;
        let described = Described::from_origin(&result.attributes, self.path.as_ref());
        let mut last_modified = Vec::new();
        if timestamp(result.meta.last_modified).format(TimestampFormat::HttpDate, &mut last_modified).is_err()
        {
            return Ok(None);
        }
        let tag = result.meta.e_tag.as_deref().map(|tag| etag::quoted(&etag::from_origin(tag)));
        let partial = self.wanted.is_partial().then(|| content_range(&range, size));
        let texts = [
            (CONTENT_TYPE, described.content_type.map(String::into_bytes)),
            (ETAG, tag.map(String::into_bytes)),
            (CONTENT_RANGE, partial.map(String::into_bytes)),
            (LAST_MODIFIED, Some(last_modified)),
        ];
        let body = StreamingBlob::new(ObjectBody::new(result.into_stream(), length));
        let mut answer = HttpResponse::new(Body::from(body));
        if self.wanted.is_partial() {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        let headers = answer.headers_mut();
        headers.reserve(8);
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        for (name, text) in texts {
            if let Some(text) = text {
                let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(text)) else {
                    return Ok(None);
                };
                headers.insert(name, value);
            }
        }
        Ok(Some(answer))
    }
}

/// The path without its escapes. They must be the canonical ones: what else a client may escape is unusual.
fn decoded(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains(['%', '+']) {
        return Some(Cow::Borrowed(path));
    }
    if !is_canonical_path(path) {
        return None;
    }
    percent_decoded(path).ok().map(Cow::Owned)
}

/// Whether anyone may read the bucket, or the request is signed by a key that may.
fn is_admitted(node: &Node, signing_keys: &SigningKeys, parts: &Parts, bucket: &str) -> bool {
    let keys = node.keys();
    if keys.is_empty() {
        return parts.uri.query().is_none();
    }

    let access_key = signing_keys.verify(parts, keys, Utc::now());
    access_key.is_some() && keys.allows(access_key, bucket, Action::Read)
}

/// Whether no header makes the request another one.
fn are_plain(headers: &HeaderMap) -> bool {
    let is_plain = |name: &HeaderName| {
        let text = name.as_str();
        let of_s3 = text.starts_with("x-amz-") && !IDLE.contains(&text);
        !of_s3 && !text.starts_with("if-") && *name != CONTENT_LENGTH && *name != TRANSFER_ENCODING
    };
    headers.keys().all(is_plain)
}

fn wanted(headers: &HeaderMap) -> Option<Wanted> {
    let mut ranges = headers.get_all(RANGE).iter();
    let Some(range) = ranges.next() else { return Some(Wanted::All) };
    let text = range.to_str().ok().filter(|text| judge(text) == Header::Use)?;
    if ranges.next().is_some() {
        return None;
    }
    let range = dto::Range::parse(text).ok()?;
    Wanted::new(Some(range), None).ok().filter(|wanted| *wanted != Wanted::Nothing)
}
