//! Times the Parquet writer beside the parquet crate's, and the kinds of sinks beside each other, alternating in one
//! process; prints medians as JSON.

mod sinks;
mod tables;

use anyhow::Result;
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Times writes.
#[derive(Parser)]
enum Arguments {
    /// Writes a table of strings as Parquet.
    Table(tables::Arguments),
    /// Writes bytes into files.
    Sinks(sinks::Arguments),
}

fn main() -> Result<()> {
    let report = match Arguments::parse() {
        Arguments::Table(arguments) => tables::run(&arguments)?,
        Arguments::Sinks(arguments) => sinks::run(&arguments)?,
    };
    println!("{report}");
    Ok(())
}

fn median(times: &mut [f64]) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}
