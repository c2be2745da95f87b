//! Posts spans to a collector, using the node's own HTTP client.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::{Request, Response};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::{runtime::Handle, time::timeout};

use crate::https::connector;

/// Timeout of a request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum bytes of an answer, which contains the number of rejected spans and the reason.
const MAX_ANSWER: usize = 1 << 20;

/// Sends batches on the runtime, on behalf of an exporter thread that has none.
pub(super) struct CollectorClient {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    runtime: Handle,
    /// URL of the collector, without credentials.
    endpoint: String,
    is_failing: AtomicBool,
}

impl CollectorClient {
    /// Creates a client for the current runtime.
    pub(super) fn new(endpoint: String) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector(None));
        Self { client, runtime: Handle::current(), endpoint, is_failing: AtomicBool::new(false) }
    }

    /// Logs a warning when the collector begins to fail, and not again until it has accepted spans.
    fn note(&self, failure: Option<String>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        let endpoint = &self.endpoint;
        match failure {
            Some(reason) if !was_failing => {
                tracing::warn!(endpoint, reason, "the collector takes no traces: they are dropped");
            }
            None if was_failing => tracing::info!(endpoint, "the collector takes traces again"),
            Some(_) | None => {}
        }
    }
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let exchange = async move {
            let answer = client.request(request.map(Body::from)).await?;
            let (head, body) = answer.into_parts();
            let body = to_bytes(Body::new(body), MAX_ANSWER).await?;
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };

        // A timer can be created only on the runtime as well.
        let sent = self.runtime.spawn(async { timeout(TIMEOUT, exchange).await }).await;
        let answer = match sent {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err("no answer in time".into()),
            // The runtime is shutting down.
            Err(ended) => return Err(ended.into()),
        };

        self.note(match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("HTTP status {}", answer.status())),
            Err(error) => Some(chain(&**error)),
        });
        answer
    }
}

/// Formats an error with all of its sources.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
