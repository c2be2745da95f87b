//! Decompresses single chunks, into no more bytes than the file allows a chunk to have.

pub(crate) mod lzo;

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use flate2::{Decompress, FlushDecompress, Status};
use orc_rust::proto::{CompressionKind, PostScript};
use stylobate_storage::Corrupt;
use zstd::zstd_safe::{find_frame_compressed_size, get_frame_content_size};

use super::fault::OrcReadError;
use crate::kernels::snappy;

/// Default maximum bytes of a chunk, if the file does not specify it.
const DEFAULT_BLOCK: u64 = 256 << 10;
/// Maximum bytes of a chunk: lengths have 23 bits.
const MAX_BLOCK: u64 = 1 << 23;
/// Maximum bytes that deflate produces from one byte.
const DEFLATE_RATIO: usize = 1032;

/// Codec of the streams and the tail of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OrcCodec {
    kind: OrcCodecKind,
    /// Maximum bytes of a decompressed chunk.
    block: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrcCodecKind {
    Zlib,
    Snappy,
    Lzo,
    Lz4,
    Zstd,
}

impl OrcCodec {
    /// Returns the codec that the postscript names; `None` if nothing is compressed.
    pub(super) fn of(postscript: &PostScript) -> Result<Option<Self>, OrcReadError> {
        let number = postscript.compression.unwrap_or_default();
        let kind = match CompressionKind::try_from(number) {
            Ok(CompressionKind::None) => return Ok(None),
            Ok(CompressionKind::Zlib) => OrcCodecKind::Zlib,
            Ok(CompressionKind::Snappy) => OrcCodecKind::Snappy,
            Ok(CompressionKind::Lzo) => OrcCodecKind::Lzo,
            Ok(CompressionKind::Lz4) => OrcCodecKind::Lz4,
            Ok(CompressionKind::Zstd) => OrcCodecKind::Zstd,
            Err(_) => {
                return Err(OrcReadError::unsupported(format!("compression {number} is not known here")));
            }
        };

        let block = match postscript.compression_block_size {
            None | Some(0) => DEFAULT_BLOCK,
            Some(block) if block <= MAX_BLOCK => block,
            Some(block) => return Err(OrcReadError::corrupt(format!("compressed chunks of {block} bytes"))),
        };
        Ok(Some(Self { kind, block: block as usize }))
    }

    /// Returns the maximum bytes of a chunk, compressed or not.
    pub(super) fn block(self) -> usize {
        self.block
    }

    /// Decompresses one chunk into `room` starting at `at`; `room` grows as needed. Returns the number of bytes.
    /// The rest of `room` is unspecified.
    pub(super) fn decompress(
        self,
        chunk: &[u8],
        room: &mut Vec<u8>,
        at: usize,
    ) -> Result<usize, OrcReadError> {
        if chunk.len() > self.block {
            return Err(OrcReadError::corrupt(format!("a compressed chunk of {} bytes", chunk.len())));
        }
        // A codec that panics on unforeseen bytes must not end the process.
        catch_unwind(AssertUnwindSafe(|| self.run(chunk, room, at)))
            .unwrap_or_else(|_| Err("the decompressor failed".into()))
            .map_err(|reason| OrcReadError::corrupt(format!("{:?}: {reason}", self.kind)))
    }

    fn run(self, chunk: &[u8], room: &mut Vec<u8>, at: usize) -> Result<usize, Corrupt> {
        match self.kind {
            OrcCodecKind::Zlib => {
                let max_len = self.block.min(chunk.len().saturating_mul(DEFLATE_RATIO) + 64);
                MEMORY.with_borrow_mut(|memory| memory.inflate(chunk, space(room, at, max_len)))
            }
            OrcCodecKind::Snappy => {
                let len = self.fits(snappy::length(chunk)?)?;
                snappy::decompress(chunk, space(room, at, len + snappy::SLACK), |_| Ok(()))
            }
            OrcCodecKind::Lzo => lzo::decompress(chunk, space(room, at, self.block)),
            OrcCodecKind::Lz4 => {
                let out = space(room, at, self.block);
                Ok(lz4_flex::block::decompress_into(chunk, out).map_err(|error| error.to_string())?)
            }
            OrcCodecKind::Zstd => {
                // A frame usually states its length.
                let is_one = find_frame_compressed_size(chunk).is_ok_and(|len| len == chunk.len());
                let len = get_frame_content_size(chunk).ok().flatten().filter(|_| is_one);
                let len = match len.and_then(|len| usize::try_from(len).ok()) {
                    Some(len) => self.fits(len)?,
                    None => self.block,
                };
                MEMORY.with_borrow_mut(|memory| memory.unpack(chunk, space(room, at, len)))
            }
        }
    }

    fn fits(self, len: usize) -> Result<usize, Corrupt> {
        if len <= self.block {
            Ok(len)
        } else {
            Err(format!("{len} bytes where {} is the most", self.block).into())
        }
    }
}

/// Returns `len` bytes of `room` starting at `at`.
pub(super) fn space(room: &mut Vec<u8>, at: usize, len: usize) -> &mut [u8] {
    let end = at.saturating_add(len);
    if room.len() < end {
        room.resize(end, 0);
    }
    room.get_mut(at..end).unwrap_or_default()
}

thread_local! {
    /// Reused by this thread for the next chunk: creating it often takes longer than decompressing a chunk.
    static MEMORY: RefCell<OrcDecompressorCache> = RefCell::default();
}

/// Decompressor state kept between chunks.
#[derive(Default)]
struct OrcDecompressorCache {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    inflate: Option<Decompress>,
}

impl OrcDecompressorCache {
    fn unpack(&mut self, chunk: &[u8], out: &mut [u8]) -> Result<usize, Corrupt> {
        let decompressor = match self.zstd.take() {
            Some(known) => known,
            None => zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?,
        };
        let decompressor = self.zstd.insert(decompressor);
        Ok(decompressor.decompress_to_buffer(chunk, out).map_err(|error| error.to_string())?)
    }

    fn inflate(&mut self, chunk: &[u8], out: &mut [u8]) -> Result<usize, Corrupt> {
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(false));
        inflate.reset(false);
        match inflate.decompress(chunk, out, FlushDecompress::Finish) {
            Ok(Status::StreamEnd) => Ok(inflate.total_out() as usize),
            Ok(_) => Err("the chunk does not end, or is too long".into()),
            Err(error) => Err(error.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn compressed(kind: OrcCodecKind, bytes: &[u8]) -> Vec<u8> {
        match kind {
            OrcCodecKind::Zlib => {
                let mut encoder =
                    flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            OrcCodecKind::Snappy => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
            OrcCodecKind::Lzo => lzokay_native::compress(bytes).unwrap(),
            OrcCodecKind::Lz4 => lz4_flex::block::compress(bytes),
            OrcCodecKind::Zstd => zstd::bulk::compress(bytes, 3).unwrap(),
        }
    }

    /// Decompresses into memory that already has other bytes.
    fn decompressed(codec: OrcCodec, chunk: &[u8]) -> Result<Vec<u8>, OrcReadError> {
        let mut room = vec![9; 700];
        let len = codec.decompress(chunk, &mut room, 3)?;
        assert_eq!(room[..3], [9; 3]);
        Ok(room[3..3 + len].to_vec())
    }

    const KINDS: [OrcCodecKind; 5] =
        [OrcCodecKind::Zlib, OrcCodecKind::Snappy, OrcCodecKind::Lzo, OrcCodecKind::Lz4, OrcCodecKind::Zstd];

    #[test]
    fn what_each_codec_makes_is_undone() {
        let bytes: Vec<u8> = (0..50_000_u32).map(|at| (at * at / 77) as u8).collect();
        for kind in KINDS {
            for len in [0, 1, 1000, 50_000] {
                let codec = OrcCodec { kind, block: 64 << 10 };
                let chunk = compressed(kind, &bytes[..len]);
                // LZO has no empty chunks.
                if !chunk.is_empty() {
                    assert_eq!(decompressed(codec, &chunk).unwrap(), bytes[..len], "{kind:?}, {len} bytes");
                }
            }
        }
    }

    #[test]
    fn a_chunk_that_grows_larger_than_chunks_may_be_is_an_error() {
        for kind in KINDS {
            let chunk = compressed(kind, &[0; 20_001]);
            assert!(decompressed(OrcCodec { kind, block: 20_001 }, &chunk).is_ok(), "{kind:?}");
            assert!(decompressed(OrcCodec { kind, block: 20_000 }, &chunk).is_err(), "{kind:?}");
        }
    }

    #[test]
    fn chunks_that_are_cut_off_or_changed_are_errors_or_other_bytes() {
        let bytes: Vec<u8> = (0..3000_u32).map(|at| (at % 251 * at) as u8).collect();
        for kind in KINDS {
            let codec = OrcCodec { kind, block: 4096 };
            let chunk = compressed(kind, &bytes);
            for at in 0..chunk.len() {
                let _ = decompressed(codec, &chunk[..at]);
                let mut changed = chunk.clone();
                changed[at] ^= 0x55;
                assert!(decompressed(codec, &changed).map_or(true, |it| it.len() <= 4096));
            }
        }
    }

    #[test]
    fn a_chunk_of_several_frames_is_all_of_them() {
        let frames =
            [compressed(OrcCodecKind::Zstd, &[1; 500]), compressed(OrcCodecKind::Zstd, &[2; 900])].concat();
        let expected = [vec![1; 500], vec![2; 900]].concat();
        assert_eq!(
            decompressed(OrcCodec { kind: OrcCodecKind::Zstd, block: 1400 }, &frames).unwrap(),
            expected
        );
        assert!(decompressed(OrcCodec { kind: OrcCodecKind::Zstd, block: 1399 }, &frames).is_err());
    }

    #[test]
    fn after_a_damaged_chunk_the_next_is_read_as_if_nothing_had_been() {
        let bytes: Vec<u8> = (0..3000_u32).map(|at| (at % 13 * at) as u8).collect();
        for kind in KINDS {
            let codec = OrcCodec { kind, block: 4096 };
            let chunk = compressed(kind, &bytes);
            for at in [1, chunk.len() / 2, chunk.len() - 1] {
                let _ = decompressed(codec, &chunk[..at]);
                assert_eq!(decompressed(codec, &chunk).unwrap(), bytes, "{kind:?}");
            }
        }
    }
}
