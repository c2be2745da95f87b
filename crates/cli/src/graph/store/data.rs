//! Tables to load into a store, and the types derived from their columns.

use std::{num::NonZeroUsize, str::FromStr, sync::Arc, time::Instant};

use anyhow::Result;
use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{Field, FieldRef, Schema, SchemaRef},
};
use clap::Args;
use futures::{Stream, StreamExt};
use stylobate_columnar::Cache;
use stylobate_graph::{
    Error as GraphError,
    store::{
        BulkLoad, EdgeType, Ends, GraphStore, Loaded, SchemaChange, StoreOptions, StoreSchema, VertexType,
    },
};
use stylobate_server::config::available_memory;
use stylobate_storage::{ByteSize, CacheOptions};

use crate::{
    allocator::minimize_memory,
    failure::usage,
    graph::import::{
        plan::{EdgeImportPlan, ImportPlan, VertexImportPlan},
        source::{ImportSourceOpener, OpenedImportSource},
        typed::{self, ImportFlags},
    },
    out::print_json,
    rows::{ProgressDisplay, delimiter, grouped},
    table,
};

/// Default memory, capped at half of what the process may use.
const MEMORY: ByteSize = ByteSize::gib(1);
/// Maximum cache memory for the sources: each is read only once.
const MAX_SOURCE_MEMORY: ByteSize = ByteSize::mib(256);

/// Arguments of a load: sources and resources.
#[derive(Args, Clone, Debug)]
pub(super) struct DataArgs {
    /// Source of a vertex type, with the key column for a new type; may be repeated
    #[arg(long, value_name = "TYPE=SOURCE[:KEY]")]
    pub(super) vertices: Vec<String>,

    /// Source of an edge type, with the columns of its ends (default: src and dst); may be repeated. TYPE is
    /// SOURCETYPE_EDGE_DESTINATIONTYPE, or the three names separated by slashes
    #[arg(long, value_name = "TYPE=SOURCE[:SRC,DST]")]
    pub(super) edges: Vec<String>,

    /// Edges identify vertices by index
    #[arg(long)]
    by_index: bool,

    /// Field delimiter of CSV files: a character, or tab [default: a comma, and a tab in .tsv files]
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    delimiter: Option<u8>,

    /// Memory for keys, sorting and encoding; edges that do not fit are sorted on disk, below TMPDIR [default: 1GiB, or
    /// half of the memory available to the process]
    #[arg(long, value_name = "SIZE", value_parser = ByteSize::from_str)]
    memory: Option<ByteSize>,

    /// Threads that read and decode [default: one per core]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,

    /// Print a summary as JSON
    #[arg(long)]
    json: bool,

    /// Do not print a summary or show progress
    #[arg(long, short)]
    quiet: bool,
}

impl DataArgs {
    pub(super) fn is_empty(&self) -> bool {
        self.vertices.is_empty() && self.edges.is_empty()
    }

    fn memory(&self) -> ByteSize {
        let half = available_memory().as_u64() / 2;
        self.memory.unwrap_or_else(|| ByteSize::bytes(MEMORY.as_u64().min(half)))
    }

    fn for_sources(&self) -> ByteSize {
        ByteSize::bytes((self.memory().as_u64() / 4).min(MAX_SOURCE_MEMORY.as_u64()))
    }

    /// Returns the options for opening the store.
    pub(super) fn store_options(&self) -> StoreOptions {
        StoreOptions::default()
            .with_memory(ByteSize::bytes(self.memory().as_u64() - self.for_sources().as_u64()))
    }

    /// Opens the cache that the sources and the store share.
    pub(super) async fn cache(&self) -> Result<Cache> {
        minimize_memory();
        Ok(Cache::open(CacheOptions::new(self.for_sources())).await?)
    }

    /// Finds the sources and their columns. `known` is the existing schema.
    pub(super) async fn open(
        &self,
        cache: &Cache,
        options: &[(String, String)],
        known: &StoreSchema,
    ) -> Result<LoadSources> {
        let names: Vec<String> = known.vertices.iter().map(|of_type| of_type.name.clone()).collect();
        let plan = typed::plan(&ImportFlags {
            vertices: &self.vertices,
            edges: &self.edges,
            labels: &[],
            by_index: self.by_index,
            delimiter: self.delimiter,
            known: &names,
        })?;

        let reading = ImportSourceOpener { cache, options, threads: self.threads };

        let mut vertices = Vec::new();
        let mut edges = Vec::new();
        for of_type in &plan.vertices {
            vertices.push(reading.open(&of_type.source).await?);
        }

        for of_type in &plan.edges {
            edges.push(reading.open(&of_type.source).await?);
        }

        Ok(LoadSources { plan, vertices, edges })
    }
}

/// Opened sources with known columns.
pub(super) struct LoadSources {
    plan: ImportPlan,
    vertices: Vec<OpenedImportSource>,
    edges: Vec<OpenedImportSource>,
}

impl LoadSources {
    /// Returns the schema changes that create the missing types from the columns of their tables.
    pub(super) fn changes(&self, known: &StoreSchema) -> Result<Vec<SchemaChange>> {
        let mut changes = Vec::new();
        for (VertexImportPlan { vertex_type, key, .. }, source) in
            self.plan.vertices.iter().zip(&self.vertices)
        {
            if known.vertices.iter().any(|of_type| of_type.name == *vertex_type) {
                continue;
            }

            let key = key.as_ref().ok_or_else(|| {
                usage(format!(
                    "--vertices {vertex_type}: the type is new: name the column of its key, as in SOURCE:id"
                ))
            })?;

            changes.push(SchemaChange::AddVertexType(VertexType::of_columns(
                vertex_type,
                key,
                &source.schema(),
            )?));
        }

        for (plan, source) in self.plan.edges.iter().zip(&self.edges) {
            let EdgeImportPlan { src_type, edge_type, dst_type, .. } = plan;
            let is_known = |of_type: &EdgeType| {
                (&of_type.source, &of_type.name, &of_type.destination) == (src_type, edge_type, dst_type)
            };
            if !known.edges.iter().any(is_known) {
                let columns = with_ends(plan, &source.schema());
                changes.push(SchemaChange::AddEdgeType(EdgeType::of_columns(
                    src_type, edge_type, dst_type, &columns,
                )?));
            }
        }

        Ok(changes)
    }

    /// Loads all sources, and prints a summary.
    pub(super) async fn load(self, store: &GraphStore, shown: &str, args: &DataArgs) -> Result<()> {
        let started = Instant::now();
        let rows = self.vertices.iter().chain(&self.edges).map(OpenedImportSource::rows).sum();
        let progress = Arc::new(ProgressDisplay::new(rows, args.quiet)?);
        let mut writer = store.writer().await?;
        let changes = self.changes(&writer.snapshot().schema())?;
        let mut load = BulkLoad::new().with_changes(changes);
        for (of_type, source) in self.plan.vertices.iter().zip(self.vertices) {
            load = load.with_vertices(&of_type.vertex_type, counted(source.stream(), &progress));
        }

        for (of_type, source) in self.plan.edges.iter().zip(self.edges) {
            let schema = with_ends(of_type, &source.schema());
            let named = source.stream().map(move |batch| {
                let batch = batch?;
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                let named =
                    RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options);
                named.map_err(|error| GraphError::Ended { reason: error.to_string() })
            });

            let ends = if of_type.by_index { Ends::Indexes } else { Ends::Keys };
            load = load.with_edges(of_type.name(), ends, counted(named, &progress));
        }

        let loaded = writer.bulk_load(load).await?;
        progress.clear();

        print(&loaded, shown, started.elapsed().as_secs_f64(), args)
    }
}

/// Renames the columns with the ends of edges to `src` and `dst`.
fn with_ends(plan: &EdgeImportPlan, schema: &SchemaRef) -> SchemaRef {
    let field = |field: &FieldRef| -> FieldRef {
        let name = match field.name() {
            name if *name == plan.source_column => "src",
            name if *name == plan.destination_column => "dst",
            _ => return field.clone(),
        };
        Arc::new(Field::clone(field).with_name(name))
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

fn counted<T>(
    batches: impl Stream<Item = Result<RecordBatch, T>> + Send,
    progress: &Arc<ProgressDisplay>,
) -> impl Stream<Item = Result<RecordBatch, T>> + Send {
    let progress = progress.clone();
    batches.inspect(move |batch| progress.add_rows(batch.as_ref().map_or(0, |batch| batch.num_rows())))
}

fn print(loaded: &Loaded, shown: &str, seconds: f64, args: &DataArgs) -> Result<()> {
    let rate = (loaded.vertices + loaded.edges) as f64 / seconds.max(1e-9);
    if args.json {
        let answer = serde_json::json!({
            "store": shown,
            "version": loaded.version,
            "vertices": loaded.vertices,
            "edges": loaded.edges,
            "bytes": loaded.bytes,
            "seconds": seconds,
            "rows_per_second": rate,
        });
        print_json(&answer)?;
    } else if !args.quiet {
        eprintln!(
            "{shown}: version {}, {} vertices, {} edges, {}, in {seconds:.1} s ({} rows/s)",
            loaded.version,
            grouped(loaded.vertices),
            grouped(loaded.edges),
            table::bytes(loaded.bytes),
            grouped(rate as u64),
        );
    }

    Ok(())
}
