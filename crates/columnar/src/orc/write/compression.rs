//! Codecs of streams and their names, and the compression of one chunk.

use std::{fmt, str::FromStr};

use flate2::{Compress, FlushCompress, Status};
use lz4_flex::block::CompressTable;
use orc_rust::proto::CompressionKind;
use parking_lot::Mutex;

use crate::file::codec_name::split_level;

/// Compression of streams. Parses and displays as `none`, `zlib(6)`, `snappy`, `lz4`, `zstd(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrcCompression {
    /// No compression.
    None,
    /// Deflate with a level from 0 to 9; 6 is usual.
    Zlib(u32),
    /// Snappy: fast.
    Snappy,
    /// LZ4: fast.
    Lz4,
    /// Zstandard with a level from 1 to 22; 3 is usual.
    Zstd(i32),
}

impl Default for OrcCompression {
    fn default() -> Self {
        Self::Zstd(3)
    }
}

impl OrcCompression {
    /// Returns the kind in the postscript.
    pub(super) fn kind(self) -> CompressionKind {
        match self {
            Self::None => CompressionKind::None,
            Self::Zlib(_) => CompressionKind::Zlib,
            Self::Snappy => CompressionKind::Snappy,
            Self::Lz4 => CompressionKind::Lz4,
            Self::Zstd(_) => CompressionKind::Zstd,
        }
    }

    /// Returns whether frequent bytes take less than eight bits, so that numbers are best kept in whole bytes.
    pub(super) fn has_entropy_coding(self) -> bool {
        matches!(self, Self::Zlib(_) | Self::Zstd(_))
    }

    /// Checks that the level exists.
    pub(super) fn check(self) -> Result<(), String> {
        let (level, levels) = match self {
            Self::Zlib(level) => (i64::from(level), 0..=9),
            Self::Zstd(level) => (i64::from(level), 1..=22),
            Self::None | Self::Snappy | Self::Lz4 => return Ok(()),
        };
        if levels.contains(&level) {
            Ok(())
        } else {
            Err(format!("compression {self}: levels are {} to {}", levels.start(), levels.end()))
        }
    }
}

impl fmt::Display for OrcCompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Zlib(level) => write!(f, "zlib({level})"),
            Self::Snappy => f.write_str("snappy"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd({level})"),
        }
    }
}

/// Error for an unknown compression of ORC files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no compression {0:?} of ORC files: none, zlib(0 to 9), snappy, lz4 or zstd(1 to 22)")]
pub struct UnknownOrcCompressionError(pub String);

impl FromStr for OrcCompression {
    type Err = UnknownOrcCompressionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownOrcCompressionError(text.to_owned());
        let (name, level) = split_level(text).ok_or_else(unknown)?;
        let compression = match (name.as_str(), level) {
            ("none" | "uncompressed", None) => Self::None,
            ("zlib", _) => Self::Zlib(level.unwrap_or(6)),
            ("snappy", None) => Self::Snappy,
            ("lz4", None) => Self::Lz4,
            ("zstd", _) => Self::Zstd(i32::try_from(level.unwrap_or(3)).map_err(|_| unknown())?),
            _ => return Err(unknown()),
        };

        compression.check().map(|()| compression).map_err(|_| unknown())
    }
}

/// Idle compressors: at most as many as threads have ever worked at the same time, regardless of the number of
/// columns.
pub(super) struct OrcCompressorPool {
    compression: OrcCompression,
    idle: Mutex<Vec<OrcChunkCompressor>>,
}

impl OrcCompressorPool {
    pub(super) fn new(compression: OrcCompression) -> Self {
        Self { compression, idle: Mutex::default() }
    }

    /// Lends a compressor to `run`.
    pub(super) fn with<T, E: From<String>>(
        &self,
        run: impl FnOnce(&mut OrcChunkCompressor) -> Result<T, E>,
    ) -> Result<T, E> {
        let idle = self.idle.lock().pop();
        let mut compressor = idle.map_or_else(|| OrcChunkCompressor::new(self.compression), Ok)?;
        let done = run(&mut compressor);
        self.idle.lock().push(compressor);
        done
    }
}

/// Compressor of chunks, one after another with the same memory.
pub(super) struct OrcChunkCompressor {
    codec: OrcCompressorCodec,
    /// Buffer of compressed chunks.
    out: Vec<u8>,
}

enum OrcCompressorCodec {
    None,
    Zlib(Box<Compress>),
    Snappy(Box<snap::raw::Encoder>),
    Lz4(Box<CompressTable>),
    Zstd(Box<zstd::bulk::Compressor<'static>>),
}

impl OrcChunkCompressor {
    pub(super) fn new(compression: OrcCompression) -> Result<Self, String> {
        compression.check()?;
        let codec = match compression {
            OrcCompression::None => OrcCompressorCodec::None,
            OrcCompression::Zlib(level) => {
                OrcCompressorCodec::Zlib(Box::new(Compress::new(flate2::Compression::new(level), false)))
            }
            OrcCompression::Snappy => OrcCompressorCodec::Snappy(Box::new(snap::raw::Encoder::new())),
            OrcCompression::Lz4 => OrcCompressorCodec::Lz4(Box::new(CompressTable::large())),
            OrcCompression::Zstd(level) => {
                let compressor = zstd::bulk::Compressor::new(level).map_err(|error| error.to_string())?;
                OrcCompressorCodec::Zstd(Box::new(compressor))
            }
        };

        Ok(Self { codec, out: Vec::new() })
    }

    /// Returns whether streams are made of chunks at all.
    pub(super) fn is_some(&self) -> bool {
        !matches!(self.codec, OrcCompressorCodec::None)
    }

    /// Returns the compressed chunk; `None` if it is not shorter.
    pub(super) fn compress(&mut self, chunk: &[u8]) -> Result<Option<&[u8]>, String> {
        let room = chunk.len() + chunk.len() / 6 + 64;
        if self.out.len() < room {
            self.out.resize(room, 0);
        }
        let out = &mut self.out;
        let len = match &mut self.codec {
            OrcCompressorCodec::None => return Ok(None),
            OrcCompressorCodec::Zlib(deflate) => {
                deflate.reset();
                match deflate.compress(chunk, out, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => deflate.total_out() as usize,
                    Ok(_) => return Ok(None),
                    Err(error) => return Err(error.to_string()),
                }
            }
            OrcCompressorCodec::Snappy(encoder) => {
                encoder.compress(chunk, out).map_err(|error| error.to_string())?
            }
            OrcCompressorCodec::Lz4(table) => lz4_flex::block::compress_into_with_table(chunk, out, table)
                .map_err(|error| error.to_string())?,
            OrcCompressorCodec::Zstd(compressor) => {
                compressor.compress_to_buffer(chunk, out.as_mut_slice()).map_err(|error| error.to_string())?
            }
        };

        Ok(out.get(..len).filter(|compressed| compressed.len() < chunk.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressions_are_read_as_they_are_written() {
        for text in ["none", "zlib(6)", "zlib(0)", "snappy", "lz4", "zstd(3)", "zstd(22)"] {
            assert_eq!(text.parse::<OrcCompression>().unwrap().to_string(), text);
        }
        assert_eq!("ZSTD".parse(), Ok(OrcCompression::Zstd(3)));
        for text in ["", "lzo", "zstd(23)", "zstd(0)", "zstd(", "zlib(x)", "snappy(1)", "zlib(10)"] {
            assert!(text.parse::<OrcCompression>().is_err(), "{text}");
        }
    }
}
