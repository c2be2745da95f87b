//! Output formats of rows, and their file extensions.

use std::path::Path;

use anyhow::Result;

use crate::failure::usage;

/// An output format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFormat {
    /// A text table for a terminal.
    Table,
    /// Comma-separated values with a header.
    Csv,
    /// One JSON object per line.
    Json,
    /// An Arrow IPC stream, read sequentially.
    ArrowStream,
    /// An Arrow IPC file, with random access to its batches.
    ArrowFile,
}

impl RowFormat {
    /// Returns whether the format is binary, which is not for a terminal.
    pub(crate) fn is_binary(self) -> bool {
        match self {
            Self::ArrowStream | Self::ArrowFile => true,
            Self::Table | Self::Csv | Self::Json => false,
        }
    }

    /// Returns the format of the file's extension.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let shown = path.display();
        match extension.as_str() {
            "csv" => Ok(Self::Csv),
            "json" | "jsonl" | "ndjson" => Ok(Self::Json),
            "arrow" | "feather" | "ipc" => Ok(Self::ArrowFile),
            "arrows" => Ok(Self::ArrowStream),
            "parquet" | "orc" => {
                Err(usage(format!("{shown}: `stylobate convert` writes Parquet and ORC files")))
            }
            "" => Err(usage(format!(
                "{shown}: the name has no extension that tells the format: give one of {KNOWN}, or --to"
            ))),
            _ => Err(usage(format!("{shown}: .{extension} tells no format: give one of {KNOWN}, or --to"))),
        }
    }
}

const KNOWN: &str = ".parquet, .csv, .jsonl, .arrow and .arrows";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_tells_the_format_in_any_case() {
        let formats = ["a.CSV", "b/a.jsonl", "a.b.json", "a.feather", "a.arrows"];
        let formats = formats.map(|path| RowFormat::of(Path::new(path)).unwrap());
        use RowFormat::*;
        assert_eq!(formats, [Csv, Json, Json, ArrowFile, ArrowStream]);
    }

    #[test]
    fn a_name_that_tells_no_format_is_an_error_that_names_those_there_are() {
        for path in ["a.pdf", "a.xlsx", "a", ".csv"] {
            let error = RowFormat::of(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(path) && error.contains(".jsonl"), "{error}");
        }
    }
}
