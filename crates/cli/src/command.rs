//! The command line: its verbs, the runtime that they share, and the exit code.

#[cfg(feature = "graph")]
use std::time::Duration;
use std::{
    ffi::OsString,
    io::{Write, stdout},
};

use clap::{Parser, Subcommand};
use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

#[cfg(feature = "graph")]
use crate::graph;
#[cfg(feature = "sql")]
use crate::sql;
use crate::{
    cluster, convert, demo,
    failure::{exit_code, in_one_line, is_closed_pipe},
    generate, inspect, logging, replay, scan, serve, top,
};

/// Idle time after which a blocking thread exits, for graph commands. The allocator keeps memory freed by or for a
/// thread until that thread exits: with tokio's default of ten seconds, a load may hold several times its memory
/// limit.
#[cfg(feature = "graph")]
const KEEP_ALIVE: Duration = Duration::from_millis(10);

/// The signal sent when the file size limit (`ulimit -f`) is exceeded; by default it ends the process.
const SIGXFSZ: SignalKind = SignalKind::from_raw(25);

/// The exit code of a wrong command line.
const WRONG_USAGE: u8 = 2;

/// One I/O layer for columnar data on object storage.
#[derive(Parser)]
#[command(name = "stylobate", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    verb: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Run a storage node: cache buckets and folders, and serve them over S3 and Arrow Flight
    ///
    /// Exit codes: 2 wrong command line or configuration, 3 address in use, 4 origin unreachable, 5 cache folder
    /// locked or not writable, 1 anything else.
    Serve(Box<serve::ServeArgs>),
    /// Show the nodes of a cluster, and drain one
    Cluster(cluster::ClusterArgs),
    /// Watch a node: requests, hits, latencies, memory, buckets, running scans
    Top(top::TopArgs),
    /// Print rows of Parquet and ORC files, as a table or in a format for other programs
    Scan(Box<scan::ScanArgs>),
    /// Convert between Parquet, ORC, CSV, JSON and Arrow IPC
    Convert(Box<convert::ConvertArgs>),
    /// Query Parquet and ORC files with SQL
    #[cfg(feature = "sql")]
    Sql(Box<sql::SqlArgs>),
    /// Show the metadata of Parquet and ORC files
    Inspect(inspect::InspectArgs),
    /// Generate and verify TPC-H, TPC-DS and social network data
    Generate(Box<generate::GenerateArgs>),
    /// Inspect, query, import and export graphs in the GraphAr format, and manage graph stores
    #[cfg(feature = "graph")]
    Graph(Box<graph::GraphArgs>),
    /// Run a node on generated data, and print measurements
    Demo(demo::DemoArgs),
    /// Play a request trace against a node, and report latencies
    Replay(Box<replay::ReplayArgs>),
}

/// Runs a command line, whose first argument is the name of the program, and returns its exit code. Some commands end
/// the process themselves after a signal.
///
/// Call it once per process, on the main thread, while the default signal handlers are in place.
pub fn run(command_line: Vec<OsString>) -> u8 {
    let code = match Cli::try_parse_from(command_line) {
        Ok(cli) => end(&run_verb(cli.verb)),
        // For clap, help and version output are errors as well, with the exit code 0.
        Err(answer) => {
            // A failed write is ignored, as in clap's own exit: no stream is left to report it on.
            let _ = answer.print();
            u8::try_from(answer.exit_code()).unwrap_or(WRONG_USAGE)
        }
    };

    // A binary flushes standard output at exit, but in an extension module Rust does not see the process end.
    let _ = stdout().flush();

    code
}

/// Prints the error, if any, and returns the exit code.
fn end(result: &anyhow::Result<()>) -> u8 {
    match result {
        Ok(()) => 0,
        // The reader of standard output closed the pipe, as `head` does.
        Err(error) if is_closed_pipe(error) => 0,
        Err(error) => {
            eprintln!("stylobate: {}", in_one_line(error));
            exit_code(error)
        }
    }
}

fn run_verb(verb: CliCommand) -> anyhow::Result<()> {
    if !matches!(verb, CliCommand::Serve(_)) {
        logging::start_from_environment()?;
    }

    let mut builder = Builder::new_multi_thread();
    #[cfg(feature = "graph")]
    if matches!(verb, CliCommand::Graph(_)) {
        builder.thread_keep_alive(KEEP_ALIVE);
    }

    builder.enable_all().build()?.block_on(async {
        // With a handler installed, such a write fails with an error instead, and unfinished files are removed.
        let _listens =
            signal(SIGXFSZ).inspect_err(|error| tracing::debug!(%error, "SIGXFSZ ends the process"));
        match verb {
            CliCommand::Serve(args) => serve::run(*args).await,
            CliCommand::Cluster(args) => cluster::run(args).await,
            CliCommand::Top(args) => top::run(args).await,
            CliCommand::Scan(args) => scan::run(*args).await,
            CliCommand::Convert(args) => convert::run(*args).await,
            #[cfg(feature = "sql")]
            CliCommand::Sql(args) => sql::run(*args).await,
            CliCommand::Inspect(args) => inspect::run(args).await,
            CliCommand::Generate(args) => generate::run(*args).await,
            #[cfg(feature = "graph")]
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
