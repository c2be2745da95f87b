//! Settings: a single declaration of each generates its key in the file, its environment variable, its flag, its
//! help, its default, its line in a printed configuration and its row in `docs/reference/settings.md`.

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use stylobate_client::NodeAddress;
use stylobate_columnar::parquet::ParquetLayout;
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, EvictionPolicy, ReadOptions, RequestOptions, nearest_name,
    parse_positive_duration,
};

use super::{
    Given, LogFormat,
    literal::{SettingLiteral, SettingValue},
    memory::available_memory,
    tls::TlsVersion,
    values::{
        address, address_or_off, boolean, domains, folder, host_name, node_address_or_off, node_entries,
        node_file, node_id, otlp_endpoint, page_size, pem_file, quantile_or_off, region, whole_number,
    },
};
use crate::Result;

/// Declares the settings in the order in which the help lists their flags. Each is written as a field with a default:
///
/// ```text
/// /// Help, in plain text
/// #[setting(section, Variant, "PLACEHOLDER", parser, default = "the default in words", note = "more, in Markdown")]
/// pub key: Type = default,
/// ```
///
/// The default in words replaces an expression that does not show its value. A switch has an empty placeholder. The
/// note appears in the reference only. A setting of `[cluster]` has no flag, and its key in the file is the field
/// name without the prefix.
macro_rules! settings {
    ($(
        $(#[doc = $help:literal])+
        #[setting(
            $section:ident, $variant:ident, $placeholder:literal, $parse:expr
            $(, default = $words:literal)? $(, note = $note:literal)?
        )]
        $visibility:vis $key:ident: $type:ty = $default:expr,
    )+) => {
        /// A setting of `[server]`, `[cache]`, `[flight]` or `[cluster]`.
        ///
        /// One name serves all layers: `page_size` in the file is `STYLOBATE_PAGE_SIZE` in the environment and
        /// `--page-size` on the command line. Those of `[cluster]` have no flag: `id` there is
        /// `STYLOBATE_CLUSTER_ID`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Setting {
            $($(#[doc = $help])+ $variant,)+
        }

        impl Setting {
            /// All settings, in the order of their flags in the help.
            pub const ALL: [Self; [$(Setting::$variant),+].len()] = [$(Setting::$variant),+];

            /// Returns its table in the file.
            pub const fn section(self) -> &'static str {
                match self { $(Self::$variant => stringify!($section),)+ }
            }

            /// Returns its unique name, that of its field.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($key),)+ }
            }

            /// Returns its help, in plain text and without the default.
            pub fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($help),+).trim_start(),)+ }
            }

            /// Returns the note that follows its help in the reference, in Markdown; empty if there is none.
            pub const fn note(self) -> &'static str {
                match self { $(Self::$variant => concat!($($note)?),)+ }
            }

            /// Returns the placeholder of its value in the help, or `None` for a switch.
            pub fn placeholder(self) -> Option<&'static str> {
                let placeholder = match self { $(Self::$variant => $placeholder,)+ };
                Some(placeholder).filter(|placeholder| !placeholder.is_empty())
            }

            /// Returns its default in command-line notation, or in words.
            pub fn default_text(self) -> String {
                match self { $(Self::$variant => settings!(@default_text $type, $default $(, $words)?),)+ }
            }
        }

        /// The values of all settings.
        #[derive(Clone, Debug)]
        pub struct NodeSettings {
            $(
                $(#[doc = $help])+
                #[doc = settings!(@default_doc $default $(, $words)?)]
                $visibility $key: $type,
            )+
        }

        impl Default for NodeSettings {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl NodeSettings {
            /// Parses the given values; settings without a value get their defaults.
            pub(super) fn parse(given: &BTreeMap<Setting, Given>) -> Result<Self> {
                let mut settings = Self::default();
                $(
                    if let Some(given) = given.get(&Setting::$variant) {
                        settings.$key = given.parse(&Setting::$variant.to_string(), $parse)?.value;
                    }
                )+

                Ok(settings)
            }

            /// Returns the value of a setting as a literal.
            pub(super) fn literal(&self, setting: Setting) -> SettingLiteral {
                match setting { $(Setting::$variant => self.$key.literal(),)+ }
            }
        }
    };

    (@default_doc $default:expr, $words:literal) => {
        concat!("\n\nDefault: ", $words, ".")
    };

    (@default_doc $default:expr) => {
        concat!("\n\nDefault: `", stringify!($default), "`.")
    };

    (@default_text $type:ty, $default:expr, $words:literal) => {
        $words.to_owned()
    };

    (@default_text $type:ty, $default:expr) => {{
        let default: $type = $default;
        default.literal().into_text()
    }};
}

settings! {
    /// Address of the S3 door
    #[setting(server, Listen, "ADDRESS", address, default = "127.0.0.1:9000")]
    pub listen: SocketAddr = loopback(9000),

    /// Address of the admin door
    #[setting(server, Admin, "ADDRESS", address, default = "127.0.0.1:9001")]
    pub admin: SocketAddr = loopback(9001),

    /// Address of the Flight door, or off for a node without one
    #[setting(server, Flight, "ADDRESS", address_or_off, default = "127.0.0.1:9002")]
    pub flight: Option<SocketAddr> = Some(loopback(9002)),

    /// Lifetime of a ticket of the Flight door
    #[setting(flight, TicketLifetime, "TIME", parse_positive_duration, default = "1h")]
    pub ticket_lifetime: Duration = Duration::from_secs(60 * 60),

    /// Memory for the whole process
    #[setting(cache, Memory, "SIZE", str::parse, default = "a quarter of the memory available to it")]
    pub memory: ByteSize = ByteSize::bytes(available_memory().as_u64() / 4),

    /// A folder for the disk tier and its capacity, such as /var/cache/stylobate=100GiB
    #[setting(
        cache, Disk, "FOLDER[=SIZE]", folder,
        default = "none; capacity 10GiB", note = "Without `=SIZE`, `disk_capacity` applies"
    )]
    pub disk: Option<PathBuf> = None,

    /// Capacity of the disk tier, without its folder
    #[setting(cache, DiskCapacity, "SIZE", str::parse)]
    pub disk_capacity: ByteSize = ByteSize::gib(10),

    /// Eviction policy of memory and disk: lirs, lru, lfu, s3fifo, sieve or fifo
    #[setting(cache, Policy, "NAME", str::parse, default = "lirs", note = "See [policies](../policies.md)")]
    pub policy: EvictionPolicy = EvictionPolicy::default(),

    /// Size of a page, a power of two from 64KiB to 16MiB
    #[setting(cache, PageSize, "SIZE", page_size)]
    pub page_size: ByteSize = ByteSize::mib(1),

    /// Freshness of answers: strict (revalidate each time), immutable (never), a time, iceberg, delta or hive
    #[setting(
        cache, Consistency, "RULE", str::parse, default = "10s",
        note = "In the file, for buckets without a rule of their own; a flag or variable overrides all buckets. See [freshness](../operations/freshness.md)"
    )]
    pub(crate) consistency: Consistency = Consistency::DEFAULT,

    /// Refuse all writes
    #[setting(server, ReadOnly, "", boolean, note = "In the file, for buckets that do not set it; a flag or variable overrides all buckets")]
    pub(crate) read_only: bool = false,

    /// A domain under which BUCKET.DOMAIN names a bucket; may be repeated
    #[setting(
        server, Domains, "DOMAIN", domains,
        note = "A list in the file, comma-separated in the variable. Path-style names (`DOMAIN/BUCKET`) always work"
    )]
    pub domains: Vec<String> = Vec::new(),

    /// The region that the node reports
    #[setting(server, Region, "NAME", region)]
    pub region: String = "us-east-1".to_owned(),

    /// Maximum read-ahead of a sequential reader
    #[setting(server, ReadAhead, "SIZE", str::parse, note = "`0` turns it off")]
    pub read_ahead: ByteSize = ByteSize::mib(32),

    /// Maximum size of a request to an origin
    #[setting(server, MaxFetch, "SIZE", str::parse, note = "At least one page")]
    pub max_fetch: ByteSize = ByteSize::mib(8),

    /// Maximum attempts of a request to an origin
    #[setting(server, Attempts, "COUNT", |text| whole_number(text, 1..=100), note = "From 1 to 100")]
    pub attempts: u32 = 4,

    /// Delay before the second attempt; it doubles from there
    #[setting(server, Backoff, "TIME", parse_positive_duration)]
    pub backoff: Duration = Duration::from_millis(100),

    /// Maximum time without progress of an origin, retries included
    #[setting(server, Deadline, "TIME", parse_positive_duration, note = "Then the read fails")]
    pub deadline: Duration = Duration::from_secs(60),

    /// Send a second request when the first is slower than this quantile of all, such as 0.95
    #[setting(server, Hedge, "QUANTILE", quantile_or_off, note = "From 0.5 to 0.999")]
    pub hedge: Option<f64> = None,

    /// Maximum connections per door
    #[setting(
        server, MaxConnections, "COUNT", |text| whole_number(text, 1..=1_000_000),
        note = "From 1 to 1,000,000; more wait to be accepted"
    )]
    pub max_connections: usize = 10_000,

    /// Time that requests in flight have to finish after the node is stopped
    #[setting(server, DrainTimeout, "TIME", parse_positive_duration)]
    pub drain_timeout: Duration = Duration::from_secs(30),

    /// A PEM certificate for TLS at all doors; it is reloaded when it changes or on SIGHUP
    #[setting(
        server, TlsCertificate, "FILE", pem_file,
        default = "no TLS", note = "May include the certificate chain; requires `tls_key`"
    )]
    pub(crate) tls_certificate: Option<PathBuf> = None,

    /// The PEM private key of the certificate
    #[setting(server, TlsKey, "FILE", pem_file)]
    pub(crate) tls_key: Option<PathBuf> = None,

    /// Minimum TLS version: 1.2 or 1.3
    #[setting(server, TlsMinVersion, "VERSION", str::parse, default = "1.2")]
    pub(crate) tls_min_version: TlsVersion = TlsVersion::default(),

    /// Log each request of the S3 door, not only those that are refused
    #[setting(server, AccessLog, "", boolean)]
    pub access_log: bool = false,

    /// Filter of log events, such as warn or info,stylobate_server=debug
    #[setting(server, Log, "FILTER", str::parse)]
    pub log: String = "info".to_owned(),

    /// Format of log events: text or json
    #[setting(server, LogFormat, "FORMAT", str::parse)]
    pub log_format: LogFormat = LogFormat::Text,

    /// OTLP endpoint for traces, such as http://127.0.0.1:4318; OpenTelemetry's own variables are read too
    #[setting(server, OtlpEndpoint, "URL", otlp_endpoint, note = "See [traces](../observability.md#traces)")]
    pub otlp_endpoint: Option<String> = None,

    /// Id of this node, as the list of nodes names it
    #[setting(cluster, ClusterId, "ID", node_id, default = "the name of the host")]
    pub(crate) cluster_id: String = host_name(),

    /// Address of the peer door, for the other nodes
    #[setting(cluster, ClusterListen, "ADDRESS", address, default = "127.0.0.1:9003")]
    pub(crate) cluster_listen: SocketAddr = loopback(9003),

    /// All nodes with the addresses of their peer doors, such as a=10.0.0.1:9003
    #[setting(
        cluster, ClusterNodes, "NODES", node_entries,
        note = "A list in the file, with semicolons in the variable. See [clusters](../operations/clusters.md#nodes)"
    )]
    pub(crate) cluster_nodes: Vec<String> = Vec::new(),

    /// A file with a node per line; it is read again when it changes
    #[setting(cluster, ClusterNodesFile, "FILE", node_file)]
    pub(crate) cluster_nodes_file: Option<PathBuf> = None,

    /// A DNS name and a port: each of its addresses is a node; it is resolved again every few seconds
    #[setting(cluster, ClusterNodesDns, "NAME:PORT", node_address_or_off)]
    pub(crate) cluster_nodes_dns: Option<NodeAddress> = None,
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

impl Setting {
    /// Returns its key in its table of the file.
    pub fn key(self) -> &'static str {
        match self.section() {
            "cluster" => self.name().trim_start_matches("cluster_"),
            _ => self.name(),
        }
    }

    /// Returns its environment variable.
    pub fn env(self) -> String {
        format!("STYLOBATE_{}", self.name().to_ascii_uppercase())
    }

    /// Returns true if it has a flag. Settings of `[cluster]` exist in the file and the environment only.
    pub fn has_flag(self) -> bool {
        self.section() != "cluster"
    }

    /// Returns its flag. `domains` is a list, whose flag `--domain` may be repeated.
    pub fn flag(self) -> String {
        match self {
            Self::Domains => "--domain".to_owned(),
            _ => format!("--{}", self.name().replace('_', "-")),
        }
    }

    /// Returns the setting with this key in this table of the file.
    pub fn find(section: &str, key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.section() == section && setting.key() == key)
    }

    /// Returns the keys of a table of the file.
    pub(crate) fn keys(section: &str) -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().filter(move |setting| setting.section() == section).map(Self::key)
    }
}

/// Formats the key, preceded by its table if another table has the same key.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterListen => f.write_str("listen of [cluster]"),
            _ => f.write_str(self.key()),
        }
    }
}

impl NodeSettings {
    /// Returns the options for opening the cache.
    pub fn cache_options(&self) -> CacheOptions {
        let options = CacheOptions::new(self.memory)
            .with_policy(self.policy)
            .with_page_size(self.page_size)
            .with_uploads();
        match &self.disk {
            Some(folder) => options.with_disk(folder, self.disk_capacity),
            None => options,
        }
    }

    /// Returns the options for requests to origins.
    pub fn request_options(&self) -> RequestOptions {
        RequestOptions {
            attempts: self.attempts,
            backoff: self.backoff,
            deadline: self.deadline,
            hedge: self.hedge,
        }
    }

    /// Returns the options for reads through the cache.
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions {
            requests: self.request_options(),
            max_fetch: self.max_fetch,
            read_ahead: self.read_ahead,
            layout: Some(Arc::new(ParquetLayout)),
            ..ReadOptions::default()
        }
    }
}

/// Returns the message for an unknown key, with the nearest known one if it is similar.
pub(crate) fn unknown_key(key: &str, context: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<_> = known.collect();
    match nearest_name(key, known.iter().copied()) {
        Some(name) => format!("unknown key `{key}` {context}; did you mean `{name}`?"),
        None => format!("unknown key `{key}` {context}; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Provenance;

    #[test]
    fn a_setting_has_one_name_in_every_layer() {
        assert_eq!(Setting::PageSize.env(), "STYLOBATE_PAGE_SIZE");
        assert_eq!(Setting::PageSize.flag(), "--page-size");
        assert_eq!(Setting::Domains.flag(), "--domain");
        assert_eq!(Setting::ClusterNodesFile.env(), "STYLOBATE_CLUSTER_NODES_FILE");
        for setting in Setting::ALL {
            assert_eq!(Setting::find(setting.section(), setting.key()), Some(setting));
        }
    }

    #[test]
    fn a_default_is_written_as_it_is_parsed() {
        use Setting::{
            ClusterId, ClusterNodes, ClusterNodesFile, Disk, DiskCapacity, Domains, Memory, TlsCertificate,
            TlsKey,
        };
        let in_words =
            [Memory, Disk, Domains, TlsCertificate, TlsKey, ClusterId, ClusterNodes, ClusterNodesFile];
        for setting in Setting::ALL.into_iter().filter(|setting| !in_words.contains(setting)) {
            let given = Given::new(setting.default_text(), Provenance::Default);
            let parsed = NodeSettings::parse(&[(setting, given)].into()).unwrap();
            assert_eq!(parsed.literal(setting), NodeSettings::default().literal(setting), "{setting}");
        }
        assert!(Disk.default_text().ends_with(&DiskCapacity.default_text()));
    }

    #[test]
    fn each_setting_is_in_its_table() {
        assert_eq!(Setting::find("cache", "memory"), Some(Setting::Memory));
        assert_eq!(Setting::find("server", "memory"), None);
        assert_eq!(Setting::find("server", "hedge"), Some(Setting::Hedge));
        assert_eq!(Setting::find("flight", "ticket_lifetime"), Some(Setting::TicketLifetime));
        assert_eq!(Setting::find("server", "listen"), Some(Setting::Listen));
        assert_eq!(Setting::find("cluster", "listen"), Some(Setting::ClusterListen));
    }

    #[test]
    fn a_misspelt_key_is_answered_with_the_nearest_one() {
        let said = unknown_key("memry", "in [cache]", Setting::keys("cache"));
        assert_eq!(said, "unknown key `memry` in [cache]; did you mean `memory`?");
        let said = unknown_key("colour", "in [cache]", Setting::keys("cache"));
        assert!(said.starts_with("unknown key `colour` in [cache]; known are memory, disk,"), "{said}");
    }
}
