//! The peer door: requests of the other nodes of the cluster.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/hello` | what this node tells about itself |
//!
//! Every request is signed with the secret of the cluster, and so is every answer. The rights of clients are checked by the
//! node that has their request.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use axum::{
    Extension, Json, Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::post,
};
use parking_lot::Mutex;

use crate::{
    Node,
    cluster::{Cluster, HELLO_PATH, HelloAnswer, NodeHello, RepeatedNotice, RequestSignature},
};

/// Maximum bytes of the body of a request.
const MAX_BODY: usize = 1 << 20;

struct PeerContext {
    node: Arc<Node>,
    cluster: Arc<Cluster>,
    refusals: Mutex<RepeatedNotice>,
}

/// Builds the router of a node's peer door.
pub(crate) fn router(node: Arc<Node>, cluster: Arc<Cluster>) -> Router {
    let context = Arc::new(PeerContext { node, cluster, refusals: Mutex::default() });
    Router::new()
        .route(HELLO_PATH, post(hello))
        .fallback(|| async { StatusCode::NOT_FOUND })
        .layer(middleware::from_fn_with_state(context.clone(), require_signature))
        .with_state(context)
}

/// Refuses requests that are not signed with the secret of the cluster.
async fn require_signature(
    State(context): State<Arc<PeerContext>>,
    request: Request,
    next: Next,
) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let key = context.cluster.key();
    let method = head.method.as_str();
    match key.check_request(&head.headers, method, head.uri.path(), &body, SystemTime::now()) {
        Ok(signature) => {
            let mut request = Request::from_parts(head, Body::from(body));
            request.extensions_mut().insert(signature);
            next.run(request).await
        }
        Err(error) => {
            let line = format!("a request to the peer door is refused: {error}");
            if context.refusals.lock().is_due(&line, Instant::now()) {
                tracing::warn!("cluster: {line}");
            }
            StatusCode::UNAUTHORIZED.into_response()
        }
    }
}

async fn hello(
    State(context): State<Arc<PeerContext>>,
    Extension(signature): Extension<RequestSignature>,
    Json(hello): Json<NodeHello>,
) -> Response {
    context.cluster.heard(&hello);
    let answer = HelloAnswer { hello: context.cluster.hello(), traffic: context.node.traffic() };
    match serde_json::to_vec(&answer) {
        Ok(body) => signed(&context.cluster, signature, body),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Returns an answer of JSON with its signature.
fn signed(cluster: &Cluster, request: RequestSignature, body: Vec<u8>) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    cluster.key().sign_answer(&mut headers, request, &body);
    (headers, body).into_response()
}
