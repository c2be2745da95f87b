//! `stylobate graph`: graphs in the GraphAr format, and graph stores.

mod export;
mod free_name;
mod import;
mod info;
mod keys;
mod location;
mod neighbors;
mod store;

use anyhow::Result;
use clap::{Args, Subcommand};

/// The arguments of `stylobate graph`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GraphArgs {
    #[command(subcommand)]
    command: GraphCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum GraphCommand {
    /// Show a graph: its types, their properties and files, and the degrees of its vertices
    Info(info::InfoArgs),
    /// Print the neighbors of vertices, with properties of the edges and of the neighbors
    Neighbors(neighbors::NeighborsArgs),
    /// Create a graph from tables: Parquet, ORC, CSV or JSON
    Import(Box<import::ImportArgs>),
    /// Write a graph as tables: a file for each vertex type and edge type
    Export(export::ExportArgs),
    /// Manage graph stores: mutable, versioned graphs in a folder or bucket
    Store(store::StoreArgs),
}

/// Runs the command until it completes or the process is stopped.
///
/// # Errors
///
/// If the command line is invalid, or reading or writing fails. No partial output remains.
pub(crate) async fn run(args: GraphArgs) -> Result<()> {
    match args.command {
        GraphCommand::Info(args) => info::run(args).await,
        GraphCommand::Neighbors(args) => neighbors::run(args).await,
        GraphCommand::Import(args) => import::run(*args).await,
        GraphCommand::Export(args) => export::run(args).await,
        GraphCommand::Store(args) => store::run(args).await,
    }
}
