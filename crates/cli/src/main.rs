//! The command `stylobate`: one file per verb.

mod demo;
mod logging;
mod replay;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use stylobate_server::ServerError;

/// Answers of many sizes come and go on all threads: the system's allocator costs more time, and keeps more memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One I/O layer for columnar data on object storage.
#[derive(Parser)]
#[command(name = "stylobate", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// A storage node: caches buckets and folders, and serves them over S3
    ///
    /// Exit codes: 2 wrong command line or configuration, 3 address in use, 4 origin unreachable, 5 cache folder
    /// locked or not writable, 1 anything else.
    Serve(Box<serve::ServeArgs>),
    /// The main job on embedded defaults, with a table of what it measured
    Demo(demo::DemoArgs),
    /// Plays a request trace against a node, and reports latencies
    Replay(Box<replay::ReplayArgs>),
}

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stylobate: {}", in_one_line(&error));
            ExitCode::from(error.downcast_ref().map_or(1, ServerError::exit_code))
        }
    }
}

fn run(verb: Verb) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        match verb {
            Verb::Serve(args) => serve::run(*args).await,
            Verb::Demo(args) => demo::run(args).await,
            Verb::Replay(args) => replay::run(*args).await,
        }
    })
}

/// The error and what caused it. A cause that its effect quotes already is left out.
fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let words: Vec<_> = cause.to_string().split_whitespace().map(str::to_owned).collect();
        let text = words.join(" ");
        if line.is_empty() {
            line = text;
        } else if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_error_is_one_line_that_says_nothing_twice() {
        let error = anyhow!("a\n  b").context("opening: a b").context("starting");
        assert_eq!(in_one_line(&error), "starting: opening: a b");
    }
}
