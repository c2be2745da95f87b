//! Arguments for the output of rows: destination and format.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use stylobate_columnar::WriteFormat;

#[cfg(feature = "sql")]
use stylobate_storage::{Destination, Overwrite as Existing, SinkOptions};

#[cfg(feature = "sql")]
use super::{ColumnFile, file_options, unknown_format};
use super::{OverwriteMode, RowDestination, RowFormat, printed_format};
use crate::failure::usage;

/// Destination and format of rows.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutputArgs {
    /// Output format; arrow is an Arrow IPC stream [default: by the extension of the output file, otherwise table]
    #[arg(long, value_name = "FORMAT")]
    format: Option<OutputFormat>,

    /// Write to a file, created atomically; the extension may be .csv, .jsonl, .arrow or .arrows
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the output file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// The extensions that a command may write which also writes Parquet and ORC.
#[cfg(feature = "sql")]
const WRITTEN_EXTENSIONS: &str = ".csv, .jsonl, .arrow, .arrows, .parquet or .orc";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    Table,
    Csv,
    Json,
    Arrow,
}

impl OutputArgs {
    /// Returns the destination and the format. Fails before any work is done if they do not match.
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

    /// Returns the Parquet or ORC output, if one is named; for commands that can write these formats.
    ///
    /// # Errors
    ///
    /// If the file exists and must not be replaced, or the URL is malformed.
    #[cfg(feature = "sql")]
    pub(crate) fn column_file(&self, store: &[(String, String)]) -> Result<Option<ColumnFile>> {
        let Some(path) = &self.output else { return Ok(None) };
        let overwrite = if self.force { OverwriteMode::Replace } else { OverwriteMode::Refuse };
        let format = match WriteFormat::of_path(path) {
            Some(format) if format.is_columnar() => format,
            None if self.format.is_none()
                && matches!(RowDestination::at(path, overwrite)?, RowDestination::File { .. }) =>
            {
                return Err(unknown_format(path, WRITTEN_EXTENSIONS, "--format"));
            }
            _ => return Ok(None),
        };
        if self.format.is_some() {
            return Err(usage(format!(
                "{}: its extension is the format: leave out --format",
                path.display()
            )));
        }

        let destination = match path.to_str().filter(|path| path.contains("://")) {
            Some(url) => Destination::parse(url, store)?,
            None => match RowDestination::at(path, overwrite)? {
                RowDestination::File { path, .. } => Destination::File(path),
                _ => return Err(usage("Parquet and ORC go into a file: name one")),
            },
        };
        Ok(Some(ColumnFile {
            options: file_options(format, None)?,
            destination,
            existing: if self.force { Existing::Replace } else { Existing::Refuse },
            dataset: None,
            sinks: SinkOptions::default(),
        }))
    }

    fn format(&self, destination: &RowDestination) -> Result<RowFormat> {
        let named = match (&self.output, destination) {
            (Some(path), RowDestination::File { .. }) => Some(printed_format(path)),
            _ => None,
        };

        match self.format {
            Some(OutputFormat::Table) => Ok(RowFormat::Table),
            Some(OutputFormat::Csv) => Ok(RowFormat::File(WriteFormat::Csv)),
            Some(OutputFormat::Json) => Ok(RowFormat::File(WriteFormat::Json)),
            Some(OutputFormat::Arrow) => Ok(RowFormat::File(match named {
                Some(Ok(WriteFormat::ArrowFile)) => WriteFormat::ArrowFile,
                _ => WriteFormat::ArrowStream,
            })),
            None => named.map_or(Ok(RowFormat::Table), |format| Ok(RowFormat::File(format?))),
        }
    }
}
