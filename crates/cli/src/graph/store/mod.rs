//! `stylobate graph store`: graph stores, which are graphs that can be changed.

mod compact;
mod create;
mod data;
mod gc;
mod hops;
mod load;
mod log;
mod place;
mod query;
mod schema_file;
mod verify;

use anyhow::Result;
use clap::{Args, Subcommand};

/// What the user asked of `stylobate graph store`.
#[derive(Args, Clone, Debug)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    what: StoreCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum StoreCommand {
    /// Makes a store: of the types that a file names, or of tables, which are loaded
    Create(create::CreateArgs),
    /// Loads tables into a store: Parquet, ORC, CSV or JSON
    Load(load::LoadArgs),
    /// Vertices, their neighbours, or what is found by following edges over several hops
    Query(Box<query::QueryArgs>),
    /// The versions of a store
    Log(log::LogArgs),
    /// Makes bases of what commits left behind
    Compact(compact::CompactArgs),
    /// Removes versions that are old, and files that no version needs
    Gc(gc::GcArgs),
    /// Reads all of a version, and says what is wrong with it
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
