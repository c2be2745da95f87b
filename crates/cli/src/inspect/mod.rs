//! `stylobate inspect`: shows the metadata of Parquet and ORC files.

mod files;
mod layout_plot;
mod picture;

use std::{io::Write, path::PathBuf};

use anyhow::Result;
use clap::Args;
use futures::StreamExt;
use stylobate_columnar::{Error, Inspection, SchemaNode, Source, inspect_all};
use stylobate_storage::{ByteSize, nearest_name};

use self::{files::InspectionOverview, picture::InspectionPicture};
use crate::{
    failure::usage,
    out::out,
    rows::{RowDestination, open_cache, option, until_stopped},
    table,
};

/// Cache size. Small, since little more than footers is read, and each footer once.
const MEMORY: ByteSize = ByteSize::mib(64);

const EXAMPLES: &str = "\
Examples:
  Show the schema, sizes, encodings, dictionaries and statistics of a file:
    stylobate inspect lineitem.parquet
  Show two columns, by row group:
    stylobate inspect lineitem.parquet --row-groups --columns l_shipmode,l_tax
  Draw where row groups, columns, dictionaries and indexes are in a file:
    stylobate inspect lineitem.parquet --svg layout.svg
  Print a line for each file of a folder:
    stylobate inspect s3://bucket/lake/events/ --option region=eu-west-1
  Print the names of the three largest columns:
    stylobate inspect lineitem.orc --json |
      jq '.[0].columns | sort_by(-.compressed_size) | .[:3] | .[].name'

For several files, a summary and a line per file are printed; --json always prints a
list with an entry per file.

Exit codes: 2 wrong command line or unknown column; 1 anything else, such as a
corrupt file.";

/// The arguments of `stylobate inspect`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// A file, a folder with all its subfolders, or a pattern, local or below s3://, gs://, az:// or http(s)://
    #[arg(value_name = "PATH")]
    path: String,

    /// Show only these columns and their nested fields
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,

    /// Print a line for each row group (or stripe) and column
    #[arg(long, visible_alias = "stripes")]
    row_groups: bool,

    /// Print all metadata as JSON
    #[arg(long)]
    json: bool,

    /// Draw the layout of a file as an SVG file too; `-` prints the picture instead of the text
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// An option of the store, such as region=eu-west-1; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = option)]
    option: Vec<(String, String)>,
}

/// Runs the command until it completes or the process is stopped.
///
/// # Errors
///
/// If the command line is invalid, or a file cannot be read. The other files have been printed in that case.
pub(crate) async fn run(args: InspectArgs) -> Result<()> {
    until_stopped(inspect(&args)).await
}

async fn inspect(args: &InspectArgs) -> Result<()> {
    let drawing = args.drawing()?;
    let is_drawing_printed = matches!(drawing, Some(RowDestination::Stdout));
    let cache = open_cache(Some(MEMORY)).await?;
    let source = Source::Url { url: args.path.clone(), options: args.option.clone() };
    let mut files = Box::pin(inspect_all(&source, &cache).await?.peekable());
    let mut overview = InspectionOverview::default();

    // A single file is shown in full.
    let mut first: Option<Inspection> = None;
    let mut failed = 0;
    let mut out = out();
    let mut printed = 0;
    let mut found: usize = 0;
    let mut drawn: Option<String> = None;

    while let Some((name, inspected)) = files.next().await {
        found += 1;
        match inspected {
            Ok(inspection) => {
                if drawing.is_some() {
                    let drawing = layout_plot::draw(&inspection, |name| args.is_wanted(name));
                    if drawn.replace(drawing).is_some() {
                        return Err(usage(format!(
                            "{}: --svg draws one file, and there are several",
                            args.path
                        )));
                    }
                }

                let inspection = args.chosen(inspection)?;
                if args.json {
                    write!(out, "{}", if printed == 0 { "[\n" } else { ",\n" })?;
                    write!(out, "{}", serde_json::to_string_pretty(&inspection)?)?;
                    printed += 1;
                } else {
                    overview.add(&inspection);
                    first = (found == 1).then_some(inspection);
                }
            }
            Err(error) => {
                // If there is only one file, its error is that of the command.
                if found == 1 && files.as_mut().peek().await.is_none() {
                    return Err(error.into());
                }

                // Files of other formats among the Parquet and ORC files are only counted.
                if matches!(error, Error::Format { .. }) {
                    overview.others += 1;
                    continue;
                }

                failed += 1;
                let error = error.to_string();
                let name = if error.contains(&name) { String::new() } else { format!("{name}: ") };
                eprintln!("stylobate: {name}{error}");
            }
        }
    }

    if overview.others == found {
        return Err(usage(format!(
            "{}: no Parquet or ORC file among {}",
            args.path,
            table::count(found, "file")
        )));
    }

    if args.json {
        writeln!(out, "{}", if printed == 0 { "[]" } else { "\n]" })?;
    } else if is_drawing_printed {
        // The drawing is written below.
    } else if let Some(inspection) = &first {
        write!(out, "{}", InspectionPicture { inspection, row_groups: args.row_groups }.text())?;
    } else {
        write!(out, "{}", overview.text())?;
    }

    out.flush()?;
    if let Some((drawing, drawn)) = drawing.zip(drawn) {
        drawing.write_text(&drawn)?;
    }

    if failed > 0 {
        anyhow::bail!("{failed} of {found} files cannot be read");
    }

    Ok(())
}

impl InspectArgs {
    /// Returns the destination of the SVG drawing, if one is requested.
    fn drawing(&self) -> Result<Option<RowDestination>> {
        let Some(path) = &self.svg else { return Ok(None) };
        let destination = RowDestination::of_report(path, "svg")?;
        if self.json && matches!(destination, RowDestination::Stdout) {
            return Err(usage("--svg -: --json prints to standard output: name a file for the drawing"));
        }

        Ok(Some(destination))
    }

    /// Returns true if the column is shown.
    fn is_wanted(&self, name: &str) -> bool {
        self.columns.is_empty() || self.columns.iter().any(|wanted| is_within(name, wanted))
    }

    /// Reduces the inspection to the requested columns, and drops the column chunks of row groups unless requested.
    fn chosen(&self, mut inspection: Inspection) -> Result<Inspection> {
        for wanted in &self.columns {
            if !inspection.columns.iter().any(|column| is_within(&column.name, wanted)) {
                let names = inspection.columns.iter().map(|column| column.name.as_str());
                let hint = nearest_name(wanted, names)
                    .map(|name| format!("; did you mean {name}?"))
                    .unwrap_or_default();
                return Err(usage(format!("{}: no column {wanted}{hint}", inspection.object)));
            }
        }

        if !self.columns.is_empty() {
            inspection.schema = self.branches(std::mem::take(&mut inspection.schema), "");
        }

        inspection.columns.retain(|column| self.is_wanted(&column.name));

        for part in &mut inspection.parts {
            part.columns.retain(|chunk| self.row_groups && self.is_wanted(&chunk.name));
            part.extents.retain(|_| self.row_groups);
        }

        Ok(inspection)
    }

    /// Keeps the requested fields and their ancestors.
    fn branches(&self, fields: Vec<SchemaNode>, above: &str) -> Vec<SchemaNode> {
        let kept = fields.into_iter().filter_map(|mut field| {
            let name = if above.is_empty() { field.name.clone() } else { format!("{above}.{}", field.name) };
            if !self.columns.iter().any(|wanted| is_within(&name, wanted)) {
                field.fields = self.branches(field.fields, &name);
                return (!field.fields.is_empty()).then_some(field);
            }
            Some(field)
        });
        kept.collect()
    }
}

/// Returns true if the column is the wanted one or is nested in it.
fn is_within(name: &str, wanted: &str) -> bool {
    name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
