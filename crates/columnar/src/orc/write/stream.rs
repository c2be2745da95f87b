//! Compresses the bytes of one stream in chunks, as they are written.

use super::compression::OrcChunkCompressor;

/// Bytes of a chunk's flag and length.
const HEADER: usize = 3;

/// Stream writer. Bytes stay in `raw` until they are compressed.
pub(super) struct OrcStreamWriter {
    pub(super) raw: Vec<u8>,
    /// Bytes that were already compressed and removed from `raw`.
    before: u64,
    chunk: usize,
    written: OrcEncodedStream,
}

/// Encoded bytes of a stream.
#[derive(Default)]
pub(super) struct OrcEncodedStream {
    pub(super) pieces: Vec<Vec<u8>>,
    pub(super) len: u64,
    /// Start of each compressed chunk; empty if nothing is compressed.
    starts: Vec<u64>,
    chunk: u64,
    is_compressed: bool,
}

impl OrcStreamWriter {
    /// Creates a stream whose chunks have `chunk` bytes before compression.
    pub(super) fn new(chunk: usize) -> Self {
        let written = OrcEncodedStream { chunk: chunk as u64, ..OrcEncodedStream::default() };
        Self { raw: Vec::new(), before: 0, chunk, written }
    }

    /// Returns the number of bytes written so far.
    pub(super) fn position(&self) -> u64 {
        self.before + self.raw.len() as u64
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.raw.capacity() + self.written.len as usize
    }

    /// Estimates the encoded bytes: the rest is assumed to compress like the part that was compressed.
    pub(super) fn encoded(&self) -> usize {
        let rest = self.raw.len();
        let rest = match self.before {
            0 => rest,
            before => (rest as u128 * u128::from(self.written.len) / u128::from(before)) as usize,
        };
        self.written.len as usize + rest
    }

    /// Compresses full chunks.
    pub(super) fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        if !compressor.is_some() || self.raw.len() < self.chunk {
            return Ok(());
        }

        let chunks = self.raw.chunks_exact(self.chunk);
        let rest = chunks.remainder().len();
        for chunk in chunks {
            self.written.push(chunk, compressor)?;
        }
        let done = self.raw.len() - rest;
        self.raw.drain(..done);
        self.before += done as u64;

        Ok(())
    }

    /// Compresses the rest, and returns the encoded stream.
    pub(super) fn finish(mut self, compressor: &mut OrcChunkCompressor) -> Result<OrcEncodedStream, String> {
        if compressor.is_some() {
            self.compress(compressor)?;
            self.written.is_compressed = true;
            if !self.raw.is_empty() {
                self.written.push(&self.raw, compressor)?;
            }
        } else if !self.raw.is_empty() {
            self.written.len = self.raw.len() as u64;
            self.written.pieces.push(self.raw);
        }

        Ok(self.written)
    }
}

impl OrcEncodedStream {
    fn push(&mut self, chunk: &[u8], compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        let (body, is_original) = match compressor.compress(chunk)? {
            Some(compressed) => (compressed, 0),
            None => (chunk, 1),
        };
        let header = (body.len() as u32) << 1 | is_original;
        let mut piece = Vec::with_capacity(HEADER + body.len());
        piece.extend_from_slice(header.to_le_bytes().get(..HEADER).unwrap_or_default());
        piece.extend_from_slice(body);
        self.starts.push(self.len);
        self.len += piece.len() as u64;
        self.pieces.push(piece);

        Ok(())
    }

    /// Appends the row index position after `position` bytes of the stream: the start of the chunk and the offset
    /// within it, or just the offset in the stream if nothing is compressed.
    pub(super) fn append_position(&self, position: u64, positions: &mut Vec<u64>) {
        if !self.is_compressed {
            positions.push(position);
            return;
        }

        match self.starts.get((position / self.chunk) as usize) {
            Some(start) => positions.extend([*start, position % self.chunk]),
            // At the end of the stream there is nothing more to read.
            None => positions.extend([self.len, 0]),
        }
    }
}

/// Compresses a message like a stream.
pub(super) fn message(
    bytes: Vec<u8>,
    chunk: usize,
    compressor: &mut OrcChunkCompressor,
) -> Result<OrcEncodedStream, String> {
    let mut stream = OrcStreamWriter::new(chunk);
    stream.raw = bytes;
    stream.finish(compressor)
}

#[cfg(test)]
mod tests {
    use super::{super::compression::OrcCompression, *};

    #[test]
    fn places_in_a_compressed_stream_are_those_of_its_chunks() {
        let mut compressor = OrcChunkCompressor::new(OrcCompression::Snappy).unwrap();
        let mut stream = OrcStreamWriter::new(100);
        stream.raw.extend([7; 250]);
        stream.compress(&mut compressor).unwrap();
        assert_eq!((stream.position(), stream.raw.len()), (250, 50));
        stream.raw.extend((0..50).map(|at: u8| at.wrapping_mul(77)));
        let written = stream.finish(&mut compressor).unwrap();
        let lengths: Vec<u64> = written.pieces.iter().map(|piece| piece.len() as u64).collect();

        let positions: Vec<Vec<u64>> = [0, 99, 100, 299, 300]
            .into_iter()
            .map(|position| {
                let mut recorded = Vec::new();
                written.append_position(position, &mut recorded);
                recorded
            })
            .collect();

        let second = lengths[0];
        let third = lengths[0] + lengths[1];
        let expected = [vec![0, 0], vec![0, 99], vec![second, 0], vec![third, 99], vec![written.len, 0]];
        assert_eq!(positions, expected);
    }

    #[test]
    fn chunks_that_do_not_become_shorter_are_kept_as_they_are() {
        let mut compressor = OrcChunkCompressor::new(OrcCompression::Zstd(3)).unwrap();
        let written = message(vec![1, 2, 3, 4, 5], 100, &mut compressor).unwrap();
        assert_eq!(written.pieces, [vec![5 << 1 | 1, 0, 0, 1, 2, 3, 4, 5]]);
    }
}
