//! Checks of settings that depend on each other.

use super::{NodeSettings, Provenance, Setting, TlsConfig};
use crate::Result;

impl NodeSettings {
    /// Checks that each door has its own address, and that a fetch holds at least one page.
    pub(super) fn check(&self, provenance: &dyn Fn(Setting) -> Provenance) -> Result<()> {
        let stronger = |one, other| match provenance(one) {
            Provenance::Default => provenance(other),
            given => given,
        };

        let doors = [
            (Setting::Listen, Some(self.listen)),
            (Setting::Admin, Some(self.admin)),
            (Setting::Flight, self.flight),
            (Setting::ClusterListen, Some(self.cluster_listen).filter(|_| self.has_cluster())),
        ];
        for (n, (door, address)) in doors.iter().enumerate() {
            let Some(address) = address.filter(|address| address.port() != 0) else { continue };
            let Some((other, _)) = doors.iter().take(n).find(|(_, other)| *other == Some(address)) else {
                continue;
            };
            let what = format!("{other} and {door} are both {address}: each door needs its own");
            return stronger(*door, *other).error(what);
        }

        let Self { max_fetch, page_size, .. } = self;
        if max_fetch < page_size {
            let what = format!("max_fetch is {max_fetch}, less than one page of {page_size}: raise it");
            return stronger(Setting::PageSize, Setting::MaxFetch).error(what);
        }

        Ok(())
    }

    /// Returns the TLS of the doors; its certificate and key must be set together.
    pub(super) fn tls(&self, provenance: &dyn Fn(Setting) -> Provenance) -> Result<Option<TlsConfig>> {
        match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => Ok(Some(TlsConfig {
                certificate: certificate.clone(),
                key: key.clone(),
                min_version: self.tls_min_version,
            })),
            (None, None) => Ok(None),
            (Some(_), None) => provenance(Setting::TlsCertificate)
                .error("tls_certificate: give its private key too, as tls_key"),
            (None, Some(_)) => {
                provenance(Setting::TlsKey).error("tls_key: give its certificate too, as tls_certificate")
            }
        }
    }
}
