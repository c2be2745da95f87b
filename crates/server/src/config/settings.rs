//! Scalar settings: their names in the file, the environment and on the command line.

use std::fmt;

/// A setting of `[server]`, `[cache]` or `[flight]`.
///
/// One name serves all layers: `page_size` in the file is `STYLOBATE_PAGE_SIZE` in the environment and
/// `--page-size` on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the fields of ServerConfig, CacheConfig and FlightConfig say what each is")]
pub enum Setting {
    Listen,
    Admin,
    Flight,
    Domains,
    Region,
    MaxConnections,
    DrainTimeout,
    TlsCertificate,
    TlsKey,
    TlsMinVersion,
    AccessLog,
    Log,
    LogFormat,
    OtlpEndpoint,
    ReadOnly,
    ReadAhead,
    MaxFetch,
    Attempts,
    Backoff,
    Deadline,
    Hedge,
    Memory,
    Disk,
    DiskCapacity,
    Policy,
    PageSize,
    Consistency,
    TicketLifetime,
}

impl Setting {
    /// All settings, in the order in which they are printed.
    pub const ALL: [Self; 28] = [
        Self::Listen,
        Self::Admin,
        Self::Flight,
        Self::Domains,
        Self::Region,
        Self::MaxConnections,
        Self::DrainTimeout,
        Self::TlsCertificate,
        Self::TlsKey,
        Self::TlsMinVersion,
        Self::AccessLog,
        Self::Log,
        Self::LogFormat,
        Self::OtlpEndpoint,
        Self::ReadOnly,
        Self::ReadAhead,
        Self::MaxFetch,
        Self::Attempts,
        Self::Backoff,
        Self::Deadline,
        Self::Hedge,
        Self::Memory,
        Self::Disk,
        Self::DiskCapacity,
        Self::Policy,
        Self::PageSize,
        Self::Consistency,
        Self::TicketLifetime,
    ];

    /// Returns its table in the file.
    pub const fn section(self) -> &'static str {
        match self {
            Self::TicketLifetime => "flight",
            _ if (self as u8) < (Self::Memory as u8) => "server",
            _ => "cache",
        }
    }

    /// Returns its key in that table.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Listen => "listen",
            Self::Admin => "admin",
            Self::Flight => "flight",
            Self::Domains => "domains",
            Self::Region => "region",
            Self::MaxConnections => "max_connections",
            Self::DrainTimeout => "drain_timeout",
            Self::TlsCertificate => "tls_certificate",
            Self::TlsKey => "tls_key",
            Self::TlsMinVersion => "tls_min_version",
            Self::AccessLog => "access_log",
            Self::Log => "log",
            Self::LogFormat => "log_format",
            Self::OtlpEndpoint => "otlp_endpoint",
            Self::ReadOnly => "read_only",
            Self::ReadAhead => "read_ahead",
            Self::MaxFetch => "max_fetch",
            Self::Attempts => "attempts",
            Self::Backoff => "backoff",
            Self::Deadline => "deadline",
            Self::Hedge => "hedge",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::DiskCapacity => "disk_capacity",
            Self::Policy => "policy",
            Self::PageSize => "page_size",
            Self::Consistency => "consistency",
            Self::TicketLifetime => "ticket_lifetime",
        }
    }

    /// Returns its environment variable.
    pub fn env(self) -> String {
        format!("STYLOBATE_{}", self.key().to_ascii_uppercase())
    }

    /// Returns its flag. `domains` is a list, whose flag `--domain` is repeated.
    pub fn flag(self) -> String {
        match self {
            Self::Domains => "--domain".to_owned(),
            _ => format!("--{}", self.key().replace('_', "-")),
        }
    }

    /// Returns the setting with this key in this table.
    pub fn find(section: &str, key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.section() == section && setting.key() == key)
    }

    /// Returns the keys of a table.
    pub(crate) fn keys(section: &str) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |setting| setting.section() == section).map(Self::key)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// Returns the message for an unknown key, with the nearest known one if it is similar.
pub(crate) fn unknown_key(key: &str, place: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<_> = known.collect();
    let nearest = known.iter().map(|name| (strsim::levenshtein(key, name), name)).min();
    match nearest {
        Some((distance, name)) if distance <= 2.max(key.len() / 3) => {
            format!("unknown key `{key}` {place}; did you mean `{name}`?")
        }
        _ => format!("unknown key `{key}` {place}; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_one_name_in_every_layer() {
        assert_eq!(Setting::PageSize.env(), "STYLOBATE_PAGE_SIZE");
        assert_eq!(Setting::PageSize.flag(), "--page-size");
        assert_eq!(Setting::Domains.flag(), "--domain");
        for setting in Setting::ALL {
            assert_eq!(Setting::find(setting.section(), setting.key()), Some(setting));
        }
    }

    #[test]
    fn each_setting_is_in_its_table() {
        assert_eq!(Setting::find("cache", "memory"), Some(Setting::Memory));
        assert_eq!(Setting::find("server", "memory"), None);
        assert_eq!(Setting::find("server", "hedge"), Some(Setting::Hedge));
        assert_eq!(Setting::find("flight", "ticket_lifetime"), Some(Setting::TicketLifetime));
    }

    #[test]
    fn a_misspelt_key_is_answered_with_the_nearest_one() {
        let said = unknown_key("memry", "in [cache]", Setting::keys("cache"));
        assert_eq!(said, "unknown key `memry` in [cache]; did you mean `memory`?");
        let said = unknown_key("colour", "in [cache]", Setting::keys("cache"));
        assert!(said.starts_with("unknown key `colour` in [cache]; known are memory, disk,"), "{said}");
    }
}
