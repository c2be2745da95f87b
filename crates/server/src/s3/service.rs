//! The door itself: an HTTP service that names each request, refuses what must not be read, and counts the rest.

use std::{
    cell::Cell,
    fmt,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use http::{
    HeaderName, HeaderValue, Method, Request, Response, StatusCode,
    header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE},
    request::Parts,
};
use hyper::{
    body::{Body as _, Incoming},
    service::Service,
};
use s3s::{
    Body, HttpResponse, S3Error, S3Result,
    config::{S3Config, StaticConfigProvider},
    s3_error,
    service::{S3Service, S3ServiceBuilder},
};

use super::{
    auth::{Gate, OPERATION},
    body::{DoorBody, Meter},
    door::Door,
    host::{AnyBucketName, Hosts},
    lenient::Lenient,
    plain::PlainGet,
    request_id::RequestId,
    sigv4::{MAX_EXPIRES_SECONDS, SigningKeys},
    unsigned,
};
use crate::node::Node;

/// Most bytes of an XML body: a thousand keys to delete, or ten thousand parts to join.
const MAX_XML: usize = 4 * 1024 * 1024;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

/// The S3 door of a node: a service for hyper's connections. Cheap to clone.
#[derive(Clone)]
pub struct S3Door {
    shared: Arc<Shared>,
}

struct Shared {
    node: Arc<Node>,
    s3: S3Service,
    signing_keys: SigningKeys,
    ids: AtomicU64,
}

/// Opens the S3 door of a node.
pub fn service(node: Arc<Node>) -> S3Door {
    let door = Door::new(node.clone());
    let unchecked = builder(&node, door.clone()).build();
    let mut checked = builder(&node, door);
    checked.set_auth(Gate { node: node.clone() });
    checked.set_access(Gate { node: node.clone() });
    checked.set_route(Lenient { gate: Gate { node: node.clone() }, hosts: hosts(&node), unchecked });
    let first = RandomState::new().hash_one(0);
    let shared =
        Shared { node, s3: checked.build(), signing_keys: SigningKeys::new(), ids: AtomicU64::new(first) };
    S3Door { shared: Arc::new(shared) }
}

fn hosts(node: &Arc<Node>) -> Hosts {
    Hosts { node: node.clone() }
}

fn builder(node: &Arc<Node>, door: Door) -> S3ServiceBuilder {
    let mut config = S3Config::default();
    config.xml_max_body_size = MAX_XML;
    // Forms are refused before they are read; should one slip through, it may hold nothing.
    config.post_object_max_file_size = 0;
    config.form_max_fields_size = 0;
    let mut builder = S3ServiceBuilder::new(door);
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    builder.set_validation(AnyBucketName);
    builder.set_host(hosts(node));
    builder
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
    async fn answer(&self, request: Request<Body>) -> Response<DoorBody> {
        let shared = &self.shared;
        let (started, in_flight) = (Instant::now(), shared.node.metrics().in_flight());
        let id = RequestId(shared.ids.fetch_add(1, Ordering::Relaxed));
        let is_head = request.method() == Method::HEAD;
        let brings_body = !request.body().is_end_stream();
        let answered = OPERATION.scope(Cell::new("Other"), async {
            let answer = shared.handle(request).await;
            (answer, OPERATION.with(Cell::get))
        });
        let (mut answer, operation) = answered.await;
        tidy(&mut answer, is_head);
        // A body that was refused is not read to its end, and its connection ends with the answer: a client that is
        // not told would send its next request into a closed connection.
        if brings_body && (answer.status().is_client_error() || answer.status().is_server_error()) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Ok(value) = HeaderValue::try_from(id.to_string()) {
            answer.headers_mut().insert(REQUEST_ID, value);
        }
        let meter = Meter {
            node: shared.node.clone(),
            id,
            operation,
            status: answer.status().as_u16(),
            started,
            ready_after: started.elapsed(),
            bytes_out: 0,
            _in_flight: in_flight,
        };
        answer.map(|body| DoorBody::new(body, meter))
    }
}

impl Shared {
    async fn handle(&self, request: Request<Body>) -> HttpResponse {
        let (parts, body) = request.into_parts();
        if let Some(get) = PlainGet::parse(&self.node, &self.signing_keys, &parts) {
            OPERATION.with(|operation| operation.set("GetObject"));
            match get.answer().await {
                Ok(Some(answer)) => return answer,
                Ok(None) => {}
                Err(error) => return error_answer(error),
            }
        }
        self.handle_by_protocol(parts, body).await
    }

    async fn handle_by_protocol(&self, mut parts: Parts, mut body: Body) -> HttpResponse {
        let prepared = match self.node.keys().is_empty() {
            true => refuse_form(&parts).and_then(|()| unsigned::strip(&mut parts, &mut body)),
            false => refuse_form(&parts).and_then(|()| refuse_weak_signature(&parts)),
        };
        let outcome = match prepared {
            Ok(()) => self.s3.call(Request::from_parts(parts, body)).await,
            Err(error) => return error_answer(error),
        };
        outcome.unwrap_or_else(|error| {
            super::error::log(&*s3s::StdError::from(error));
            error_answer(s3_error!(InternalError))
        })
    }
}

fn error_answer(error: S3Error) -> HttpResponse {
    error.to_http_response().unwrap_or_else(|_| {
        let mut answer = HttpResponse::new(Body::empty());
        *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        answer
    })
}

/// What s3s leaves to be said about the status and the body.
fn tidy(answer: &mut HttpResponse, is_head: bool) {
    if answer.status() == StatusCode::NOT_MODIFIED {
        *answer.body_mut() = Body::empty();
        answer.headers_mut().remove(CONTENT_TYPE);
        answer.headers_mut().remove(CONTENT_LENGTH);
    }
    if is_head && answer.status() == StatusCode::OK && answer.headers().contains_key(CONTENT_RANGE) {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
}

/// Refuses uploads by HTML form before their body is read: the protocol layer would gather it in memory before it
/// asks who sends it.
fn refuse_form(parts: &Parts) -> S3Result<()> {
    let is_form = |value: &HeaderValue| {
        value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("form-data"))
    };
    if parts.method == Method::POST && parts.headers.get_all(CONTENT_TYPE).iter().any(is_form) {
        return Err(s3_error!(MethodNotAllowed, "uploads by HTML form are not supported"));
    }
    Ok(())
}

/// Refuses what is weaker than Signature Version 4: the version before it, and URLs that are valid for too long.
fn refuse_weak_signature(parts: &Parts) -> S3Result<()> {
    let version_2 = || {
        s3_error!(
            InvalidRequest,
            "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."
        )
    };
    if parts.headers.get_all(AUTHORIZATION).iter().any(|value| value.as_bytes().starts_with(b"AWS ")) {
        return Err(version_2());
    }
    let query = parts.uri.query().unwrap_or_default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "Signature" => return Err(version_2()),
            "X-Amz-Expires" if value.parse().is_ok_and(|seconds: u64| seconds > MAX_EXPIRES_SECONDS) => {
                return Err(s3_error!(
                    AuthorizationQueryParametersError,
                    "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

impl fmt::Debug for S3Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Door").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
