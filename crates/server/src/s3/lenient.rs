//! Reads with a header that HTTP says to ignore and the protocol layer refuses: several ranges, a range that makes
//! no sense, a date that is none.
//!
//! Such a header may be signed, so it can go only after the signature was checked: the request comes here with its
//! signature verified, is checked against the caller's rights, and goes on without the header and the signature.

use async_trait::async_trait;
use http::{
    Extensions, HeaderMap, Method, Request, Uri,
    header::{HOST, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, RANGE},
};
use s3s::{
    Body, S3Request, S3Response, S3Result,
    dto::{Timestamp, TimestampFormat},
    host::S3Host,
    path::{self, S3Path},
    route::S3Route,
    s3_error,
    service::S3Service,
};

use super::{
    auth::{Gate, note_operation},
    host::{AnyBucketName, Hosts},
    range::{self, Header},
    unsigned,
};
use crate::access::Action;

/// Answers reads whose optional headers are out of the ordinary.
pub(super) struct Lenient {
    pub(super) gate: Gate,
    pub(super) hosts: Hosts,
    /// The same door without a lock.
    pub(super) unchecked: S3Service,
}

#[async_trait]
impl S3Route for Lenient {
    fn is_match(&self, method: &Method, _: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        matches!(*method, Method::GET | Method::HEAD)
            && (judge_range(headers) != Header::Use
                || !is_date(headers, IF_MODIFIED_SINCE)
                || !is_date(headers, IF_UNMODIFIED_SINCE))
    }

    async fn check_access(&self, request: &mut S3Request<Body>) -> S3Result<()> {
        let path = self.path_of(request)?;
        let S3Path::Object { bucket, .. } = path else {
            return Err(s3_error!(InvalidRequest, "a header of the request cannot be understood"));
        };
        let key = request.credentials.as_ref().map(|credentials| credentials.access_key.as_str());
        self.gate.allow(key, &bucket, Action::Read)
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        note_operation(if request.method == Method::HEAD { "HeadObject" } else { "GetObject" });
        let mut plain = Request::new(Body::empty());
        *plain.method_mut() = request.method;
        *plain.uri_mut() = request.uri;
        *plain.headers_mut() = request.headers;
        let (mut parts, body) = plain.into_parts();
        unsigned::strip_signature(&mut parts);
        let headers = &mut parts.headers;
        match judge_range(headers) {
            Header::Use => {}
            Header::Ignore => drop(headers.remove(RANGE)),
            Header::Replace(text) => {
                headers.insert(RANGE, text.parse().map_err(|_| s3_error!(InvalidArgument))?);
            }
        }
        for name in [IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE] {
            if !is_date(headers, name.clone()) {
                headers.remove(name);
            }
        }
        let answer = self.unchecked.call(Request::from_parts(parts, body)).await;
        let (head, body) = answer.map_err(|_| s3_error!(InternalError))?.into_parts();
        let mut response = S3Response::with_status(body, head.status);
        response.headers = head.headers;
        Ok(response)
    }
}

impl Lenient {
    fn path_of(&self, request: &S3Request<Body>) -> S3Result<S3Path> {
        let decoded = percent_decoded(request.uri.path())?;
        let host = request.headers.get(HOST).and_then(|host| host.to_str().ok());
        let parsed = host.map(|host| self.hosts.parse_host_header(host)).transpose()?;
        let bucket = parsed.as_ref().and_then(|host| host.bucket());
        path::parse_virtual_hosted_style_with_validation(bucket, &decoded, &AnyBucketName)
            .map_err(|_| s3_error!(InvalidURI))
    }
}

pub(super) fn percent_decoded(text: &str) -> S3Result<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |digit: u8| char::from(digit).to_digit(16);
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        rest = match escaped {
            Some((high, low)) => {
                decoded.push((high * 16 + low) as u8);
                tail.get(2..).unwrap_or_default()
            }
            None => {
                decoded.push(*first);
                tail
            }
        };
    }
    String::from_utf8(decoded).map_err(|_| s3_error!(InvalidURI))
}

/// What is to be done about the Range headers, of which there should be one at most.
fn judge_range(headers: &HeaderMap) -> Header {
    let mut values = headers.get_all(RANGE).iter();
    match (values.next(), values.next()) {
        (None, _) => Header::Use,
        (Some(value), None) => value.to_str().map_or(Header::Ignore, range::judge),
        (Some(_), Some(_)) => Header::Ignore,
    }
}

fn is_date(headers: &HeaderMap, name: http::HeaderName) -> bool {
    let date = |value: &http::HeaderValue| {
        value.to_str().is_ok_and(|text| Timestamp::parse(TimestampFormat::HttpDate, text).is_ok())
    };
    headers.get_all(name).iter().all(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_are_decoded_once() {
        assert_eq!(percent_decoded("/b/%2e%2E%2f").unwrap(), "/b/../");
        assert_eq!(percent_decoded("/b/%252e").unwrap(), "/b/%2e");
        assert_eq!(percent_decoded("/b/100%").unwrap(), "/b/100%");
        assert_eq!(percent_decoded("/b/a+b%20c").unwrap(), "/b/a+b c");
        assert!(percent_decoded("/b/%ff").is_err());
    }
}
