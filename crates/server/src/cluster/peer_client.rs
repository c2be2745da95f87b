//! The client of the peer doors of other nodes: signed requests over pooled connections.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use stylobate_client::NodeAddress;
use tokio::time::timeout;

use super::{
    hello::{HelloAnswer, NodeHello},
    signature::PeerKey,
};
use crate::https::connector;

/// Path of a hello.
pub(crate) const HELLO_PATH: &str = "/v1/hello";
/// Maximum bytes of an answer that is no page.
const MAX_ANSWER: usize = 1 << 20;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

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
pub(super) enum PeerError {
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

impl PeerError {
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
    ) -> Result<HelloAnswer, PeerError> {
        let body = serde_json::to_vec(hello).map_err(|error| PeerError::Unusable(error.to_string()))?;
        let answer = timeout(patience, self.post(address, HELLO_PATH, body)).await;
        let answer = answer.map_err(|_| PeerError::Timeout(patience))??;
        HelloAnswer::parse(&answer).map_err(PeerError::Unusable)
    }

    /// Posts JSON, and returns the answer if it is one of the cluster.
    async fn post(&self, address: &NodeAddress, path: &str, body: Vec<u8>) -> Result<Bytes, PeerError> {
        let scheme = self.scheme;
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::POST;
        let uri = format!("{scheme}://{address}{path}").parse();
        *request.uri_mut() =
            uri.map_err(|error: http::uri::InvalidUri| PeerError::Unusable(error.to_string()))?;

        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        let signature = self.key.sign_request(headers, "POST", path, &body, SystemTime::now());
        *request.body_mut() = Body::from(body);

        let answer = self.client.request(request).await.map_err(PeerError::Unreachable)?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(PeerError::WrongSecret),
            status => return Err(PeerError::Status(status)),
        }

        let (head, body) = answer.into_parts();
        let body = to_bytes(Body::new(body), MAX_ANSWER).await.map_err(PeerError::Broken)?;
        self.key.check_answer(&head.headers, signature, &body).map_err(|_| PeerError::Unsigned)?;
        Ok(body)
    }
}
