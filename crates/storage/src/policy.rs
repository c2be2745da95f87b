//! Which page leaves memory first, by name.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// An eviction policy of the memory tier. The disk tier always evicts in order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvictionPolicy {
    /// Least recently used.
    Lru,
    /// Least frequently used (windowed, with a count-min sketch).
    Lfu,
    /// Three queues: small, main and ghost. The default: a scan does not flush what is read again and again.
    #[default]
    S3Fifo,
    /// One queue with a moving hand.
    Sieve,
    /// First in, first out.
    Fifo,
}

impl EvictionPolicy {
    /// Every policy, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::Lru, Self::Lfu, Self::S3Fifo, Self::Sieve, Self::Fifo];

    /// The name that settings use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::S3Fifo => "s3fifo",
            Self::Sieve => "sieve",
            Self::Fifo => "fifo",
        }
    }

    pub(crate) fn config(self) -> foyer::EvictionConfig {
        match self {
            // One list: foyer's default keeps a second one, from which entries never return.
            Self::Lru => foyer::LruConfig { high_priority_pool_ratio: 0.0 }.into(),
            Self::Lfu => foyer::LfuConfig::default().into(),
            Self::S3Fifo => foyer::S3FifoConfig::default().into(),
            Self::Sieve => foyer::SieveConfig.into(),
            Self::Fifo => foyer::FifoConfig::default().into(),
        }
    }
}

impl fmt::Display for EvictionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is none of the policies'.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not an eviction policy: use lru, lfu, s3fifo, sieve or fifo")]
pub struct UnknownPolicyError {
    name: String,
}

impl FromStr for EvictionPolicy {
    type Err = UnknownPolicyError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|policy| policy.name() == name);
        known.ok_or_else(|| UnknownPolicyError { name: name.to_owned() })
    }
}
