//! `stylobate graph store load`: loads tables into a store.

use anyhow::Result;
use clap::Args;

use super::{data::DataArgs, location::StoreLocationArgs};
use crate::{failure::usage, rows::until_stopped};

const EXAMPLES: &str = "\
Examples:
  Load more persons, and whom they know:
    stylobate graph store load social --vertices Person=more.parquet \\
      --edges Person_KNOWS_Person=knows.parquet
  Load a new type, with its key:
    stylobate graph store load s3://lake/social --vertices Post=posts.csv:id --delimiter '|' \\
      --edges Post_HAS_CREATOR_Person=created.csv:post,person

A SOURCE is Parquet or ORC (a file, a folder or a pattern, here or at a URL), CSV
with a header (.csv, .tsv), JSON lines (.json, .jsonl, .ndjson) or Arrow IPC (.arrow,
.feather, .arrows). New types are created from the columns of their tables.

The load is committed as one version, and fences any writer that is open at the time.
Exit codes: 2 wrong command line; 1 anything else, such as an edge to a vertex that
does not exist.";

/// The arguments of `stylobate graph store load`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct LoadArgs {
    #[command(flatten)]
    location: StoreLocationArgs,

    #[command(flatten)]
    data: DataArgs,
}

pub(super) async fn run(args: LoadArgs) -> Result<()> {
    until_stopped(load(&args)).await
}

async fn load(args: &LoadArgs) -> Result<()> {
    if args.data.is_empty() {
        return Err(usage("name what is loaded with --vertices and --edges"));
    }
    let cache = args.data.cache().await?;
    let store = args.location.open(&cache, args.data.store_options()).await?;
    let tables = args.data.open(&cache, &args.location.option, &store.latest().schema()).await?;
    tables.load(&store, &args.location.shown(), &args.data).await
}
