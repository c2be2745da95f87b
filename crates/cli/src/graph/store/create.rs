//! `stylobate graph store create`: creates a store.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use stylobate_graph::store::{SchemaChange, StoreSchema};

use super::{data::DataArgs, location::StoreLocationArgs, schema_file};
use crate::{failure::usage, rows::until_stopped};

const EXAMPLES: &str = "\
Examples:
  Create an empty store with the types of a file:
    stylobate graph store create s3://lake/social --schema schema.yml
  Create a store from tables: infer the types from their columns, and load them:
    stylobate graph store create social --vertices Person=people.parquet:id \\
      --edges Person_KNOWS_Person=knows.csv:src,dst

A schema in YAML or JSON, with the types of GraphAr (bool, int32, int64, float,
double, string, date, timestamp, list<…> of numbers or of strings):
    vertices:
      Person: {key: id, properties: {id: int64, name: string}}
    edges:
      Person/KNOWS/Person: {since: date}

If loading fails, the store exists without data: continue with load.
Exit codes: 2 wrong command line or schema, or the store exists; 1 anything else.";

/// The arguments of `stylobate graph store create`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct CreateArgs {
    #[command(flatten)]
    location: StoreLocationArgs,

    /// A file that defines the vertex and edge types, in YAML or JSON
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,

    #[command(flatten)]
    data: DataArgs,
}

pub(super) async fn run(args: CreateArgs) -> Result<()> {
    until_stopped(create(&args)).await
}

async fn create(args: &CreateArgs) -> Result<()> {
    if args.schema.is_none() && args.data.is_empty() {
        return Err(usage(
            "name the types of the store: give --schema, or tables with --vertices and --edges",
        ));
    }

    let mut schema = match &args.schema {
        Some(path) => schema_file::read(path)?,
        None => StoreSchema::new(),
    };

    let cache = args.data.cache().await?;
    let tables = args.data.open(&cache, &args.location.option, &schema).await?;

    for change in tables.changes(&schema)? {
        match change {
            SchemaChange::AddVertexType(of_type) => schema.vertices.push(of_type),
            SchemaChange::AddEdgeType(of_type) => schema.edges.push(of_type),
            _ => {}
        }
    }

    let store = args.location.create(&cache, schema, args.data.store_options()).await?;
    if args.data.is_empty() {
        return Ok(());
    }

    tables.load(&store, &args.location.shown(), &args.data).await
}
