//! `stylobate convert`: converts files to one file of another format, or to a partitioned folder.

use std::{path::PathBuf, time::Instant};

use anyhow::Result;
use clap::Args;
use stylobate_columnar::{DatasetMode, DatasetOptions, Dictionaries, WriteFormat};
use stylobate_storage::{
    ByteSize, Destination, Durability, Overwrite as Existing, SinkKind, SinkOptions, without_credentials,
};

use crate::{
    allocator::minimize_memory,
    failure::usage,
    rows::{
        ColumnFile, OverwriteMode, ProgressDisplay, RequestArgs, RowDestination, RowFormat, TableLimits,
        drain, file_options, format_parser, grouped, open_cache, unknown_format, until_stopped,
    },
    table,
};

const EXAMPLES: &str = "\
Examples:
  Convert a Parquet or ORC file to CSV:
    stylobate convert lineitem.parquet lineitem.csv
  Convert a folder to one Arrow file, which programs can map into memory:
    stylobate convert lake/events events.arrow --where \"day = '2026-01-01'\"
  Write a stream of Arrow batches, with a column as a dictionary:
    stylobate convert lineitem.orc lineitem.arrows --dictionary l_shipmode
  Write a smaller Parquet file, and an ORC file:
    stylobate convert lineitem.orc lineitem.parquet --compression 'zstd(3)'
    stylobate convert lineitem.parquet lineitem.orc
  Write Parquet to a bucket:
    stylobate convert lineitem.orc s3://lake/lineitem.parquet --option region=eu-west-1
  Append to a folder that is partitioned by a column:
    stylobate convert events.parquet lake/events --to parquet --partition-by day --mode append
  Convert CSV, reading one column as strings:
    stylobate convert people.csv people.parquet --type zip=string
  Write to a pipe:
    stylobate convert events.parquet - --to json | gzip > events.jsonl.gz

In CSV a null is an empty field and an empty string is \"\"; lists, maps and
structs are JSON. In .arrow files strings are plain unless --dictionary selects
them, since few readers support delta dictionaries. In Parquet, columns that the
source stores as dictionaries remain dictionaries.

Exit codes: 2 wrong command line, unknown column or filter; 1 anything else.";

const EXTENSIONS: &str = ".parquet, .orc, .csv, .jsonl, .arrow or .arrows";

/// The arguments of `stylobate convert`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// A Parquet, ORC, CSV, JSON or Arrow IPC file, a folder of them or a pattern, local or below s3://, gs://, az://
    /// or http(s)://
    #[arg(value_name = "SOURCE")]
    source: String,

    /// The output file, created atomically. Its extension selects the format: .parquet, .orc, .csv, .jsonl, .ndjson or
    /// .json (JSON lines), .arrow or .feather (Arrow IPC file), .arrows (Arrow IPC stream). Parquet and ORC may also go
    /// to a URL. `-` is standard output
    #[arg(value_name = "DEST")]
    destination: PathBuf,

    /// The output format; overrides the extension
    #[arg(long, value_name = "FORMAT", value_parser = format_parser(FORMATS))]
    to: Option<WriteFormat>,

    /// Codec of Parquet: none, snappy, lz4, zstd(1 to 22), gzip(0 to 9) or brotli(0 to 11) [default: snappy]; of ORC:
    /// none, snappy, lz4, zstd(1 to 22) or zlib(0 to 9) [default: zstd(3)]
    #[arg(long, value_name = "CODEC")]
    compression: Option<String>,

    /// Maximum rows per row group, for Parquet [default: 1048576]
    #[arg(long, value_name = "ROWS", value_parser = row_group_rows)]
    row_group_rows: Option<usize>,

    /// File writer, for Parquet and ORC: auto, thread, io_uring or io_uring_direct
    #[arg(long, value_name = "SINK", default_value = "auto")]
    sink: SinkKind,

    /// Durability of a local file, for Parquet and ORC: fsync survives a power loss, none only the end of the process
    #[arg(long, value_name = "DURABILITY", default_value = "fsync")]
    durability: Durability,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,

    /// Partition columns, separated by commas, for Parquet and ORC; their values name folders below DEST:
    /// day=2026-01-01/part-00000.parquet
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    partition_by: Vec<String>,

    /// Handling of existing data files, with --partition-by: error; append, which adds files; overwrite or
    /// overwrite_partitions, which remove files that stylobate wrote, in all folders or only in those that receive
    /// rows. Files of other writers are kept [default: error]
    #[arg(long, value_name = "MODE")]
    mode: Option<DatasetMode>,

    /// Approximate size after which the next file begins, with --partition-by, such as 256MiB
    #[arg(long, value_name = "SIZE")]
    max_file_size: Option<ByteSize>,

    /// Do not print a summary
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    request: RequestArgs,
}

/// The formats with their help.
const FORMATS: [(WriteFormat, &str); 6] = [
    (WriteFormat::Csv, ""),
    (WriteFormat::Json, "One object per line"),
    (WriteFormat::ArrowFile, "Arrow IPC file"),
    (WriteFormat::ArrowStream, "Arrow IPC stream"),
    (WriteFormat::Parquet, ""),
    (WriteFormat::Orc, ""),
];

/// The destination of the output.
#[derive(Debug)]
enum ConvertOutput {
    Rows(RowDestination),
    Columns(Destination),
}

/// Maximum memory of the writer: with more, its row groups and stripes would not become larger.
const MAX_WRITER_MEMORY: ByteSize = ByteSize::mib(256);

fn row_group_rows(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|rows| *rows > 0).ok_or_else(|| "a whole number from 1 on is needed".to_owned())
}

/// Runs the command until it completes or the process is stopped.
///
/// # Errors
///
/// If the command line is invalid, or reading or writing fails. No new file is left in that case.
pub(crate) async fn run(args: ConvertArgs) -> Result<()> {
    until_stopped(convert(&args)).await
}

#[tracing::instrument(
    level = "debug",
    skip_all,
    fields(
        source = without_credentials(&args.source),
        destination = without_credentials(&args.destination.to_string_lossy()),
    )
)]
async fn convert(args: &ConvertArgs) -> Result<()> {
    let started = Instant::now();
    minimize_memory();
    let target = args.target()?;
    args.check(target)?;
    let output = args.output(target)?;
    let is_terminal = matches!(&output, ConvertOutput::Rows(destination) if destination.is_terminal());
    if is_terminal && !target.is_text() {
        return Err(usage("arrow is no text for a terminal: name a file, or write into a pipe"));
    }

    let dictionary = match target {
        WriteFormat::ArrowFile => Dictionaries::None,
        _ => Dictionaries::AsWritten,
    };

    let request = args.request.request(std::slice::from_ref(&args.source), dictionary)?;
    let request = request.with_codes(target.is_columnar());
    let cache = open_cache(args.memory_for_reading(target)).await?;
    let scan = request.plan(&cache).await?;
    let progress = ProgressDisplay::new(args.request.rows(&scan), is_terminal)?;
    let is_file =
        matches!(output, ConvertOutput::Rows(RowDestination::File { .. }) | ConvertOutput::Columns(_));
    let schema = scan.schema().clone();
    let drained = match output {
        ConvertOutput::Rows(destination) => {
            let format = RowFormat::File(target);
            drain(schema, scan.stream(), format, TableLimits::default(), destination, &progress).await?
        }
        ConvertOutput::Columns(destination) => {
            args.column_file(target, destination)?.write(schema, scan.stream(), &progress).await?
        }
    };

    progress.clear();
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
    fn target(&self) -> Result<WriteFormat> {
        if let Some(format) = self.to {
            return Ok(format);
        }
        if self.destination.as_os_str() == "-" {
            return Err(usage("standard output has no extension: say --to csv, json, arrow or arrows"));
        }

        match WriteFormat::of_path(&self.destination) {
            Some(format) if format.is_columnar() || self.partition_by.is_empty() => Ok(format),
            _ if !self.partition_by.is_empty() => {
                Err(usage("--partition-by makes a folder: say --to parquet or --to orc"))
            }
            _ => Err(unknown_format(&self.destination, EXTENSIONS, "--to")),
        }
    }

    /// Fails if an option is given that does not apply to the format.
    fn check(&self, target: WriteFormat) -> Result<()> {
        let refused = |option: &str, formats: &str| Err(usage(format!("{option} is for {formats} only")));
        let is_one_file = self.partition_by.is_empty();
        if is_one_file && self.mode.is_some() {
            return refused("--mode", "--partition-by");
        }
        if is_one_file && self.max_file_size.is_some() {
            return refused("--max-file-size", "--partition-by");
        }
        if !is_one_file && self.force {
            return Err(usage("--force is for one file only: of --partition-by, say --mode overwrite"));
        }

        if !target.is_columnar() && self.compression.is_some() {
            return refused("--compression", "Parquet and ORC");
        }
        if !target.is_columnar() && !is_one_file {
            return refused("--partition-by", "Parquet and ORC");
        }
        if target != WriteFormat::Parquet && self.row_group_rows.is_some() {
            return refused("--row-group-rows", "Parquet");
        }

        Ok(())
    }

    /// Returns the output. Fails before any work is done if the file exists and must not be replaced.
    fn output(&self, target: WriteFormat) -> Result<ConvertOutput> {
        let overwrite = if self.force { OverwriteMode::Replace } else { OverwriteMode::Refuse };
        if !target.is_columnar() {
            return Ok(ConvertOutput::Rows(RowDestination::at(&self.destination, overwrite)?));
        }
        if let Some(url) = self.destination.to_str().filter(|path| path.contains("://")) {
            return Ok(ConvertOutput::Columns(Destination::parse(url, &self.request.option)?));
        }
        if !self.partition_by.is_empty() {
            return Ok(ConvertOutput::Columns(Destination::File(self.destination.clone())));
        }

        match RowDestination::at(&self.destination, overwrite)? {
            RowDestination::File { path, .. } => Ok(ConvertOutput::Columns(Destination::File(path))),
            _ => Err(usage("Parquet and ORC go into a file: name one")),
        }
    }

    /// Returns the half of `--memory` that the writer gets.
    fn memory_for_writing(&self) -> Option<ByteSize> {
        let half = self.request.memory?.as_u64() / 2;
        Some(ByteSize::bytes(half.min(MAX_WRITER_MEMORY.as_u64())))
    }

    /// Returns the part of `--memory` that remains for reading.
    fn memory_for_reading(&self, target: WriteFormat) -> Option<ByteSize> {
        let memory = self.request.memory?;
        let writing = self.memory_for_writing().filter(|_| target.is_columnar());
        Some(ByteSize::bytes(memory.as_u64() - writing.map_or(0, ByteSize::as_u64)))
    }

    fn dataset(&self) -> Option<DatasetOptions> {
        if self.partition_by.is_empty() {
            return None;
        }

        let options = DatasetOptions::default()
            .with_partition_by(self.partition_by.clone())
            .with_mode(self.mode.unwrap_or_default());
        Some(match self.max_file_size {
            Some(size) => options.with_max_file_size(size),
            None => options,
        })
    }

    fn column_file(&self, format: WriteFormat, destination: Destination) -> Result<ColumnFile> {
        let mut options = file_options(format, self.compression.as_deref())?;
        if let Some(memory) = self.memory_for_writing() {
            options = options.with_memory(memory);
        }
        if let Some(rows) = self.row_group_rows {
            options = options.with_row_group_rows(rows);
        }

        Ok(ColumnFile {
            options,
            destination,
            existing: if self.force { Existing::Replace } else { Existing::Refuse },
            dataset: self.dataset(),
            sinks: SinkOptions::default().with_kind(self.sink).with_durability(self.durability),
        })
    }
}
