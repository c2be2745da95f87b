//! `stylobate graph import`: creates a graph from tables.

pub(in crate::graph) mod plan;
mod shape;
pub(in crate::graph) mod source;
mod spec;
pub(in crate::graph) mod typed;
mod yaml;

use std::{num::NonZeroUsize, path::PathBuf, str::FromStr, time::Instant};

use anyhow::{Error, Result};
use clap::{Args, ValueEnum};
use stylobate_columnar::Cache;
use stylobate_graph::{
    Error as GraphError,
    graphar::{
        AdjacencyOrder, EdgeWrite, FileType, GraphWriteOptions, GraphWriter, VertexWrite, WrittenGraph,
    },
};
use stylobate_server::config::available_memory;
use stylobate_storage::{ByteSize, CacheOptions, Destination, Error as StorageError, Overwrite as Existing};

use self::{
    plan::{EdgeImportPlan, ImportPlan, VertexImportPlan},
    source::{ImportSourceOpener, OpenedImportSource},
};
use crate::{
    allocator::minimize_memory,
    failure::usage,
    out::print_json,
    rows::{ProgressDisplay, delimiter, grouped, option, until_stopped},
    table,
};

/// Default memory, capped at half of what the process may use.
const MEMORY: ByteSize = ByteSize::gib(1);
/// Maximum cache memory for the sources: each is read only once.
const MAX_SOURCE_MEMORY: ByteSize = ByteSize::mib(256);

const EXAMPLES: &str = "\
Examples:
  Import persons with a key, and edges whose columns src and dst have keys:
    stylobate graph import --name social --output social \\
      --vertices person=people.parquet:id --edges person_knows_person=knows.csv
  Import CSV separated by |, with other column names:
    stylobate graph import --name social --output s3://lake/social --delimiter '|' \\
      --vertices person=person_0_0.csv:id \\
      --edges person_knows_person=person_knows_person_0_0.csv:Person1Id,Person2Id
  Import by a specification of GraphAr's importer:
    stylobate graph import import.yml --output movies

A SOURCE is Parquet or ORC (a file, a folder or a pattern, here or at a URL), CSV
with a header (.csv, .tsv), JSON lines (.json, .jsonl, .ndjson) or Arrow IPC (.arrow,
.feather, .arrows); CSV and JSON may be compressed (.gz, .zst). All values of CSV and
JSON are read twice, first to infer the types of columns: int64, double, bool, date,
timestamp (in UTC), else string. A number with leading zeros or too many digits is a
string.

Paths in a SPEC are relative to the current folder, or else to the SPEC; prefix,
validate_level and version are ignored.

The graph appears once it is complete. Ctrl-C leaves nothing in a folder, and in a
bucket at most chunks that belong to no graph.
Exit codes: 2 wrong command line or SPEC, or the output exists; 1 anything else, such
as an edge to a vertex that does not exist.";

/// The arguments of `stylobate graph import`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ImportArgs {
    /// An import specification in YAML, in the form of GraphAr's own importer
    #[arg(value_name = "SPEC", required_unless_present = "vertices", conflicts_with_all = ["vertices", "edges"])]
    spec: Option<PathBuf>,

    /// The name of the graph
    #[arg(long, value_name = "NAME", required_unless_present = "spec")]
    name: Option<String>,

    /// Source of a vertex type, with its key column; may be repeated
    #[arg(long, value_name = "TYPE=SOURCE[:KEY]")]
    vertices: Vec<String>,

    /// Source of an edge type, with the columns of its ends (default: src and dst); may be repeated. TYPE is
    /// SOURCETYPE_EDGE_DESTINATIONTYPE, or the three names separated by slashes
    #[arg(long, value_name = "TYPE=SOURCE[:SRC,DST]")]
    edges: Vec<String>,

    /// The column with the labels of a vertex type, as strings or lists of strings; may be repeated
    #[arg(long, value_name = "TYPE=COLUMN", conflicts_with = "spec")]
    labels: Vec<String>,

    /// Folder or URL of the graph
    #[arg(long, short, value_name = "DIR|URL", required_unless_present = "spec")]
    output: Option<String>,

    /// Format of its files [default: parquet]
    #[arg(long, value_name = "FORMAT")]
    format: Option<GraphFormat>,

    /// Vertices per chunk [default: 262144]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    vertex_chunk_size: Option<u64>,

    /// Edges per chunk [default: 4194304]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    edge_chunk_size: Option<u64>,

    /// Adjacency lists to write: ordered_by_source, ordered_by_dest, unordered_by_source, unordered_by_dest
    /// [default: ordered_by_source,ordered_by_dest]
    #[arg(long, value_name = "LISTS", value_delimiter = ',', value_parser = AdjacencyOrder::from_str)]
    lists: Option<Vec<AdjacencyOrder>>,

    /// Edges identify vertices by index, from 0 in the order of the vertices' rows
    #[arg(long, conflicts_with = "spec")]
    by_index: bool,

    /// Field delimiter of CSV files: a character, or tab [default: a comma, and a tab in .tsv files]
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter, conflicts_with = "spec")]
    delimiter: Option<u8>,

    /// Memory for keys, sorting and encoding; edges that do not fit are sorted on disk, below TMPDIR [default: 1GiB, or
    /// half of the memory available to the process]
    #[arg(long, value_name = "SIZE", value_parser = ByteSize::from_str)]
    memory: Option<ByteSize>,

    /// Threads that read, sort and encode [default: one per core]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,

    /// Replace an existing graph; files that do not belong to it are kept
    #[arg(long, visible_alias = "force")]
    overwrite: bool,

    /// An option of the stores, such as region=eu-west-1 or endpoint=http://127.0.0.1:9000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    option: Vec<(String, String)>,

    /// Print a summary as JSON
    #[arg(long)]
    json: bool,

    /// Do not print a summary or show progress
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GraphFormat {
    Parquet,
    Orc,
    Csv,
}

pub(super) async fn run(args: ImportArgs) -> Result<()> {
    until_stopped(import(&args)).await
}

async fn import(args: &ImportArgs) -> Result<()> {
    let started = Instant::now();
    minimize_memory();
    let plan = match &args.spec {
        Some(path) => spec::plan(path)?,
        None => typed::plan(&args.typed())?,
    };

    let output = args.output.as_ref().or(plan.output.as_ref());
    let output = output.ok_or_else(|| usage("--output is missing, and the SPEC has no graphar.path"))?;
    let destination = Destination::parse(output, &args.option)?;
    let name = args.name.as_ref().or(plan.name.as_ref());
    let name = name.ok_or_else(|| usage("--name is missing, and the SPEC has no graphar.name"))?;
    let memory = args.memory();
    let for_sources = ByteSize::bytes((memory.as_u64() / 4).min(MAX_SOURCE_MEMORY.as_u64()));
    let cache = Cache::open(CacheOptions::new(for_sources)).await?;
    let reading = ImportSourceOpener { cache: &cache, options: &args.option, threads: args.threads };
    let sources = ImportSources::open(&plan, &reading).await?;
    let progress = ProgressDisplay::new(sources.rows(), args.quiet)?;
    let done = progress.setter();
    let rest = ByteSize::bytes(memory.as_u64() - for_sources.as_u64());
    let options =
        args.write_options(&plan, rest).with_progress(move |so_far| done(so_far.rows, so_far.bytes));
    let writer = GraphWriter::create(destination, name, options).await.map_err(in_words)?;
    let written = sources.write(writer, &plan, args).await.map_err(in_words)?;
    progress.clear();

    ImportSummary { written: &written, output, seconds: started.elapsed().as_secs_f64() }.print(args)
}

/// All sources, opened and checked for the columns that they need.
struct ImportSources {
    vertices: Vec<OpenedImportSource>,
    edges: Vec<OpenedImportSource>,
}

impl ImportSources {
    async fn open(plan: &ImportPlan, reading: &ImportSourceOpener<'_>) -> Result<Self> {
        let mut vertices = Vec::new();
        let mut edges = Vec::new();
        for of_type in &plan.vertices {
            vertices.push(reading.open(&of_type.source).await?);
        }

        for of_type in &plan.edges {
            edges.push(reading.open(&of_type.source).await?);
        }

        Ok(Self { vertices, edges })
    }

    /// Returns the total number of rows, if known.
    fn rows(&self) -> Option<u64> {
        self.vertices.iter().chain(&self.edges).map(OpenedImportSource::rows).sum()
    }

    async fn write(
        self,
        mut writer: GraphWriter,
        plan: &ImportPlan,
        args: &ImportArgs,
    ) -> Result<ImportedGraph, GraphError> {
        let mut vertices = Vec::new();
        let mut edges = Vec::new();
        for (of_type, source) in plan.vertices.iter().zip(self.vertices) {
            let count = writer.vertices(of_type.write(&source), source.stream()).await?;
            vertices.push((of_type.vertex_type.clone(), count));
        }

        for (of_type, source) in plan.edges.iter().zip(self.edges) {
            let count = writer.edges(of_type.write(&source, plan, args), source.stream()).await?;
            edges.push((of_type.name(), count));
        }

        Ok(ImportedGraph { vertices, edges, graph: writer.finish().await? })
    }
}

impl VertexImportPlan {
    fn write(&self, source: &OpenedImportSource) -> VertexWrite {
        let mut write = VertexWrite::new(&self.vertex_type, source.schema());
        if let Some(key) = &self.key {
            write = write.with_key(key);
        }
        if let Some(column) = &self.labels_column {
            write = write.with_labels_column(column);
        }
        if !self.labels.is_empty() {
            write = write.with_labels(&self.labels);
        }
        if let Some(size) = self.chunk_size {
            write = write.with_chunk_size(size);
        }
        if let Some(file_type) = self.file_type {
            write = write.with_file_type(file_type);
        }

        if self.groups.is_empty() { write } else { write.with_groups(self.groups.clone()) }
    }
}

impl EdgeImportPlan {
    fn write(&self, source: &OpenedImportSource, plan: &ImportPlan, args: &ImportArgs) -> EdgeWrite {
        let mut write = EdgeWrite::new(&self.src_type, &self.edge_type, &self.dst_type, source.schema())
            .with_source(&self.source_column)
            .with_destination(&self.destination_column)
            .with_directed(self.directed);

        if self.by_index {
            write = write.by_index();
        }
        if let Some(lists) = args.lists.as_ref().or(self.lists.as_ref()).or(plan.lists.as_ref()) {
            write = write.with_adjacencies(lists.iter().copied());
        }
        if let Some(size) = self.chunk_size {
            write = write.with_chunk_size(size);
        }
        if let Some(file_type) = self.file_type {
            write = write.with_file_type(file_type);
        }

        if self.groups.is_empty() { write } else { write.with_groups(self.groups.clone()) }
    }
}

impl ImportArgs {
    fn typed(&self) -> typed::ImportFlags<'_> {
        typed::ImportFlags {
            vertices: &self.vertices,
            edges: &self.edges,
            labels: &self.labels,
            by_index: self.by_index,
            delimiter: self.delimiter,
            known: &[],
        }
    }

    fn memory(&self) -> ByteSize {
        let half = available_memory().as_u64() / 2;
        self.memory.unwrap_or_else(|| ByteSize::bytes(MEMORY.as_u64().min(half)))
    }

    /// Builds the write options. Flags take precedence over the plan.
    fn write_options(&self, plan: &ImportPlan, memory: ByteSize) -> GraphWriteOptions {
        let mut options = GraphWriteOptions::default().with_memory(memory);
        let typed = self.format.map(|format| match format {
            GraphFormat::Parquet => FileType::Parquet,
            GraphFormat::Orc => FileType::Orc,
            GraphFormat::Csv => FileType::Csv,
        });

        if let Some(file_type) = typed.or(plan.file_type) {
            options = options.with_file_type(file_type);
        }
        if let Some(size) = self.vertex_chunk_size.or(plan.vertex_chunk_size) {
            options = options.with_vertex_chunk_size(size);
        }
        if let Some(size) = self.edge_chunk_size.or(plan.edge_chunk_size) {
            options = options.with_edge_chunk_size(size);
        }
        if let Some(threads) = self.threads {
            options = options.with_threads(threads.get());
        }

        if self.overwrite { options.with_overwrite(Existing::Replace) } else { options }
    }
}

/// Converts errors in the user's input to usage errors.
fn in_words(error: GraphError) -> Error {
    match error {
        GraphError::Storage(StorageError::Exists { path }) => usage(format!(
            "{path} exists already: give another place, or --overwrite to replace a graph there"
        )),
        error => error.into(),
    }
}

/// The written graph, with the counts of each type.
struct ImportedGraph {
    vertices: Vec<(String, u64)>,
    edges: Vec<(String, u64)>,
    graph: WrittenGraph,
}

/// The summary of an import.
struct ImportSummary<'a> {
    written: &'a ImportedGraph,
    output: &'a str,
    seconds: f64,
}

impl ImportSummary<'_> {
    fn print(&self, args: &ImportArgs) -> Result<()> {
        let ImportedGraph { vertices, edges, graph } = self.written;
        let rate = (graph.vertices + graph.edges) as f64 / self.seconds.max(1e-9);
        let output = stylobate_storage::without_credentials(self.output);
        if args.json {
            let counts = |counts: &[(String, u64)]| -> serde_json::Map<_, _> {
                counts.iter().map(|(name, count)| (name.clone(), (*count).into())).collect()
            };
            let answer = serde_json::json!({
                "name": graph.info.name,
                "graph": format!("{}/{}", output.trim_end_matches('/'), graph.file),
                "vertices": counts(vertices),
                "edges": counts(edges),
                "files": graph.files,
                "bytes": graph.bytes,
                "seconds": self.seconds,
                "rows_per_second": rate,
            });

            print_json(&answer)?;
        } else if !args.quiet {
            eprintln!(
                "{output}: {} vertices, {} edges, {} files, {}, in {:.1} s ({} rows/s)",
                grouped(graph.vertices),
                grouped(graph.edges),
                grouped(graph.files),
                table::bytes(graph.bytes),
                self.seconds,
                grouped(rate as u64),
            );
        }

        Ok(())
    }
}
