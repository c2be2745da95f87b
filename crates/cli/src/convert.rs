//! `stylobate convert`: files of one format into a file of another.

use std::{ffi::OsStr, path::PathBuf, time::Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use futures::StreamExt;
use stylobate_columnar::{
    ColumnOptions, Compression, Dictionaries, Error as ColumnarError, ParquetOptions, ParquetWriter, Scan,
};
use stylobate_storage::{
    Destination as Place, Durability, Error as StorageError, Overwrite as Existing, SinkKind, SinkOptions,
    Sinks,
};

use crate::{
    failure::{is_closed_pipe, usage},
    rows::{
        Bound, Destination, Drained, Format, Overwrite, Progress, RequestArgs, drain, exists, grouped,
        until_stopped,
    },
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
  As Parquet, smaller:
    stylobate convert lineitem.orc lineitem.parquet --compression 'zstd(3)'
  As Parquet, into a bucket:
    stylobate convert lineitem.orc s3://lake/lineitem.parquet --option region=eu-west-1
  Into a pipe:
    stylobate convert events.parquet - --to json | gzip > events.jsonl.gz

In CSV a null is an empty field and an empty string is \"\"; lists, maps and
structs are JSON texts. In .arrow files strings are plain unless --dictionary asks
otherwise, since few readers take dictionaries that grow. In Parquet, columns that
the source stores as dictionaries are dictionaries again.

Exit codes: 2 wrong command line, unknown column or filter; 1 anything else.";

/// What the user asked of `stylobate convert`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// A Parquet or ORC file, a folder of them or a pattern, here or below s3://, gs://, az:// or http(s)://
    #[arg(value_name = "SOURCE")]
    source: String,

    /// The file to write, which appears when it is whole; its extension says the format: .parquet, .csv, .jsonl, .ndjson
    /// or .json (JSON lines), .arrow or .feather (Arrow IPC), .arrows (Arrow IPC, as a stream). Parquet may go to a URL,
    /// too. `-` is standard output
    #[arg(value_name = "DEST")]
    destination: PathBuf,

    /// The format, whatever the extension says
    #[arg(long, value_name = "FORMAT")]
    to: Option<ConvertFormat>,

    /// Of Parquet: none, snappy, lz4, zstd(1 to 22), gzip(0 to 9) or brotli(0 to 11)
    #[arg(long, value_name = "CODEC", default_value = "snappy")]
    compression: Compression,

    /// Of Parquet: rows of a row group at most
    #[arg(long, value_name = "ROWS", default_value_t = 1 << 20, value_parser = row_group_rows)]
    row_group_rows: usize,

    /// Of Parquet: how the file is written: auto, thread, io_uring or io_uring_direct
    #[arg(long, value_name = "SINK", default_value = "auto")]
    sink: SinkKind,

    /// Of Parquet: what a local file survives: fsync, a loss of power; none, the end of the process
    #[arg(long, value_name = "DURABILITY", default_value = "fsync")]
    durability: Durability,

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
    Parquet,
}

/// What is made, and where.
#[derive(Debug)]
enum Output {
    Rows(Format, Destination),
    Parquet(Place),
}

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Rows(Format),
    Parquet,
}

fn row_group_rows(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|rows| *rows > 0).ok_or_else(|| "a whole number from 1 on is needed".to_owned())
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
    let target = args.target()?;
    let output = args.output(target)?;
    let is_terminal = matches!(&output, Output::Rows(_, destination) if destination.is_terminal());
    if is_terminal && matches!(target, Target::Rows(format) if format.is_binary()) {
        return Err(usage("arrow is no text for a terminal: name a file, or write into a pipe"));
    }
    let dictionary = match target {
        Target::Parquet => Dictionaries::Stored,
        Target::Rows(Format::ArrowFile) => Dictionaries::None,
        Target::Rows(_) => Dictionaries::Auto,
    };
    let request = args.request.request(std::slice::from_ref(&args.source), dictionary)?;
    let cache = args.request.cache().await?;
    let scan = request.plan(&cache).await?;
    let progress = Progress::new(args.request.rows(&scan), is_terminal)?;
    let is_file = matches!(output, Output::Rows(_, Destination::File { .. }) | Output::Parquet(_));
    let drained = match output {
        Output::Rows(format, destination) => {
            let schema = scan.schema().clone();
            drain(schema, scan.stream(), format, Bound::default(), destination, &progress).await?
        }
        Output::Parquet(place) => args.parquet(&scan, place, &progress).await?,
    };
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
    fn target(&self) -> Result<Target> {
        let is_parquet = |extension: &OsStr| extension.eq_ignore_ascii_case("parquet");
        Ok(Target::Rows(match self.to {
            Some(ConvertFormat::Csv) => Format::Csv,
            Some(ConvertFormat::Json) => Format::Json,
            Some(ConvertFormat::Arrow) => Format::ArrowFile,
            Some(ConvertFormat::Arrows) => Format::ArrowStream,
            Some(ConvertFormat::Parquet) => return Ok(Target::Parquet),
            None if self.destination.as_os_str() == "-" => {
                return Err(usage("standard output has no extension: say --to csv, json, arrow or arrows"));
            }
            None if self.destination.extension().is_some_and(is_parquet) => return Ok(Target::Parquet),
            None => Format::of(&self.destination)?,
        }))
    }

    /// Where it goes. A file that is there and must not be replaced is found out here, before any work is done.
    fn output(&self, target: Target) -> Result<Output> {
        let overwrite = if self.force { Overwrite::Replace } else { Overwrite::Refuse };
        let format = match target {
            Target::Rows(format) => format,
            Target::Parquet => {
                if let Some(url) = self.destination.to_str().filter(|path| path.contains("://")) {
                    return Ok(Output::Parquet(Place::parse(url, &self.request.option)?));
                }
                let Destination::File { path, .. } = Destination::at(&self.destination, overwrite)? else {
                    return Err(usage("Parquet goes into a file: name one"));
                };
                return Ok(Output::Parquet(Place::File(path)));
            }
        };
        Ok(Output::Rows(format, Destination::at(&self.destination, overwrite)?))
    }

    async fn parquet(&self, scan: &Scan, place: Place, progress: &Progress) -> Result<Drained> {
        let all = ColumnOptions::default().with_compression(self.compression);
        let options =
            ParquetOptions::default().with_all_columns(all).with_row_group_rows(self.row_group_rows);
        let sinks = Sinks::new(SinkOptions::default().with_kind(self.sink).with_durability(self.durability));
        let existing = if self.force { Existing::Replace } else { Existing::Refuse };
        let refused = |error: StorageError| match error {
            StorageError::Exists { path } => exists(path),
            error => error.into(),
        };
        let sink = sinks.open(&place, existing).await.map_err(refused)?;
        let mut writer = ParquetWriter::new(sink, place.to_string(), scan.schema().clone(), options)?;
        let mut batches = scan.stream();
        while let Some(batch) = batches.next().await.transpose()? {
            writer.write(&batch).await?;
            progress.add_rows(batch.num_rows());
        }
        let written = writer.finish().await.map_err(|error| match error {
            ColumnarError::Storage(error) => refused(error),
            error => error.into(),
        })?;
        progress.clear();
        Ok(Drained { rows: written.rows, bytes: written.bytes })
    }
}
