//! `stylobate graph store gc`: removes old versions and unused files.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use stylobate_graph::store::{CollectOptions, StoreOptions};
use stylobate_storage::parse_duration;

use super::location::StoreLocationArgs;
use crate::{
    out::print_json,
    rows::{grouped, open_cache, until_stopped},
    table,
};

const EXAMPLES: &str = "\
Examples:
  Print what is older than a week, and remove nothing:
    stylobate graph store gc social --dry-run
  Remove versions older than a day:
    stylobate graph store gc s3://lake/social --older-than 1d

The newest version is kept. Readers of older versions in other processes are safe as
long as these are younger than the age. Ages below one hour count as one hour, since a
writer may be about to commit files that it has written.
Exit codes: 2 wrong command line; 1 anything else.";

/// The arguments of `stylobate graph store gc`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct GcArgs {
    #[command(flatten)]
    location: StoreLocationArgs,

    /// Minimum age to remove: a number with s, m, h or d
    #[arg(long, value_name = "AGE", default_value = "7d", value_parser = parse_duration)]
    older_than: Duration,

    /// Allow ages below one hour; no process may write, load or compact meanwhile
    #[arg(long)]
    even_young: bool,

    /// Only print what would be removed
    #[arg(long)]
    dry_run: bool,

    /// Print a summary as JSON
    #[arg(long)]
    json: bool,

    /// Do not print a summary
    #[arg(long, short)]
    quiet: bool,
}

pub(super) async fn run(args: GcArgs) -> Result<()> {
    until_stopped(gc(&args)).await
}

async fn gc(args: &GcArgs) -> Result<()> {
    let store = args.location.open(&open_cache(None).await?, StoreOptions::default()).await?;
    let options = CollectOptions::default()
        .with_older_than(args.older_than)
        .with_even_young(args.even_young)
        .with_dry_run(args.dry_run);

    let gone = store.collect_garbage(&options).await?;
    if args.json {
        let answer = serde_json::json!({
            "store": args.location.shown(),
            "versions": gone.versions,
            "files": gone.files,
            "bytes": gone.bytes,
            "dry_run": args.dry_run,
        });
        print_json(&answer)?;
    } else if !args.quiet {
        let what = if args.dry_run { "would be removed" } else { "removed" };
        eprintln!(
            "{}: {} versions and {} files of {} {what}",
            args.location.shown(),
            grouped(gone.versions.len() as u64),
            grouped(gone.files),
            table::bytes(gone.bytes),
        );
    }

    Ok(())
}
