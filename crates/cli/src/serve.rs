//! `stylobate serve`: runs a storage node in front of buckets or folders.

use std::{
    io::Write,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    pin::pin,
    process,
    sync::Arc,
};

use anyhow::Context;
use clap::Args;
use futures::FutureExt;
use stylobate_server::{
    Doors, Node, ServerError, Tls, check_origins,
    config::{Layer, Layers, NodeConfig, Resolved, Setting},
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    logging,
    out::{out, print},
    service_manager,
};

/// The exit code after a second signal: 128 + SIGINT, as in shells.
const IMPATIENT: i32 = 130;

/// The arguments of `stylobate serve`. A setting that is not given comes from its environment variable, such as
/// STYLOBATE_PAGE_SIZE, or else from the configuration file, or else has its default.
#[derive(Args, Debug, Default)]
pub(crate) struct ServeArgs {
    /// A configuration file in TOML [env: STYLOBATE_CONFIG]
    #[arg(long, value_name = "FILE", env = "STYLOBATE_CONFIG", hide_env = true)]
    config: Option<PathBuf>,

    /// A folder, or an s3://, gs://, az:// or http(s):// URL to serve; may be repeated. Without a name, the last part
    /// of the URL is the bucket's name [default: ./data]
    #[arg(long, value_name = "NAME=URL")]
    origin: Vec<String>,

    /// An option of the origins given here, such as endpoint=http://127.0.0.1:9900; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    option: Vec<String>,

    /// Address of the S3 door [default: 127.0.0.1:9000]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// Address of the admin door [default: 127.0.0.1:9001]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,

    /// Address of the Flight door, or off for a node without one [default: 127.0.0.1:9002]
    #[arg(long, value_name = "ADDRESS")]
    flight: Option<String>,

    /// Lifetime of a ticket of the Flight door [default: 1h]
    #[arg(long, value_name = "TIME")]
    ticket_lifetime: Option<String>,

    /// Memory for the whole process [default: a quarter of the memory available to it]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,

    /// A folder for the disk tier and its capacity, such as /var/cache/stylobate=100GiB [default: none; capacity 10GiB]
    #[arg(long, value_name = "FOLDER[=SIZE]")]
    disk: Option<String>,

    /// Capacity of the disk tier, without its folder
    #[arg(long, value_name = "SIZE", hide = true)]
    disk_capacity: Option<String>,

    /// Eviction policy of memory and disk: lirs, lru, lfu, s3fifo, sieve or fifo [default: lirs]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,

    /// Size of a page, a power of two from 64KiB to 16MiB [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    page_size: Option<String>,

    /// Freshness of answers: strict (revalidate each time), immutable (never), or a time [default: 10s]
    #[arg(long, value_name = "RULE")]
    consistency: Option<String>,

    /// Refuse all writes
    #[arg(long)]
    read_only: bool,

    /// An access key with write access to all buckets; may be repeated. Command lines are visible to other users:
    /// prefer the variable or the file [env: STYLOBATE_ACCESS_KEY] [default: none, on loopback only]
    #[arg(long, value_name = "ID:SECRET")]
    access_key: Vec<String>,

    /// A domain under which BUCKET.DOMAIN names a bucket; may be repeated
    #[arg(long, value_name = "DOMAIN")]
    domain: Vec<String>,

    /// The region that the node reports [default: us-east-1]
    #[arg(long, value_name = "NAME")]
    region: Option<String>,

    /// Maximum read-ahead of a sequential reader [default: 32MiB]
    #[arg(long, value_name = "SIZE")]
    read_ahead: Option<String>,

    /// Maximum size of a request to an origin [default: 8MiB]
    #[arg(long, value_name = "SIZE")]
    max_fetch: Option<String>,

    /// Maximum attempts of a request to an origin [default: 4]
    #[arg(long, value_name = "COUNT")]
    attempts: Option<String>,

    /// Delay before the second attempt; it doubles from there [default: 100ms]
    #[arg(long, value_name = "TIME")]
    backoff: Option<String>,

    /// Maximum time without progress of an origin, retries included [default: 60s]
    #[arg(long, value_name = "TIME")]
    deadline: Option<String>,

    /// Send a second request when the first is slower than this quantile of all, such as 0.95 [default: off]
    #[arg(long, value_name = "QUANTILE")]
    hedge: Option<String>,

    /// Maximum connections per door [default: 10000]
    #[arg(long, value_name = "COUNT")]
    max_connections: Option<String>,

    /// Time that requests in flight have to finish after the node is stopped [default: 30s]
    #[arg(long, value_name = "TIME")]
    drain_timeout: Option<String>,

    /// A PEM certificate for TLS at all doors; it is reloaded when it changes or on SIGHUP [default: no TLS]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<String>,

    /// The PEM private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<String>,

    /// Minimum TLS version: 1.2 or 1.3 [default: 1.2]
    #[arg(long, value_name = "VERSION")]
    tls_min_version: Option<String>,

    /// Log each request of the S3 door, not only those that are refused
    #[arg(long)]
    access_log: bool,

    /// Filter of log events, such as warn or info,stylobate_server=debug [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,

    /// Format of log events: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,

    /// OTLP endpoint for traces, such as http://127.0.0.1:4318; OpenTelemetry's own variables are read too [default:
    /// off]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,

    /// Print each setting and its source, and exit
    #[arg(long)]
    print_config: bool,
}

impl ServeArgs {
    /// Returns the settings of the command line, the layer with the highest precedence.
    fn layer(&self) -> anyhow::Result<Layer> {
        let domains = (!self.domain.is_empty()).then(|| self.domain.join(","));
        let read_only = self.read_only.then(|| "true".to_owned());
        let access_log = self.access_log.then(|| "true".to_owned());
        let settings = [
            (Setting::TlsCertificate, &self.tls_certificate),
            (Setting::TlsKey, &self.tls_key),
            (Setting::TlsMinVersion, &self.tls_min_version),
            (Setting::AccessLog, &access_log),
            (Setting::Listen, &self.listen),
            (Setting::Admin, &self.admin),
            (Setting::Flight, &self.flight),
            (Setting::TicketLifetime, &self.ticket_lifetime),
            (Setting::Domains, &domains),
            (Setting::Region, &self.region),
            (Setting::MaxConnections, &self.max_connections),
            (Setting::DrainTimeout, &self.drain_timeout),
            (Setting::Log, &self.log),
            (Setting::LogFormat, &self.log_format),
            (Setting::OtlpEndpoint, &self.otlp_endpoint),
            (Setting::ReadOnly, &read_only),
            (Setting::ReadAhead, &self.read_ahead),
            (Setting::MaxFetch, &self.max_fetch),
            (Setting::Attempts, &self.attempts),
            (Setting::Backoff, &self.backoff),
            (Setting::Deadline, &self.deadline),
            (Setting::Hedge, &self.hedge),
            (Setting::Memory, &self.memory),
            (Setting::Disk, &self.disk),
            (Setting::DiskCapacity, &self.disk_capacity),
            (Setting::Policy, &self.policy),
            (Setting::PageSize, &self.page_size),
            (Setting::Consistency, &self.consistency),
        ];

        let mut layer = Layer::default();
        for (setting, text) in settings {
            if let Some(text) = text {
                layer = layer.with_flag(setting, text);
            }
        }

        for origin in &self.origin {
            layer = layer.with_origin(origin);
        }

        for option in &self.option {
            layer = layer.with_option(option)?;
        }

        for key in &self.access_key {
            layer = layer.with_access_key(key)?;
        }

        Ok(layer)
    }

    fn resolve(&self) -> anyhow::Result<Resolved> {
        let environment = |name: &str| std::env::var(name).ok();
        let file = match &self.config {
            Some(path) => Layer::file(path)?,
            None => Layer::default(),
        };

        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        Layer::check_variables(names, &|name| file.reads_secret_from(name))?;
        let layers = Layers { file, environment: Layer::environment(&environment)?, flags: self.layer()? };

        Ok(layers.resolve(&environment)?)
    }
}

/// Serves until SIGTERM or SIGINT. The error of a node that does not start carries its exit code.
pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let resolved = args.resolve()?;
    let log = logging::filter(&resolved.config.server.log).map_err(|reason| ServerError::Config {
        at: resolved.provenance(Setting::Log),
        what: format!("log: {reason}"),
    })?;

    if args.print_config {
        return print(resolved);
    }

    resolved.check_default_folder()?;
    let config = resolved.config;
    logging::start(log, config.server.log_format)?;

    // From here on a signal starts a shutdown, which closes what the node has opened.
    let mut shutdown = pin!(shutdown()?);
    // Closing the terminal must not end the node, not even during startup.
    let hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let doors = Doors::bind(&config).await?;
    let node = Node::open(&config).await?;
    let checked = tokio::select! {
        checked = check_origins(&node) => checked.map(|()| true),
        () = &mut shutdown => Ok(false),
    };

    if !matches!(checked, Ok(true)) {
        node.close().await;
        return checked.map(drop).map_err(Into::into);
    }

    announce(&doors, &config)?;
    let reloading = tokio::spawn(reload_on(hangup, args, node.clone(), doors.tls()));
    service_manager::notify("READY=1");
    let stopping = shutdown.inspect(|()| service_manager::notify("STOPPING=1"));
    let served = doors.serve(node, stopping).await;
    reloading.abort();

    Ok(served?)
}

/// Reloads the configuration and the certificate at each SIGHUP. Invalid ones are ignored.
async fn reload_on(mut hangup: Signal, args: ServeArgs, node: Arc<Node>, tls: Option<Arc<Tls>>) {
    while hangup.recv().await.is_some() {
        service_manager::notify("RELOADING=1");
        match args.resolve().and_then(|resolved| Ok(node.reload(&resolved.config)?)) {
            Ok(left) => {
                tracing::info!("SIGHUP: access keys and the rules of buckets were read again");
                for what in left {
                    tracing::warn!(what, "SIGHUP: only a restart takes this over");
                }
            }
            Err(error) => {
                tracing::error!(%error, "SIGHUP: the configuration cannot be used; the former one stays")
            }
        }

        if let Some(Err(error)) = tls.as_ref().map(|tls| tls.reload()) {
            tracing::error!(%error, "SIGHUP: the certificate cannot be used; the former one stays");
        }

        service_manager::notify("READY=1");
    }
}

/// Prints the addresses of the node and client settings.
fn announce(doors: &Doors, config: &NodeConfig) -> anyhow::Result<()> {
    let s3 = doors.s3_address();
    let admin = doors.admin_address();

    let mut out = out();
    for bucket in &config.buckets {
        let url = stylobate_storage::without_credentials(&bucket.url);
        writeln!(out, "bucket  {}  {url}", bucket.name)?;
    }

    let (http, grpc) = match config.server.tls {
        Some(_) => ("https", "grpc+tls"),
        None => ("http", "grpc"),
    };

    writeln!(out, "s3      {http}://{s3}")?;
    writeln!(out, "admin   {http}://{admin}/")?;
    if let Some(flight) = doors.flight_address() {
        writeln!(out, "flight  {grpc}://{flight}")?;
        let client = reachable(flight);
        write!(out, "python  client = pyarrow.flight.connect(\"{grpc}://{client}\")")?;
        if !config.access_keys.is_empty() {
            let headers = "[(b\"authorization\", b\"Bearer …\")]";
            write!(out, "; options = pyarrow.flight.FlightCallOptions(headers={headers})")?;
        }
        writeln!(out)?;
    }

    let (id, secret) = match config.access_keys.first() {
        Some(key) => (key.id.as_str(), "…"),
        None => ("any", "any"),
    };

    let region = &config.server.region;
    let client = reachable(s3);
    writeln!(
        out,
        "export AWS_ENDPOINT_URL={http}://{client} AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={secret} AWS_REGION={region}"
    )?;

    out.flush()?;
    Ok(())
}

/// Returns the address for a client on this machine: loopback for a door that listens on all addresses.
fn reachable(door: SocketAddr) -> SocketAddr {
    if door.ip().is_unspecified() { SocketAddr::from((Ipv4Addr::LOCALHOST, door.port())) } else { door }
}

/// Returns a future that completes at the first SIGTERM or SIGINT. After that, a second one exits the process at once.
fn shutdown() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        either(&mut terminate, &mut interrupt).await;
        tokio::spawn(async move {
            either(&mut terminate, &mut interrupt).await;
            eprintln!("stylobate: told to stop twice: requests under way are cut off");
            process::exit(IMPATIENT);
        });
    })
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
