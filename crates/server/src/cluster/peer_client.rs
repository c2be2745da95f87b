//! The client of the peer doors of other nodes: signed requests over pooled connections.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CONNECTION, CONTENT_TYPE, UPGRADE},
    response,
};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use stylobate_client::NodeAddress;
use stylobate_storage::{BlockRuns, PeerError, PeerRead};
use tokio::time::timeout;

use super::{
    hello::{HelloAnswer, NodeHello},
    page_client::{IdleConnections, PageConnection, PageFailure},
    page_requests::PAGES_PROTOCOL,
    peer_status::error_of,
    signature::{PeerKey, RequestSignature},
};
use crate::https::connector;

/// Path of a hello.
pub(crate) const HELLO_PATH: &str = "/v1/hello";
/// Path of the upgrade to a page connection, which carries [`PeerRead`] requests.
pub(crate) const PAGES_PATH: &str = "/v1/pages";
/// Path of a [`DescribeRequest`](stylobate_storage::DescribeRequest).
pub(crate) const DESCRIBE_PATH: &str = "/v1/describe";
/// Path of [`PathsChanged`](stylobate_storage::PathsChanged).
pub(crate) const WROTE_PATH: &str = "/v1/wrote";
/// Path of a request to evict the objects with a prefix.
pub(crate) const EVICT_PATH: &str = "/v1/evict";
/// Maximum bytes of an answer other than pages.
const MAX_ANSWER: usize = 1 << 20;
/// Idle time after which a pooled connection is closed: less than the time for which a peer keeps it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A request about one bucket, with the settings on which the two nodes must agree.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct BucketRequest<T> {
    /// Id of the requesting node.
    pub(crate) from: String,
    pub(crate) bucket: String,
    /// Hash of the bucket's origin.
    pub(crate) origin: String,
    /// Bytes of a page.
    pub(crate) page_size: u64,
    #[serde(rename = "request")]
    pub(crate) payload: T,
}

/// Sends requests to the peer doors of other nodes.
pub(crate) struct PeerClient {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    scheme: &'static str,
    key: PeerKey,
    /// Idle page connections.
    pub(super) idle: Arc<IdleConnections>,
}

impl fmt::Debug for PeerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerClient").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// Reason why a call to a peer failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerCallError {
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("{}", root_cause(.0))]
    Unreachable(hyper_util::client::legacy::Error),
    #[error("the answer broke off: {0}")]
    Broken(axum::Error),
    #[error(
        "it refuses requests of this node: give all nodes the same secret in [cluster], and check that their clocks agree"
    )]
    WrongSecret,
    #[error("it answered with status {}: is there a peer door of a node?", .0.as_u16())]
    Status(StatusCode),
    #[error("its answer is not signed with the secret of this cluster: is it a node of another one?")]
    Unsigned,
    #[error("{0}")]
    Unusable(String),
}

impl From<PeerCallError> for PeerError {
    fn from(error: PeerCallError) -> Self {
        Self::Failed { reason: error.to_string() }
    }
}

impl PeerCallError {
    /// Returns true if the peer answered but cannot be used, false if it could not be reached.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Unreachable(_) | Self::Broken(_) => false,
            Self::WrongSecret | Self::Status(_) | Self::Unsigned | Self::Unusable(_) => true,
        }
    }
}

/// Returns the innermost source of an error: hyper's own texts name only the step that failed.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

impl PeerClient {
    /// Creates a client. With TLS, the certificate of a peer must be for the host in its address, or for `name` if
    /// given, and issued by an authority that the system trusts.
    pub(crate) fn new(key: PeerKey, has_tls: bool, name: Option<&str>) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector(name));
        Self { client, scheme: if has_tls { "https" } else { "http" }, key, idle: Arc::default() }
    }

    pub(crate) fn key(&self) -> &PeerKey {
        &self.key
    }

    /// Sends this node's hello to a peer, and returns the peer's.
    pub(super) async fn hello(
        &self,
        address: &NodeAddress,
        hello: &NodeHello,
        max_wait: Duration,
    ) -> Result<HelloAnswer, PeerCallError> {
        self.close_old_connections();
        let call = async {
            let (status, body) = self.send(address, HELLO_PATH, hello).await?.read(&self.key).await?;
            if status == StatusCode::OK { Ok(body) } else { Err(PeerCallError::Status(status)) }
        };
        let answer = timeout(max_wait, call).await;
        let answer = answer.map_err(|_| PeerCallError::Timeout(max_wait))??;
        HelloAnswer::parse(&answer).map_err(PeerCallError::Unusable)
    }

    /// Sends a JSON request, and returns the JSON answer. Applies no deadline.
    pub(super) async fn ask<T: Serialize, A: DeserializeOwned>(
        &self,
        address: &NodeAddress,
        path: &str,
        request: &BucketRequest<T>,
    ) -> Result<A, PeerError> {
        let (status, body) = self.send(address, path, request).await?.read(&self.key).await?;
        if status != StatusCode::OK {
            return Err(error_of(status));
        }
        let answer = serde_json::from_slice(&body);
        Ok(answer.map_err(|error| PeerCallError::Unusable(format!("its answer cannot be read: {error}")))?)
    }

    /// Requests bytes from a peer. Returns when the first run has arrived; applies no deadline.
    pub(super) async fn pages(
        &self,
        address: &NodeAddress,
        request: &BucketRequest<PeerRead>,
    ) -> Result<BlockRuns, PeerError> {
        let content = to_json(request)?;
        let range = &request.payload.range;
        let len = range.end.saturating_sub(range.start);

        if let Some(connection) = self.idle.take(address) {
            match connection.read(&self.key, &content, len, address, &self.idle).await {
                // If the peer has closed this connection, it has closed the other idle ones as well.
                Err(PageFailure::Unanswered(_)) => self.idle.close(address),
                answer => return Ok(answer?),
            }
        }
        let connection = self.connect(address).await?;
        Ok(connection.read(&self.key, &content, len, address, &self.idle).await?)
    }

    /// Opens a page connection.
    async fn connect(&self, address: &NodeAddress) -> Result<PageConnection, PeerCallError> {
        let mut request = self.request(Method::GET, address, PAGES_PATH)?;
        let headers = request.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static(PAGES_PROTOCOL));
        let session = self.key.sign_request(headers, "GET", PAGES_PATH, &[], SystemTime::now());

        let answer = self.answer(request, session).await?;
        answer.check(&self.key, &[])?;
        if answer.head.status != StatusCode::SWITCHING_PROTOCOLS {
            return Err(PeerCallError::Status(answer.head.status));
        }
        let upgraded = hyper::upgrade::on(Response::from_parts(answer.head, ())).await;
        let upgraded = upgraded.map_err(|error| PeerCallError::Broken(axum::Error::new(error)))?;
        Ok(PageConnection::new(upgraded, session))
    }

    /// Closes page connections that have been idle for too long.
    pub(super) fn close_old_connections(&self) {
        self.idle.close_old();
    }

    /// Posts JSON, and returns the head of the answer.
    async fn send(
        &self,
        address: &NodeAddress,
        path: &str,
        content: &impl Serialize,
    ) -> Result<PeerAnswer, PeerCallError> {
        let body = to_json(content)?;
        let mut request = self.request(Method::POST, address, path)?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let signature = self.key.sign_request(headers, "POST", path, &body, SystemTime::now());
        *request.body_mut() = Body::from(body);
        self.answer(request, signature).await
    }

    fn request(
        &self,
        method: Method,
        address: &NodeAddress,
        path: &str,
    ) -> Result<Request<Body>, PeerCallError> {
        let uri = format!("{}://{address}{path}", self.scheme).parse();
        let uri = uri.map_err(|error: http::uri::InvalidUri| PeerCallError::Unusable(error.to_string()))?;
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        Ok(request)
    }

    async fn answer(
        &self,
        request: Request<Body>,
        signature: RequestSignature,
    ) -> Result<PeerAnswer, PeerCallError> {
        let answer = self.client.request(request).await.map_err(PeerCallError::Unreachable)?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            return Err(PeerCallError::WrongSecret);
        }
        let (head, body) = answer.into_parts();
        Ok(PeerAnswer { request: signature, head, body: Body::new(body) })
    }
}

fn to_json(content: &impl Serialize) -> Result<Vec<u8>, PeerCallError> {
    serde_json::to_vec(content).map_err(|error| PeerCallError::Unusable(error.to_string()))
}

/// An answer whose signature is not verified yet.
struct PeerAnswer {
    request: RequestSignature,
    head: response::Parts,
    body: Body,
}

impl PeerAnswer {
    /// Reads the body, and returns it with the status if the signature covers both.
    async fn read(mut self, key: &PeerKey) -> Result<(StatusCode, Bytes), PeerCallError> {
        let body = std::mem::take(&mut self.body);
        let body = to_bytes(body, MAX_ANSWER).await.map_err(PeerCallError::Broken)?;
        self.check(key, &body)?;
        Ok((self.head.status, body))
    }

    /// Checks that the answer is signed by a node of the cluster.
    fn check(&self, key: &PeerKey, body: &[u8]) -> Result<(), PeerCallError> {
        let status = self.head.status;
        match key.check_answer(&self.head.headers, self.request, status, body) {
            Ok(()) => Ok(()),
            Err(_) if [StatusCode::OK, StatusCode::SWITCHING_PROTOCOLS].contains(&status) => {
                Err(PeerCallError::Unsigned)
            }
            // The answer is from another server, or from a node that failed before it could sign.
            Err(_) => Err(PeerCallError::Status(status)),
        }
    }
}
