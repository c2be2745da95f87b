//! `stylobate graph neighbors`: prints the neighbors of vertices.

use std::{collections::HashSet, iter, ops::Range, sync::Arc};

use anyhow::Result;
use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch},
    compute::take,
    datatypes::{Field, FieldRef, Int64Type, Schema, SchemaRef},
};
use clap::{Args, ValueEnum};
use futures::{StreamExt, stream};
use stylobate_graph::{
    Direction,
    graphar::{Edges, Graph, Vertices},
};

use super::{
    free_name::free_name,
    keys::{self, FoundVertices},
    location::GraphLocationArgs,
};
use crate::{
    failure::usage,
    rows::{OutputArgs, ProgressDisplay, RowFormat, TableLimits, drain, until_stopped},
};

/// Default row limit of a table.
const TABLE_ROWS: u64 = 100;
/// Maximum edges that are read at a time, unless a single vertex has more.
const MAX_EDGES_PER_READ: u64 = 1 << 18;

const EXAMPLES: &str = "\
Examples:
  Print whom vertex 5 knows, with all properties of the edges:
    stylobate graph neighbors social.graph.yml person knows person --of 5
  Print who knows the persons with these ids, with names, as CSV:
    stylobate graph neighbors social person knows person --of 933,10995116284808 \\
      --key id --direction in --with firstName,lastName --properties creationDate --format csv
  Write to a file:
    stylobate graph neighbors s3://lake/movies.graph.yml Person ACTED_IN Movie \\
      --of 'Tom Hanks,Meg Ryan' --key name --with title -o films.arrow

Each edge is a row: of, as given by --of; neighbor, the index of the vertex at the
other end; the edge's properties; with --with, those of the neighbor as neighbor.NAME.
Without an ordered list, all edges of the vertex's part of the list are scanned.

Exit codes: 2 wrong command line, or no such vertex; 1 anything else.";

/// The arguments of `stylobate graph neighbors`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct NeighborsArgs {
    #[command(flatten)]
    location: GraphLocationArgs,

    /// Type of the source vertices
    #[arg(value_name = "SOURCE")]
    source: String,

    /// Type of the edges
    #[arg(value_name = "EDGE")]
    edge: String,

    /// Type of the destination vertices
    #[arg(value_name = "DESTINATION")]
    destination: String,

    /// The vertices: indexes from 0 separated by commas, or values of --key, in which a comma is written \, ; may be
    /// repeated
    #[arg(long, value_name = "VERTICES", required = true, allow_hyphen_values = true)]
    of: Vec<String>,

    /// The property whose values --of names
    #[arg(long, value_name = "PROPERTY")]
    key: Option<String>,

    /// out: follow edges from SOURCE to DESTINATION; in: from DESTINATION to SOURCE
    #[arg(long, value_name = "out|in", default_value = "out", hide_possible_values = true)]
    direction: NeighborDirection,

    /// Properties of the edges to print, in this order [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    properties: Option<Vec<String>>,

    /// Properties of the neighbors to print
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    with: Vec<String>,

    /// Print at most N rows [default: 100 for a table, otherwise all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NeighborDirection {
    Out,
    In,
}

pub(super) async fn run(args: NeighborsArgs) -> Result<()> {
    until_stopped(neighbors(&args)).await
}

async fn neighbors(args: &NeighborsArgs) -> Result<()> {
    let (destination, format) = args.output.chosen()?;
    let asked: Vec<String> = args.of.iter().flat_map(|text| values(text)).collect();
    let graph = args.location.open().await?;
    let walk = args.walk(&graph, &asked).await?;
    let total = walk.degrees.iter().sum::<u64>();

    let mut bound = TableLimits::default();
    let mut limit = args.limit.unwrap_or(u64::MAX);
    if format == RowFormat::Table {
        limit = args.limit.unwrap_or(TABLE_ROWS);
        bound.width = destination.is_terminal().then(|| usize::from(console::Term::stdout().size().1));
        bound.rows = Some(limit);
        bound.total = args.limit.is_none().then_some(total);
        // One additional row shows whether there are more.
        limit = limit.saturating_add(u64::from(args.limit.is_none()));
    }

    let slices = walk.slices(limit);
    let batches = stream::iter(slices).then(|(vertices, rows)| walk.rows(vertices, rows));
    let progress = ProgressDisplay::new(Some(total.min(limit)), destination.is_terminal())?;
    drain(walk.schema.clone(), Box::pin(batches), format, bound, destination, &progress).await?;

    Ok(())
}

impl NeighborsArgs {
    /// Resolves the start vertices, and reads their degrees.
    async fn walk(&self, graph: &Graph, asked: &[String]) -> Result<NeighborQuery> {
        let mut edges = graph.edges(&self.source, &self.edge, &self.destination)?;
        if let Some(properties) = &self.properties {
            edges = edges.select(properties)?;
        }

        let (direction, here, there) = match self.direction {
            NeighborDirection::Out => (Direction::Out, &self.source, &self.destination),
            NeighborDirection::In => (Direction::In, &self.destination, &self.source),
        };

        let with = if self.with.is_empty() { None } else { Some(graph.vertices(there)?.select(&self.with)?) };
        let found = match &self.key {
            Some(key) => keys::find(graph, here, key, asked).await?,
            None => by_index(&graph.vertices(here)?, asked).await?,
        };

        let degrees = edges.degrees(&found.indexes, direction).await?;
        let degrees = degrees.values().iter().map(|degree| u64::try_from(*degree).unwrap_or_default());
        let degrees = degrees.collect();
        let schema = schema(&found.asked, &edges, with.as_ref());

        Ok(NeighborQuery { edges, direction, found, degrees, with, schema })
    }
}

/// Start vertices, and the columns to return.
struct NeighborQuery {
    edges: Edges,
    direction: Direction,
    found: FoundVertices,
    degrees: Vec<u64>,
    /// View of the neighbors, if any of their properties are requested.
    with: Option<Vertices>,
    schema: SchemaRef,
}

impl NeighborQuery {
    /// Splits the vertices into slices with a bounded number of edges. Returns each slice with the rows to read from
    /// it, `limit` rows in total.
    fn slices(&self, limit: u64) -> Vec<(Range<usize>, u64)> {
        let mut slices: Vec<(Range<usize>, u64)> = Vec::new();
        let mut left = limit;
        for (at, degree) in self.degrees.iter().enumerate() {
            if left == 0 {
                break;
            }

            let rows = (*degree).min(left);
            left -= rows;

            match slices.last_mut().filter(|(_, so_far)| *so_far + rows <= MAX_EDGES_PER_READ) {
                Some((vertices, so_far)) => {
                    vertices.end = at + 1;
                    *so_far += rows;
                }
                None => slices.push((at..at + 1, rows)),
            }
        }

        slices
    }

    /// Returns at most `rows` neighbors of a slice.
    async fn rows(&self, vertices: Range<usize>, rows: u64) -> Result<RecordBatch> {
        let found = self.edges.neighbors(&self.found.indexes[vertices.clone()], self.direction).await?;
        let found = found.slice(0, found.num_rows().min(usize::try_from(rows).unwrap_or(usize::MAX)));
        let asked = self.found.asked.slice(vertices.start, vertices.len());
        let mut columns: Vec<ArrayRef> = vec![take(&asked, found.column(0), None)?];
        columns.extend(found.columns().iter().skip(1).cloned());
        if let Some(with) = &self.with {
            let found = with.take(found.column(1).as_primitive::<Int64Type>().values()).await?;
            columns.extend(found.columns().iter().skip(1).cloned());
        }

        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}

/// Returns the output schema.
fn schema(asked: &ArrayRef, edges: &Edges, with: Option<&Vertices>) -> SchemaRef {
    let mut taken = HashSet::new();
    let mut free = |field: FieldRef, name: &str| -> FieldRef {
        Arc::new(Field::clone(&field).with_name(free_name(name, &mut taken)))
    };

    let of: FieldRef = Arc::new(Field::new("of", asked.data_type().clone(), true));
    let of_edges = edges.neighbor_schema();
    let ends = of_edges.fields().iter().skip(1).cloned();
    let mut fields: Vec<FieldRef> =
        iter::once(of).chain(ends).map(|field| free(field.clone(), field.name())).collect();
    let with = with.map(Vertices::schema);

    for field in with.iter().flat_map(|schema| schema.fields().iter().skip(1)) {
        fields.push(free(field.clone(), &format!("neighbor.{}", field.name())));
    }

    Arc::new(Schema::new(fields))
}

/// Finds vertices by their indexes.
async fn by_index(vertices: &Vertices, texts: &[String]) -> Result<FoundVertices> {
    let count = vertices.count().await?;
    let of_type = vertices.vertex_type();
    let index = |text: &String| -> Result<i64> {
        let index: i64 = text.trim().parse().map_err(|_| {
            usage(format!(
                "{text:?} is no index of a vertex: give whole numbers, or name a property with --key"
            ))
        })?;

        if !u64::try_from(index).is_ok_and(|index| index < count) {
            let reason = format!("no vertex {index} of type {of_type}: indexes are 0..{count}");
            return Err(usage(reason));
        }

        Ok(index)
    };

    let indexes = texts.iter().map(index).collect::<Result<Vec<_>>>()?;
    let asked: ArrayRef = Arc::new(Int64Array::from(indexes.clone()));

    Ok(FoundVertices { indexes, asked })
}

/// Splits a text at commas. A backslash escapes a comma or a backslash.
pub(super) fn values(text: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let last = values.len() - 1;
        match letter {
            ',' => values.push(String::new()),
            '\\' => match letters.next_if(|next| matches!(next, ',' | '\\')) {
                Some(next) => values[last].push(next),
                None => values[last].push(letter),
            },
            letter => values[last].push(letter),
        }
    }

    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_stands_between_values_unless_a_backslash_is_before_it() {
        assert_eq!(values("5,17"), ["5", "17"]);
        assert_eq!(values(r"a\,b,c\\,d\e"), ["a,b", r"c\", r"d\e"]);
        assert_eq!(values(""), [""]);
    }
}
