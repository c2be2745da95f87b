//! `stylobate graph info`: shows a graph as a picture or as JSON.

mod degrees;
mod facts;
mod picture;

use anyhow::Result;
use clap::{Args, ValueEnum};

use self::facts::GraphSummary;
use super::place::GraphLocationArgs;
use crate::{
    out::{print, print_json},
    rows::until_stopped,
};

const EXAMPLES: &str = "\
Examples:
  Show the types of a graph, and the distribution of degrees:
    stylobate graph info social/social.graph.yml
  Show a graph in a bucket, with degrees even if it is large:
    stylobate graph info s3://lake/ldbc/ldbc.graph.yml --degrees --option region=eu-west-1
  Print the number of edges of each type:
    stylobate graph info social --json | jq '.edges[] | {edge_type, count}'

Degrees are computed from the offsets of ordered lists, without reading edges. Without
--degrees they are shown for graphs of at most 5 million edges and 5 million vertices.

Exit codes: 2 wrong command line; 1 anything else, such as a missing file.";

/// The arguments of `stylobate graph info`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct InfoArgs {
    #[command(flatten)]
    place: GraphLocationArgs,

    /// Count the edges of each vertex: auto (unless the graph is large), always or never
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto",
          default_missing_value = "always", hide_possible_values = true)]
    degrees: DegreeMode,

    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// The mode of counting degrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DegreeMode {
    Auto,
    Always,
    Never,
}

pub(super) async fn run(args: InfoArgs) -> Result<()> {
    until_stopped(info(&args)).await
}

async fn info(args: &InfoArgs) -> Result<()> {
    let graph = args.place.open().await?;
    let mut facts = GraphSummary::gather(&graph, args.place.file(&graph)).await?;
    let is_wanted = match args.degrees {
        DegreeMode::Auto => facts.is_small(),
        DegreeMode::Always => true,
        DegreeMode::Never => false,
    };

    if is_wanted {
        facts.count_degrees(&graph).await?;
    }

    if args.json { print_json(&facts) } else { print(picture::text(&facts)) }
}
