//! `stylobate demo`: runs a node on generated data, and prints measurements.
//!
//! TPC-H tables are written to a folder as Parquet. A node serves them from an origin with the latency of an
//! object store. The column chunks of a query are read through the S3 door as an engine would read them, and every
//! byte is compared with the file.

mod data;
mod read;
mod slow;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use clap::Args;
use object_store::{ObjectStore, aws::AmazonS3Builder, local::LocalFileSystem};
use stylobate_server::{
    Doors, Node,
    config::{BucketConfig, NodeConfig},
};
use stylobate_storage::{ByteSize, Origin, run_blocking};
use tokio::sync::oneshot;

use self::{
    read::{DemoMeasurement, OriginTraffic},
    slow::DelayedReadStore,
};
use crate::out::{print, print_json};

/// Time to first byte of an object store in the same region.
const LATENCY: Duration = Duration::from_millis(30);
const BUCKET: &str = "tpch";

/// The arguments of `stylobate demo`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stylobate demo                    generate, read cold, read warm, report\n  \
    stylobate demo --keep ./tpch      keep the generated Parquet files\n  \
    stylobate demo --json             print the figures as JSON")]
pub(crate) struct DemoArgs {
    /// TPC-H scale factor of the data
    #[arg(long, default_value_t = 0.1, value_parser = scale)]
    scale: f64,

    /// A new or empty folder for the Parquet files, kept afterwards [default: a temporary one]
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,

    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale: &f64| *scale > 0.0 && *scale <= 100.0);
    scale.ok_or_else(|| "give a number above 0, at most 100".to_owned())
}

/// Runs the demo.
pub(crate) async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir().context("making a temporary folder")?;
    let folder = args.keep.clone().unwrap_or_else(|| temporary.path().to_owned());
    data::check_empty(&folder)?;
    let say = |line: String| if args.json { Ok(()) } else { print(line + "\n") };

    say(format!("Generating TPC-H lineitem and orders at scale {} as Parquet ...", args.scale))?;
    let scale = args.scale;
    let into = folder.clone();
    let files = run_blocking(move || data::generate(scale, &into)).await??;

    for file in &files {
        say(format!("  {:<20} {:>10} rows {:>8.1} MB", file.key, file.rows, file.bytes as f64 / 1e6))?;
    }

    let slow: Arc<dyn ObjectStore> =
        Arc::new(DelayedReadStore::new(LocalFileSystem::new_with_prefix(&folder)?, LATENCY));
    let (stop, stopped) = oneshot::channel::<()>();
    let config = config();
    let doors = Doors::bind(&config).await?;
    let endpoint = format!("http://{}", doors.s3_address());
    let node = Node::open_over(&config, vec![Origin::new("demo", slow.clone())]).await?;
    let serving = tokio::spawn(doors.serve(node.clone(), async {
        let _ = stopped.await;
    }));
    say(format!(
        "Started a node at {endpoint}, in front of an origin slowed to {} ms a request.",
        LATENCY.as_millis()
    ))?;

    say("Reading the column chunks of two queries, 4 requests at a time, and checking every byte ..."
        .to_owned())?;

    let through: Arc<dyn ObjectStore> = Arc::new(client(&endpoint)?);

    let mut rounds = Vec::new();
    for (name, store) in [("origin directly", &slow), ("node, cold", &through), ("node, warm", &through)] {
        let before = OriginTraffic::origin(&node).await;
        let round = read::read(name, store.clone(), &files, &folder).await?;
        rounds.push(round.with_origin(before, OriginTraffic::origin(&node).await));
    }

    let _ = stop.send(());
    serving.await??;

    if args.json {
        print_json(&rounds)
    } else {
        print(format_args!("\n{}\n{}\n", table(&rounds), next_steps(&args, &folder)))
    }
}

fn config() -> NodeConfig {
    let mut config = NodeConfig::default();
    config.buckets.push(BucketConfig::new(BUCKET, "memory:///"));
    config.settings.memory = ByteSize::mib(256);
    config.settings.listen.set_port(0);
    config.settings.admin.set_port(0);
    config.settings.flight = None;
    config
}

fn client(endpoint: &str) -> object_store::Result<impl ObjectStore> {
    AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_bucket_name(BUCKET)
        .with_region("us-east-1")
        .with_allow_http(true)
        .with_skip_signature(true)
        .build()
}

fn table(rounds: &[DemoMeasurement]) -> String {
    let head = ["", "requests", "read", "origin GETs", "from origin", "p50", "p99", "MB/s"];
    let mut text = format!(
        "{:<16} {:>9} {:>9} {:>12} {:>12} {:>10} {:>10} {:>8}\n",
        head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7]
    );

    for round in rounds {
        text.push_str(&format!(
            "{:<16} {:>9} {:>6.1} MB {:>12} {:>9.1} MB {:>7.2} ms {:>7.2} ms {:>8.0}\n",
            round.name,
            round.requests,
            round.bytes as f64 / 1e6,
            round.origin_gets,
            round.origin_bytes as f64 / 1e6,
            round.p50_ms,
            round.p99_ms,
            round.mb_per_s,
        ));
    }

    text
}

fn next_steps(args: &DemoArgs, folder: &std::path::Path) -> String {
    let folder = match &args.keep {
        Some(_) => folder.display().to_string(),
        None => "FOLDER".to_owned(),
    };

    let commands = [
        (format!("stylobate serve lake={folder}"), "a node over a folder"),
        ("stylobate serve lake=s3://BUCKET".to_owned(), "a node over a bucket"),
        ("stylobate serve --help".to_owned(), "memory, disk, keys, freshness"),
    ];

    let width = commands.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let lines = commands.map(|(command, what)| format!("  {command:width$}    {what}\n"));

    format!(
        "All bytes were as in the files. What to type next:\n{}\
         Then point any S3 client at http://127.0.0.1:9000, and look at http://127.0.0.1:9001.",
        lines.concat()
    )
}
