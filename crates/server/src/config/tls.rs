//! TLS settings of the doors.

use std::{fmt, path::PathBuf, str::FromStr};

/// TLS of all doors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// PEM file with the certificate and its chain.
    pub certificate: PathBuf,
    /// PEM file with the private key.
    pub key: PathBuf,
    /// Oldest version that clients may use. Default: 1.2.
    pub min_version: TlsVersion,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_2 => "1.2",
            Self::V1_3 => "1.3",
        })
    }
}

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1.2" => Ok(Self::V1_2),
            "1.3" => Ok(Self::V1_3),
            _ => Err(format!("{text:?} is not a version of TLS that can be used: write 1.2 or 1.3")),
        }
    }
}
