//! What the user may say of where rows go, and in which format.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::{OverwriteMode, RowDestination, RowFormat};
use crate::failure::usage;

/// Where rows are written, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutputArgs {
    /// How rows are written; arrow is Arrow IPC, as a stream [default: what the output file's name says, else table]
    #[arg(long, value_name = "FORMAT")]
    format: Option<OutputFormat>,

    /// Write into a file, which appears when it is whole; the name may end in .csv, .jsonl, .arrow or .arrows
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    Table,
    Csv,
    Json,
    Arrow,
}

impl OutputArgs {
    /// The destination and the format. Fails where they do not go together, before any work is done.
    pub(crate) fn chosen(&self) -> Result<(RowDestination, RowFormat)> {
        let overwrite = if self.force { OverwriteMode::Replace } else { OverwriteMode::Refuse };
        let destination = match &self.output {
            Some(path) => RowDestination::at(path, overwrite)?,
            None => RowDestination::Stdout,
        };
        let format = self.format(&destination)?;
        if format.is_binary() && destination.is_terminal() {
            return Err(usage(
                "arrow is no text for a terminal: write it into a file with --output, or into a pipe",
            ));
        }
        Ok((destination, format))
    }

    fn format(&self, destination: &RowDestination) -> Result<RowFormat> {
        let named = match (&self.output, destination) {
            (Some(path), RowDestination::File { .. }) => Some(RowFormat::of(path)),
            _ => None,
        };
        match self.format {
            Some(OutputFormat::Table) => Ok(RowFormat::Table),
            Some(OutputFormat::Csv) => Ok(RowFormat::Csv),
            Some(OutputFormat::Json) => Ok(RowFormat::Json),
            Some(OutputFormat::Arrow) => Ok(match named {
                Some(Ok(RowFormat::ArrowFile)) => RowFormat::ArrowFile,
                _ => RowFormat::ArrowStream,
            }),
            None => named.unwrap_or(Ok(RowFormat::Table)),
        }
    }
}
