//! The configuration of a node, and its defaults.
//!
//! A configuration is built in code from the types here, or [resolved](Layers::resolve) from a file, the
//! environment and the command line, in increasing order of precedence.

mod endpoint;
mod entry;
mod flight;
mod given;
mod layers;
mod memory;
mod otlp;
mod print;
mod secret;
mod settings;
mod source;
mod tls;
mod values;

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, EvictionPolicy, ReadOptions, RequestOptions,
};

use crate::{Result, ServerError};

pub use self::{
    entry::{
        bucket_name::{check_bucket_name, name_of_url},
        cors::CorsRule,
    },
    flight::FlightConfig,
    given::{Given, Sourced},
    layers::{Layers, Resolved},
    memory::available_memory,
    secret::Secret,
    settings::Setting,
    source::layer::Layer,
    tls::{TlsConfig, TlsVersion},
};
pub use crate::provenance::Provenance;

/// Complete configuration of a node.
#[derive(Clone, Debug, Default)]
pub struct NodeConfig {
    /// The buckets it serves.
    pub buckets: Vec<BucketConfig>,
    /// Access keys. Empty: everybody has access, on loopback only.
    pub access_keys: Vec<AccessKeyConfig>,
    /// Cache in memory and on disk.
    pub cache: CacheConfig,
    /// The Flight door.
    pub flight: FlightConfig,
    /// Addresses and limits of the doors, and options for reads from origins.
    pub server: ServerConfig,
}

impl NodeConfig {
    /// Checks that all doors may listen at their addresses: without access keys, on loopback only.
    pub fn check_exposure(&self) -> Result<()> {
        let always = [("s3", self.server.listen), ("admin", self.server.admin)];
        let flight = self.server.flight.map(|address| ("flight", address));
        for (door, address) in always.into_iter().chain(flight) {
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
    /// Names of the buckets it opens; `*` is all.
    pub buckets: Vec<String>,
    /// Prefixes of the object keys that it opens; empty opens all keys.
    pub prefixes: Vec<String>,
    /// True if it opens them for writing.
    pub write: bool,
}

impl AccessKeyConfig {
    /// Returns true if the key opens `bucket`.
    pub fn opens(&self, bucket: &str) -> bool {
        self.buckets.iter().any(|name| name == "*" || name == bucket)
    }

    /// Returns the token that the Flight door accepts as `Authorization: Bearer …`.
    pub fn bearer(&self) -> &Secret {
        self.token.as_ref().unwrap_or(&self.secret)
    }
}

/// The page cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Bytes of memory for the whole process. Default: a quarter of the available memory.
    pub memory: ByteSize,
    /// Folder of the disk tier. Default: none, memory only.
    pub disk: Option<PathBuf>,
    /// Maximum bytes on disk. Default: 10 GiB.
    pub disk_capacity: ByteSize,
    /// Eviction policy of memory and disk. Default: `lirs`.
    pub policy: EvictionPolicy,
    /// Size of a page. Default: 1 MiB.
    pub page_size: ByteSize,
}

impl CacheConfig {
    /// Maximum bytes on disk if a folder is given without a size.
    pub const DISK_CAPACITY: ByteSize = ByteSize::gib(10);

    /// Returns the options that open the cache.
    pub fn options(&self) -> CacheOptions {
        let options = CacheOptions::new(self.memory)
            .with_policy(self.policy)
            .with_page_size(self.page_size)
            .with_uploads();
        match &self.disk {
            Some(folder) => options.with_disk(folder, self.disk_capacity),
            None => options,
        }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            memory: ByteSize::bytes(available_memory().as_u64() / 4),
            disk: None,
            disk_capacity: Self::DISK_CAPACITY,
            policy: EvictionPolicy::default(),
            page_size: ByteSize::mib(1),
        }
    }
}

/// Addresses and limits of the doors, and options for reads from origins.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Address of the S3 door. Default: 127.0.0.1:9000.
    pub listen: SocketAddr,
    /// Address of the admin door. Default: 127.0.0.1:9001.
    pub admin: SocketAddr,
    /// Address of the Flight door, or `None` for a node without one. Default: 127.0.0.1:9002.
    pub flight: Option<SocketAddr>,
    /// Domains under which `bucket.domain` names a bucket. Default: none, path-style only.
    pub domains: Vec<String>,
    /// Region that the node reports. Default: `us-east-1`.
    pub region: String,
    /// Maximum concurrent connections of each door; more wait to be accepted. Default: 10,000.
    pub max_connections: usize,
    /// Time that requests have to finish after a shutdown is requested. Default: 30 s.
    pub drain_timeout: Duration,
    /// TLS of all doors. Default: none, plain text.
    pub tls: Option<TlsConfig>,
    /// True to log each request of the S3 door. Default: false; refused ones are always logged.
    pub access_log: bool,
    /// Filter of `tracing` for log events. Default: [`Self::LOG`].
    pub log: String,
    /// Format of log events. Default: text.
    pub log_format: LogFormat,
    /// OTLP endpoint for traces: a URL such as `http://127.0.0.1:4318/v1/traces`. Default: none, no traces.
    pub otlp_endpoint: Option<String>,
    /// Maximum bytes read ahead of a sequential reader. Default: 32 MiB.
    pub read_ahead: ByteSize,
    /// Maximum bytes of one request to an origin. Default: 8 MiB.
    pub max_fetch: ByteSize,
    /// Maximum attempts per request to an origin. Default: 4.
    pub attempts: u32,
    /// Pause before the second attempt; it doubles from there. Default: 100 ms.
    pub backoff: Duration,
    /// Maximum time without progress from an origin, attempts included, before a read fails. Default: 60 s.
    pub deadline: Duration,
    /// Latency quantile after which a hedged request is sent. Default: none, never.
    pub hedge: Option<f64>,
}

impl ServerConfig {
    /// Default log filter: events of the node, and only warnings of the cache engine below it.
    pub const LOG: &str = "info";

    /// Returns the options of requests to origins.
    pub fn request_options(&self) -> RequestOptions {
        RequestOptions {
            attempts: self.attempts,
            backoff: self.backoff,
            deadline: self.deadline,
            hedge: self.hedge,
        }
    }

    /// Returns the options of reads through the cache.
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions {
            requests: self.request_options(),
            max_fetch: self.max_fetch,
            read_ahead: self.read_ahead,
            ..ReadOptions::default()
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9000)),
            admin: SocketAddr::from((Ipv4Addr::LOCALHOST, 9001)),
            flight: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 9002))),
            domains: Vec::new(),
            region: "us-east-1".to_owned(),
            max_connections: 10_000,
            drain_timeout: Duration::from_secs(30),
            tls: None,
            access_log: false,
            log: Self::LOG.to_owned(),
            log_format: LogFormat::Text,
            otlp_endpoint: None,
            read_ahead: ByteSize::mib(32),
            max_fetch: ByteSize::mib(8),
            attempts: 4,
            backoff: Duration::from_millis(100),
            deadline: Duration::from_secs(60),
            hedge: None,
        }
    }
}

/// Format of log events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A line for people.
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
