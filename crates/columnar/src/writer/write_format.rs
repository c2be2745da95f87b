//! The formats that tables are written in, by name and by extension.

use std::{fmt, path::Path, str::FromStr};

/// A format that tables are written in. Parses and displays as `parquet`, `orc`, `csv`, `json`, `arrow` or `arrows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFormat {
    /// Parquet.
    Parquet,
    /// ORC.
    Orc,
    /// Values separated by a delimiter, with a header.
    Csv,
    /// JSON lines: one object per row.
    Json,
    /// An Arrow IPC file, with random access to its batches.
    ArrowFile,
    /// An Arrow IPC stream, read sequentially.
    ArrowStream,
}

const ALL: [WriteFormat; 6] = [
    WriteFormat::Parquet,
    WriteFormat::Orc,
    WriteFormat::Csv,
    WriteFormat::Json,
    WriteFormat::ArrowFile,
    WriteFormat::ArrowStream,
];

impl WriteFormat {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Orc => "orc",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::ArrowFile => "arrow",
            Self::ArrowStream => "arrows",
        }
    }

    /// Returns the extension of new files, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Json => "jsonl",
            other => other.name(),
        }
    }

    /// Returns the format that the extension of a path implies, in any case; `None` if it implies none.
    pub fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "jsonl" | "ndjson" => Some(Self::Json),
            "feather" | "ipc" => Some(Self::ArrowFile),
            name => name.parse().ok(),
        }
    }

    /// Returns whether it is Parquet or ORC: encoded column by column, with compression.
    pub fn is_columnar(self) -> bool {
        matches!(self, Self::Parquet | Self::Orc)
    }

    /// Returns whether files are text, which a terminal can show.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Json)
    }
}

impl fmt::Display for WriteFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Error for an unknown format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no format {0:?}: parquet, orc, csv, json, arrow or arrows")]
pub struct UnknownWriteFormatError(pub String);

impl FromStr for WriteFormat {
    type Err = UnknownWriteFormatError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let format = ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| UnknownWriteFormatError(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_the_extension_of_new_files_tell_the_format() {
        for format in ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            let path = format!("a/b.{}", format.extension());
            assert_eq!(WriteFormat::of_path(Path::new(&path)), Some(format));
        }
        assert!("CSV".parse::<WriteFormat>().is_err() && "feather".parse::<WriteFormat>().is_err());
    }

    #[test]
    fn other_extensions_tell_a_format_too_in_any_case() {
        let of = |path: &str| WriteFormat::of_path(Path::new(path));
        assert_eq!(of("a.NDJSON"), Some(WriteFormat::Json));
        assert_eq!(of("a.b.json"), Some(WriteFormat::Json));
        assert_eq!([of("a.feather"), of("a.ipc")], [Some(WriteFormat::ArrowFile); 2]);
        for path in ["a", ".csv", "a.", "a.tsv", "csv"] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
