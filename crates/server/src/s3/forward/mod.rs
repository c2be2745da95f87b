//! Forwards requests other than reads of cached objects to S3 origins: signs them again, and passes everything else
//! in requests and answers on unchanged.
//!
//! ```text
//! request ─▶ names of the origin (names) ─▶ frame (frame) ─▶ signature (sign) ─▶ client ─▶ origin
//! answer  ◀─ names of the client, listings recorded, changed objects dropped from the cache ◀──┘
//! ```

mod changes;
mod client;
mod copy;
mod form;
mod frame;
mod listing;
mod names;
mod sign;
mod stall_timeout;
mod xml;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use chrono::Utc;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri,
    header::{
        ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE,
        DATE, EXPECT, FORWARDED, HOST, ORIGIN, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, RETRY_AFTER, TE,
        TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};
use hyper::body::Body as _;
use s3s::{
    Body, HttpResponse, S3Error, S3Result,
    crypto::{Checksum as _, Md5},
    s3_error,
    stream::DynByteStream,
};
use stylobate_storage::{RequestKind, S3Endpoint, traced};

use self::{
    changes::{ChangedObjects, InvalidatingBody},
    client::{OriginClient, OriginMetricsTag, OriginUnreachable},
    frame::UnsignedChunkedBody,
    listing::OriginListingReader,
    names::{BucketNames, is_deleted_key},
};
use super::{
    auth::authenticate::{Caller, EMPTY_SHA256, is_signing_parameter},
    authorize::{AccessCheck, CopySourceHeader},
    operation::S3Operation,
    wire::{
        chunked::ChunkedError,
        error,
        form_error::FormError,
        header_text,
        target::{QueryParameters, RequestTarget, encode_path},
    },
    write::payload::{RequestPayload, check_claims},
};
use crate::{
    access::Action,
    node::{Bucket, Node},
};

/// Maximum bytes of a client's XML body: a thousand keys to delete, or ten thousand parts to join.
const MAX_REQUEST_XML: usize = 4 << 20;

/// Maximum bytes of an XML answer that is parsed: a thousand keys of a thousand bytes, each byte escaped.
const MAX_ANSWER_XML: usize = 32 << 20;

const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
const AMZ_TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");
const REQUEST_PAYER: HeaderName = HeaderName::from_static("x-amz-request-payer");
const ENCRYPTION: HeaderName = HeaderName::from_static("x-amz-server-side-encryption");
const COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
const SDK_CHECKSUM: HeaderName = HeaderName::from_static("x-amz-sdk-checksum-algorithm");
const CHECKSUM: &str = "x-amz-checksum-";

const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";
const UNSIGNED_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// Request headers that are not forwarded: they belong to one connection, or to the exchange between client and node.
const NOT_SENT: [HeaderName; 20] = [
    ACCEPT_ENCODING,
    AUTHORIZATION,
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_SHA256,
    COOKIE,
    DATE,
    EXPECT,
    FORWARDED,
    HOST,
    ORIGIN,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("x-amz-s3session-token"),
];

/// Prefixes of further request headers that are not forwarded.
const NOT_SENT_PREFIXES: [&str; 4] = ["x-forwarded-", "x-real-ip", "x-amz-date", "x-amz-security-token"];

/// Answer headers that are not passed on, since they belong to one connection. The origin's CORS headers are dropped,
/// too.
const NOT_HANDED_BACK: [HeaderName; 6] =
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, HeaderName::from_static("keep-alive")];

/// Error codes with which an origin refuses the node's own signature: their details concern the node's credentials.
const BLAMES_NODE: [&str; 7] = [
    "AuthorizationHeaderMalformed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
];

/// Minimum stall timeout of a request that changes something: an origin joins parts and copies objects before it
/// begins to answer.
const MIN_CHANGE_TIMEOUT: Duration = Duration::from_secs(300);

/// Parameters whose value is a key or a prefix of keys.
const KEY_PARAMETERS: [&str; 4] = ["prefix", "marker", "start-after", "key-marker"];

/// An authorized request to a bucket of an S3 origin.
pub(super) struct ForwardRequest<'a> {
    pub(super) bucket: &'a Bucket,
    pub(super) endpoint: &'a S3Endpoint,
    pub(super) operation: S3Operation,
    pub(super) target: &'a RequestTarget,
    pub(super) query: QueryParameters,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) caller: Caller,
}

/// Forwards requests to origins. Cheap to clone.
#[derive(Clone)]
pub(super) struct Forwarder {
    node: Arc<Node>,
    client: OriginClient,
}

/// A body to send, and its description for the signature.
struct OutgoingBody {
    body: Body,
    payload: String,
}

impl Forwarder {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node, client: OriginClient::new() }
    }

    /// Forwards a request and returns the origin's answer.
    pub(super) async fn forward(
        &self,
        mut request: ForwardRequest<'_>,
        body: Body,
    ) -> S3Result<HttpResponse> {
        let names = BucketNames::of(request.bucket, request.endpoint);
        refuse_beyond_prefix(&request, &names)?;
        let begins = KEY_PARAMETERS.iter().filter_map(|name| request.query.get(name));
        for key in request.target.key().into_iter().chain(begins) {
            refuse_climbing(key)?;
        }
        let mut headers = std::mem::take(&mut request.headers);
        let is_empty = body.is_end_stream();
        let payload = RequestPayload::open(&mut headers, body, request.caller.chunks.take())?;

        let mut keys: Vec<String> = request.target.key().map(str::to_owned).into_iter().collect();
        let payload = match request.operation.name {
            "DeleteObjects" => {
                let (payload, named) = self.deletion(&request, &names, &mut headers, payload).await?;
                keys = named;
                payload
            }
            "CopyObject" | "UploadPartCopy" => {
                if let Some(answer) = self.copy_from_elsewhere(&request, &headers).await? {
                    return Ok(answer);
                }
                payload
            }
            _ => payload,
        };

        translate_copy_source(&self.node, &mut headers)?;

        let changes = ChangedObjects::of(&self.node, request.endpoint, &request.operation, &keys);
        let outgoing = frame(&mut headers, payload, is_empty);
        let sent = self.build(&request, &names, headers, outgoing).await?;
        let asked = Instant::now();
        let answer = self.send(sent, changes, &request).await?;
        self.hand_back(&request, &names, asked, answer).await
    }

    /// Reads the list of keys to delete, checks the caller's right to each, and renames them for the origin.
    async fn deletion(
        &self,
        request: &ForwardRequest<'_>,
        names: &BucketNames<'_>,
        headers: &mut HeaderMap,
        payload: RequestPayload,
    ) -> S3Result<(RequestPayload, Vec<String>)> {
        let malformed = || {
            s3_error!(
                MalformedXML,
                "The XML you provided was not well-formed or did not validate against our published schema"
            )
        };

        let trailers = payload.trailers.as_ref().map(|trailers| trailers.found.clone());
        let body = payload.collect(MAX_REQUEST_XML).await?;
        headers.extend(trailers.and_then(|trailers| trailers.take()).unwrap_or_default());
        check_claims(headers, &body)?;
        let xml = std::str::from_utf8(&body).map_err(|_| malformed())?;
        xml::check_deletion(xml).map_err(|_| malformed())?;
        let mut keys = Vec::new();

        xml::visit(xml, |path, text| {
            if is_deleted_key(path) {
                keys.push(text.to_owned());
            }
        })
        .map_err(|_| malformed())?;

        let rights = AccessCheck { node: &self.node, access_key: request.caller.access_key.as_deref() };
        for key in &keys {
            refuse_climbing(key)?;
            rights.check_key(&request.bucket.name, key, Action::Write)?;
        }

        let mut sent = body.clone();
        if !names.prefix.is_empty() {
            sent = Bytes::from(names.rewrite_deletion(xml).map_err(|_| malformed())?);
        }
        // These claims about the body were already verified, and may have been in its trailers.
        let of_body = |name: &HeaderName| name.as_str().starts_with(CHECKSUM) || *name == SDK_CHECKSUM;
        let sums: Vec<_> = headers.keys().filter(|name| of_body(name)).cloned().collect();
        sums.iter().for_each(|name| drop(headers.remove(name)));
        header_text::set(headers, CONTENT_MD5, &STANDARD.encode(Md5::checksum(&sent)));
        let length = Some(sent.len() as u64);
        let trailers = None;

        Ok((RequestPayload { body: Body::from(sent), length, trailers, sha256: None }, keys))
    }

    /// Builds the request for the origin.
    async fn build(
        &self,
        request: &ForwardRequest<'_>,
        names: &BucketNames<'_>,
        headers: HeaderMap,
        outgoing: OutgoingBody,
    ) -> S3Result<Request<Body>> {
        let endpoint = request.endpoint;
        let mut query = request.query.clone();
        let mut sent = HeaderMap::with_capacity(headers.len() + 4);
        query.0.retain(|parameter| !is_signing_parameter(&parameter.name));
        if !names.prefix.is_empty() {
            rewrite_query(&mut query, request.operation, names);
        }
        let of_connection = header_text::list(&headers, &CONNECTION);

        for (name, value) in &headers {
            let text = name.as_str();
            let is_sent = !NOT_SENT.contains(name)
                && !of_connection.iter().any(|named| named == text)
                && !NOT_SENT_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
            if is_sent {
                sent.append(name.clone(), value.clone());
            }
        }

        if let Some(length) = headers.get(CONTENT_LENGTH).filter(|_| !outgoing.body.is_end_stream()) {
            sent.insert(CONTENT_LENGTH, length.clone());
        } else if matches!(request.method, Method::PUT | Method::POST) && outgoing.body.is_end_stream() {
            sent.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }

        let uri = uri_of(endpoint, request.target.key().map(|key| names.to_origin(key)), &query)?;
        if let Some(authority) = uri.authority() {
            header_text::set(&mut sent, HOST, authority.as_str());
        }
        header_text::set(&mut sent, CONTENT_SHA256, &outgoing.payload);
        if endpoint.is_request_payer() {
            header_text::set(&mut sent, REQUEST_PAYER, "requester");
        }
        let makes_object =
            ["PutObject", "CopyObject", "CreateMultipartUpload"].contains(&request.operation.name);
        if makes_object && !sent.contains_key(ENCRYPTION) {
            sent.extend(endpoint.encryption_headers().iter().cloned());
        }

        let mut built = Request::new(outgoing.body);
        *built.method_mut() = request.method.clone();
        *built.uri_mut() = uri;
        *built.headers_mut() = sent;
        let (mut parts, body) = built.into_parts();
        let credential = endpoint.credentials().await.map_err(|failed| {
            error::log(&failed);
            s3_error!(AccessDenied, "the node has no valid credentials for the bucket's origin")
        })?;

        if let Some(credential) = credential {
            sign::sign(&mut parts, &outgoing.payload, &credential, endpoint.region(), Utc::now());
        }
        Ok(Request::from_parts(parts, body))
    }

    /// Sends a request. A request that changes something continues even if its client disconnects, so that the
    /// cache is invalidated regardless of the outcome.
    async fn send(
        &self,
        mut sent: Request<Body>,
        changes: ChangedObjects,
        request: &ForwardRequest<'_>,
    ) -> S3Result<HttpResponse> {
        let kind = if request.operation.name.starts_with("List") {
            RequestKind::List
        } else {
            RequestKind::of(sent.method(), sent.uri())
        };
        let metrics = request.bucket.reader.origin().metrics().clone();
        sent.extensions_mut().insert(OriginMetricsTag { metrics, kind });

        let client = self.client.clone();
        let deadline = request.bucket.reader.request_options().deadline;
        if request.operation.action == Action::Read {
            let answer = client.ask(sent, deadline).await;
            return Ok(answer.map_err(|failed| unanswered(&failed))?.map(Body::http_body));
        }

        let task = tokio::spawn(traced(async move {
            let answer = match client.send(sent, deadline.max(MIN_CHANGE_TIMEOUT)).await {
                Ok(answer) => answer,
                Err(failed) => {
                    // The origin may have received the whole request, and may still carry it out.
                    changes.apply_again_later().await;
                    return Err(failed);
                }
            };

            let (head, body) = answer.into_parts();
            if head.status.is_success() {
                changes.apply_to_buckets().await;
            }
            changes.apply().await;
            // S3 may begin to answer before it has finished, and report the outcome in the body.
            let body = if changes.is_empty() || body.is_end_stream() {
                Body::http_body(body)
            } else {
                InvalidatingBody::new(body, changes).into()
            };

            Ok(HttpResponse::from_parts(head, body))
        }));
        let answer = task.await.map_err(|_| s3_error!(InternalError))?;
        answer.map_err(|failed| unanswered(&failed))
    }

    /// Converts the origin's answer for the client.
    async fn hand_back(
        &self,
        request: &ForwardRequest<'_>,
        names: &BucketNames<'_>,
        asked: Instant,
        answer: HttpResponse,
    ) -> S3Result<HttpResponse> {
        let (mut head, mut body) = answer.into_parts();
        if head.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(error::slow_down());
        }
        if head.status.is_redirection() && head.status != StatusCode::NOT_MODIFIED {
            // A client that followed the redirect would send another host a request that it signed for this node.
            tracing::warn!(
                status = head.status.as_u16(),
                "the origin points elsewhere: is the region right?"
            );
            return Err(error::bad_gateway());
        }

        NOT_HANDED_BACK.iter().for_each(|name| drop(head.headers.remove(name)));
        let is_for_pages = |name: &&HeaderName| name.as_str().starts_with("access-control-");
        let for_pages: Vec<_> = head.headers.keys().filter(is_for_pages).cloned().collect();
        for_pages.iter().for_each(|name| drop(head.headers.remove(name)));
        if head.status == StatusCode::SERVICE_UNAVAILABLE && !head.headers.contains_key(RETRY_AFTER) {
            head.headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }

        let is_failure = !head.status.is_success();
        let lists = matches!(request.operation.name, "ListObjects" | "ListObjectsV2") && !is_failure;
        let is_object =
            matches!(request.operation.name, "GetObject" | "GetObjectTorrent" | "SelectObjectContent");
        let renames = !names.are_same() && (!is_object || is_failure) && is_xml(&head.headers);
        let may_blame = matches!(head.status, StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST);
        let is_read_here = lists || renames || may_blame && is_xml(&head.headers);
        if request.method == Method::HEAD || !is_read_here || body.is_end_stream() {
            return Ok(HttpResponse::from_parts(head, body));
        }

        let text = body.store_all_limited(MAX_ANSWER_XML).await.map_err(|failed| {
            error::log(&*failed);
            error::bad_gateway()
        })?;
        let Ok(xml) = std::str::from_utf8(&text) else {
            return Ok(HttpResponse::from_parts(head, Body::from(text)));
        };

        if may_blame && BLAMES_NODE.iter().any(|code| xml.contains(&format!("<Code>{code}</Code>"))) {
            tracing::warn!(
                bucket = request.bucket.name,
                "the origin refuses the node's credentials or signature"
            );
            return Err(s3_error!(AccessDenied, "the bucket's origin denied the node access"));
        }

        let xml = xml.strip_prefix('\u{feff}').unwrap_or(xml);
        if lists {
            let reader = &request.bucket.reader;
            let listing = OriginListingReader { names, may_be_encoded: request.query.has("encoding-type") };
            reader.note_listing(asked, listing.objects(xml, |path| reader.knows(path)));
        }

        let text = match renames.then(|| names.rewrite_answer(xml)) {
            Some(Ok(renamed)) => {
                head.headers.insert(CONTENT_LENGTH, HeaderValue::from(renamed.len()));
                Bytes::from(renamed)
            }
            _ => text,
        };

        Ok(HttpResponse::from_parts(head, Body::from(text)))
    }
}

/// Returns the error for an origin that did not answer. If the client's own body is the cause, the error blames the
/// client.
fn unanswered(failed: &OriginUnreachable) -> S3Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(failed);
    while let Some(found) = cause {
        if let Some(chunked) = found.downcast_ref::<ChunkedError>() {
            return error::from_body(chunked);
        }
        if let Some(form) = found.downcast_ref::<FormError>() {
            return error::from_body(form);
        }
        cause = found.source();
    }

    error::log(failed);
    if failed.has_stalled() {
        s3_error!(ServiceUnavailable, "the origin did not answer in time")
    } else {
        error::unreachable_origin()
    }
}

/// Refuses changes to the bucket itself, other than deletions of keys, if clients see only a prefix of the
/// origin's bucket.
fn refuse_beyond_prefix(request: &ForwardRequest<'_>, names: &BucketNames<'_>) -> S3Result<()> {
    let is_of_bucket = matches!(request.target, RequestTarget::Bucket { .. });
    let is_change = request.operation.action == Action::Write && request.operation.name != "DeleteObjects";
    if names.prefix.is_empty() || !is_of_bucket || !is_change {
        return Ok(());
    }
    let name = request.operation.name;
    Err(s3_error!(
        NotImplemented,
        "{name}: the bucket is a prefix of its origin's bucket, which it may not change"
    ))
}

/// Refuses a key with a `..` segment, through which an origin that maps keys to paths would leave the bucket.
fn refuse_climbing(key: &str) -> S3Result<()> {
    if key.split(['/', '\\']).any(|segment| segment == "..") {
        Err(s3_error!(InvalidArgument, "key: '..' as a segment is refused"))
    } else {
        Ok(())
    }
}

/// Converts the body to the form in which it is sent, and sets the related headers.
fn frame(headers: &mut HeaderMap, payload: RequestPayload, is_empty: bool) -> OutgoingBody {
    if let Some(length) = payload.length.filter(|_| payload.trailers.is_some() || payload.sha256.is_none()) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let Some(trailers) = payload.trailers.as_ref().filter(|trailers| !trailers.names.is_empty()) else {
        let payload_hash = match &payload.sha256 {
            Some(hash) => hash.clone(),
            None if is_empty => EMPTY_SHA256.to_owned(),
            None => UNSIGNED_PAYLOAD.to_owned(),
        };
        return OutgoingBody { body: payload.body, payload: payload_hash };
    };

    let length = payload.length.unwrap_or_default();
    let encoding = match headers.get(CONTENT_ENCODING).and_then(|value| value.to_str().ok()) {
        Some(encoding) => format!("{encoding},aws-chunked"),
        None => "aws-chunked".to_owned(),
    };
    header_text::set(headers, CONTENT_ENCODING, &encoding);
    header_text::set(headers, DECODED_LENGTH, &length.to_string());
    header_text::set(headers, AMZ_TRAILER, &trailers.names.join(","));

    match UnsignedChunkedBody::len(length, &trailers.names) {
        Some(framed) => headers.insert(CONTENT_LENGTH, HeaderValue::from(framed)),
        None => headers.remove(CONTENT_LENGTH),
    };
    let stream: DynByteStream = Box::pin(UnsignedChunkedBody::new(
        payload.body,
        length,
        trailers.found.clone(),
        trailers.names.clone(),
    ));

    OutgoingBody { body: Body::from(stream), payload: UNSIGNED_TRAILER.to_owned() }
}

/// Returns the URI of the bucket, or of an object in it.
fn uri_of(endpoint: &S3Endpoint, key: Option<String>, query: &QueryParameters) -> S3Result<Uri> {
    let mut text = endpoint.url().to_owned();
    match key {
        Some(key) => {
            text.push('/');
            text.push_str(&encode_path(&key));
        }
        // In virtual-hosted style, the bucket is in the host, and its path is the root.
        None if !text.split_once("://").is_some_and(|(_, rest)| rest.contains('/')) => text.push('/'),
        None => {}
    }

    if !query.0.is_empty() {
        text.push('?');
        text.push_str(&query.to_text());
    }
    text.parse().map_err(|_| s3_error!(InvalidURI, "Couldn't parse the specified URI."))
}

fn rewrite_query(query: &mut QueryParameters, operation: S3Operation, names: &BucketNames<'_>) {
    for parameter in &mut query.0 {
        if KEY_PARAMETERS.contains(&parameter.name.as_str()) {
            let key = parameter.value.take().unwrap_or_default();
            let is_begin = key.is_empty() && parameter.name != "prefix";
            parameter.value = Some(if is_begin { key } else { names.to_origin(&key) });
        }
    }
    if operation.lists_keys() && !query.has("prefix") {
        let name = "prefix".to_owned();
        let value = Some(names.prefix.to_owned());
        query.0.push(super::wire::target::QueryParameter { name, value });
    }
}

/// Rewrites the source of a copy to the names that the origin uses.
fn translate_copy_source(node: &Node, headers: &mut HeaderMap) -> S3Result<()> {
    let Some(source) = CopySourceHeader::of(headers)? else { return Ok(()) };
    let endpoint = node.bucket(&source.bucket).and_then(|bucket| bucket.reader.origin().s3());
    let endpoint = endpoint.ok_or_else(error::no_such_bucket)?;
    refuse_climbing(&source.key)?;
    let key = encode_path(&format!("{}{}", endpoint.key_prefix(), source.key));
    let version = source.version.map(|version| format!("?versionId={}", encode_path(&version)));

    header_text::set(
        headers,
        COPY_SOURCE,
        &format!("{}/{key}{}", endpoint.bucket(), version.unwrap_or_default()),
    );
    Ok(())
}

fn is_xml(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_none_or(|value| value.to_str().is_ok_and(|text| text.contains("xml")))
}
