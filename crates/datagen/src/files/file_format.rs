//! File formats of tables.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use stylobate_columnar::{orc::OrcCompression, parquet::Compression};

/// Format of a run's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "format", rename_all = "lowercase")]
#[non_exhaustive]
pub enum FileFormat {
    /// Parquet; repeated strings are dictionaries.
    Parquet {
        /// Compression of pages.
        #[serde(with = "as_text")]
        compression: Compression,
        /// Maximum rows of a row group.
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
    pub const PARQUET: Self = Self::Parquet { compression: Compression::Snappy, row_group_rows: 1 << 20 };

    /// Returns the extension of file names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet { .. } => "parquet",
            Self::Orc { .. } => "orc",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
        }
    }
}

/// Serialises a value by its `Display` and `FromStr`.
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
