//! The S3 HTTP service: assigns request ids, refuses requests that must not be read, and counts all others.

mod form;

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    fmt,
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use chrono::Utc;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, EXPECT, HOST, ORIGIN, VARY,
    },
    request::Parts,
};
use hyper::{
    body::{Body as _, Incoming},
    service::Service,
};
use quick_xml::escape::unescape;
use s3s::{
    Body, HttpResponse, S3Error, S3ErrorCode, S3Result,
    config::{S3Config, StaticConfigProvider},
    s3_error,
    service::{S3Service, S3ServiceBuilder},
};
use tracing::Instrument;

use super::{
    auth::{
        authenticate::{Caller, authenticate, is_signing_parameter},
        cors,
    },
    authorize::{AccessCheck, COPY_SOURCE, CopySourceHeader, OPERATION, note_operation},
    door::S3Backend,
    forward::{ForwardRequest, Forwarder},
    operation::S3Operation,
    read::{object::ObjectRead, plain::PlainGet},
    sigv4::SigningKeys,
    wire::{
        body::{AccessLogEntry, DoorBody, ResponseMeter},
        error::{self, DETAILS},
        host::{AnyBucketName, VirtualHosts, bucket_of_host},
        late_outcome,
        request_id::RequestId,
        span,
        target::{QueryParameter, QueryParameters, RequestTarget},
    },
    write::{
        headers::refuse_unread,
        payload::{RequestPayload, check_claims},
    },
};
use crate::{
    BucketRequests,
    local_names::{REFUSED, is_foreign},
    node::{Bucket, Node},
};

/// Maximum bytes of an XML body: a thousand keys to delete, or ten thousand parts to join.
const MAX_XML: usize = 4 * 1024 * 1024;

const CONTENT_SHA256_PARAMETER: &str = "X-Amz-Content-Sha256";
const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

/// The S3 door of a node: a service for hyper's connections. Cheap to clone.
#[derive(Clone)]
pub struct S3Door {
    shared: Arc<S3DoorInner>,
    /// Address of the client.
    peer: Option<SocketAddr>,
}

/// Target of and reason for a refusal, for the log.
#[derive(Clone)]
struct RefusedRequest {
    target: RequestTarget,
    /// `None` if the origin refused the request, in an answer that is passed on unread.
    code: Option<String>,
    message: Option<String>,
    /// The access key, if the request body names it.
    access_key: Option<String>,
}

impl RefusedRequest {
    /// Creates a refusal by the origin, in an answer that is passed on unread.
    fn unread(target: RequestTarget) -> Self {
        Self { target, code: None, message: None, access_key: None }
    }
}

struct S3DoorInner {
    node: Arc<Node>,
    /// Serves buckets of non-S3 origins.
    protocol: S3Service,
    /// Forwards to S3 origins.
    forwarder: Forwarder,
    signing_keys: SigningKeys,
    ids: AtomicU64,
}

/// Opens the S3 door of a node.
pub fn service(node: Arc<Node>) -> S3Door {
    let mut config = S3Config::default();
    config.xml_max_body_size = MAX_XML;
    // Forms are read here, since the protocol layer buffers them in memory. The limit ensures that it buffers nothing
    // if a form should reach it.
    config.post_object_max_file_size = 0;
    config.form_max_fields_size = 0;
    let mut protocol = S3ServiceBuilder::new(S3Backend::new(node.clone()));
    protocol.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    protocol.set_validation(AnyBucketName);
    protocol.set_host(VirtualHosts { node: node.clone() });

    let shared = S3DoorInner {
        forwarder: Forwarder::new(node.clone()),
        protocol: protocol.build(),
        node,
        signing_keys: SigningKeys::new(),
        ids: AtomicU64::new(RandomState::new().hash_one(0)),
    };

    S3Door { shared: Arc::new(shared), peer: None }
}

impl Service<Request<Incoming>> for S3Door {
    type Response = Response<DoorBody>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let door = self.clone();
        Box::pin(async move { Ok(door.answer(request.map(Body::from)).await) })
    }
}

impl S3Door {
    /// Returns the service for one connection.
    pub(crate) fn for_peer(&self, peer: Option<SocketAddr>) -> Self {
        Self { shared: self.shared.clone(), peer }
    }

    /// Logs a refused request with its target, its sender and the reason.
    fn log_refusal(
        &self,
        answer: &HttpResponse,
        id: RequestId,
        operation: &str,
        (authorization, uri): (Option<HeaderValue>, Uri),
    ) {
        let status = answer.status();
        // These occur in normal operation: missing objects, failed conditions, ranges past the end.
        let is_usual = matches!(status.as_u16(), 404 | 412 | 416);
        if is_usual || !is_error(answer) {
            return;
        }

        let refusal = answer.extensions().get::<RefusedRequest>();
        let target = refusal.map(|refusal| &refusal.target);
        tracing::info!(
            %id,
            operation,
            status = status.as_u16(),
            bucket = target.and_then(RequestTarget::bucket),
            key = target.and_then(RequestTarget::key),
            access_key = refusal
                .and_then(|refusal| refusal.access_key.clone())
                .or_else(|| named_access_key(authorization.as_ref(), &uri)),
            client = self.peer.map(tracing::field::display),
            code = refusal.and_then(|refusal| refusal.code.as_deref()),
            reason = refusal.and_then(|refusal| refusal.message.as_deref()),
            "request refused"
        );
    }

    async fn answer(&self, request: Request<Body>) -> Response<DoorBody> {
        let shared = &self.shared;
        let started = Instant::now();
        let in_flight = shared.node.metrics().in_flight();
        let id = RequestId(shared.ids.fetch_add(1, Ordering::Relaxed));
        let is_head = request.method() == Method::HEAD;
        let brings_body = !request.body().is_end_stream();
        let expects = request.headers().contains_key(EXPECT);
        let signed = (request.headers().get(AUTHORIZATION).cloned(), request.uri().clone());

        let access = shared.node.logs_access().then(|| {
            let (authorization, uri) = &signed;
            Box::new(AccessLogEntry {
                method: request.method().clone(),
                path: request.uri().path().to_owned(),
                access_key: named_access_key(authorization.as_ref(), uri),
                client: self.peer,
            })
        });

        let request_span = tracing::debug_span!(
            "s3_request",
            %id,
            method = request.method().as_str(),
            path = request.uri().path(),
        );
        let counters = shared.counters_of(request.uri(), request.headers()).clone();
        let span = span::begin(&shared.node, &request, id, self.peer);
        let trace = span.as_ref().map(|span| span.trace().clone()).unwrap_or_default();
        let answered = OPERATION.scope(Cell::new("Other"), async {
            let answer = DETAILS.scope(RefCell::default(), shared.handle(request, id)).await;
            (answer, OPERATION.with(Cell::get))
        });

        let (mut answer, operation) = trace.scope(answered).instrument(request_span).await;
        tidy(&mut answer, is_head);
        self.log_refusal(&answer, id, operation, signed);
        // The body of a refused request is not read to its end, so the answer must announce that the connection
        // closes: otherwise the client would send its next request on a closed connection. The same holds for a
        // client that waits for a "100 Continue" that was never sent.
        let is_unread = if brings_body { is_error(&answer) } else { expects };
        if is_unread {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if !answer.headers().contains_key(REQUEST_ID)
            && let Ok(value) = HeaderValue::try_from(id.to_string())
        {
            answer.headers_mut().insert(REQUEST_ID, value);
        }

        let meter = ResponseMeter {
            counters,
            id,
            operation,
            status: answer.status().as_u16(),
            started,
            ready_after: started.elapsed(),
            bytes_out: 0,
            access,
            span,
            _in_flight: in_flight,
        };

        answer.map(|body| DoorBody::new(body, meter))
    }
}

/// The web page that sent a request, if any.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestPage {
    None,
    /// A page of an origin that the bucket's rules allow.
    Allowed,
    Unknown,
}

/// An answer, and whether the origin gave it.
enum DoorResponse {
    Ours(HttpResponse),
    OfOrigin(HttpResponse),
}

impl S3DoorInner {
    /// Answers a request. The future is kept as small as the most frequent request allows: less frequent work is
    /// boxed.
    async fn handle(&self, request: Request<Body>, id: RequestId) -> HttpResponse {
        let (parts, body) = request.into_parts();
        let may_differ_by_page =
            self.node.has_cors() || parts.method == Method::OPTIONS || parts.headers.contains_key(ORIGIN);
        if may_differ_by_page {
            self.handle_page(parts, body, id).await
        } else {
            self.handle_local(parts, body, id, RequestPage::None).await
        }
    }

    /// Answers a web page's request, or its preflight request.
    #[boxed]
    async fn handle_page(&self, parts: Parts, body: Body, id: RequestId) -> HttpResponse {
        let target = self.target(&parts).unwrap_or(RequestTarget::Service);
        let bucket = target.bucket().and_then(|name| self.node.bucket(name));
        let rules = bucket.map(Bucket::rules);
        let rules = rules.as_ref().map(|rules| rules.cors.as_slice()).unwrap_or_default();
        if parts.method == Method::OPTIONS {
            note_operation("PreflightObject");
            return match cors::preflight(rules, &parts.headers) {
                Ok(answer) => answer,
                Err(error) => finish(error::to_answer(&error), &target, id).await,
            };
        }

        let Some(rule) = cors::rule_of(rules, &parts.headers, parts.method.as_str()) else {
            let page =
                if parts.headers.contains_key(ORIGIN) { RequestPage::Unknown } else { RequestPage::None };
            let mut answer = self.handle_local(parts, body, id, page).await;
            if !rules.is_empty() {
                answer.headers_mut().append(VARY, HeaderValue::from_static("Origin"));
            }
            return answer;
        };

        let headers = parts.headers.clone();
        let mut answer = self.handle_local(parts, body, id, RequestPage::Allowed).await;
        cors::allow(answer.headers_mut(), rule, &headers);
        answer
    }

    async fn handle_local(&self, parts: Parts, body: Body, id: RequestId, page: RequestPage) -> HttpResponse {
        let is_from_page = page == RequestPage::Unknown;
        if self.node.keys().is_empty()
            && is_foreign(&parts.uri, &parts.headers, self.node.domains(), is_from_page)
        {
            let error = S3Error::with_message(S3ErrorCode::AccessDenied, REFUSED);
            let target = self.target(&parts).unwrap_or(RequestTarget::Service);
            return finish(error::to_answer(&error), &target, id).await;
        }

        if let Some(get) = PlainGet::parse(&self.node, &self.signing_keys, &parts) {
            note_operation("GetObject");
            let has_s3_origin = get.has_s3_origin();
            match get.answer().await {
                Ok(answer) => return answer,
                Err(error) if has_s3_origin && is_of_origin(&error) => {}
                Err(error) => {
                    let target = self.target(&parts).unwrap_or(RequestTarget::Service);
                    return finish(error::to_answer(&error), &target, id).await;
                }
            }
        }

        self.handle_any(parts, body, id).await
    }

    /// Returns the counters of the bucket that a request targets.
    fn counters_of(&self, uri: &Uri, headers: &HeaderMap) -> &Arc<BucketRequests> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let bucket = bucket_of_host(host, self.node.domains())
            .or_else(|| uri.path().split('/').nth(1).filter(|bucket| !bucket.is_empty()));
        self.node.metrics().bucket(bucket)
    }

    fn target(&self, parts: &Parts) -> S3Result<RequestTarget> {
        RequestTarget::of(&parts.uri, &parts.headers, self.node.domains())
    }

    #[boxed]
    async fn handle_any(&self, parts: Parts, body: Body, id: RequestId) -> HttpResponse {
        let target = match self.target(&parts) {
            Ok(target) => target,
            Err(error) => return finish(error::to_answer(&error), &RequestTarget::Service, id).await,
        };
        match Self::form_bucket(&parts, &target) {
            Ok(Some(form)) => return self.handle_form(form, parts.headers, body, id).await,
            Ok(None) => {}
            Err(error) => return finish(error::to_answer(&error), &target, id).await,
        }

        match self.answer(parts, body, &target).await {
            Ok(DoorResponse::OfOrigin(mut answer)) => {
                if is_error(&answer) {
                    answer.extensions_mut().insert(RefusedRequest::unread(target));
                }
                answer
            }
            Ok(DoorResponse::Ours(answer)) => finish(answer, &target, id).await,
            Err(error) => finish(error::to_answer(&error), &target, id).await,
        }
    }

    async fn answer(&self, mut parts: Parts, body: Body, target: &RequestTarget) -> S3Result<DoorResponse> {
        let mut query = QueryParameters::of(&parts.uri);
        let caller = authenticate(&parts, &query, &self.node.keys(), Utc::now())?;
        take_headers(&mut query, &mut parts.headers);
        if let Some(signed) = caller.payload.as_deref().and_then(|payload| payload.parse().ok()) {
            parts.headers.insert(CONTENT_SHA256, signed);
        }
        escape_copy_source(&mut parts.headers);
        let operation = S3Operation::of(&parts.method, target, &query, &parts.headers)?;
        note_operation(operation.name);
        let rights = AccessCheck { node: &self.node, access_key: caller.access_key.as_deref() };
        rights.check(&operation, target, &query, &parts.headers)?;
        if operation.name == "DescribeCluster" {
            return cluster_answer(&self.node).map(DoorResponse::Ours);
        }

        let bucket = target.bucket().and_then(|name| self.node.bucket(name));
        let endpoint = bucket.and_then(|bucket| bucket.reader.origin().s3());
        if let Some(key) = target.key()
            && matches!(operation.name, "GetObject" | "HeadObject")
        {
            let bucket = bucket.ok_or_else(error::no_such_bucket)?;
            let headers = &parts.headers;
            let is_head = parts.method == Method::HEAD;
            let read = ObjectRead { bucket, key, is_head, headers, query: &query };
            match read.answer().await {
                Ok(Some(answer)) => return Ok(DoorResponse::Ours(answer)),
                Ok(None) => {}
                Err(error) if endpoint.is_some() && is_of_origin(&error) => {}
                // The error has several possible reasons, and the origin knows which one applies.
                Err(error)
                    if endpoint.is_some()
                        && query.has("versionId")
                        && *error.code() == S3ErrorCode::NoSuchKey => {}
                Err(error) => return Err(error),
            }
        }

        match (bucket, endpoint) {
            (Some(bucket), Some(endpoint)) => {
                let Parts { method, headers, .. } = parts;
                let request =
                    ForwardRequest { bucket, endpoint, operation, target, query, method, headers, caller };
                self.forwarder.forward(request, body).await.map(DoorResponse::OfOrigin)
            }
            _ => self.answer_by_protocol(parts, body, query, caller).await.map(DoorResponse::Ours),
        }
    }

    /// Answers through the protocol layer, for a bucket of a non-S3 origin.
    async fn answer_by_protocol(
        &self,
        mut parts: Parts,
        body: Body,
        query: QueryParameters,
        mut caller: Caller,
    ) -> S3Result<HttpResponse> {
        let is_deletion = query.has("delete");
        strip_signature(&mut parts, query);
        refuse_unread(&parts.headers)?;
        if let Some(source) = CopySourceHeader::of(&parts.headers)? {
            // The protocol layer refuses names of buckets that a node may have.
            parts.headers.insert(COPY_SOURCE, HeaderValue::from_static("source/key"));
            parts.extensions.insert(source);
        }
        let mut payload = RequestPayload::open(&mut parts.headers, body, caller.chunks.take())?;
        if let Some(trailers) = payload.trailers.take() {
            parts.extensions.insert(Arc::new(trailers));
        }
        parts.extensions.insert(caller);
        let body = if parts.method == Method::POST {
            // The protocol layer does not report the reason why it rejects a truncated XML body.
            let xml = payload.collect(MAX_XML).await?;
            if is_deletion {
                check_claims(&parts.headers, &xml)?;
            }
            Body::from(xml)
        } else {
            payload.checked()
        };

        let answered = self.protocol.call(Request::from_parts(parts, body)).await;
        answered.map_err(|failed| {
            error::log(&*s3s::StdError::from(failed));
            s3_error!(InternalError)
        })
    }
}

/// Returns the nodes of the cluster as JSON.
fn cluster_answer(node: &Node) -> S3Result<HttpResponse> {
    let body = serde_json::to_vec(&node.known_nodes()).map_err(|_| s3_error!(InternalError))?;
    let mut answer = HttpResponse::new(Body::from(Bytes::from(body)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(answer)
}

/// Returns the access key that a request names, without verifying it.
fn named_access_key(authorization: Option<&HeaderValue>, uri: &Uri) -> Option<String> {
    let in_header = authorization.and_then(|value| value.to_str().ok());
    let credential = match in_header.and_then(|text| text.split_once("Credential=")) {
        Some((_, rest)) => rest.to_owned(),
        None => QueryParameters::of(uri).get("X-Amz-Credential")?.to_owned(),
    };
    credential.split('/').next().map(str::to_owned)
}

/// Returns true if the origin can report the error of a read more precisely. The request is then forwarded past the
/// cache.
fn is_of_origin(error: &S3Error) -> bool {
    use s3s::S3ErrorCode::{AccessDenied, InternalError, NotImplemented, SlowDown};
    matches!(error.code(), AccessDenied | InternalError | NotImplemented | SlowDown)
}

fn is_error(answer: &HttpResponse) -> bool {
    answer.status().is_client_error() || answer.status().is_server_error()
}

/// Completes an error with the XML elements common to all requests: resource, key, bucket and request id. An error may
/// also follow in the body of a successful answer.
#[boxed]
async fn finish(answer: HttpResponse, target: &RequestTarget, id: RequestId) -> HttpResponse {
    if !is_error(&answer) {
        return late_outcome::complete(answer, target, id);
    }
    let (mut head, mut body) = answer.into_parts();
    let Ok(xml) = body.store_all_limited(MAX_XML).await else {
        return HttpResponse::from_parts(head, Body::empty());
    };

    let completed = error::complete(&String::from_utf8_lossy(&xml), target, id);
    let element = |name: &str| {
        let (_, rest) = completed.split_once(&format!("<{name}>"))?;
        unescape(rest.split_once("</")?.0).ok().map(Cow::into_owned)
    };
    let code = element("Code");
    let message = element("Message");
    head.extensions.insert(RefusedRequest { target: target.clone(), code, message, access_key: None });
    head.headers.insert(CONTENT_LENGTH, HeaderValue::from(completed.len()));

    HttpResponse::from_parts(head, Body::from(completed))
}

/// Corrects the status and body of answers that s3s leaves incomplete.
fn tidy(answer: &mut HttpResponse, is_head: bool) {
    if answer.status() == StatusCode::NOT_MODIFIED {
        *answer.body_mut() = Body::empty();
        answer.headers_mut().remove(CONTENT_TYPE);
        answer.headers_mut().remove(CONTENT_LENGTH);
    }
    if is_head && answer.status() == StatusCode::OK && answer.headers().contains_key(CONTENT_RANGE) {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }

    // DuckDB-Wasm takes the Content-Length of a refused HEAD for the size of the object; S3 sends none.
    if is_head && is_error(answer) {
        *answer.body_mut() = Body::empty();
        answer.headers_mut().remove(CONTENT_LENGTH);
    }
}

/// Decodes `+` in x-amz-copy-source as a space, as S3 does and s5cmd expects. Later stages decode only percent
/// escapes.
fn escape_copy_source(headers: &mut HeaderMap) {
    let Some(text) = headers.get(COPY_SOURCE).and_then(|value| value.to_str().ok()) else { return };
    let (path, version) = text.split_at(text.find("?versionId=").unwrap_or(text.len()));
    if path.contains('+')
        && let Ok(value) = HeaderValue::from_str(&format!("{}{version}", path.replace('+', "%20")))
    {
        headers.insert(COPY_SOURCE, value);
    }
}

/// Moves headers that a presigned URL carries as query parameters into the headers, before the headers are read.
fn take_headers(query: &mut QueryParameters, headers: &mut HeaderMap) {
    if let Some(hash) = query.get(CONTENT_SHA256_PARAMETER).and_then(|hash| hash.parse().ok()) {
        headers.entry(CONTENT_SHA256).or_insert(hash);
    }
    query.0.retain(|QueryParameter { name, value }| {
        let is_header = !is_signing_parameter(name)
            && name.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("x-amz-"));
        if is_header
            && let Ok(name) = HeaderName::try_from(name)
            && let Ok(value) = HeaderValue::from_str(value.as_deref().unwrap_or_default())
        {
            headers.entry(name).or_insert(value);
        }
        !is_header
    });
}

/// Removes the verified signature from the head of a request.
fn strip_signature(parts: &mut Parts, mut query: QueryParameters) {
    parts.headers.remove(AUTHORIZATION);
    query.0.retain(|parameter| !is_signing_parameter(&parameter.name));
    let target = if query.0.is_empty() {
        parts.uri.path().to_owned()
    } else {
        format!("{}?{}", parts.uri.path(), query.to_text())
    };
    if let Ok(uri) = target.parse() {
        parts.uri = uri;
    }
}

impl fmt::Debug for S3Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Door").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
