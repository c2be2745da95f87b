//! File formats of tables.

use std::{
    fmt::{self, Display},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use stylobate_columnar::{Error as ColumnarError, WriteFormat, orc::OrcCompression, parquet::Compression};

use crate::Result;

/// Default maximum number of rows in a row group.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Format of the files of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "format", rename_all = "lowercase")]
#[non_exhaustive]
pub enum FileFormat {
    /// Parquet; repeated strings are dictionaries.
    Parquet {
        /// Compression of pages.
        #[serde(with = "as_text")]
        compression: Compression,
        /// Maximum number of rows in a row group.
        row_group_rows: usize,
    },
    /// ORC; repeated strings are dictionaries, and times of day are strings.
    Orc {
        /// Compression of streams.
        #[serde(with = "as_text")]
        compression: OrcCompression,
    },
    /// Comma-separated values with a header; a null is an empty field, an empty string is `""`. The social network
    /// uses `|` instead of commas.
    Csv,
    /// Arrow IPC file format; strings are plain.
    Arrow,
}

impl FileFormat {
    /// Parquet with common settings: snappy, and row groups of 1,048,576 rows.
    pub const PARQUET: Self =
        Self::Parquet { compression: Compression::Snappy, row_group_rows: ROW_GROUP_ROWS };

    /// Creates a format with the settings that apply to it; `row_group_rows` is ignored otherwise. `compression`
    /// names a codec; the default is snappy in Parquet and zstd(3) in ORC. Fails for an unknown codec, for a codec
    /// with an uncompressed format, and for JSON lines and Arrow IPC streams, in which tables cannot be generated.
    pub fn new(
        format: WriteFormat,
        compression: Option<&str>,
        row_group_rows: Option<usize>,
    ) -> Result<Self> {
        if let (Some(codec), WriteFormat::Csv | WriteFormat::ArrowFile) = (compression, format) {
            return Err(wrong(format!("{format} files are not compressed: {codec:?} has no effect")));
        }

        match format {
            WriteFormat::Parquet => Ok(Self::Parquet {
                compression: codec(compression)?,
                row_group_rows: row_group_rows.unwrap_or(ROW_GROUP_ROWS),
            }),
            WriteFormat::Orc => Ok(Self::Orc { compression: codec(compression)? }),
            WriteFormat::Csv => Ok(Self::Csv),
            WriteFormat::ArrowFile => Ok(Self::Arrow),
            WriteFormat::Json | WriteFormat::ArrowStream => {
                Err(wrong(format!("tables are not generated as {format}")))
            }
        }
    }

    /// Returns whether the files of any of the formats have this extension.
    pub(crate) fn is_extension(extension: &str) -> bool {
        let formats = [WriteFormat::Parquet, WriteFormat::Orc, WriteFormat::Csv, WriteFormat::ArrowFile];
        formats.into_iter().any(|format| format.extension() == extension)
    }

    /// Returns the format of the files without its settings.
    pub fn write_format(self) -> WriteFormat {
        match self {
            Self::Parquet { .. } => WriteFormat::Parquet,
            Self::Orc { .. } => WriteFormat::Orc,
            Self::Csv => WriteFormat::Csv,
            Self::Arrow => WriteFormat::ArrowFile,
        }
    }
}

fn codec<T: FromStr<Err: Display> + Default>(name: Option<&str>) -> Result<T> {
    name.map_or_else(|| Ok(T::default()), |name| name.parse().map_err(|error: T::Err| wrong(error)))
}

fn wrong(reason: impl Display) -> crate::Error {
    ColumnarError::Option { column: None, reason: reason.to_string() }.into()
}

/// Serializes a value through its `Display` and `FromStr`.
mod as_text {
    use serde::{Deserializer, Serializer, de::Error};

    use super::{Deserialize, FromStr, fmt};

    pub(super) fn serialize<T: fmt::Display, S: Serializer>(value: &T, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(input: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: fmt::Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(input)?.parse().map_err(D::Error::custom)
    }
}
