//! `stylobate graph export`: writes a graph as tables.

mod folder;
mod tables;

use std::{collections::HashSet, path::PathBuf, time::Instant};

use anyhow::Result;
use clap::Args;
use stylobate_columnar::WriteFormat;
use stylobate_graph::graphar::Graph;
use stylobate_storage::{Destination, Durability, Overwrite as Existing, SinkOptions};

use self::{
    folder::NewFolder,
    tables::{ExportTable, tables},
};
use super::location::GraphLocationArgs;
use crate::{
    failure::usage,
    rows::{
        ColumnFile, OverwriteMode, ProgressDisplay, RowDestination, RowFormat, TableLimits, WriteTotals,
        drain, file_options, format_parser, grouped, until_stopped,
    },
    table,
};

/// Maximum bytes of a file name without its extension.
const MAX_NAME_BYTES: usize = 200;

const EXAMPLES: &str = "\
Examples:
  Write a Parquet file for each vertex type and edge type:
    stylobate graph export social.graph.yml tables
  Write CSV, with keys instead of indexes at the ends of edges:
    stylobate graph export s3://lake/ldbc.graph.yml tables --format csv --keys
  Import the tables again:
    stylobate graph import --name social --vertices person=tables/person.csv:id \\
      --edges person_knows_person=tables/person_knows_person.csv --output social2

Files are person.parquet, person_knows_person.parquet and so on. Vertices are in the
order of their indexes, from 0; columns of edges are src, dst and their properties.
Files get their names once all of them are complete.

Exit codes: 2 wrong command line, or the output exists; 1 anything else.";

/// The arguments of `stylobate graph export`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    location: GraphLocationArgs,

    /// The output folder, which is created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Format of the files; json is one object per line, arrow an Arrow IPC file
    #[arg(long, value_name = "FORMAT", default_value = "parquet", value_parser = format_parser(FORMATS))]
    format: WriteFormat,

    /// Identify the ends of edges by primary keys, not by indexes
    #[arg(long)]
    keys: bool,

    /// Add a list column `labels` with the labels of each vertex
    #[arg(long)]
    labels: bool,

    /// Codec of Parquet: none, snappy, lz4, zstd(1 to 22), gzip(0 to 9) or brotli(0 to 11) [default: snappy]; of ORC:
    /// none, snappy, lz4, zstd(1 to 22) or zlib(0 to 9) [default: zstd(3)]
    #[arg(long, value_name = "CODEC")]
    compression: Option<String>,

    /// Write to a folder that is not empty, and replace existing files
    #[arg(long)]
    force: bool,

    /// Do not print a summary or show progress
    #[arg(long, short)]
    quiet: bool,
}

/// The formats. They need no help beyond that of the option.
const FORMATS: [(WriteFormat, &str); 5] = [
    (WriteFormat::Parquet, ""),
    (WriteFormat::Orc, ""),
    (WriteFormat::Csv, ""),
    (WriteFormat::Json, ""),
    (WriteFormat::ArrowFile, ""),
];

pub(super) async fn run(args: ExportArgs) -> Result<()> {
    until_stopped(export(&args)).await
}

async fn export(args: &ExportArgs) -> Result<()> {
    let started = Instant::now();
    if args.compression.is_some() && !args.format.is_columnar() {
        return Err(usage("--compression is for --format parquet and orc"));
    }

    let graph = args.location.open().await?;
    let tables = tables(&graph, args.keys, args.labels)?;
    let rows = rows(&graph).await?;
    let progress = ProgressDisplay::new(Some(rows), args.quiet)?;
    let folder = NewFolder::create(&args.folder, args.force)?;

    let mut names = Vec::new();
    let mut taken = HashSet::new();
    let mut written = WriteTotals::default();
    for table in tables {
        let name = args.file_name(&table.name, &mut taken);
        let done = args.write(table, folder.path().join(&name), &progress).await?;
        written.rows += done.rows;
        written.bytes += done.bytes;
        names.push(name);
    }

    folder.publish(&names)?;
    progress.clear();
    if !args.quiet {
        let seconds = started.elapsed().as_secs_f64();
        eprintln!(
            "{}: {}, {} rows, {}, in {seconds:.1} s ({} rows/s)",
            args.folder.display(),
            table::count(names.len(), "file"),
            grouped(written.rows),
            table::bytes(written.bytes),
            grouped((written.rows as f64 / seconds) as u64),
        );
    }

    Ok(())
}

/// Returns the total number of vertices and edges.
async fn rows(graph: &Graph) -> Result<u64> {
    let mut rows = 0;
    for info in &graph.info().vertices {
        rows += graph.vertices(&info.vertex_type)?.count().await?;
    }
    for info in &graph.info().edges {
        rows += graph.edges(&info.src_type, &info.edge_type, &info.dst_type)?.count().await?;
    }
    Ok(rows)
}

impl ExportArgs {
    async fn write(
        &self,
        table: ExportTable,
        path: PathBuf,
        progress: &ProgressDisplay,
    ) -> Result<WriteTotals> {
        let ExportTable { schema, batches, .. } = table;
        if self.format.is_columnar() {
            let output = ColumnFile {
                options: file_options(self.format, self.compression.as_deref())?,
                destination: Destination::File(path),
                existing: Existing::Refuse,
                dataset: None,
                sinks: SinkOptions::default().with_durability(Durability::Fsync),
            };
            return output.write(schema, batches, progress).await;
        }

        let format = RowFormat::File(self.format);
        let destination = RowDestination::at(&path, OverwriteMode::Refuse)?;
        drain(schema, batches, format, TableLimits::default(), destination, progress).await
    }

    /// Returns a unique file name for a type, whose own name may not be a valid file name.
    fn file_name(&self, name: &str, taken: &mut HashSet<String>) -> String {
        let plain = |letter: char| if letter == '/' || letter.is_control() { '_' } else { letter };
        let mut stem: String = name.chars().map(plain).collect();
        while stem.len() > MAX_NAME_BYTES {
            stem.pop();
        }

        if stem.starts_with('.') {
            stem.insert(0, '_');
        }

        let mut free = stem.clone();
        for number in 2.. {
            if taken.insert(free.clone()) {
                break;
            }
            free = format!("{stem}-{number}");
        }

        format!("{free}.{}", self.format.extension())
    }
}
