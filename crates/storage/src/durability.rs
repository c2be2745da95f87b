//! Durability of writes to a file system.

use std::{fmt, str::FromStr};

/// Durability of a finished file, or of a change to a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power loss: the file and its name are synced.
    #[default]
    Fsync,
    /// Survives only the end of the process.
    None,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fsync => "fsync",
            Self::None => "none",
        })
    }
}

/// The error for an unknown durability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no durability {0:?}: fsync or none")]
pub struct UnknownDurabilityError(pub String);

impl FromStr for Durability {
    type Err = UnknownDurabilityError;

    fn from_str(name: &str) -> std::result::Result<Self, Self::Err> {
        match name {
            "fsync" => Ok(Self::Fsync),
            "none" => Ok(Self::None),
            _ => Err(UnknownDurabilityError(name.to_owned())),
        }
    }
}
