//! `stylobate generate`: generates and verifies files of benchmark tables.

mod make;
mod verify;

use anyhow::Result;
use clap::{Args, Subcommand};

/// The arguments of `stylobate generate`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    what: GenerateCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum GenerateCommand {
    /// TPC-H: lineitem, orders, partsupp, part, customer, supplier, nation, region
    Tpch(make::GenerateTableArgs),
    /// TPC-DS: 24 tables of sales in shops, by catalog and on the web, and dbgen_version
    Tpcds(make::GenerateTableArgs),
    /// A social network, for graph stores: persons, posts, comments, knows, has_creator, likes, reply_of
    #[command(after_help = make::SNB_EXAMPLES, mut_arg("scale", |scale| scale.help(make::SNB_SCALE)))]
    Snb(make::SnbArgs),
    /// Read files back and compare them with the manifest
    Verify(verify::GenerateVerifyArgs),
}

/// Runs the command until it completes or the process is stopped.
///
/// # Errors
///
/// If the command line is invalid, files differ from the manifest, or storage fails. Only complete files are left in
/// that case.
pub(crate) async fn run(args: GenerateArgs) -> Result<()> {
    use stylobate_datagen::Benchmark;

    match args.what {
        GenerateCommand::Tpch(args) => make::run(Benchmark::TpcH, &args, None).await,
        GenerateCommand::Tpcds(args) => make::run(Benchmark::TpcDs, &args, None).await,
        GenerateCommand::Snb(args) => make::run(Benchmark::Snb, &args.make, Some(args.seed)).await,
        GenerateCommand::Verify(args) => verify::run(&args).await,
    }
}
