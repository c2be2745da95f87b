//! `stylobate scan`: prints rows of Parquet, ORC, CSV, JSON and Arrow IPC files.

mod stats;

use anyhow::Result;
use clap::Args;
use futures::StreamExt;
use stylobate_columnar::{Cache, Dictionaries, WriteFormat};

use self::stats::ScanCommandStats;
use crate::{
    out::print,
    rows::{
        OutputArgs, ProgressDisplay, RequestArgs, RowDestination, RowFormat, RowsRequest, TableLimits, drain,
        until_stopped,
    },
};

/// Default row limit of a table.
const TABLE_ROWS: u64 = 20;
/// Row limit above which a table is printed while it is read.
const MAX_BUFFERED_ROWS: u64 = 1_000;

const EXAMPLES: &str = "\
Examples:
  Print the first rows of a file:
    stylobate scan lineitem.parquet
  Print some columns of the rows that match a filter, as CSV:
    stylobate scan lake/lineitem --columns l_shipmode,l_quantity \\
      --where \"l_quantity < 24\" --format csv
  Count rows:
    stylobate scan 's3://bucket/events/*/*.parquet' --count \\
      --where \"day >= '2026-01-01'\" --option region=eu-west-1
  Read a CSV file, one column of it as strings:
    stylobate scan people.csv.gz --delimiter ';' --type zip=string --where \"born > '1990-01-01'\"
  Pipe rows to another program:
    stylobate scan a.orc --format arrow | python -c 'import sys, pyarrow as pa; \\
      print(pa.ipc.open_stream(sys.stdin.buffer).read_all())'

A PATH is a file, a folder with all its subfolders, or a pattern with *, ?, [...]
and **; below s3://, gs://, az:// and http(s):// too. In folders named name=value,
the name is a column.

CSV (.csv, .tsv), JSON lines (.json, .jsonl, .ndjson) and Arrow IPC (.arrow, .feather,
.arrows) are read too; CSV and JSON may be compressed (.gz, .zst). In CSV an empty
field is null and \"\" an empty string; types of columns are inferred from their values,
and a number with leading zeros is a string.

Exit codes: 2 wrong command line, unknown column or filter; 1 anything else.
A reader of the output may close the pipe at any time: that is not an error.";

/// The arguments of `stylobate scan`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ScanArgs {
    /// Files, folders or patterns
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,

    #[command(flatten)]
    request: RequestArgs,

    #[command(flatten)]
    output: OutputArgs,

    /// Print only the number of rows
    #[arg(long, conflicts_with_all = ["format", "output"])]
    count: bool,

    /// Print read statistics to standard error
    #[arg(long)]
    stats: bool,
}

/// Runs the command until it completes or the process is stopped.
///
/// # Errors
///
/// If the command line is invalid, or reading or writing fails.
pub(crate) async fn run(args: ScanArgs) -> Result<()> {
    until_stopped(scan(&args)).await
}

async fn scan(args: &ScanArgs) -> Result<()> {
    let (destination, format) = args.output.chosen()?;
    // In an Arrow file, a column can have only one dictionary.
    let dictionary = match format {
        RowFormat::File(WriteFormat::ArrowFile) => Dictionaries::None,
        RowFormat::File(_) | RowFormat::Table => Dictionaries::AsWritten,
    };
    let request = args.request.request(&args.paths, dictionary)?;
    let cache = args.request.cache().await?;
    let mut stats = ScanCommandStats::start();
    if args.count {
        let rows = count(args, request, &cache).await?;
        stats.rows(rows);
        print(format_args!("{rows}\n"))?;
    } else {
        stats.rows(write(args, request, &cache, format, destination).await?);
    }

    if args.stats {
        eprint!("{}", stats.text(&cache));
    }

    Ok(())
}

/// Writes the rows, and returns their number.
async fn write(
    args: &ScanArgs,
    mut request: RowsRequest,
    cache: &Cache,
    format: RowFormat,
    destination: RowDestination,
) -> Result<u64> {
    let mut bound = TableLimits::default();
    if format == RowFormat::Table {
        bound.width = destination.is_terminal().then(|| usize::from(console::Term::stdout().size().1));
        bound.rows = args.request.limit.or(Some(TABLE_ROWS));
        if args.request.limit.is_none() {
            bound.total = args.request.rows(&request.clone().plan(cache).await?);
            // One additional row shows whether there are more.
            request = request.with_limit(TABLE_ROWS + 1);
        }
    }

    let scan = request.plan(cache).await?;
    let in_the_way = bound.rows.is_none_or(|rows| rows > MAX_BUFFERED_ROWS) && destination.is_terminal();
    let progress = ProgressDisplay::new(args.request.rows(&scan), in_the_way)?;

    Ok(drain(scan.schema().clone(), scan.stream(), format, bound, destination, &progress).await?.rows)
}

/// Counts the rows; only the columns of the filter are read.
async fn count(args: &ScanArgs, request: RowsRequest, cache: &Cache) -> Result<u64> {
    let scan = request.without_columns().plan(cache).await?;
    if let Some(rows) = args.request.rows(&scan) {
        return Ok(rows);
    }

    let progress = ProgressDisplay::new(None, false)?;

    let mut batches = scan.stream();
    let mut rows = 0;
    while let Some(batch) = batches.next().await.transpose()? {
        rows += batch.num_rows() as u64;
        progress.add_rows(batch.num_rows());
    }

    Ok(rows)
}
