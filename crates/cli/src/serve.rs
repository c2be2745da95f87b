//! `stylobate serve`: runs a storage node in front of buckets or folders.

mod setting_flags;

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
    config::{Layer, Layers, NodeConfig, Provenance, Resolved, Setting},
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::setting_flags::SettingFlags;
use crate::{
    allocator::bound_node_memory,
    logging,
    out::{out, print},
    service_manager,
};

/// The exit code after a second signal: 128 + SIGINT, as in shells.
const INTERRUPTED_EXIT_CODE: i32 = 130;

/// Position of `--access-key` in the help: before `--domain`, as in the alphabetical order. Three flags precede those
/// of the settings.
const ACCESS_KEY_ORDER: usize = 3 + Setting::Domains as usize;

/// The variable that names the configuration file in the absence of `--config`.
const CONFIG_VARIABLE: &str = "STYLOBATE_CONFIG";

const EXAMPLES: &str = "\
Examples:
  Serve a folder as the bucket lake:
    stylobate serve lake=./tpch
  Cache a bucket in memory and on disk:
    stylobate serve lake=s3://my-bucket --memory 4GiB --disk /var/cache/stylobate=100GiB
  Cache a bucket of another S3 server:
    stylobate serve s3://lake --option endpoint=http://127.0.0.1:9900 --option allow_http=true
  Let other machines in, with an access key:
    STYLOBATE_ACCESS_KEY=me:secret stylobate serve s3://lake --listen 0.0.0.0:9000

Each setting is a flag, a variable, such as STYLOBATE_PAGE_SIZE for --page-size, and a
key of the configuration file. A flag overrides the variable, and both override the file.";

/// The arguments of `stylobate serve`. A setting that is not given comes from its environment variable, such as
/// STYLOBATE_PAGE_SIZE, or else from the configuration file, or else has its default.
#[derive(Args, Debug, Default)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Folders and URLs to serve, each as after --origin: ./tpch, s3://lake or lake=s3://my-bucket
    #[arg(value_name = "ORIGIN")]
    origins: Vec<String>,

    /// A configuration file in TOML [env: STYLOBATE_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// A folder, or an s3://, gs://, az:// or http(s):// URL to serve; may be repeated. Without a name, the last part
    /// of the URL is the bucket's name [default: ./data]
    #[arg(long, value_name = "NAME=URL")]
    origin: Vec<String>,

    /// An option of the origins given here, such as endpoint=http://127.0.0.1:9900; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    option: Vec<String>,

    #[command(flatten)]
    settings: SettingFlags,

    /// An access key with write access to all buckets; may be repeated. Command lines are visible to other users:
    /// prefer the variable or the file [env: STYLOBATE_ACCESS_KEY] [default: none, on loopback only]
    #[arg(long, value_name = "ID:SECRET", display_order = ACCESS_KEY_ORDER)]
    access_key: Vec<String>,

    /// Print each setting and its source, and exit
    #[arg(long)]
    print_config: bool,
}

impl ServeArgs {
    /// Returns the settings given on the command line, as the layer with the highest precedence.
    fn layer(&self) -> anyhow::Result<Layer> {
        let mut layer = Layer::default();
        for (setting, text) in &self.settings.0 {
            layer = layer.with_flag(*setting, text);
        }

        for origin in self.origins.iter().chain(&self.origin) {
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

    /// Returns the settings of the configuration file, as the layer with the lowest precedence.
    fn file(&self) -> Result<Layer, ServerError> {
        let of_environment = std::env::var_os(CONFIG_VARIABLE).filter(|path| !path.is_empty());
        let (path, named_by) = match (&self.config, of_environment) {
            (Some(path), _) => (path.clone(), Provenance::Flag("--config".to_owned())),
            (None, Some(path)) => (PathBuf::from(path), Provenance::Env(CONFIG_VARIABLE.to_owned())),
            (None, None) => return Ok(Layer::default()),
        };

        Layer::file(&path).map_err(|error| match error {
            // The file cannot be read. Other errors name one of its lines.
            ServerError::Config { at: Provenance::Flag(_), what } => {
                ServerError::Config { at: named_by, what }
            }
            error => error,
        })
    }

    fn resolve(&self) -> anyhow::Result<Resolved> {
        let environment = |name: &str| std::env::var(name).ok();
        let file = self.file()?;
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        Layer::check_variables(names, &|name| file.reads_secret_from(name))?;
        let layers = Layers { file, environment: Layer::environment(&environment)?, flags: self.layer()? };

        Ok(layers.resolve(&environment)?)
    }
}

/// Serves until SIGTERM or SIGINT. If the node does not start, the error carries its exit code.
pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let resolved = args.resolve()?;
    let log = logging::filter(&resolved.config.settings.log)
        .map_err(|reason| ServerError::invalid_setting(resolved.provenance(Setting::Log), "log", reason))?;

    if args.print_config {
        return print(resolved);
    }

    resolved.check_default_folder()?;
    bound_node_memory();
    let config = resolved.config;
    logging::start(log, config.settings.log_format)?;

    // From here on, a signal starts a shutdown, which closes everything that the node has opened.
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

/// Reloads the configuration and the certificate on each SIGHUP. Invalid ones are ignored.
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
                tracing::error!(%error, "SIGHUP: the configuration cannot be used; the previous one stays in use");
            }
        }

        if let Some(Err(error)) = tls.as_ref().map(|tls| tls.reload()) {
            tracing::error!(%error, "SIGHUP: the certificate cannot be used; the previous one stays in use");
        }

        service_manager::notify("READY=1");
    }
}

/// Prints the addresses of the node, and settings for its clients.
fn announce(doors: &Doors, config: &NodeConfig) -> anyhow::Result<()> {
    let s3 = doors.s3_address();
    let admin = doors.admin_address();

    let mut out = out();
    for bucket in &config.buckets {
        let url = stylobate_storage::without_credentials(&bucket.url);
        writeln!(out, "bucket  {}  {url}", bucket.name)?;
    }

    let (http, grpc) = match config.tls {
        Some(_) => ("https", "grpc+tls"),
        None => ("http", "grpc"),
    };

    writeln!(out, "s3      {http}://{s3}")?;
    writeln!(out, "admin   {http}://{admin}/")?;
    if let Some(peer) = doors.peer_address() {
        writeln!(out, "peer    {http}://{peer}")?;
    }
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

    let region = &config.settings.region;
    let client = reachable(s3);
    writeln!(
        out,
        "export AWS_ENDPOINT_URL={http}://{client} AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={secret} AWS_REGION={region}"
    )?;

    out.flush()?;
    Ok(())
}

/// Returns the address for clients on this machine: loopback for a door that listens on all addresses.
fn reachable(door: SocketAddr) -> SocketAddr {
    if door.ip().is_unspecified() { SocketAddr::from((Ipv4Addr::LOCALHOST, door.port())) } else { door }
}

/// Returns a future that completes on the first SIGTERM or SIGINT. A second signal then exits the process
/// immediately.
fn shutdown() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        either(&mut terminate, &mut interrupt).await;
        tokio::spawn(async move {
            either(&mut terminate, &mut interrupt).await;
            eprintln!("stylobate: told to stop twice: requests under way are cut off");
            process::exit(INTERRUPTED_EXIT_CODE);
        });
    })
}

async fn either(one: &mut Signal, other: &mut Signal) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}
