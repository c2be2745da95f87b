//! The formats that tables are written in.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use stylobate_columnar::{Compression, OrcCompression};

/// How the files of a run are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "format", rename_all = "lowercase")]
#[non_exhaustive]
pub enum FileFormat {
    /// Parquet; strings that repeat are dictionaries.
    Parquet {
        /// How pages are compressed.
        #[serde(with = "as_text")]
        compression: Compression,
        /// Rows of a row group at most.
        row_group_rows: usize,
    },
    /// ORC; strings that repeat are dictionaries, and times of day are strings.
    Orc {
        /// How streams are compressed.
        #[serde(with = "as_text")]
        compression: OrcCompression,
    },
    /// Comma-separated values with a header; a null is an empty field, an empty string is `""`. Of the social network,
    /// `|` takes the place of commas.
    Csv,
    /// Arrow IPC, the file; strings are plain.
    Arrow,
}

impl FileFormat {
    /// Parquet as it usually is: snappy, and row groups of 1,048,576 rows.
    pub const PARQUET: Self = Self::Parquet { compression: Compression::Snappy, row_group_rows: 1 << 20 };

    /// How names of such files end.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet { .. } => "parquet",
            Self::Orc { .. } => "orc",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
        }
    }
}

/// A value as the text that it reads and writes itself as.
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
