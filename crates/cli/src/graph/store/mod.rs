//! `stylobate graph store`: manages graph stores.

mod compact;
mod create;
mod data;
mod gc;
mod hops;
mod load;
mod location;
mod log;
mod query;
mod schema_file;
mod verify;

use anyhow::Result;
use clap::{Args, Subcommand};

/// The arguments of `stylobate graph store`.
#[derive(Args, Clone, Debug)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    what: StoreCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum StoreCommand {
    /// Create a store from a schema file, or from tables, which are loaded
    Create(create::CreateArgs),
    /// Load tables into a store: Parquet, ORC, CSV or JSON
    Load(load::LoadArgs),
    /// Print vertices, their neighbors, or the result of a traversal
    Query(Box<query::QueryArgs>),
    /// List the versions of a store
    Log(log::LogArgs),
    /// Merge commits into bases
    Compact(compact::CompactArgs),
    /// Remove old versions and unused files
    Gc(gc::GcArgs),
    /// Read and check a whole version
    Verify(verify::StoreVerifyArgs),
}

pub(super) async fn run(args: StoreArgs) -> Result<()> {
    match args.what {
        StoreCommand::Create(args) => create::run(args).await,
        StoreCommand::Load(args) => load::run(args).await,
        StoreCommand::Query(args) => query::run(*args).await,
        StoreCommand::Log(args) => log::run(args).await,
        StoreCommand::Compact(args) => compact::run(args).await,
        StoreCommand::Gc(args) => gc::run(args).await,
        StoreCommand::Verify(args) => verify::run(args).await,
    }
}
