//! `stylobate graph store compact`: merges commits into bases.

use anyhow::Result;
use clap::Args;
use stylobate_graph::store::{CompactOptions, Compacted, StoreOptions};

use super::location::StoreLocationArgs;
use crate::{
    allocator::minimize_memory,
    failure::usage,
    out::print_json,
    rows::{grouped, open_cache, until_stopped},
    table,
};

const EXAMPLES: &str = "\
Examples:
  Rewrite bases with at least a fifth of their rows added, changed or deleted:
    stylobate graph store compact social
  Merge one type into a single base:
    stylobate graph store compact s3://lake/social --types Person_KNOWS_Person --force

Readers and the writer continue meanwhile. Files of earlier versions stay until gc.
Exit codes: 2 wrong command line; 1 anything else.";

/// The arguments of `stylobate graph store compact`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct CompactArgs {
    #[command(flatten)]
    location: StoreLocationArgs,

    /// Compact only these vertex and edge types [default: all]
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    types: Option<Vec<String>>,

    /// Rewrite a base when this share of it was added, changed or deleted
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    share: f64,

    /// Rewrite every type that is not a single base
    #[arg(long)]
    force: bool,

    /// Print what was compacted as JSON
    #[arg(long)]
    json: bool,

    /// Do not print a summary
    #[arg(long, short)]
    quiet: bool,
}

pub(super) async fn run(args: CompactArgs) -> Result<()> {
    until_stopped(compact(&args)).await
}

async fn compact(args: &CompactArgs) -> Result<()> {
    if args.share.is_nan() || args.share < 0.0 {
        return Err(usage(format!("--share {}: give a number such as 0.2", args.share)));
    }

    minimize_memory();
    let store = args.location.open(&open_cache(None).await?, StoreOptions::default()).await?;
    let mut options = CompactOptions::default().with_share(args.share).with_force(args.force);
    if let Some(types) = &args.types {
        options = options.with_types(types);
    }

    let compacted = store.compact(&options).await?;
    match (args.json, args.quiet) {
        (true, _) => {
            let all: Vec<_> = compacted.iter().map(json).collect();
            print_json(&all)?;
        }
        (false, true) => {}
        (false, false) if compacted.is_empty() => eprintln!("{}: nothing to compact", args.location.shown()),
        (false, false) => compacted.iter().for_each(|one| eprintln!("{}", line(one))),
    }

    Ok(())
}

fn json(one: &Compacted) -> serde_json::Value {
    serde_json::json!({
        "type": one.of,
        "version": one.version,
        "rewritten": one.rewritten,
        "rows": one.rows,
        "bytes": one.bytes,
    })
}

fn line(one: &Compacted) -> String {
    let what = if one.rewritten { "one base" } else { "few parts" };
    format!(
        "{}: {what} since version {}, {} rows, {}",
        one.of,
        one.version,
        grouped(one.rows),
        table::bytes(one.bytes)
    )
}
