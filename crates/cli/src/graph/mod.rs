//! `stylobate graph`: graphs in the GraphAr format, and graph stores.

mod export;
mod free_name;
mod import;
mod info;
mod keys;
mod neighbors;
mod place;
mod store;

use anyhow::Result;
use clap::{Args, Subcommand};

/// What the user asked of `stylobate graph`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GraphArgs {
    #[command(subcommand)]
    what: GraphCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum GraphCommand {
    /// A picture of a graph: its types, their properties and files, and how edges are spread over vertices
    Info(info::InfoArgs),
    /// The neighbours of some vertices, with properties of the edges and of the neighbours
    Neighbors(neighbors::NeighborsArgs),
    /// Makes a graph of tables: Parquet, ORC, CSV or JSON
    Import(Box<import::ImportArgs>),
    /// Makes tables of a graph: a file for each type of vertices and of edges
    Export(export::ExportArgs),
    /// Graph stores: graphs in a folder or a bucket that can be changed, version by version
    Store(store::StoreArgs),
}

/// Does what was asked, until told to stop.
///
/// # Errors
///
/// If the command line is wrong, or data or storage is; then nothing new is left.
pub(crate) async fn run(args: GraphArgs) -> Result<()> {
    match args.what {
        GraphCommand::Info(args) => info::run(args).await,
        GraphCommand::Neighbors(args) => neighbors::run(args).await,
        GraphCommand::Import(args) => import::run(*args).await,
        GraphCommand::Export(args) => export::run(args).await,
        GraphCommand::Store(args) => store::run(args).await,
    }
}
