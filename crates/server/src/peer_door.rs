//! The peer door: serves requests of the other nodes of the cluster.
//!
//! | request | answer |
//! |---|---|
//! | `POST /v1/hello` | this node's hello |
//! | `GET /v1/pages` | an upgrade to a page connection: runs of blocks of one version of an object, in signed frames |
//! | `POST /v1/describe` | the current version of an object |
//! | `POST /v1/wrote` | empty, after all nodes that cache the object were notified |
//! | `POST /v1/evict` | the number of objects with a prefix that were evicted from the cache |
//!
//! Every request and every answer is signed with the cluster's secret. The node that received a client's request
//! checks the rights of the client. The status is 404 if the object does not exist, 412 if it was replaced, 503 if
//! this node has no answer, and 409 if the two nodes do not share the bucket.

mod pages;

use std::{
    fmt::Display,
    io,
    sync::Arc,
    time::{Instant, SystemTime},
};

use axum::{
    Extension, Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use stylobate_storage::{DescribeRequest, PathsChanged, PeerId, ReadThrough};
use tokio_util::sync::CancellationToken;

pub(crate) use self::pages::UpgradeSlot;
use crate::{
    Node,
    cluster::{
        BucketRequest, Cluster, DESCRIBE_PATH, EVICT_PATH, HELLO_PATH, HelloAnswer, NodeHello, PAGES_PATH,
        RepeatedNotice, RequestSignature, WROTE_PATH, status_of,
    },
};

/// Maximum bytes of a request body: a thousand deleted keys, each byte escaped.
const MAX_BODY: usize = 8 << 20;

struct PeerContext {
    node: Arc<Node>,
    cluster: Arc<Cluster>,
    refusals: Mutex<RepeatedNotice>,
}

/// The peer door of a node.
#[derive(Clone)]
pub(crate) struct PeerDoor {
    router: Router,
    context: Arc<PeerContext>,
}

impl PeerDoor {
    pub(crate) fn new(node: Arc<Node>, cluster: Arc<Cluster>) -> Self {
        let context = Arc::new(PeerContext { node, cluster, refusals: Mutex::default() });
        Self { router: router(context.clone()), context }
    }

    /// Returns the HTTP service for a connection.
    pub(crate) fn service(&self, upgrade: UpgradeSlot) -> TowerToHyperService<Router> {
        TowerToHyperService::new(self.router.clone().layer(Extension(upgrade)))
    }

    /// Serves page reads on a connection after its HTTP upgrade, if it had one, until the connection ends. After
    /// `stop`, it ends with the answer in progress.
    pub(crate) async fn serve_pages(
        &self,
        upgrade: &UpgradeSlot,
        stop: &CancellationToken,
    ) -> io::Result<()> {
        self.context.serve_pages(upgrade, stop).await
    }
}

fn router(context: Arc<PeerContext>) -> Router {
    Router::new()
        .route(HELLO_PATH, post(hello))
        .route(PAGES_PATH, get(pages::upgrade))
        .route(DESCRIBE_PATH, post(describe))
        .route(WROTE_PATH, post(apply_write_notice))
        .route(EVICT_PATH, post(evict))
        .fallback(|| async { StatusCode::NOT_FOUND })
        .layer(middleware::from_fn_with_state(context.clone(), require_signature))
        .with_state(context)
}

/// Refuses requests that are not signed with the cluster's secret.
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
            context.warn_refused(&error);
            StatusCode::UNAUTHORIZED.into_response()
        }
    }
}

async fn hello(
    State(context): State<Arc<PeerContext>>,
    Extension(signature): Extension<RequestSignature>,
    body: Bytes,
) -> Response {
    // The hello of a node with another version may be unreadable. That node detects the mismatch from the answer.
    if let Ok(hello) = serde_json::from_slice::<NodeHello>(&body) {
        context.cluster.apply_hello(&hello);
    }
    let answer = HelloAnswer { hello: context.cluster.hello(), traffic: context.node.traffic() };
    context.json(signature, &answer)
}

async fn describe(
    State(context): State<Arc<PeerContext>>,
    Extension(signature): Extension<RequestSignature>,
    body: Bytes,
) -> Response {
    let (request, reader) = match context.parse::<DescribeRequest>(&body) {
        Ok(parsed) => parsed,
        Err(status) => return context.refuse(signature, status),
    };
    let peer = PeerId::new(request.from);
    match reader.describe_for_peer(&peer, request.payload).await {
        Ok(described) => context.json(signature, &described),
        Err(error) => context.refuse(signature, status_of(&error)),
    }
}

async fn apply_write_notice(
    State(context): State<Arc<PeerContext>>,
    Extension(signature): Extension<RequestSignature>,
    body: Bytes,
) -> Response {
    let (request, reader) = match context.parse::<PathsChanged>(&body) {
        Ok(parsed) => parsed,
        Err(status) => return context.refuse(signature, status),
    };
    reader.note_changed(request.payload).await;
    context.json(signature, &())
}

async fn evict(
    State(context): State<Arc<PeerContext>>,
    Extension(signature): Extension<RequestSignature>,
    body: Bytes,
) -> Response {
    let (request, reader) = match context.parse::<String>(&body) {
        Ok(parsed) => parsed,
        Err(status) => return context.refuse(signature, status),
    };
    match reader.evict_for_peer(&request.payload).await {
        Ok(objects) => context.json(signature, &objects),
        Err(error) => context.refuse(signature, status_of(&error)),
    }
}

impl PeerContext {
    /// Logs a refused request. A line that repeats the previous one is logged at most once every ten minutes.
    fn warn_refused(&self, error: &impl Display) {
        let line = format!("refused a request to the peer door: {error}");
        if self.refusals.lock().is_due(&line, Instant::now()) {
            tracing::warn!("cluster: {line}");
        }
    }

    /// Parses a request about a bucket, and returns it with the bucket's reader.
    ///
    /// # Errors
    ///
    /// The status to answer with: 400 if the body is invalid, or 409 if the two nodes do not share the bucket.
    fn parse<T: DeserializeOwned>(
        &self,
        body: &[u8],
    ) -> Result<(BucketRequest<T>, &ReadThrough), StatusCode> {
        let request: BucketRequest<T> = serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)?;
        let bucket = self.node.bucket(&request.bucket).filter(|_| self.cluster.shares(&request));
        let reader = &bucket.ok_or(StatusCode::CONFLICT)?.reader;
        Ok((request, reader))
    }

    /// Returns a signed JSON answer.
    fn json(&self, request: RequestSignature, answer: &impl Serialize) -> Response {
        let Ok(body) = serde_json::to_vec(answer) else {
            return self.refuse(request, StatusCode::INTERNAL_SERVER_ERROR);
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.cluster.key().sign_answer(&mut headers, request, StatusCode::OK, &body);
        (headers, body).into_response()
    }

    /// Returns a signed refusal.
    fn refuse(&self, request: RequestSignature, status: StatusCode) -> Response {
        let mut headers = HeaderMap::new();
        self.cluster.key().sign_answer(&mut headers, request, status, &[]);
        (status, headers).into_response()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        cluster::PROTOCOL,
        config::{BucketConfig, ClusterConfig, NodeConfig, NodeListSource, Secret},
    };

    #[tokio::test]
    async fn a_node_of_another_version_is_told_the_version_of_this_one() {
        let mut config = NodeConfig::default();
        config.buckets.push(BucketConfig::new("lake", "memory:///"));
        config.cluster = Some(ClusterConfig {
            id: "a".parse().unwrap(),
            listen: ([127, 0, 0, 1], 0).into(),
            nodes: NodeListSource::Fixed(Vec::new()),
            secret: Secret::new("the secret of a cluster"),
        });
        let node = Node::open(&config).await.unwrap();
        let cluster = node.cluster().unwrap().clone();
        let key = cluster.key().clone();
        let context = Arc::new(PeerContext { node, cluster, refusals: Mutex::default() });

        for request in [r#"{"protocol":3,"name":"b"}"#, "{}", ""] {
            let mut headers = HeaderMap::new();
            let now = SystemTime::now();
            let signature = key.sign_request(&mut headers, "POST", HELLO_PATH, request.as_bytes(), now);
            let answer = hello(State(context.clone()), Extension(signature), Bytes::from(request)).await;
            let (head, body) = answer.into_parts();
            let body = to_bytes(body, MAX_BODY).await.unwrap();
            assert!(key.check_answer(&head.headers, signature, head.status, &body).is_ok(), "{request}");
            let answer: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(answer["hello"]["protocol"], PROTOCOL, "{request}");
        }
    }
}
