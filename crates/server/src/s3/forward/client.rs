//! The HTTP client that sends requests to origins as they are: it follows no redirect, and leaves paths alone.

use std::{error::Error as StdError, time::Duration};

use http::{Request, Response};
use hyper::body::{Body as _, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};
use s3s::Body;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// An origin that does not acknowledge anything for this long is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Sends requests over connections that are kept. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct OriginClient {
    client: Client<HttpsConnector<HttpConnector>, Body>,
}

impl OriginClient {
    pub(super) fn new() -> Self {
        let mut http = HttpConnector::new();
        http.set_nodelay(true);
        http.enforce_http(false);
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        http.set_keepalive(Some(SILENCE));
        // Where the system has no certificates that it trusts, https fails and http works.
        let builder = HttpsConnectorBuilder::new().with_native_roots().unwrap_or_else(|error| {
            tracing::warn!(%error, "the system's certificates cannot be read: origins by https fail");
            let none = rustls::ClientConfig::builder()
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            HttpsConnectorBuilder::new().with_tls_config(none)
        });
        let https = builder.https_or_http().enable_http1().wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_timer(TokioTimer::new())
            .build(https);
        Self { client }
    }

    /// Sends a request; the body of the answer comes as it arrives.
    ///
    /// A server that refuses a body without reading it closes the connection afterwards, and not all say so: such a
    /// connection is not used again.
    pub(super) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, OriginUnreachable> {
        let has_body = !request.body().is_end_stream();
        let connection = capture_connection(&mut request);
        let answer = self.client.request(request).await;
        let answer = answer.map_err(|error| OriginUnreachable { source: Box::new(error) })?;

        if has_body
            && !answer.status().is_success()
            && let Some(connection) = connection.connection_metadata().as_ref()
        {
            connection.poison();
        }
        Ok(answer)
    }

    /// Sends a request that changes nothing; without a body, it is sent once more where a connection that was kept turns out
    /// to be closed.
    pub(super) async fn ask(&self, request: Request<Body>) -> Result<Response<Incoming>, OriginUnreachable> {
        let (parts, body) = request.into_parts();
        if !body.is_end_stream() {
            return self.send(Request::from_parts(parts, body)).await;
        }
        match self.send(Request::from_parts(parts.clone(), Body::empty())).await {
            Ok(answer) => Ok(answer),
            Err(_) => self.send(Request::from_parts(parts, Body::empty())).await,
        }
    }
}

/// The origin did not answer.
#[derive(Debug, thiserror::Error)]
#[error("the origin did not answer: {}", chain(&**source))]
pub(super) struct OriginUnreachable {
    source: Box<dyn StdError + Send + Sync>,
}

/// An error with all that caused it.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
