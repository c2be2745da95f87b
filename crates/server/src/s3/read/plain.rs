//! Fast path that bypasses the protocol layer for the simplest and most frequent request: a GET of one object, or of
//! one byte range, on a node without keys or signed by a key of the node.
//!
//! A request with any other feature, such as a query, a condition or an S3-specific header, is handled by the
//! protocol layer. Both give the same answers.

use std::{borrow::Cow, sync::Arc};

use chrono::Utc;
use http::{
    HeaderMap, HeaderName, Method,
    header::{CONTENT_LENGTH, HOST, RANGE, TRANSFER_ENCODING},
    request::Parts,
};
use object_store::{GetOptions, path::Path};
use percent_encoding::percent_decode_str;
use s3s::{HttpResponse, S3Result, dto};

use super::{
    object::{asks_for_checksums, respond},
    open::OpenedObject,
    range::{RangeHeaderAction, RequestedRange, classify_range_header},
};
use crate::{
    access::Action,
    node::Node,
    s3::{
        sigv4::{SigningKeys, is_canonical_path},
        wire::{error, host::bucket_of_host, keys::CheckedKey},
    },
};

/// S3-specific headers that do not affect the answer.
const IDLE: [&str; 7] = [
    "x-amz-api-version",
    "x-amz-checksum-mode",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-request-payer",
    "x-amz-security-token",
    "x-amz-user-agent",
];

/// A plain GET.
pub(crate) struct PlainGet {
    node: Arc<Node>,
    bucket: String,
    path: Path,
    wanted: RequestedRange,
    wants_checksums: bool,
}

impl PlainGet {
    /// Parses the request, if it is a plain GET and its caller is authorized.
    pub(crate) fn parse(node: &Arc<Node>, signing_keys: &SigningKeys, parts: &Parts) -> Option<Self> {
        if parts.method != Method::GET || !are_plain(&parts.headers) {
            return None;
        }

        let path = decoded(parts.uri.path())?;
        let (bucket, key) = path.strip_prefix('/')?.split_once('/')?;
        let host = parts.headers.get(HOST)?.to_str().ok()?;
        if bucket_of_host(host, node.domains()).is_some() {
            return None;
        }

        let origin = node.bucket(bucket)?.reader.origin();
        let Ok(CheckedKey::Object(path)) = CheckedKey::at(origin, key) else { return None };
        let wanted = wanted(&parts.headers)?;
        let wants_checksums = asks_for_checksums(&parts.headers);
        if !is_admitted(node, signing_keys, parts, bucket, key) {
            return None;
        }

        Some(Self { node: node.clone(), bucket: bucket.to_owned(), path, wanted, wants_checksums })
    }

    /// Answers the request.
    pub(crate) async fn answer(self) -> S3Result<HttpResponse> {
        let bucket = self.node.bucket(&self.bucket).ok_or_else(error::no_such_key)?;
        let options = GetOptions { range: self.wanted.to_store(), ..GetOptions::default() };
        let opened = OpenedObject::of(&bucket.reader, &self.path, options).await?;
        let size = opened.result.meta.size;
        if self.wanted.within(size).is_none() {
            return Err(error::invalid_range(size));
        }
        let range = &opened.result.range;
        bucket.hot_keys().record(self.path.as_ref(), range.end - range.start);
        Ok(respond(opened, &self.wanted, self.path.as_ref(), false, self.wants_checksums))
    }

    /// Returns true if the bucket has an S3 origin, which can answer if this fails.
    pub(crate) fn has_s3_origin(&self) -> bool {
        self.node.bucket(&self.bucket).is_some_and(|bucket| bucket.reader.origin().s3().is_some())
    }
}

/// Unescapes the path. Returns `None` for non-canonical escapes, which are left to the protocol layer.
fn decoded(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains(['%', '+']) {
        return Some(Cow::Borrowed(path));
    }
    if !is_canonical_path(path) {
        return None;
    }
    percent_decode_str(path).decode_utf8().ok()
}

/// Returns true if anyone may read the object, or a key that may read it has signed the request.
fn is_admitted(node: &Node, signing_keys: &SigningKeys, parts: &Parts, bucket: &str, key: &str) -> bool {
    let keys = node.keys();
    if keys.is_empty() {
        return parts.uri.query().is_none();
    }

    let access_key = signing_keys.verify(parts, &keys, Utc::now());
    access_key.is_some() && keys.allows_key(access_key, bucket, key, Action::Read)
}

/// Returns true if no header requires the protocol layer.
fn are_plain(headers: &HeaderMap) -> bool {
    let is_plain = |name: &HeaderName| {
        let text = name.as_str();
        let of_s3 = text.starts_with("x-amz-") && !IDLE.contains(&text);
        !of_s3 && !text.starts_with("if-") && *name != CONTENT_LENGTH && *name != TRANSFER_ENCODING
    };
    headers.keys().all(is_plain)
}

fn wanted(headers: &HeaderMap) -> Option<RequestedRange> {
    let mut ranges = headers.get_all(RANGE).iter();
    let Some(range) = ranges.next() else { return Some(RequestedRange::All) };
    let text = range.to_str().ok().filter(|text| classify_range_header(text) == RangeHeaderAction::Use)?;
    if ranges.next().is_some() {
        return None;
    }
    let range = dto::Range::parse(text).ok()?;
    RequestedRange::new(Some(range), None).ok().filter(|wanted| *wanted != RequestedRange::Nothing)
}
