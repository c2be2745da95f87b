//! `stylobate generate`: tables of benchmarks as files, and whether files are still what was made.

mod make;
mod verify;

use anyhow::Result;
use clap::{Args, Subcommand};

/// What the user asked of `stylobate generate`.
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
    /// Reads files back and compares them with what was made
    Verify(verify::GenerateVerifyArgs),
}

/// Makes or verifies, until told to stop.
///
/// # Errors
///
/// If the command line is wrong, files are not what was made, or storage fails; then whole files are left, and no
/// others.
pub(crate) async fn run(args: GenerateArgs) -> Result<()> {
    use stylobate_datagen::Benchmark;

    match args.what {
        GenerateCommand::Tpch(args) => make::run(Benchmark::TpcH, &args, None).await,
        GenerateCommand::Tpcds(args) => make::run(Benchmark::TpcDs, &args, None).await,
        GenerateCommand::Snb(args) => make::run(Benchmark::Snb, &args.make, Some(args.seed)).await,
        GenerateCommand::Verify(args) => verify::run(&args).await,
    }
}
