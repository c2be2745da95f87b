//! Undoes the compression of one chunk, into no more bytes than the file allows a chunk to have.

use std::panic::{AssertUnwindSafe, catch_unwind};

use flate2::{Decompress, FlushDecompress, Status};
use orc_rust::proto::{CompressionKind, PostScript};

use super::fault::Fault;
use crate::snappy;

/// A chunk where the file does not say how long its chunks may be.
const DEFAULT_BLOCK: u64 = 256 << 10;
/// Lengths of chunks have 23 bits.
const MAX_BLOCK: u64 = 1 << 23;
/// Deflate makes no byte out of less than a 1032nd of a byte.
const DEFLATE_RATIO: usize = 1032;

/// How the streams and the tail of a file are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Codec {
    kind: Kind,
    /// The most bytes of a chunk once it is decompressed.
    block: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Zlib,
    Snappy,
    Lzo,
    Lz4,
    Zstd,
}

impl Codec {
    /// The codec that the postscript names; `None` where nothing is compressed.
    pub(super) fn of(postscript: &PostScript) -> Result<Option<Self>, Fault> {
        let number = postscript.compression.unwrap_or_default();
        let kind = match CompressionKind::try_from(number) {
            Ok(CompressionKind::None) => return Ok(None),
            Ok(CompressionKind::Zlib) => Kind::Zlib,
            Ok(CompressionKind::Snappy) => Kind::Snappy,
            Ok(CompressionKind::Lzo) => Kind::Lzo,
            Ok(CompressionKind::Lz4) => Kind::Lz4,
            Ok(CompressionKind::Zstd) => Kind::Zstd,
            Err(_) => return Err(Fault::unsupported(format!("compression {number} is not known here"))),
        };
        let block = match postscript.compression_block_size {
            None | Some(0) => DEFAULT_BLOCK,
            Some(block) if block <= MAX_BLOCK => block,
            Some(block) => return Err(Fault::corrupt(format!("compressed chunks of {block} bytes"))),
        };
        Ok(Some(Self { kind, block: block as usize }))
    }

    /// The most bytes of a chunk, compressed or not.
    pub(super) fn block(self) -> usize {
        self.block
    }

    /// The bytes of one compressed chunk.
    pub(super) fn decompress(self, chunk: &[u8]) -> Result<Vec<u8>, Fault> {
        if chunk.len() > self.block {
            return Err(Fault::corrupt(format!("a compressed chunk of {} bytes", chunk.len())));
        }
        // A codec that meets bytes which its authors did not think of must not take the process with it.
        catch_unwind(AssertUnwindSafe(|| self.run(chunk)))
            .unwrap_or_else(|_| Err("the decompressor failed".to_owned()))
            .map_err(|reason| Fault::corrupt(format!("{:?}: {reason}", self.kind)))
    }

    fn run(self, chunk: &[u8]) -> Result<Vec<u8>, String> {
        match self.kind {
            Kind::Zlib => self.inflate(chunk),
            Kind::Snappy => {
                let mut out = vec![0; self.fits(snappy::length(chunk)?)? + snappy::SLACK];
                let len = snappy::decompress(chunk, &mut out, |_| Ok(()))?;
                out.truncate(len);
                Ok(out)
            }
            Kind::Lzo => {
                let out = lzokay_native::decompress_all(chunk, None).map_err(|error| error.to_string())?;
                self.fits(out.len())?;
                Ok(out)
            }
            Kind::Lz4 => {
                let mut out = vec![0; self.block];
                let len =
                    lz4_flex::block::decompress_into(chunk, &mut out).map_err(|error| error.to_string())?;
                out.truncate(len);
                Ok(out)
            }
            Kind::Zstd => {
                let mut decoder = zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?;
                decoder.decompress(chunk, self.block).map_err(|error| error.to_string())
            }
        }
    }

    fn inflate(self, chunk: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(self.block.min(chunk.len().saturating_mul(DEFLATE_RATIO) + 64));
        let mut inflate = Decompress::new(false);
        match inflate.decompress_vec(chunk, &mut out, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) => Ok(out),
            Ok(_) => Err("the chunk does not end, or is too long".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn fits(self, len: usize) -> Result<usize, String> {
        if len <= self.block { Ok(len) } else { Err(format!("{len} bytes where {} is the most", self.block)) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn compressed(kind: Kind, bytes: &[u8]) -> Vec<u8> {
        match kind {
            Kind::Zlib => {
                let mut encoder =
                    flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Kind::Snappy => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
            Kind::Lzo => lzokay_native::compress(bytes).unwrap(),
            Kind::Lz4 => lz4_flex::block::compress(bytes),
            Kind::Zstd => zstd::bulk::compress(bytes, 3).unwrap(),
        }
    }

    const KINDS: [Kind; 5] = [Kind::Zlib, Kind::Snappy, Kind::Lzo, Kind::Lz4, Kind::Zstd];

    #[test]
    fn what_each_codec_makes_is_undone() {
        let bytes: Vec<u8> = (0..50_000_u32).map(|at| (at * at / 77) as u8).collect();
        for kind in KINDS {
            for len in [0, 1, 1000, 50_000] {
                let codec = Codec { kind, block: 64 << 10 };
                let chunk = compressed(kind, &bytes[..len]);
                // LZO has no chunk of nothing.
                if !chunk.is_empty() {
                    assert_eq!(codec.decompress(&chunk).unwrap(), bytes[..len], "{kind:?}, {len} bytes");
                }
            }
        }
    }

    #[test]
    fn a_chunk_that_grows_larger_than_chunks_may_be_is_an_error() {
        for kind in KINDS {
            let chunk = compressed(kind, &[0; 20_001]);
            assert!(Codec { kind, block: 20_001 }.decompress(&chunk).is_ok(), "{kind:?}");
            assert!(Codec { kind, block: 20_000 }.decompress(&chunk).is_err(), "{kind:?}");
        }
    }

    #[test]
    fn chunks_that_are_cut_off_or_changed_are_errors_or_other_bytes() {
        let bytes: Vec<u8> = (0..3000_u32).map(|at| (at % 251 * at) as u8).collect();
        for kind in KINDS {
            let codec = Codec { kind, block: 4096 };
            let chunk = compressed(kind, &bytes);
            for at in 0..chunk.len() {
                let _ = codec.decompress(&chunk[..at]);
                let mut changed = chunk.clone();
                changed[at] ^= 0x55;
                assert!(
                    codec.decompress(&changed).is_ok_and(|it| it.len() <= 4096)
                        || codec.decompress(&changed).is_err()
                );
            }
        }
    }
}
