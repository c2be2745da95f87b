//! `stylobate graph info`: shows a graph as a picture or as JSON.

mod degree_plot;
mod degrees;
mod facts;
mod picture;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use self::facts::GraphSummary;
use super::location::GraphLocationArgs;
use crate::{
    failure::usage,
    out::{print, print_json},
    rows::{RowDestination, until_stopped},
};

const EXAMPLES: &str = "\
Examples:
  Show the types of a graph, and the distribution of degrees:
    stylobate graph info social/social.graph.yml
  Show a graph in a bucket, with degrees even if it is large:
    stylobate graph info s3://lake/ldbc/ldbc.graph.yml --degrees --option region=eu-west-1
  Draw the distribution of degrees, of a graph of any size:
    stylobate graph info social --svg degrees.svg
  Print the number of edges of each type:
    stylobate graph info social --json | jq '.edges[] | {edge_type, count}'

Degrees are computed from the offsets of ordered lists, without reading edges. Without
--degrees or --svg they are shown for graphs of at most 5 million edges and 5 million
vertices.

Exit codes: 2 wrong command line; 1 anything else, such as a missing file.";

/// The arguments of `stylobate graph info`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct InfoArgs {
    #[command(flatten)]
    location: GraphLocationArgs,

    /// Count the edges of each vertex: auto (unless the graph is large), always or never
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto",
          default_missing_value = "always", hide_possible_values = true)]
    degrees: DegreeMode,

    /// Print the summary as JSON
    #[arg(long)]
    json: bool,

    /// Draw the degrees as an SVG file too, and count them for it; `-` prints the picture instead of the text
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl InfoArgs {
    /// Returns the destination of the SVG drawing, if one is requested.
    fn drawing(&self) -> Result<Option<RowDestination>> {
        let Some(path) = &self.svg else { return Ok(None) };
        if self.degrees == DegreeMode::Never {
            return Err(usage("--svg draws degrees: leave out --degrees=never"));
        }

        let destination = RowDestination::of_report(path, "svg")?;
        if self.json && matches!(destination, RowDestination::Stdout) {
            return Err(usage("--svg -: --json prints to standard output: name a file for the drawing"));
        }

        Ok(Some(destination))
    }
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
    let drawing = args.drawing()?;
    let graph = args.location.open().await?;
    let mut facts = GraphSummary::gather(&graph, args.location.file(&graph)).await?;
    let is_wanted = match args.degrees {
        DegreeMode::Auto => drawing.is_some() || facts.is_small(),
        DegreeMode::Always => true,
        DegreeMode::Never => false,
    };

    if is_wanted {
        facts.count_degrees(&graph).await?;
    }

    let is_drawing_printed = matches!(drawing, Some(RowDestination::Stdout));
    if args.json {
        print_json(&facts)?;
    } else if !is_drawing_printed {
        print(picture::text(&facts))?;
    }

    match drawing {
        Some(destination) => destination.write_text(&degree_plot::draw(&facts)),
        None => Ok(()),
    }
}
