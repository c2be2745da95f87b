//! Connectors for the node's own HTTP clients: plain text, or TLS with the system's trusted certificates.

use std::time::Duration;

use hyper_rustls::{
    FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, builderstates::WantsProtocols1,
};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::ServerName;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle time of a connection after which TCP keepalive probes are sent.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Returns a connector for HTTP/1.1. If the system has no trusted certificates, https fails and http works. The
/// server's certificate must be for `name` if given, or else for the host of the URL.
pub(crate) fn connector(name: Option<&str>) -> HttpsConnector<HttpConnector> {
    let (builder, http) = parts(name);
    builder.enable_http1().wrap_connector(http)
}

/// Returns a connector like [`connector`]'s for HTTP/2.
#[cfg(feature = "sql")]
pub(crate) fn http2_connector(name: Option<&str>) -> HttpsConnector<HttpConnector> {
    let (builder, http) = parts(name);
    builder.enable_http2().wrap_connector(http)
}

fn parts(name: Option<&str>) -> (HttpsConnectorBuilder<WantsProtocols1>, HttpConnector) {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_keepalive(Some(KEEPALIVE_IDLE));

    let builder = HttpsConnectorBuilder::new().with_native_roots().unwrap_or_else(|error| {
        tracing::warn!(%error, "the system's certificates cannot be read: https fails");
        let none = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        HttpsConnectorBuilder::new().with_tls_config(none)
    });

    let builder = builder.https_or_http();
    let name = name.and_then(|name| ServerName::try_from(name.to_owned()).ok());
    let builder = match name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
        None => builder,
    };
    (builder, http)
}
