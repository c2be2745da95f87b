//! Connectors for the node's own HTTP clients: plain text, or TLS with the system's trusted certificates.

use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, builderstates::WantsProtocols1};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::ServerName;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle time of a connection after which TCP keepalive probes are sent.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Returns a connector for HTTP/1.1. Without trusted system certificates, only http works. If `name` is given, the
/// server's certificate must be for it, not for the host of the URL.
pub(crate) fn connector(name: Option<&str>) -> HttpsConnector<HttpConnector> {
    let (builder, http) = builder_and_connector(name);
    builder.enable_http1().wrap_connector(http)
}

/// Like [`connector`], for HTTP/2.
#[cfg(feature = "sql")]
pub(crate) fn http2_connector(name: Option<&str>) -> HttpsConnector<HttpConnector> {
    let (builder, http) = builder_and_connector(name);
    builder.enable_http2().wrap_connector(http)
}

fn builder_and_connector(name: Option<&str>) -> (HttpsConnectorBuilder<WantsProtocols1>, HttpConnector) {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(KEEPALIVE_IDLE));

    let builder = HttpsConnectorBuilder::new().with_native_roots().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot load the system's certificates; https requests will fail");
        let none = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        HttpsConnectorBuilder::new().with_tls_config(none)
    });

    let builder = builder.https_or_http();
    let builder = match name.map(str::to_owned) {
        // A name that no certificate can have fails each connection.
        Some(name) => builder.with_server_name_resolver(move |_: &Uri| ServerName::try_from(name.clone())),
        None => builder,
    };
    (builder, http)
}
