//! The configuration of a node: what it may say, and its defaults.
//!
//! A configuration is built in code from the types here, or [resolved](Layers::resolve) from a file, the
//! environment and the command line, each of which overrides the one before it.

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

/// Everything a node is told.
#[derive(Clone, Debug, Default)]
pub struct NodeConfig {
    /// The buckets it serves.
    pub buckets: Vec<BucketConfig>,
    /// Who may come in. Empty: everybody, on loopback only.
    pub access_keys: Vec<AccessKeyConfig>,
    /// What is kept in memory and on disk.
    pub cache: CacheConfig,
    /// The Flight door.
    pub flight: FlightConfig,
    /// The doors, and how origins are read.
    pub server: ServerConfig,
}

impl NodeConfig {
    /// Whether all doors may listen where they are told to: without access keys, on loopback only.
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

/// A bucket and the origin behind it.
#[derive(Clone, Debug)]
pub struct BucketConfig {
    /// The name that clients use.
    pub name: String,
    /// A local folder, or an `s3://`, `gs://`, `az://`, `http(s)://`, `file://` or `memory://` URL.
    pub url: String,
    /// Options of the origin, such as `endpoint`, `region` or `allow_http`: the keys of `object_store`.
    pub options: BTreeMap<String, String>,
    /// How fresh answers are where no rule says otherwise.
    pub consistency: Consistency,
    /// How fresh answers are, by prefix: the longest one decides.
    pub rules: Vec<PrefixRule>,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether links that lead out of a folder are followed.
    pub follow_links: bool,
    /// Which web pages of other sites may use it. Default: none.
    pub cors: Vec<CorsRule>,
}

impl BucketConfig {
    /// A bucket with default options: writable, and asked again after ten seconds.
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

    /// The bucket's consistency as rules.
    pub fn consistency_rules(&self) -> ConsistencyRules {
        let rules = ConsistencyRules::new(self.consistency);
        self.rules.iter().fold(rules, |rules, rule| rules.with_rule(&rule.prefix, rule.consistency))
    }
}

/// How fresh the objects under a prefix are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRule {
    /// What their keys begin with.
    pub prefix: String,
    /// How fresh they are.
    pub consistency: Consistency,
}

/// A pair of id and secret, and what it opens.
#[derive(Clone, Debug)]
pub struct AccessKeyConfig {
    /// The id that clients send.
    pub id: String,
    /// The secret that they sign with.
    pub secret: Secret,
    /// What they show at the Flight door, which is sent as it is. Default: none; then it is the secret.
    pub token: Option<Secret>,
    /// The buckets it opens, by name; `*` is all.
    pub buckets: Vec<String>,
    /// What the keys of objects must begin with for it to open them; any will do if there are none.
    pub prefixes: Vec<String>,
    /// Whether it opens them for writing.
    pub write: bool,
}

impl AccessKeyConfig {
    /// Whether the key opens `bucket`.
    pub fn opens(&self, bucket: &str) -> bool {
        self.buckets.iter().any(|name| name == "*" || name == bucket)
    }

    /// What is shown at the Flight door as `Authorization: Bearer …`.
    pub fn bearer(&self) -> &Secret {
        self.token.as_ref().unwrap_or(&self.secret)
    }
}

/// The page cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// Bytes of memory for the whole process. Default: a quarter of what the process may use.
    pub memory: ByteSize,
    /// Folder of the disk tier. Default: none, memory only.
    pub disk: Option<PathBuf>,
    /// Most bytes on disk. Default: 10 GiB.
    pub disk_capacity: ByteSize,
    /// Which page leaves memory and disk first. Default: `lirs`.
    pub policy: EvictionPolicy,
    /// Size of a page. Default: 1 MiB.
    pub page_size: ByteSize,
}

impl CacheConfig {
    /// Most bytes on disk where a folder is given without a size.
    pub const DISK_CAPACITY: ByteSize = ByteSize::gib(10);

    /// The options that open the cache.
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

/// The doors, and how origins are read.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where the S3 door listens. Default: 127.0.0.1:9000.
    pub listen: SocketAddr,
    /// Where the admin door listens. Default: 127.0.0.1:9001.
    pub admin: SocketAddr,
    /// Where the Flight door listens, or `None` for a node without one. Default: 127.0.0.1:9002.
    pub flight: Option<SocketAddr>,
    /// Domains under which `bucket.domain` names a bucket. Default: none, path-style only.
    pub domains: Vec<String>,
    /// The region that the node says it is in. Default: `us-east-1`.
    pub region: String,
    /// Most connections of each door at once; more wait to be accepted. Default: 10,000.
    pub max_connections: usize,
    /// How long requests may take to finish once the node is told to stop. Default: 30 s.
    pub drain_timeout: Duration,
    /// How all doors encrypt. Default: not at all.
    pub tls: Option<TlsConfig>,
    /// Whether each request of the S3 door is logged. Default: false; refused ones always are.
    pub access_log: bool,
    /// Which events are logged: a filter of `tracing`. Default: [`Self::LOG`].
    pub log: String,
    /// How they are printed. Default: text.
    pub log_format: LogFormat,
    /// Where traces are posted by OTLP: a URL such as `http://127.0.0.1:4318/v1/traces`. Default: none, no traces.
    pub otlp_endpoint: Option<String>,
    /// Most bytes read ahead of a sequential reader. Default: 32 MiB.
    pub read_ahead: ByteSize,
    /// Most bytes of one request to an origin. Default: 8 MiB.
    pub max_fetch: ByteSize,
    /// How often a request to an origin is tried. Default: 4.
    pub attempts: u32,
    /// The pause before the second try; it doubles from there. Default: 100 ms.
    pub backoff: Duration,
    /// How long an origin may go without progress, attempts included, before the read fails. Default: 60 s.
    pub deadline: Duration,
    /// The latency quantile after which a second request is sent. Default: none, never.
    pub hedge: Option<f64>,
}

impl ServerConfig {
    /// What is logged by default: what the node tells, and of the cache engine below only what it warns of.
    pub const LOG: &str = "info";

    /// How origins are asked.
    pub fn request_options(&self) -> RequestOptions {
        RequestOptions {
            attempts: self.attempts,
            backoff: self.backoff,
            deadline: self.deadline,
            hedge: self.hedge,
        }
    }

    /// How objects are read through the cache.
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

/// How events are printed.
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
