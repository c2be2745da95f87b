//! TLS of the doors, with a certificate and key from files that are reloaded when they change.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::RwLock;
use rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::{TLS12, TLS13},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{
    Result, ServerError,
    config::{TlsConfig, TlsVersion},
};

/// Maximum time of a TLS handshake.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which the files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// HTTP version that a door offers by ALPN (RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlpnProtocol {
    Http1,
    Http2,
}

/// The TLS of a node. Open connections keep their original certificate.
pub struct Tls {
    config: TlsConfig,
    current: RwLock<TlsAcceptors>,
}

struct TlsAcceptors {
    http1: TlsAcceptor,
    http2: TlsAcceptor,
    changed: Option<[SystemTime; 2]>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// [`ServerError::Tls`] if they cannot be read or do not match.
    pub fn open(config: &TlsConfig) -> Result<Self> {
        Ok(Self { current: RwLock::new(load(config)?), config: config.clone() })
    }

    /// Reloads the files. On failure, the previous certificate and key remain in use.
    pub fn reload(&self) -> Result<()> {
        *self.current.write() = load(&self.config)?;
        tracing::info!(certificate = %self.config.certificate.display(), "certificate read");
        Ok(())
    }

    /// Reloads the files whenever they change. Never returns.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut refused = None;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let changed = times(&self.config);
            // A file that is briefly missing is being replaced.
            if changed.is_none() || changed == self.current.read().changed || changed == refused {
                continue;
            }
            if let Err(error) = self.reload() {
                tracing::error!(%error, "certificate not read again: the previous one stays in use");
                refused = changed;
            }
        }
    }

    /// Performs the handshake with a client.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        protocol: AlpnProtocol,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let acceptor = {
            let current = self.current.read();
            match protocol {
                AlpnProtocol::Http1 => current.http1.clone(),
                AlpnProtocol::Http2 => current.http2.clone(),
            }
        };
        let accepted = tokio::time::timeout(TIMEOUT, acceptor.accept(stream)).await;
        accepted.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
    }
}

fn times(config: &TlsConfig) -> Option<[SystemTime; 2]> {
    let changed = |path: &Path| std::fs::metadata(path).ok()?.modified().ok();
    Some([changed(&config.certificate)?, changed(&config.key)?])
}

fn load(config: &TlsConfig) -> Result<TlsAcceptors> {
    let changed = times(config);
    let certificates: Vec<_> = CertificateDer::pem_file_iter(&config.certificate)
        .and_then(Iterator::collect)
        .map_err(|error| failed(&config.certificate, &error))?;
    if certificates.is_empty() {
        return Err(failed(&config.certificate, &"no certificate in PEM"));
    }

    let key = PrivateKeyDer::from_pem_file(&config.key).map_err(|error| failed(&config.key, &error))?;

    let versions: &[&SupportedProtocolVersion] =
        if config.min_version == TlsVersion::V1_3 { &[&TLS13] } else { &[&TLS12, &TLS13] };
    let built = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key));
    let server = built.map_err(|error| failed(&config.certificate, &error))?;

    let offering = |protocol: &[u8]| {
        let mut server = server.clone();
        server.alpn_protocols = vec![protocol.to_vec()];
        TlsAcceptor::from(Arc::new(server))
    };
    Ok(TlsAcceptors { http1: offering(b"http/1.1"), http2: offering(b"h2"), changed })
}

fn failed(path: &Path, reason: &dyn std::fmt::Display) -> ServerError {
    ServerError::Tls { path: PathBuf::from(path), reason: reason.to_string() }
}
