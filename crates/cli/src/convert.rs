//! `stylobate convert`: files of one format into a file of another.

use std::{path::PathBuf, time::Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use stylobate_columnar::Dictionaries;

use crate::{
    failure::{is_closed_pipe, usage},
    rows::{Bound, Destination, Format, Overwrite, Progress, RequestArgs, drain, grouped, until_stopped},
    table,
};

const EXAMPLES: &str = "\
Examples:
  A Parquet or ORC file as CSV:
    stylobate convert lineitem.parquet lineitem.csv
  A folder of files as one Arrow file, which other programs map into memory:
    stylobate convert lake/events events.arrow --where \"day = '2026-01-01'\"
  With dictionaries, as a stream of Arrow batches:
    stylobate convert lineitem.orc lineitem.arrows --dictionary l_shipmode
  Into a pipe:
    stylobate convert events.parquet - --to json | gzip > events.jsonl.gz

In CSV a null is an empty field and an empty string is \"\"; lists, maps and
structs are JSON texts. In .arrow files strings are plain unless --dictionary asks
otherwise, since few readers take dictionaries that grow.

Exit codes: 2 wrong command line, unknown column or filter; 1 anything else.";

/// What the user asked of `stylobate convert`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// A Parquet or ORC file, a folder of them or a pattern, here or below s3://, gs://, az:// or http(s)://
    #[arg(value_name = "SOURCE")]
    source: String,

    /// The file to write, which appears when it is whole; its extension says the format: .csv, .jsonl, .ndjson or
    /// .json (JSON lines), .arrow or .feather (Arrow IPC), .arrows (Arrow IPC, as a stream). `-` is standard output
    #[arg(value_name = "DEST")]
    destination: PathBuf,

    /// The format, whatever the extension says
    #[arg(long, value_name = "FORMAT")]
    to: Option<ConvertFormat>,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,

    /// Do not say what was written
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    request: RequestArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ConvertFormat {
    Csv,
    /// One object per line
    Json,
    /// Arrow IPC, the file
    Arrow,
    /// Arrow IPC, the stream
    Arrows,
}

/// Converts, until told to stop.
///
/// # Errors
///
/// If the command line is wrong, or data or storage is; then there is no new file.
pub(crate) async fn run(args: ConvertArgs) -> Result<()> {
    match until_stopped(convert(&args)).await {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        done => done,
    }
}

async fn convert(args: &ConvertArgs) -> Result<()> {
    let started = Instant::now();
    let format = args.format()?;
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    let destination = Destination::at(&args.destination, overwrite)?;
    if format.is_binary() && destination.is_terminal() {
        return Err(usage("arrow is no text for a terminal: name a file, or write into a pipe"));
    }
    let dictionary = if format == Format::ArrowFile { Dictionaries::None } else { Dictionaries::Auto };
    let request = args.request.request(std::slice::from_ref(&args.source), dictionary)?;
    let cache = args.request.cache().await?;
    let scan = request.plan(&cache).await?;
    let progress = Progress::new(args.request.rows(&scan), destination.is_terminal())?;
    let is_file = matches!(destination, Destination::File { .. });
    let schema = scan.schema().clone();
    let drained = drain(schema, scan.stream(), format, Bound::default(), destination, &progress).await?;
    if is_file && !args.quiet {
        let seconds = started.elapsed().as_secs_f64();
        eprintln!(
            "{}: {} rows, {}, in {seconds:.1} s ({} rows/s)",
            args.destination.display(),
            grouped(drained.rows),
            table::bytes(drained.bytes),
            grouped((drained.rows as f64 / seconds) as u64),
        );
    }
    Ok(())
}

impl ConvertArgs {
    fn format(&self) -> Result<Format> {
        match self.to {
            Some(ConvertFormat::Csv) => Ok(Format::Csv),
            Some(ConvertFormat::Json) => Ok(Format::Json),
            Some(ConvertFormat::Arrow) => Ok(Format::ArrowFile),
            Some(ConvertFormat::Arrows) => Ok(Format::ArrowStream),
            None if self.destination.as_os_str() == "-" => {
                Err(usage("standard output has no extension: say --to csv, json, arrow or arrows"))
            }
            None => Format::of(&self.destination),
        }
    }
}
