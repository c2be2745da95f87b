//! Configuration of a node, and its defaults.
//!
//! A configuration is built in code from the types here, or [resolved](Layers::resolve) from a file, the
//! environment and the command line, in increasing order of precedence.

mod checks;
mod cluster;
mod endpoint;
mod entry;
mod given;
mod layers;
mod literal;
mod memory;
mod otlp;
mod print;
mod secret;
mod settings;
mod shared_secret;
mod source;
mod tls;
mod values;

use std::{collections::BTreeMap, fmt, str::FromStr};

use stylobate_storage::{Consistency, ConsistencyRules, Durability};

use crate::{Result, ServerError};

pub use self::{
    cluster::{ClusterConfig, NodeListSource},
    entry::{
        bucket_name::{InvalidBucketNameError, check_bucket_name, name_of_url},
        cors::CorsRule,
    },
    given::{Given, Sourced},
    layers::{Layers, Resolved},
    memory::available_memory,
    secret::Secret,
    settings::{NodeSettings, Setting},
    source::layer::Layer,
    tls::{TlsConfig, TlsVersion},
};
pub use crate::provenance::Provenance;

/// Complete configuration of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeConfig {
    /// The buckets it serves.
    pub buckets: Vec<BucketConfig>,
    /// Access keys. Empty: everyone has access, on loopback only.
    pub access_keys: Vec<AccessKeyConfig>,
    /// Addresses and limits of the doors, the cache, and options for reads from origins.
    pub settings: NodeSettings,
    /// TLS of all doors. Default: none, plain text.
    pub tls: Option<TlsConfig>,
    /// Secret that signs the tickets of the Flight door. Nodes that share it accept each other's tickets. Default:
    /// none; a key is then generated when the door opens and never leaves the process.
    pub ticket_secret: Option<Secret>,
    /// The cluster that the node is in. Its Flight tickets are valid on every node if all have the same
    /// [`ticket_secret`](Self::ticket_secret). Default: none.
    pub cluster: Option<ClusterConfig>,
}

impl NodeConfig {
    /// Checks that no door listens beyond loopback on a node without access keys.
    pub fn check_exposure(&self) -> Result<()> {
        let always = [("s3", self.settings.listen), ("admin", self.settings.admin)];
        let flight = self.settings.flight.map(|address| ("flight", address));
        let peer = self.cluster.as_ref().map(|cluster| ("peer", cluster.listen));
        for (door, address) in always.into_iter().chain(flight).chain(peer) {
            if self.access_keys.is_empty() && !address.ip().is_loopback() {
                return Err(ServerError::Exposed { door, address });
            }
        }
        Ok(())
    }
}

/// A bucket and its origin.
#[derive(Clone, Debug)]
pub struct BucketConfig {
    /// The name that clients use.
    pub name: String,
    /// A local folder, or an `s3://`, `gs://`, `az://`, `http(s)://`, `file://` or `memory://` URL.
    pub url: String,
    /// Options of the origin, such as `endpoint`, `region` or `allow_http`: the keys of `object_store`.
    pub options: BTreeMap<String, String>,
    /// Default consistency, for keys that no rule matches.
    pub consistency: Consistency,
    /// Consistency by prefix: the longest match decides.
    pub rules: Vec<PrefixRule>,
    /// True if writes are refused.
    pub read_only: bool,
    /// True if symbolic links that lead out of a folder are followed.
    pub follow_links: bool,
    /// Durability of completed writes to a folder.
    pub durability: Durability,
    /// CORS rules. Default: none.
    pub cors: Vec<CorsRule>,
}

impl BucketConfig {
    /// Creates a bucket with default options: writable, and revalidated after ten seconds.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            options: BTreeMap::new(),
            consistency: Consistency::DEFAULT,
            rules: Vec::new(),
            read_only: false,
            follow_links: false,
            durability: Durability::default(),
            cors: Vec::new(),
        }
    }

    /// Returns the bucket's consistency as rules.
    pub fn consistency_rules(&self) -> ConsistencyRules {
        let rules = ConsistencyRules::new(self.consistency);
        self.rules.iter().fold(rules, |rules, rule| rules.with_rule(&rule.prefix, rule.consistency))
    }
}

/// Consistency of the objects under a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRule {
    /// Prefix of their keys.
    pub prefix: String,
    /// Their consistency.
    pub consistency: Consistency,
}

/// An id and a secret, and the access that they grant.
#[derive(Clone, Debug)]
pub struct AccessKeyConfig {
    /// The id that clients send.
    pub id: String,
    /// The secret that they sign with.
    pub secret: Secret,
    /// Token for the Flight door, which is sent as is. Default: none; then it is the secret.
    pub token: Option<Secret>,
    /// Names of the buckets it grants access to; `*` stands for all.
    pub buckets: Vec<String>,
    /// Object key prefixes that it grants access to; empty grants access to all keys.
    pub prefixes: Vec<String>,
    /// True if it grants write access.
    pub write: bool,
}

impl AccessKeyConfig {
    /// Returns true if the key grants access to `bucket`.
    pub fn opens(&self, bucket: &str) -> bool {
        self.buckets.iter().any(|name| name == "*" || name == bucket)
    }

    /// Returns the token that the Flight door accepts as `Authorization: Bearer …`.
    pub fn bearer(&self) -> &Secret {
        self.token.as_ref().unwrap_or(&self.secret)
    }
}

/// Format of log events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A human-readable line per event.
    Text,
    /// A JSON object per line.
    Json,
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("{text:?} is not a log format: use text or json")),
        }
    }
}
