//! `stylobate generate tpch`, `tpcds` and `snb`: generates the files of a benchmark.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Instant,
};

use anyhow::{Error, Result};
use clap::Args;
use stylobate_columnar::WriteFormat;
use stylobate_datagen::{
    Benchmark, Error as DatagenError, Event, FileFormat, GenerateRequest, Output, Scale,
};
use stylobate_storage::{Durability, SinkKind, SinkOptions, nearest_name};

use crate::{
    allocator::minimize_memory,
    failure::usage,
    rows::{ProgressDisplay, format_parser, grouped, option, until_stopped},
    table,
};

const EXAMPLES: &str = "\
Examples:
  Generate all tables at scale 1 as Parquet:
    stylobate generate tpch --scale 1 --output data/tpch
  Generate two tables, compressed better:
    stylobate generate tpch --output data --tables lineitem,orders --compression 'zstd(3)'
  Generate the third of eight parts, on one of eight machines, into a bucket:
    stylobate generate tpch --scale 100 --parts 8 --part 3 --output s3://lake/tpch
  Generate ORC, and CSV:
    stylobate generate tpcds --format orc --output data/orc
    stylobate generate tpcds --scale 0.1 --format csv --output data/csv
  Verify the files:
    stylobate generate verify data/tpch

A table is one file, lineitem.parquet, or with --parts a folder of files,
lineitem/lineitem.1.parquet and so on. Rows do not depend on the number of threads,
and part K of N of TPC-H equals part K of N of other generators. manifest.json
describes each file. Repeat an interrupted command to resume it: complete files are
kept.

Exit codes: 2 wrong command line, or other files in the folder; 1 anything else.";

pub(super) const SNB_SCALE: &str = "Scale factor: 1 is 10,000 persons, 100,000 posts, 50,000 comments, 380,000 edges. \
     The minimum is 0.001";

pub(super) const SNB_EXAMPLES: &str = "\
Examples:
  Generate all tables at scale 1 as Parquet:
    stylobate generate snb --scale 1 --output data/snb
  Write fields separated by |, the form that bulk loaders of graph stores read:
    stylobate generate snb --scale 1 --format csv --output data/snb
  Generate a tenth of it, with another seed:
    stylobate generate snb --scale 0.1 --seed 7 --output data/small
  Generate one edge table per pair of vertex types:
    stylobate generate snb --output data/typed --tables persons,posts,post_has_creator,likes_post
  Verify the files:
    stylobate generate verify data/snb

  persons           id, firstName, lastName, age, creationDate       10,000
  posts, comments   id, content, creationDate, length               100,000 and 50,000
  knows             src, dst, since                                 100,000
  has_creator       src, dst: half are of posts, half of comments   150,000
  likes             src, dst, creationDate: half of them to posts   100,000
  reply_of          src, dst: of comments, 7 of 10 to posts          30,000

An id is 32 hexadecimal digits, and begins with 50 in persons, 4f in posts and 43
in comments. Dates are seconds since 1970. Ends are drawn uniformly, so some
pairs have several edges. The tables post_has_creator, comment_has_creator,
likes_post, likes_comment, reply_of_post and reply_of_comment have the same edges,
split by the types of their ends; they are generated only if --tables names them.

Rows do not depend on the number of threads or parts. Repeat an interrupted command
to resume it.

Exit codes: 2 wrong command line, or other files in the folder; 1 anything else.";

/// The arguments of `stylobate generate snb`.
#[derive(Args, Clone, Debug)]
pub(super) struct SnbArgs {
    #[command(flatten)]
    pub(super) make: GenerateTableArgs,

    /// Seed of the random network
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    pub(super) seed: u64,
}

/// The arguments of `stylobate generate tpch` and `tpcds`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct GenerateTableArgs {
    /// Scale factor: 1 is about 1 GB of text. The minimum is 0.001; TPC-DS defines 1, 10, 100 and so on
    #[arg(long, value_name = "FACTOR", default_value = "1", allow_hyphen_values = true)]
    scale: String,

    /// The output folder, which is created if missing, or a URL below s3://, gs:// or az://
    #[arg(long, short, value_name = "DIR|URL")]
    output: String,

    /// Generate only these tables
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tables: Option<Vec<String>>,

    /// Split each table into this many parts, one file each
    #[arg(long, value_name = "COUNT")]
    parts: Option<NonZeroU32>,

    /// Generate only this part, numbered from 1
    #[arg(long, value_name = "NUMBER", requires = "parts")]
    part: Option<u32>,

    /// Format of the files
    #[arg(long, value_name = "FORMAT", default_value = "parquet", value_parser = format_parser(FORMATS))]
    format: WriteFormat,

    /// Codec of Parquet: none, snappy, lz4, zstd(1 to 22), gzip(0 to 9) or brotli(0 to 11) [default: snappy]; of ORC:
    /// none, snappy, lz4, zstd(1 to 22) or zlib(0 to 9) [default: zstd(3)]
    #[arg(long, value_name = "CODEC")]
    compression: Option<String>,

    /// Maximum rows per row group, for Parquet [default: 1048576]
    #[arg(long, value_name = "ROWS")]
    row_group_rows: Option<NonZeroUsize>,

    /// Writer of local files: auto, thread, io_uring or io_uring_direct
    #[arg(long, value_name = "SINK", default_value = "auto")]
    sink: SinkKind,

    /// Durability of local files: fsync survives a power loss, none only the end of the process
    #[arg(long, value_name = "DURABILITY", default_value = "fsync")]
    durability: Durability,

    /// Threads that generate rows, and as many that encode them; 1 does both in turn [default: one per core]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,

    /// An option of the store, such as region=eu-west-1 or endpoint=http://127.0.0.1:9000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    option: Vec<(String, String)>,

    /// Start over, and replace existing files; those of the same tables that only the old manifest lists are removed
    #[arg(long)]
    force: bool,

    /// Do not print a summary or show progress
    #[arg(long, short)]
    quiet: bool,
}

/// The formats with their help.
const FORMATS: [(WriteFormat, &str); 4] = [
    (WriteFormat::Parquet, ""),
    (WriteFormat::Orc, ""),
    (WriteFormat::Csv, ""),
    (WriteFormat::ArrowFile, "Arrow IPC file"),
];

pub(super) async fn run(benchmark: Benchmark, args: &GenerateTableArgs, seed: Option<u64>) -> Result<()> {
    until_stopped(make(benchmark, args, seed)).await
}

async fn make(benchmark: Benchmark, args: &GenerateTableArgs, seed: Option<u64>) -> Result<()> {
    minimize_memory();
    let started = Instant::now();
    let request = args.request(benchmark, seed)?;
    let sinks = SinkOptions::default().with_kind(args.sink).with_durability(args.durability);
    let output = Output::open(&args.output, &args.option, sinks)?;
    let progress = ProgressDisplay::new(Some(request.estimated_rows()?), args.quiet)?;
    let mut kept = 0;
    let mut written = 0_u64;
    let observe = |event: Event| match event {
        Event::Kept(entry) => {
            kept += 1;
            progress.add_rows(entry.rows as usize);
        }
        Event::Rows { rows, bytes } => {
            written += rows;
            progress.add_rows(rows as usize);
            progress.byte_count().add(bytes as usize);
        }
        _ => {}
    };

    let manifest = request.generate(&output, observe).await.map_err(in_words)?;
    progress.clear();
    if !args.quiet {
        let seconds = started.elapsed().as_secs_f64();
        let rows: u64 = manifest.files.iter().map(|file| file.rows).sum();
        let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
        let kept = match kept {
            0 => String::new(),
            kept => format!("; {} kept", table::count(kept, "file")),
        };

        eprintln!(
            "{}: {}, {} rows, {}, in {seconds:.1} s ({} rows/s){kept}",
            output.name(),
            table::count(manifest.files.len(), "file"),
            grouped(rows),
            table::bytes(bytes),
            grouped((written as f64 / seconds) as u64),
        );
    }

    Ok(())
}

impl GenerateTableArgs {
    fn request(&self, benchmark: Benchmark, seed: Option<u64>) -> Result<GenerateRequest> {
        let scale: Scale = self.scale.parse()?;
        let mut request = GenerateRequest::new(benchmark, scale)
            .with_format(self.format()?)
            .with_overwrite(self.force)
            .with_parts(self.parts.map_or(1, NonZeroU32::get), self.part)?;

        if let Some(tables) = &self.tables {
            let names: Vec<&str> = tables.iter().map(|name| name.trim()).collect();
            request = request.with_tables(&names).map_err(in_words)?;
        }

        if let Some(seed) = seed {
            request = request.with_seed(seed);
        }
        if let Some(threads) = self.threads {
            request = request.with_threads(threads.get());
        }

        Ok(request)
    }

    fn format(&self) -> Result<FileFormat> {
        let refused = |option: &str, formats: &str| Err(usage(format!("{option} is for --format {formats}")));
        if self.compression.is_some() && !self.format.is_columnar() {
            return refused("--compression", "parquet and orc");
        }
        if self.row_group_rows.is_some() && self.format != WriteFormat::Parquet {
            return refused("--row-group-rows", "parquet");
        }

        let rows = self.row_group_rows.map(NonZeroUsize::get);
        let format = FileFormat::new(self.format, self.compression.as_deref(), rows);
        format.map_err(|error| usage(format!("--compression: {error}")))
    }
}

/// Converts errors in the user's input to usage errors.
fn in_words(error: DatagenError) -> Error {
    match &error {
        DatagenError::Occupied { .. } => {
            usage(format!("{error}: give another place, or --force to replace what is there"))
        }
        DatagenError::NoSuchTable { benchmark, name, available } => {
            match nearest_name(name, available.iter().copied()) {
                Some(meant) => usage(format!("{benchmark} has no table {name}; did you mean {meant}?")),
                None => error.into(),
            }
        }
        _ => error.into(),
    }
}
