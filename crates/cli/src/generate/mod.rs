//! `stylobate generate`: tables of benchmarks as files, and whether files are still what was made.

mod make;
mod verify;

use anyhow::Result;
use clap::{Args, Subcommand};

/// What the user asked of `stylobate generate`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Clone, Debug)]
enum What {
    /// TPC-H: lineitem, orders, partsupp, part, customer, supplier, nation, region
    Tpch(make::MakeArgs),
    /// TPC-DS: 24 tables of sales in shops, by catalog and on the web, and dbgen_version
    Tpcds(make::MakeArgs),
    /// A social network, for graph stores: persons, posts, comments, knows, has_creator, likes, reply_of
    #[command(after_help = make::SNB_EXAMPLES, mut_arg("scale", |scale| scale.help(make::SNB_SCALE)))]
    Snb(make::SnbArgs),
    /// Reads files back and compares them with what was made
    Verify(verify::VerifyArgs),
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
        What::Tpch(args) => make::run(Benchmark::TpcH, &args, None).await,
        What::Tpcds(args) => make::run(Benchmark::TpcDs, &args, None).await,
        What::Snb(args) => make::run(Benchmark::Snb, &args.make, Some(args.seed)).await,
        What::Verify(args) => verify::run(&args).await,
    }
}
