//! Connections of the node's own HTTP clients: plain, or over TLS with the certificates that the system trusts.

use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that does not acknowledge anything for this long is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Returns what opens connections, by HTTP/1.1. Where the system has no certificates that it trusts, https fails and http
/// works.
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
