//! Output formats of rows: their names on the command line, and their file extensions.

use std::path::Path;

use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use stylobate_columnar::WriteFormat;

use crate::failure::usage;

/// An output format for printed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFormat {
    /// A text table for a terminal.
    Table,
    /// A file format other than Parquet and ORC.
    File(WriteFormat),
}

impl RowFormat {
    /// Returns true if the format is binary, and so must not be printed to a terminal.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::File(format) if !format.is_text())
    }
}

/// Returns the format for the file's extension, for rows that are printed.
pub(crate) fn printed_format(path: &Path) -> Result<WriteFormat> {
    let shown = path.display();
    match WriteFormat::of_path(path) {
        Some(format) if format.is_columnar() => {
            Err(usage(format!("{shown}: `stylobate convert` writes Parquet and ORC files")))
        }
        Some(format) => Ok(format),
        None => Err(unknown_format(path, PRINTED_EXTENSIONS, "--format")),
    }
}

/// Returns the error for a file whose format cannot be determined from its name. `option` is the option that names it.
pub(crate) fn unknown_format(path: &Path, known: &str, option: &str) -> anyhow::Error {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let reason = match extension.as_str() {
        "" => "the name has no extension".to_owned(),
        _ => format!("no format has the extension .{extension}"),
    };
    usage(format!("{}: {reason}: use {known}, or {option}", path.display()))
}

const PRINTED_EXTENSIONS: &str = ".csv, .jsonl, .arrow or .arrows";

/// Builds a parser for the names of some formats. Each has a help text, which may be empty.
pub(crate) fn format_parser<const N: usize>(
    formats: [(WriteFormat, &'static str); N],
) -> impl TypedValueParser<Value = WriteFormat> {
    let value = |(format, help): (WriteFormat, &'static str)| {
        let value = PossibleValue::new(format.name());
        if help.is_empty() { value } else { value.help(help) }
    };
    PossibleValuesParser::new(formats.map(value)).try_map(|name| name.parse::<WriteFormat>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_tells_the_format_in_any_case() {
        use WriteFormat::*;

        let formats = ["a.CSV", "b/a.jsonl", "a.b.json", "a.feather", "a.arrows"];
        let formats = formats.map(|path| printed_format(Path::new(path)).unwrap());
        assert_eq!(formats, [Csv, Json, Json, ArrowFile, ArrowStream]);
    }

    #[test]
    fn a_name_that_tells_no_format_is_an_error_that_names_those_there_are() {
        for path in ["a.pdf", "a.xlsx", "a", ".csv"] {
            let error = printed_format(Path::new(path)).unwrap_err().to_string();
            assert!(
                error.contains(path) && error.ends_with(".jsonl, .arrow or .arrows, or --format"),
                "{error}"
            );
        }
    }
}
