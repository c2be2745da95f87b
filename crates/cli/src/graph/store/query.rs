//! `stylobate graph store query`: prints vertices, neighbors and traversals.

use std::{str::FromStr, sync::Arc};

use anyhow::Result;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use clap::Args;
use futures::stream;
use stylobate_graph::{
    PropertyType,
    store::{Snapshot, VertexIds},
};
use stylobate_storage::ByteSize;

use super::{hops::HopArgs, location::StoreLocationArgs};
use crate::{
    failure::usage,
    graph::neighbors::values,
    out::print,
    rows::{OutputArgs, ProgressDisplay, RowFormat, TableLimits, drain, until_stopped},
};

/// Default row limit of a table.
const TABLE_ROWS: u64 = 100;

const EXAMPLES: &str = "\
Examples:
  Print vertices by their keys, with all properties:
    stylobate graph store query social --start Person:933,4139
  Print whom person 933 knows, with names and dates:
    stylobate graph store query social --start Person:933 \\
      --out KNOWS --columns creationDate --select firstName,lastName,creationDate
  Print the 20 newest likes of posts by person 933, and who liked them:
    stylobate graph store query s3://lake/social --start Person:933 \\
      --in HAS_CREATOR:Post --in LIKES:Person --columns creationDate \\
      --top 20:creationDate --select Person_2.firstName,creationDate,Post.content --format csv

Hops are followed in the given order; TYPE is needed only if edges of a name lead to
several types. A column NAME is one of the requested edge columns, otherwise a property
of the last vertices; Person.NAME is a property of the vertices of any step,
Person._index their index, LIKES.NAME an edge column. If several steps have the same
type, they are named Person_0, Person_2 by step number, or as set by --as. The default
of --select is position (the number of the row's start vertex), the edge columns, and
the index of the last vertex.

Exit codes: 2 wrong command line, or no such vertex; 1 anything else.";

/// The arguments of `stylobate graph store query`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct QueryArgs {
    #[command(flatten)]
    location: StoreLocationArgs,

    /// Start vertices: a type, and keys separated by commas; a comma in a key is written \,
    #[arg(long, value_name = "TYPE:KEYS")]
    start: String,

    /// --start gives indexes instead of keys
    #[arg(long)]
    by_index: bool,

    #[command(flatten)]
    hops: HopArgs,

    /// Print only the COUNT rows with the largest values of a column
    #[arg(long, value_name = "COUNT:COLUMN", value_parser = top)]
    top: Option<(usize, String)>,

    /// --top selects the smallest values
    #[arg(long, requires = "top")]
    least: bool,

    /// Columns to print, in this order
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    select: Option<Vec<String>>,

    /// Version to query [default: the latest]
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,

    /// Print the plan instead of running it
    #[arg(long)]
    explain: bool,

    /// Memory for pages and decoded columns [default: a quarter of the memory available to the process]
    #[arg(long, value_name = "SIZE", value_parser = ByteSize::from_str)]
    memory: Option<ByteSize>,

    #[command(flatten)]
    output: OutputArgs,
}

/// Parses `COUNT:COLUMN`.
fn top(text: &str) -> Result<(usize, String), &'static str> {
    const WRONG: &str = "write COUNT:COLUMN, as in 20:creationDate";
    let (count, column) = text.split_once(':').filter(|(_, column)| !column.is_empty()).ok_or(WRONG)?;
    Ok((count.parse().map_err(|_| WRONG)?, column.to_owned()))
}

pub(super) async fn run(args: QueryArgs) -> Result<()> {
    until_stopped(query(&args)).await
}

async fn query(args: &QueryArgs) -> Result<()> {
    let (destination, format) = args.output.chosen()?;
    let (vertex_type, ids) = args
        .start
        .split_once(':')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| usage(format!("--start {}: write TYPE:KEYS, as in Person:933", args.start)))?;

    let snapshot = args.location.snapshot(args.memory, args.version).await?;
    let ids = args.ids(&snapshot, vertex_type, &values(ids))?;
    if args.explain {
        return print(args.traversal(&snapshot, vertex_type, ids).explain().await?);
    }

    let answer = args.answer(&snapshot, vertex_type, ids).await?;
    let mut bound = TableLimits::default();
    if format == RowFormat::Table {
        bound.width = destination.is_terminal().then(|| usize::from(console::Term::stdout().size().1));
        if args.top.is_none() {
            bound.rows = Some(TABLE_ROWS);
            bound.total = Some(answer.num_rows() as u64);
        }
    }

    let progress = ProgressDisplay::new(None, true)?;
    let schema = answer.schema();
    drain(schema, stream::iter([anyhow::Ok(answer)]), format, bound, destination, &progress).await?;

    Ok(())
}

impl QueryArgs {
    /// Resolves the start vertices.
    fn ids(&self, snapshot: &Snapshot, vertex_type: &str, texts: &[String]) -> Result<VertexIds> {
        let number = |text: &String| -> Result<i64> {
            let kind = if self.by_index { "index" } else { "key" };
            text.trim().parse().map_err(|_| {
                usage(format!("--start {}: {text:?} is no {kind}: give whole numbers", self.start))
            })
        };

        let numbers = || texts.iter().map(number).collect::<Result<Vec<_>>>();
        if self.by_index {
            return Ok(VertexIds::Indexes(numbers()?));
        }

        let schema = snapshot.schema();
        let of_type = schema.vertices.iter().find(|of_type| of_type.name == vertex_type);
        let key = of_type
            .and_then(|of_type| of_type.properties.iter().find(|property| property.name == of_type.key));
        let is_text = key.is_some_and(|key| key.property_type == PropertyType::String);
        let keys: ArrayRef = if is_text || key.is_none() {
            Arc::new(StringArray::from_iter_values(texts))
        } else {
            Arc::new(Int64Array::from(numbers()?))
        };

        Ok(VertexIds::Keys(keys))
    }

    fn traversal(
        &self,
        snapshot: &Snapshot,
        vertex_type: &str,
        ids: VertexIds,
    ) -> stylobate_graph::store::Traversal {
        let mut traversal = self.hops.follow(snapshot.start(vertex_type, ids));
        if let Some((rows, by)) = &self.top {
            traversal = traversal.top(*rows, by, !self.least);
        }
        match &self.select {
            Some(select) => traversal.select(select),
            None => traversal,
        }
    }

    async fn answer(&self, snapshot: &Snapshot, vertex_type: &str, ids: VertexIds) -> Result<RecordBatch> {
        if !self.hops.is_empty() || self.select.is_some() || self.top.is_some() {
            return Ok(self.traversal(snapshot, vertex_type, ids).collect().await?);
        }
        let view = snapshot.vertices(vertex_type, None).await?;
        Ok(match ids {
            VertexIds::Keys(keys) => view.by_keys(&keys).await?,
            VertexIds::Indexes(indexes) => view.take(&indexes).await?,
        })
    }
}
