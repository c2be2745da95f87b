//! Requests to a node without keys: whatever signature they bear is taken off, since there is no secret to check it
//! by, and what it signs for is laid open.

use http::{
    HeaderName, HeaderValue, Uri,
    header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH},
    request::Parts,
};
use s3s::{Body, S3Result, s3_error, stream::DynByteStream};

use super::{
    attributes::names_aws_chunked,
    chunked::{ChunkedBody, Trailers},
};

const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");

/// Takes the signature off, and the frame off an aws-chunked body.
pub(super) fn strip(parts: &mut Parts, body: &mut Body) -> S3Result<()> {
    strip_signature(parts);
    if !is_aws_chunked(parts) {
        return Ok(());
    }
    let length = parts.headers.get(DECODED_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let Some(length) = length else {
        return Err(s3_error!(MissingContentLength, "missing header: x-amz-decoded-content-length"));
    };
    let trailers = Trailers::default();
    parts.extensions.insert(trailers.clone());
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    parts.headers.remove(CONTENT_SHA256);
    let stream: DynByteStream = Box::pin(ChunkedBody::new(std::mem::take(body), length, trailers));
    *body = Body::from(stream);
    Ok(())
}

/// Takes the signature off the head of a request.
pub(super) fn strip_signature(parts: &mut Parts) {
    parts.headers.remove(AUTHORIZATION);
    if let Some(uri) = without_signature(&parts.uri) {
        parts.uri = uri;
    }
}

fn is_aws_chunked(parts: &Parts) -> bool {
    let text = |name: &HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    text(&CONTENT_SHA256).is_some_and(|value| value.starts_with("STREAMING-"))
        || text(&CONTENT_ENCODING).is_some_and(names_aws_chunked)
}

/// The URI without the parameters that sign it, or `None` if there are none.
fn without_signature(uri: &Uri) -> Option<Uri> {
    let is_signature = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        const PARAMETERS: [&str; 10] = [
            "X-Amz-Algorithm",
            "X-Amz-Credential",
            "X-Amz-Date",
            "X-Amz-Expires",
            "X-Amz-SignedHeaders",
            "X-Amz-Signature",
            "X-Amz-Security-Token",
            "AWSAccessKeyId",
            "Signature",
            "Expires",
        ];
        PARAMETERS.contains(&name)
    };
    let query = uri.query().filter(|query| query.split('&').any(is_signature))?;
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_signature(pair)).collect();
    let target = match kept.is_empty() {
        true => uri.path().to_owned(),
        false => format!("{}?{}", uri.path(), kept.join("&")),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_keeps_everything_but_its_signature() {
        let stripped = |uri: &str| without_signature(&uri.parse().unwrap()).map(|uri| uri.to_string());
        assert_eq!(stripped("/b/k?X-Amz-Date=1&X-Amz-Signature=2").as_deref(), Some("/b/k"));
        let partly = "http://h/b/k%2F?partNumber=1&X-Amz-Signature=2&uploadId=a%2Bb";
        assert_eq!(stripped(partly).as_deref(), Some("http://h/b/k%2F?partNumber=1&uploadId=a%2Bb"));
        assert_eq!(stripped("/b?list-type=2"), None);
        assert_eq!(stripped("/b"), None);
    }
}
