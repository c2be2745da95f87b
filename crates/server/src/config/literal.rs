//! Literals of setting values, as a configuration file and the help show them.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use stylobate_client::NodeAddress;
use stylobate_storage::{ByteSize, Consistency, EvictionPolicy, format_duration, without_credentials};

use super::{LogFormat, tls::TlsVersion};

/// A setting value in TOML notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SettingLiteral {
    /// A text, in quotes.
    Text(String),
    /// A number or boolean.
    Bare(String),
    /// A list of texts.
    List(Vec<String>),
    /// No value, which TOML cannot express.
    Absent,
}

impl SettingLiteral {
    /// Returns the value in command-line notation.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Bare(text) => text,
            Self::List(texts) if !texts.is_empty() => texts.join(","),
            Self::List(_) | Self::Absent => "none".to_owned(),
        }
    }
}

/// A type of setting values.
pub(super) trait SettingValue {
    /// Returns the value as a literal, without secrets.
    fn literal(&self) -> SettingLiteral;
}

macro_rules! values {
    ($($notation:ident: $($type:ty),+;)+) => {
        $($(impl SettingValue for $type {
            fn literal(&self) -> SettingLiteral {
                SettingLiteral::$notation(self.to_string())
            }
        })+)+
    };
}

values! {
    Text: SocketAddr, ByteSize, EvictionPolicy, Consistency, LogFormat, NodeAddress, TlsVersion;
    Bare: bool, u32, usize, f64;
}

impl SettingValue for String {
    fn literal(&self) -> SettingLiteral {
        SettingLiteral::Text(without_credentials(self))
    }
}

impl SettingValue for Duration {
    fn literal(&self) -> SettingLiteral {
        SettingLiteral::Text(format_duration(*self))
    }
}

impl SettingValue for Vec<String> {
    fn literal(&self) -> SettingLiteral {
        SettingLiteral::List(self.clone())
    }
}

impl SettingValue for Option<PathBuf> {
    fn literal(&self) -> SettingLiteral {
        match self {
            Some(path) => SettingLiteral::Text(path.to_string_lossy().into_owned()),
            None => SettingLiteral::Absent,
        }
    }
}

/// Other optional settings are turned off by `off`.
impl<T: SettingValue> SettingValue for Option<T> {
    fn literal(&self) -> SettingLiteral {
        match self {
            Some(value) => value.literal(),
            None => SettingLiteral::Text("off".to_owned()),
        }
    }
}
