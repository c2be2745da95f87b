//! The command `stylobate`: one file per verb.

mod convert;
mod demo;
mod failure;
mod generate;
mod graph;
mod inspect;
mod lean_memory;
mod logging;
mod out;
mod replay;
mod rows;
mod scan;
mod serve;
mod service_manager;
mod table;

use std::{process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use crate::failure::{exit_code, in_one_line, is_closed_pipe};

/// Answers of many sizes come and go on all threads: the system's allocator costs more time, and keeps more memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a thread waits for more to do where graphs are loaded. What it freed, and what others freed of its memory,
/// stays with it until it ends: with the usual ten seconds a load may hold several times what it was given.
const KEEP_ALIVE: Duration = Duration::from_millis(10);

/// Sent to a process that writes beyond its largest file (`ulimit -f`), by default to end it.
const SIGXFSZ: SignalKind = SignalKind::from_raw(25);

/// One I/O layer for columnar data on object storage.
#[derive(Parser)]
#[command(name = "stylobate", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    verb: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// A storage node: caches buckets and folders, and serves them over S3 and Arrow Flight
    ///
    /// Exit codes: 2 wrong command line or configuration, 3 address in use, 4 origin unreachable, 5 cache folder
    /// locked or not writable, 1 anything else.
    Serve(Box<serve::ServeArgs>),
    /// Rows of Parquet and ORC files, as a table or for the next program
    Scan(Box<scan::ScanArgs>),
    /// Writes rows of Parquet and ORC files as Parquet, CSV, JSON or Arrow IPC
    Convert(Box<convert::ConvertArgs>),
    /// What is in Parquet and ORC files, apart from their values
    Inspect(inspect::InspectArgs),
    /// TPC-H and TPC-DS data as Parquet, CSV or Arrow IPC, and whether it is still what was made
    Generate(Box<generate::GenerateArgs>),
    /// Graphs in the GraphAr format: what is in them, neighbours of vertices, import and export; and graph stores
    Graph(Box<graph::GraphArgs>),
    /// The main job on embedded defaults, with a table of what it measured
    Demo(demo::DemoArgs),
    /// Plays a request trace against a node, and reports latencies
    Replay(Box<replay::ReplayArgs>),
}

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever wanted more would have read it.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stylobate: {}", in_one_line(&error));
            ExitCode::from(exit_code(&error))
        }
    }
}

fn run(verb: CliCommand) -> anyhow::Result<()> {
    if !matches!(verb, CliCommand::Serve(_)) {
        logging::start_from_environment()?;
    }
    let mut builder = Builder::new_multi_thread();
    if matches!(verb, CliCommand::Graph(_)) {
        builder.thread_keep_alive(KEEP_ALIVE);
    }
    builder.enable_all().build()?.block_on(async {
        // Once somebody listens, such a write is an error like others: it is told, and what is unfinished is removed.
        let _listens =
            signal(SIGXFSZ).inspect_err(|error| tracing::debug!(%error, "SIGXFSZ ends the process"));
        match verb {
            CliCommand::Serve(args) => serve::run(*args).await,
            CliCommand::Scan(args) => scan::run(*args).await,
            CliCommand::Convert(args) => convert::run(*args).await,
            CliCommand::Inspect(args) => inspect::run(args).await,
            CliCommand::Generate(args) => generate::run(*args).await,
            CliCommand::Graph(args) => graph::run(*args).await,
            CliCommand::Demo(args) => demo::run(args).await,
            CliCommand::Replay(args) => replay::run(*args).await,
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
