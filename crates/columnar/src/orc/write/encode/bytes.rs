//! Encodes bytes and bits by run length, and the validity of a column.
//!
//! They are kept uncompressed until the stripe ends: a byte or a bit per row. Therefore an empty stream is never begun,
//! and the position of each row group is known when the stream is encoded.

use arrow::{
    array::BooleanBufferBuilder,
    buffer::{BooleanBuffer, NullBuffer},
};

use crate::orc::write::{
    compression::OrcChunkCompressor,
    stream::{OrcEncodedStream, OrcStreamWriter},
};

/// Length of a run that repeats a byte.
const RUN: std::ops::RangeInclusive<usize> = 3..=130;
/// Maximum literals in a row.
const MAX_LITERALS: usize = 128;

/// Position of a row group in a byte stream: the offset of its run, and the bytes of the run before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteRunPosition {
    position: u64,
    consumed: u64,
}

/// Appends the bytes in runs, and returns the positions of `offsets`, which ascend.
fn encode(bytes: &[u8], offsets: &[usize], out: &mut Vec<u8>) -> Vec<ByteRunPosition> {
    let mut marks = Vec::with_capacity(offsets.len());
    let mut offsets = offsets.iter().copied().peekable();
    let mut mark = |start: usize, end: usize, position: usize| {
        while let Some(offset) = offsets.next_if(|offset| *offset < end) {
            marks.push(ByteRunPosition { position: position as u64, consumed: (offset - start) as u64 });
        }
    };
    let mut start = 0;
    let mut rest = bytes;

    while let Some(&first) = rest.first() {
        let repeated = rest.iter().take(*RUN.end()).take_while(|byte| **byte == first).count();
        let position = out.len();
        let len = if RUN.contains(&repeated) {
            out.extend([(repeated - RUN.start()) as u8, first]);
            repeated
        } else {
            let window = rest.get(..MAX_LITERALS).unwrap_or(rest);
            let run = window.windows(3).position(|three| matches!(three, [a, b, c] if a == b && b == c));
            let literals = window.get(..run.unwrap_or(window.len())).unwrap_or(window);
            out.push((literals.len() as u8).wrapping_neg());
            out.extend_from_slice(literals);
            literals.len()
        };

        mark(start, start + len, position);
        start += len;
        rest = rest.get(len..).unwrap_or_default();
    }

    mark(start, usize::MAX, out.len());
    marks
}

/// Encoded byte stream, and the positions of row groups in it.
pub(crate) struct EncodedByteStream {
    pub(crate) written: OrcEncodedStream,
    marks: Vec<ByteRunPosition>,
    /// For bits: the bits of the byte before each position.
    bits: Option<Vec<u64>>,
}

impl EncodedByteStream {
    /// Appends the positions to the row index of each row group.
    pub(crate) fn append_positions(&self, entries: &mut [Vec<u64>]) {
        for (at, (entry, mark)) in entries.iter_mut().zip(&self.marks).enumerate() {
            self.written.append_position(mark.position, entry);
            entry.push(mark.consumed);
            entry.extend(self.bits.as_ref().and_then(|bits| bits.get(at)));
        }
    }
}

/// Encoder of bytes.
pub(crate) struct ByteRleEncoder {
    pub(crate) values: Vec<u8>,
    groups: Vec<usize>,
}

impl ByteRleEncoder {
    pub(crate) fn new() -> Self {
        Self { values: Vec::new(), groups: Vec::new() }
    }

    pub(crate) fn begin_group(&mut self) {
        self.groups.push(self.values.len());
    }

    pub(crate) fn memory(&self) -> usize {
        self.values.capacity()
    }

    pub(crate) fn finish(
        self,
        chunk: usize,
        compressor: &mut OrcChunkCompressor,
    ) -> Result<EncodedByteStream, String> {
        let mut stream = OrcStreamWriter::new(chunk);
        let marks = encode(&self.values, &self.groups, &mut stream.raw);
        Ok(EncodedByteStream { written: stream.finish(compressor)?, marks, bits: None })
    }
}

/// Encoder of bits.
pub(crate) struct BooleanRleEncoder {
    bits: BooleanBufferBuilder,
    groups: Vec<usize>,
}

impl BooleanRleEncoder {
    pub(crate) fn new() -> Self {
        Self { bits: BooleanBufferBuilder::new(0), groups: Vec::new() }
    }

    pub(crate) fn begin_group(&mut self) {
        self.groups.push(self.bits.len());
    }

    pub(crate) fn append(&mut self, values: &BooleanBuffer) {
        self.bits.append_buffer(values);
    }

    pub(crate) fn memory(&self) -> usize {
        self.bits.capacity() / 8
    }

    pub(crate) fn finish(
        mut self,
        chunk: usize,
        compressor: &mut OrcChunkCompressor,
    ) -> Result<EncodedByteStream, String> {
        // A file stores the highest bit of a byte first, and memory the lowest.
        let bits = self.bits.finish();
        let bytes: Vec<u8> =
            bits.values().iter().take(bits.len().div_ceil(8)).map(|byte| byte.reverse_bits()).collect();
        let offsets: Vec<usize> = self.groups.iter().map(|group| group / 8).collect();
        let mut stream = OrcStreamWriter::new(chunk);
        let marks = encode(&bytes, &offsets, &mut stream.raw);
        let before = self.groups.iter().map(|group| (group % 8) as u64).collect();

        Ok(EncodedByteStream { written: stream.finish(compressor)?, marks, bits: Some(before) })
    }
}

/// Encoder of a column's validity.
pub(crate) struct PresentStreamEncoder {
    /// Allocated at the first null.
    bits: Option<BooleanBufferBuilder>,
    rows: usize,
    groups: Vec<usize>,
}

impl PresentStreamEncoder {
    pub(crate) fn new() -> Self {
        Self { bits: None, rows: 0, groups: Vec::new() }
    }

    pub(crate) fn begin_group(&mut self) {
        self.groups.push(self.rows);
    }

    pub(crate) fn append(&mut self, nulls: Option<&NullBuffer>, rows: usize) {
        if let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) {
            let before = self.rows;
            let bits = self.bits.get_or_insert_with(|| {
                let mut bits = BooleanBufferBuilder::new(before + rows);
                bits.append_n(before, true);
                bits
            });
            bits.append_buffer(nulls.inner());
        } else if let Some(bits) = &mut self.bits {
            bits.append_n(rows, true);
        }

        self.rows += rows;
    }

    pub(crate) fn memory(&self) -> usize {
        self.bits.as_ref().map_or(0, |bits| bits.capacity() / 8)
    }

    /// Finishes the stream; `None` if every row has a value.
    pub(crate) fn finish(
        self,
        chunk: usize,
        compressor: &mut OrcChunkCompressor,
    ) -> Result<Option<EncodedByteStream>, String> {
        let Some(bits) = self.bits else { return Ok(None) };
        BooleanRleEncoder { bits, groups: self.groups }.finish(chunk, compressor).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_specification_are_made() {
        let made = |bytes: &[u8]| {
            let mut out = Vec::new();
            encode(bytes, &[], &mut out);
            out
        };
        assert_eq!(made(&[0; 100]), [0x61, 0]);
        assert_eq!(made(&[0x44, 0x45]), [0xfe, 0x44, 0x45]);
        assert_eq!(made(&[0x80]), [0xff, 0x80]);
        assert!(made(&[]).is_empty());
    }

    #[test]
    fn places_are_those_of_the_runs_that_they_lie_in() {
        let bytes = [[1, 2, 3, 4].as_slice(), &[9; 200], &[5, 6]].concat();
        let mut out = Vec::new();
        let marks = encode(&bytes, &[0, 3, 4, 133, 134, 205, 206], &mut out);
        let marks: Vec<(u64, u64)> = marks.iter().map(|mark| (mark.position, mark.consumed)).collect();
        assert_eq!(marks, [(0, 0), (0, 3), (5, 0), (5, 129), (7, 0), (9, 1), (12, 0)]);
    }
}
