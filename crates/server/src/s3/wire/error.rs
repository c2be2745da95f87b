//! Maps errors of the store to S3 errors, without any error text of an origin.
//!
//! An origin's error text may contain a signed URL or an account name. It is only logged, after redaction.

use std::{cell::RefCell, error::Error as StdError, fmt::Write as _};

use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED, RETRY_AFTER},
};
use object_store::{
    ObjectMeta,
    client::{HttpError, HttpErrorKind},
};
use quick_xml::escape::escape;
use s3s::{Body, HttpResponse, S3Error, S3ErrorCode, s3_error};
use stylobate_storage::{Error, ObjectHeaders, redacted};

use super::{
    chunked::{ChunkedError, PayloadMismatch},
    etag,
    form_error::FormError,
    header_text,
    request_id::RequestId,
    target::RequestTarget,
};

/// Maps an error of the store to an S3 error.
pub(crate) fn from_store(error: object_store::Error) -> S3Error {
    match ours(&error) {
        Some(ours) => from_storage(ours),
        None => from_storage(&Error::from_origin("", error)),
    }
}

/// Maps an error of the store in a write to an S3 error.
pub(crate) fn from_write(error: object_store::Error) -> S3Error {
    match ours(&error) {
        Some(ours) => from_storage(ours),
        None => from_storage(&Error::from_write("", error)),
    }
}

/// Returns the storage crate's error that is wrapped in an error of the store.
fn ours(error: &object_store::Error) -> Option<&Error> {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(found) = cause {
        if let Some(ours) = found.downcast_ref::<Error>() {
            return Some(ours);
        }
        cause = found.source();
    }
    None
}

/// Maps an error of the storage crate to an S3 error.
pub(crate) fn from_storage(error: &Error) -> S3Error {
    match error {
        Error::NotFound { .. } => no_such_key(),
        Error::Precondition { .. } => precondition_failed("If-Match"),
        Error::NotModified { .. } => s3_error!(NotModified),
        Error::Range { size, .. } => invalid_range(*size),
        Error::ImpossiblePath { .. } => {
            s3_error!(InvalidArgument, "the bucket's origin cannot hold such a key")
        }
        Error::NoSuchUpload { .. } => {
            s3_error!(NoSuchUpload, "The specified multipart upload does not exist.")
        }
        Error::InvalidUpload { reason, .. } => s3_error!(InvalidPart, "{reason}"),
        Error::PartTooSmall { .. } => {
            s3_error!(EntityTooSmall, "Your proposed upload is smaller than the minimum allowed size")
        }
        Error::WrongChecksum { reason, .. } => s3_error!(BadDigest, "{reason}"),
        Error::Changed { .. } => {
            s3_error!(ServiceUnavailable, "object changed during read: send the request again")
        }
        Error::Deadline { .. } => {
            log(error);
            s3_error!(ServiceUnavailable, "the origin did not answer in time")
        }
        Error::Truncated { .. } => {
            log(error);
            s3_error!(ServiceUnavailable, "the origin's answer was cut off")
        }
        Error::Origin { source, .. } => from_origin(error, source),
        _ => {
            log(error);
            s3_error!(InternalError)
        }
    }
}

fn from_origin(error: &Error, source: &object_store::Error) -> S3Error {
    use object_store::Error as Origin;
    match source {
        Origin::NotSupported { .. } | Origin::NotImplemented { .. } => {
            s3_error!(NotImplemented, "the bucket's origin cannot do this")
        }
        Origin::InvalidPath { .. } => {
            s3_error!(InvalidArgument, "the bucket's origin cannot hold such a key")
        }
        Origin::PermissionDenied { .. } | Origin::Unauthenticated { .. } => {
            log(error);
            s3_error!(AccessDenied, "the bucket's origin denied the node access")
        }
        _ => {
            log(error);
            if is_unreachable(source) {
                unreachable_origin()
            } else if is_throttled(source) {
                slow_down()
            } else {
                bad_gateway()
            }
        }
    }
}

/// Returns true if the connection to the origin failed, or the origin did not answer.
fn is_unreachable(error: &(dyn StdError + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.any(|cause| {
        let kind = cause.downcast_ref::<HttpError>().map(HttpError::kind);
        matches!(kind, Some(HttpErrorKind::Connect | HttpErrorKind::Timeout))
    })
}

/// Returns true if an origin throttles. The object_store crate exposes the status only in the error's text.
fn is_throttled(error: &object_store::Error) -> bool {
    let text = error.to_string();
    ["SlowDown", "503 Service Unavailable", "429 Too Many Requests"].iter().any(|sign| text.contains(sign))
}

impl From<FormError> for S3Error {
    fn from(error: FormError) -> Self {
        match error {
            FormError::Malformed => s3_error!(
                MalformedPOSTRequest,
                "The body of your POST request is not well-formed multipart/form-data."
            ),
            FormError::HeadTooLarge => s3_error!(
                MaxPostPreDataLengthExceededError,
                "Your POST request fields preceding the upload file were too large."
            ),
            FormError::FileTooLarge { max } => detailed(
                s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size"),
                vec![ErrorDetail::new("MaxSizeAllowed", max.to_string())],
            ),
            FormError::FileTooSmall { min, len } => detailed(
                s3_error!(EntityTooSmall, "Your proposed upload is smaller than the minimum allowed size"),
                vec![
                    ErrorDetail::new("ProposedSize", len.to_string()),
                    ErrorDetail::new("MinSizeAllowed", min.to_string()),
                ],
            ),
        }
    }
}

/// Returns a 503 error: the origin throttles.
pub(crate) fn slow_down() -> S3Error {
    s3_error!(SlowDown, "the bucket's origin asks for fewer requests: send the request again later")
}

/// Returns a 503 error: the origin cannot be reached.
pub(crate) fn unreachable_origin() -> S3Error {
    s3_error!(ServiceUnavailable, "the bucket's origin cannot be reached: send the request again later")
}

/// Returns a 502 error: the origin failed.
pub(crate) fn bad_gateway() -> S3Error {
    let mut failed = s3_error!(InternalError, "the bucket's origin failed");
    failed.set_status_code(StatusCode::BAD_GATEWAY);
    failed
}

/// Maps an error of the request body to an S3 error.
pub(crate) fn from_body(error: &(dyn StdError + Send + Sync + 'static)) -> S3Error {
    if let Some(error) = error.downcast_ref::<ChunkedError>() {
        return match error {
            ChunkedError::Incomplete => incomplete_body(),
            ChunkedError::Malformed => s3_error!(InvalidRequest, "the aws-chunked body is malformed"),
            ChunkedError::Signature => {
                s3_error!(SignatureDoesNotMatch, "the signature of a chunk does not match")
            }
        };
    }

    if let Some(form) = error.downcast_ref::<FormError>() {
        return (*form).into();
    }
    if error.is::<PayloadMismatch>() {
        return payload_mismatch();
    }
    incomplete_body()
}

/// Returns a 404 error: the bucket has no object with this key.
pub(crate) fn no_such_key() -> S3Error {
    s3_error!(NoSuchKey, "The specified key does not exist.")
}

/// Returns a 404 error: the node has no bucket of this name.
pub(crate) fn no_such_bucket() -> S3Error {
    s3_error!(NoSuchBucket, "The specified bucket does not exist")
}

/// Returns a 400 error: no object can have this key.
pub(crate) fn refused_key() -> S3Error {
    s3_error!(
        InvalidArgument,
        "key: empty segments, '.' and '..' as segments, backslashes and control characters are refused"
    )
}

/// Returns a 412 error that names the failed condition.
pub(crate) fn precondition_failed(condition: &'static str) -> S3Error {
    detailed(
        s3_error!(PreconditionFailed, "At least one of the pre-conditions you specified did not hold"),
        vec![ErrorDetail::new("Condition", condition.to_owned())],
    )
}

/// An XML element of an error in addition to its code and message.
#[derive(Clone, Debug)]
pub(crate) struct ErrorDetail {
    name: &'static str,
    value: String,
}

impl ErrorDetail {
    pub(crate) fn new(name: &'static str, value: String) -> Self {
        Self { name, value }
    }
}

/// Details attached to an error until it is serialized.
#[derive(Debug, thiserror::Error)]
#[error("details of an error")]
struct ErrorDetails(Vec<ErrorDetail>);

tokio::task_local! {
    /// Details of the last error of a request, for errors that the protocol layer serializes.
    pub(crate) static DETAILS: RefCell<Vec<ErrorDetail>>;
}

/// Codes of errors whose details the protocol layer does not serialize.
const WITH_NOTED_DETAILS: [&str; 3] = ["EntityTooLarge", "EntityTooSmall", "PreconditionFailed"];

/// Attaches further XML elements to an error.
pub(crate) fn detailed(mut error: S3Error, details: Vec<ErrorDetail>) -> S3Error {
    let _ = DETAILS.try_with(|noted| noted.borrow_mut().clone_from(&details));
    error.set_source(Box::new(ErrorDetails(details)));
    error
}

/// Builds the answer for an error. `complete` adds the elements common to all errors.
pub(crate) fn to_answer(error: &S3Error) -> HttpResponse {
    let status = error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = match status {
        StatusCode::NOT_MODIFIED => HttpResponse::new(Body::empty()),
        _ => HttpResponse::new(Body::from(to_xml(error))),
    };
    *answer.status_mut() = status;
    if let Some(headers) = error.headers() {
        answer.headers_mut().extend(headers.clone());
    }
    if status != StatusCode::NOT_MODIFIED {
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE && !answer.headers().contains_key(RETRY_AFTER) {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }

    answer
}

fn to_xml(error: &S3Error) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>");
    push_element(&mut xml, "Code", error.code().as_str());
    push_element(&mut xml, "Message", error.message().unwrap_or_else(|| error.code().as_str()));
    let details = error.source().and_then(|source| source.downcast_ref::<ErrorDetails>());
    for ErrorDetail { name, value } in details.iter().flat_map(|details| &details.0) {
        push_element(&mut xml, name, value);
    }
    xml.push_str("</Error>");
    xml
}

/// Appends an element with this text.
pub(crate) fn push_element(xml: &mut String, name: &str, text: &str) {
    let _ = write!(xml, "<{name}>{}</{name}>", escape(text));
}

/// Adds the missing common elements to an error's XML: resource, key, bucket and request id, as S3 does.
pub(crate) fn complete(xml: &str, target: &RequestTarget, id: RequestId) -> String {
    let Some(head) = xml.trim_end().strip_suffix("</Error>") else { return xml.to_owned() };
    let mut completed = head.to_owned();
    let mut add = |name: &str, text: &str| {
        if !head.contains(&format!("<{name}>")) {
            push_element(&mut completed, name, text);
        }
    };

    if WITH_NOTED_DETAILS.iter().any(|code| head.contains(&format!("<Code>{code}</Code>"))) {
        let noted = DETAILS.try_with(|noted| noted.borrow().clone()).unwrap_or_default();
        noted.iter().for_each(|ErrorDetail { name, value }| add(name, value));
    }
    if let Some(key) = target.key() {
        add("Key", key);
    }
    if let Some(bucket) = target.bucket() {
        add("BucketName", bucket);
    }
    let resource = match target {
        RequestTarget::Service => "/".to_owned(),
        RequestTarget::Bucket { bucket } => format!("/{bucket}"),
        RequestTarget::Object { bucket, key } => format!("/{bucket}/{key}"),
    };

    add("Resource", &resource);
    add("RequestId", &id.to_string());
    completed.push_str("</Error>");
    completed
}

/// Returns a 304 error for this version of the object, with the origin's headers other than those about the body.
pub(crate) fn not_modified(meta: &ObjectMeta, described: Option<&ObjectHeaders>) -> S3Error {
    let mut headers = HeaderMap::with_capacity(8);
    let is_kept = |name: &HeaderName| {
        !name.as_str().starts_with("content-") && !name.as_str().starts_with("x-amz-checksum-")
    };
    for (name, value) in described.iter().flat_map(|described| described.iter()) {
        if is_kept(name) {
            headers.append(name.clone(), value.clone());
        }
    }

    if let Some(raw) = &meta.e_tag {
        header_text::set(&mut headers, ETAG, &etag::quoted(&etag::from_origin(raw)));
    }
    header_text::set(
        &mut headers,
        LAST_MODIFIED,
        &meta.last_modified.format("%a, %d %b %Y %H:%M:%S GMT").to_string(),
    );

    let mut error = s3_error!(NotModified);
    error.set_headers(headers);
    error
}

/// Returns a 416 error for an object of `size` bytes.
pub(crate) fn invalid_range(size: u64) -> S3Error {
    let mut headers = HeaderMap::with_capacity(2);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    header_text::set(&mut headers, CONTENT_RANGE, &format!("bytes */{size}"));
    let error = s3_error!(InvalidRange, "The requested range is not satisfiable");
    let mut error = detailed(error, vec![ErrorDetail::new("ActualObjectSize", size.to_string())]);
    error.set_headers(headers);
    error
}

/// Returns a 400 error: the body is shorter than announced.
pub(crate) fn incomplete_body() -> S3Error {
    s3_error!(
        IncompleteBody,
        "You did not provide the number of bytes specified by the Content-Length HTTP header"
    )
}

/// Returns a 400 error: the client stopped sending.
pub(crate) fn request_timeout() -> S3Error {
    s3_error!(
        RequestTimeout,
        "Your socket connection to the server was not read from or written to within the timeout period."
    )
}

/// Returns a 400 error: the body's SHA-256 differs from x-amz-content-sha256.
pub(crate) fn payload_mismatch() -> S3Error {
    let code = S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into());
    let mut error =
        S3Error::with_message(code, "The provided 'x-amz-content-sha256' does not match what was computed.");
    error.set_status_code(StatusCode::BAD_REQUEST);
    error
}

/// Logs an origin's failure.
pub(crate) fn log(error: &(dyn StdError + 'static)) {
    let text = error.to_string();
    tracing::warn!(error = %redacted(&text), "origin failed");
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn origin(source: object_store::Error) -> object_store::Error {
        Error::Origin { path: "a".into(), source: Arc::new(source) }.into()
    }

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    fn unreachable(kind: HttpErrorKind) -> object_store::Error {
        let source = HttpError::new(kind, std::io::Error::other("no route"));
        object_store::Error::Generic { store: "S3", source: source.into() }
    }

    fn code_and_status(error: object_store::Error) -> (String, u16) {
        let error = from_store(error);
        (error.code().as_str().to_owned(), error.status_code().unwrap().as_u16())
    }

    #[test]
    fn every_error_of_the_store_has_an_s3_code() {
        let path = || "a".to_owned();
        let denied = object_store::Error::PermissionDenied { path: path(), source: "no".into() };
        let unable = object_store::Error::NotSupported { source: "no".into() };
        for (error, code, status) in [
            (Error::NotFound { path: path() }.into(), "NoSuchKey", 404),
            (Error::Precondition { path: path() }.into(), "PreconditionFailed", 412),
            (Error::NotModified { path: path() }.into(), "NotModified", 304),
            (Error::Changed { path: path() }.into(), "ServiceUnavailable", 503),
            (Error::ImpossiblePath { path: path() }.into(), "InvalidArgument", 400),
            (Error::Deadline { path: path(), deadline_ms: 1 }.into(), "ServiceUnavailable", 503),
            (Error::Range { path: path(), start: 9, end: 10, size: 5 }.into(), "InvalidRange", 416),
            (origin(denied), "AccessDenied", 403),
            (origin(unable), "NotImplemented", 501),
            (origin(unreachable(HttpErrorKind::Connect)), "ServiceUnavailable", 503),
            (origin(unreachable(HttpErrorKind::Timeout)), "ServiceUnavailable", 503),
            (origin(unreachable(HttpErrorKind::Decode)), "InternalError", 502),
            (origin(generic("down")), "InternalError", 502),
            (generic("down"), "InternalError", 502),
        ] {
            assert_eq!(code_and_status(error), (code.to_owned(), status));
        }
    }

    #[test]
    fn nothing_that_an_origin_says_reaches_the_client() {
        let error =
            from_store(origin(generic("GET https://b.s3.amazonaws.com/a?X-Amz-Signature=abc failed")));
        assert!(!format!("{error:?}").contains("abc"));
    }

    #[test]
    fn an_unsatisfiable_range_tells_the_size_of_the_object() {
        let error = from_store(Error::Range { path: "a".into(), start: 9, end: 10, size: 5 }.into());
        assert_eq!(error.headers().unwrap()[CONTENT_RANGE], "bytes */5");
    }
}
