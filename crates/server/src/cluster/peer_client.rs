//! The client of the peer doors of other nodes: signed requests over pooled connections.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE, response};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use stylobate_client::NodeAddress;
use stylobate_storage::{PeerBlocks, PeerError, PeerRead};
use tokio::time::timeout;

use super::{
    block_frames::FrameReader,
    hello::{HelloAnswer, NodeHello},
    peer_status::error_of,
    signature::{PeerKey, RequestSignature},
};
use crate::https::connector;

/// Path of a hello.
pub(crate) const HELLO_PATH: &str = "/v1/hello";
/// Path of a [`PeerRead`].
pub(crate) const PAGES_PATH: &str = "/v1/pages";
/// Path of a [`DescribeRequest`](stylobate_storage::DescribeRequest).
pub(crate) const DESCRIBE_PATH: &str = "/v1/describe";
/// Path of [`PathsChanged`](stylobate_storage::PathsChanged).
pub(crate) const WROTE_PATH: &str = "/v1/wrote";
/// Path of a prefix whose objects are dropped from the cache.
pub(crate) const EVICT_PATH: &str = "/v1/evict";
/// Maximum bytes of an answer that is no page.
const MAX_ANSWER: usize = 1 << 20;
/// Less than the time after which a peer closes an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A request about one bucket, with the settings on which the two nodes must agree.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct BucketRequest<T> {
    /// Id of the node that asks.
    pub(crate) from: String,
    pub(crate) bucket: String,
    /// Hash of the bucket's origin.
    pub(crate) origin: String,
    /// Bytes of a page.
    pub(crate) page_size: u64,
    pub(crate) request: T,
}

/// Sends requests to the peer doors of other nodes.
pub(crate) struct PeerClient {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    scheme: &'static str,
    key: PeerKey,
}

impl fmt::Debug for PeerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerClient").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// The reason for which a peer gave no answer that can be used.
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
    /// Returns true if the peer answers and cannot be used, false if it cannot be reached.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Unreachable(_) | Self::Broken(_) => false,
            Self::WrongSecret | Self::Status(_) | Self::Unsigned | Self::Unusable(_) => true,
        }
    }
}

/// Returns the last source of an error: hyper's own texts name only the step that failed.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

impl PeerClient {
    /// Creates a client. With TLS, certificates must be for the host in the address of a peer, or for `name` if given,
    /// and issued by an authority that the system trusts.
    pub(crate) fn new(key: PeerKey, has_tls: bool, name: Option<&str>) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector(name));
        Self { client, scheme: if has_tls { "https" } else { "http" }, key }
    }

    pub(crate) fn key(&self) -> &PeerKey {
        &self.key
    }

    /// Tells a peer about this node, and returns what it tells of itself.
    pub(super) async fn hello(
        &self,
        address: &NodeAddress,
        hello: &NodeHello,
        patience: Duration,
    ) -> Result<HelloAnswer, PeerCallError> {
        let call = async {
            let (status, body) = self.send(address, HELLO_PATH, hello).await?.read(&self.key).await?;
            if status == StatusCode::OK { Ok(body) } else { Err(PeerCallError::Status(status)) }
        };
        let answer = timeout(patience, call).await;
        let answer = answer.map_err(|_| PeerCallError::Timeout(patience))??;
        HelloAnswer::parse(&answer).map_err(PeerCallError::Unusable)
    }

    /// Asks a peer, and returns its answer of JSON. It has no deadline of its own.
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

    /// Asks a peer for bytes. Succeeds when it has the first of them; has no deadline of its own.
    pub(super) async fn pages(
        &self,
        address: &NodeAddress,
        request: &BucketRequest<PeerRead>,
    ) -> Result<PeerBlocks, PeerError> {
        let answer = self.send(address, PAGES_PATH, request).await?;
        if answer.head.status != StatusCode::OK {
            let (status, _) = answer.read(&self.key).await?;
            return Err(error_of(status));
        }
        answer.check(&self.key, &[])?;
        Ok(FrameReader::new(self.key.clone(), answer.request, answer.body).blocks())
    }

    /// Posts JSON, and returns the head of the answer.
    async fn send(
        &self,
        address: &NodeAddress,
        path: &str,
        content: &impl Serialize,
    ) -> Result<PeerAnswer, PeerCallError> {
        let body = serde_json::to_vec(content).map_err(|error| PeerCallError::Unusable(error.to_string()))?;
        let scheme = self.scheme;
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::POST;
        let uri = format!("{scheme}://{address}{path}").parse();
        *request.uri_mut() =
            uri.map_err(|error: http::uri::InvalidUri| PeerCallError::Unusable(error.to_string()))?;

        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        let signature = self.key.sign_request(headers, "POST", path, &body, SystemTime::now());
        *request.body_mut() = Body::from(body);

        let answer = self.client.request(request).await.map_err(PeerCallError::Unreachable)?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            return Err(PeerCallError::WrongSecret);
        }
        let (head, body) = answer.into_parts();
        Ok(PeerAnswer { request: signature, head, body: Body::new(body) })
    }
}

/// An answer whose signature is not checked yet.
struct PeerAnswer {
    request: RequestSignature,
    head: response::Parts,
    body: Body,
}

impl PeerAnswer {
    /// Reads the body, and returns it with the status if both are of the cluster.
    async fn read(mut self, key: &PeerKey) -> Result<(StatusCode, Bytes), PeerCallError> {
        let body = std::mem::take(&mut self.body);
        let body = to_bytes(body, MAX_ANSWER).await.map_err(PeerCallError::Broken)?;
        self.check(key, &body)?;
        Ok((self.head.status, body))
    }

    /// Checks that a node of the cluster gave the answer.
    fn check(&self, key: &PeerKey, body: &[u8]) -> Result<(), PeerCallError> {
        let status = self.head.status;
        match key.check_answer(&self.head.headers, self.request, status, body) {
            Ok(()) => Ok(()),
            Err(_) if status == StatusCode::OK => Err(PeerCallError::Unsigned),
            // Of another server, or of a node that did not get as far as the signature.
            Err(_) => Err(PeerCallError::Status(status)),
        }
    }
}
