//! `stylobate graph store verify`: checks a version.

use anyhow::{Result, anyhow};
use clap::Args;
use stylobate_storage::ByteSize;

use super::location::StoreLocationArgs;
use crate::{
    out::{print, print_json},
    rows::{grouped, until_stopped},
};

const EXAMPLES: &str = "\
Examples:
  stylobate graph store verify social
  stylobate graph store verify s3://lake/social --version 12 --json

All files of the version are read and compared with the log and with each other.
Exit codes: 2 wrong command line; 1 the version is damaged, or anything else.";

/// The arguments of `stylobate graph store verify`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct StoreVerifyArgs {
    #[command(flatten)]
    location: StoreLocationArgs,

    /// Version to check [default: the latest]
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,

    /// Memory for pages and decoded columns [default: a quarter of the memory available to the process]
    #[arg(long, value_name = "SIZE", value_parser = <ByteSize as std::str::FromStr>::from_str)]
    memory: Option<ByteSize>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// Print only errors
    #[arg(long, short)]
    quiet: bool,
}

pub(super) async fn run(args: StoreVerifyArgs) -> Result<()> {
    until_stopped(verify(&args)).await
}

async fn verify(args: &StoreVerifyArgs) -> Result<()> {
    let snapshot = args.location.snapshot(args.memory, args.version).await?;
    let found = snapshot.verify().await;
    if args.json {
        let answer = serde_json::json!({
            "store": args.location.shown(),
            "version": found.version,
            "parts": found.parts,
            "chunks": found.chunks,
            "flaws": found.flaws,
        });
        print_json(&answer)?;
    } else {
        found.flaws.iter().try_for_each(|flaw| print(format_args!("{flaw}\n")))?;
    }

    match found.flaws.as_slice() {
        [] => {
            if !args.json && !args.quiet {
                let parts = grouped(found.parts);
                let chunks = grouped(found.chunks);
                eprintln!(
                    "{}: version {} is sound: {parts} parts, {chunks} chunks",
                    args.location.shown(),
                    found.version
                );
            }

            Ok(())
        }
        flaws => Err(anyhow!("{}: version {}: {} flaws", args.location.shown(), found.version, flaws.len())),
    }
}
