//! The HTTP client for forwarded requests: it follows no redirects and does not normalize paths.

use std::{error::Error, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::body::Body as _;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};
use s3s::{Body, StdError};
use stylobate_storage::{OriginFailure, OriginMetrics, OriginRequest, RequestKind};

use super::stall_timeout::{OriginBody, ProgressBody, StalledTransfer, TransferProgress};
use crate::https::connector;

const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Sends requests over pooled connections. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct OriginClient {
    client: Client<HttpsConnector<HttpConnector>, Body>,
}

impl OriginClient {
    pub(super) fn new() -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(connector(None));
        Self { client }
    }

    /// Sends a request; the answer's body is streamed. Both fail if no byte is transferred for the stall timeout.
    ///
    /// A server that refuses a body without reading it closes the connection afterwards. Since not all servers
    /// announce this, such a connection is not reused.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
        stall_timeout: Duration,
    ) -> Result<Response<OriginBody>, OriginUnreachable> {
        let has_body = !request.body().is_end_stream();
        let progress = TransferProgress::new();
        let mut request = if has_body {
            request.map(|body| Body::http_body(ProgressBody::new(body, progress.clone())))
        } else {
            request
        };

        let counted = OriginMetricsTag::begin(&request);
        let connection = capture_connection(&mut request);
        let answer = tokio::select! {
            answer = self.client.request(request) => answer.map_err(|error| OriginUnreachable(error.into())),
            () = progress.stalled(stall_timeout) => {
                Err(OriginUnreachable(StalledTransfer { seconds: stall_timeout.as_secs_f64() }.into()))
            }
        };

        if let Some(counted) = counted {
            end(counted, &answer);
        }
        let answer = answer?;

        if has_body
            && !answer.status().is_success()
            && let Some(connection) = connection.connection_metadata().as_ref()
        {
            connection.poison();
        }
        Ok(answer.map(|body| OriginBody::new(body, stall_timeout)))
    }

    /// Sends a request that changes nothing. Without a body, the request is retried once if a pooled connection turns
    /// out to be closed.
    pub(super) async fn ask(
        &self,
        request: Request<Body>,
        stall_timeout: Duration,
    ) -> Result<Response<OriginBody>, OriginUnreachable> {
        let (parts, body) = request.into_parts();
        if !body.is_end_stream() {
            return self.send(Request::from_parts(parts, body), stall_timeout).await;
        }
        match self.send(Request::from_parts(parts.clone(), Body::empty()), stall_timeout).await {
            Err(failed) if !failed.has_stalled() => {
                self.send(Request::from_parts(parts, Body::empty()), stall_timeout).await
            }
            answer => answer,
        }
    }
}

/// Request extension with the metrics in which the request is counted.
#[derive(Clone, Debug)]
pub(super) struct OriginMetricsTag {
    pub(super) metrics: Arc<OriginMetrics>,
    pub(super) kind: RequestKind,
}

impl OriginMetricsTag {
    fn begin(request: &Request<Body>) -> Option<OriginRequest> {
        let Self { metrics, kind } = request.extensions().get::<Self>()?.clone();
        Some(OriginRequest::begin(metrics, kind, request.method(), request.uri()))
    }
}

fn end<B>(counted: OriginRequest, answer: &Result<Response<B>, OriginUnreachable>) {
    match answer {
        Ok(answer) => counted.answered(answer.status()),
        Err(failed) if failed.has_stalled() => counted.failed(OriginFailure::Timeout),
        // The client's body was cut off, which is not the origin's fault.
        Err(failed) if failed.is_of_body() => {}
        Err(_) => counted.failed(OriginFailure::Connection),
    }
}

/// The origin did not answer.
#[derive(Debug, thiserror::Error)]
#[error("the origin did not answer: {}", chain(&**.0))]
pub(super) struct OriginUnreachable(#[source] StdError);

impl OriginUnreachable {
    /// Returns true after the stall timeout.
    pub(super) fn has_stalled(&self) -> bool {
        self.0.is::<StalledTransfer>()
    }

    /// Returns true if reading the request body failed.
    fn is_of_body(&self) -> bool {
        let first: &(dyn Error + 'static) = &*self.0;
        let mut causes = std::iter::successors(Some(first), |error| (*error).source());
        causes.any(|error| error.downcast_ref().is_some_and(hyper::Error::is_user))
    }
}

/// Formats an error with all of its sources.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
