//! Connector of the node's own HTTP clients: plain, or TLS with the system's trusted certificates.

use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without an acknowledgement after which a server is considered gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Returns a connector for HTTP/1.1. If the system has no trusted certificates, https fails and http works.
pub(crate) fn connector() -> HttpsConnector<HttpConnector> {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(SILENCE));

    let builder = HttpsConnectorBuilder::new().with_native_roots().unwrap_or_else(|error| {
        tracing::warn!(%error, "the system's certificates cannot be read: https fails");
        let none = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        HttpsConnectorBuilder::new().with_tls_config(none)
    });

    builder.https_or_http().enable_http1().wrap_connector(http)
}
