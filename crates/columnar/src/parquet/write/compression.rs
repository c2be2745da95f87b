//! Codecs of pages, and their names.

use std::{fmt, str::FromStr};

use parquet::basic::{BrotliLevel, Compression as Codec, GzipLevel, ZstdLevel};

use crate::file::codec_name::split_level;

/// Compression of pages. Parses and displays as `none`, `snappy`, `lz4`, `zstd(3)`, `gzip(6)`, `brotli(4)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// Snappy: fast.
    #[default]
    Snappy,
    /// LZ4, raw blocks.
    Lz4,
    /// Zstandard with a level from 1 to 22; 3 is usual.
    Zstd(i32),
    /// Gzip with a level from 0 to 9; 6 is usual.
    Gzip(u32),
    /// Brotli with a level from 0 to 11.
    Brotli(u32),
}

impl Compression {
    pub(super) fn codec(self) -> Result<Codec, String> {
        let wrong = |error: &dyn fmt::Display| format!("compression {self}: {error}");
        Ok(match self {
            Self::None => Codec::UNCOMPRESSED,
            Self::Snappy => Codec::SNAPPY,
            Self::Lz4 => Codec::LZ4_RAW,
            Self::Zstd(level) => Codec::ZSTD(ZstdLevel::try_new(level).map_err(|error| wrong(&error))?),
            Self::Gzip(level) => Codec::GZIP(GzipLevel::try_new(level).map_err(|error| wrong(&error))?),
            Self::Brotli(level) => Codec::BROTLI(BrotliLevel::try_new(level).map_err(|error| wrong(&error))?),
        })
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Snappy => f.write_str("snappy"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd({level})"),
            Self::Gzip(level) => write!(f, "gzip({level})"),
            Self::Brotli(level) => write!(f, "brotli({level})"),
        }
    }
}

/// Error for an unknown compression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no compression {0:?}: none, snappy, lz4, zstd(1 to 22), gzip(0 to 9) or brotli(0 to 11)")]
pub struct UnknownCompressionError(pub String);

impl FromStr for Compression {
    type Err = UnknownCompressionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownCompressionError(text.to_owned());
        let (name, level) = split_level(text).ok_or_else(unknown)?;
        let compression = match (name.as_str(), level) {
            ("none" | "uncompressed", None) => Self::None,
            ("snappy", None) => Self::Snappy,
            ("lz4" | "lz4_raw", None) => Self::Lz4,
            ("zstd", _) => Self::Zstd(level.unwrap_or(3) as i32),
            ("gzip", _) => Self::Gzip(level.unwrap_or(6)),
            ("brotli", _) => Self::Brotli(level.unwrap_or(4)),
            _ => return Err(unknown()),
        };

        compression.codec().map(|_| compression).map_err(|_| unknown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressions_are_read_as_they_are_written() {
        for text in ["none", "snappy", "lz4", "zstd(3)", "zstd(22)", "gzip(6)", "brotli(0)"] {
            assert_eq!(text.parse::<Compression>().unwrap().to_string(), text);
        }
        assert_eq!("ZSTD".parse(), Ok(Compression::Zstd(3)));
        for text in ["", "zip", "zstd(23)", "zstd(", "zstd(x)", "snappy(1)", "gzip(10)"] {
            assert!(text.parse::<Compression>().is_err(), "{text}");
        }
    }
}
