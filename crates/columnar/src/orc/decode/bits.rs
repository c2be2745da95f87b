//! Decodes run-length encoded bytes and bits, and the validity of a column.

use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer};

use super::reached::{DecodedPosition, skippable};
use crate::orc::{bytes::StripeStreams, fault::OrcReadError, stream::OrcStreamReader, stripe::StreamKind};

/// Capacity reserved for values before any is decoded.
const INITIAL_CAPACITY: usize = 64 << 10;

/// Decoder of a byte stream.
#[derive(Debug)]
pub(super) struct ByteRleDecoder {
    stream: OrcStreamReader,
    left: usize,
    /// Byte that the run repeats; `None` for literals.
    repeated: Option<u8>,
    /// Bytes to skip before the first requested one.
    before: u64,
}

impl ByteRleDecoder {
    pub(super) fn new(mut stream: OrcStreamReader) -> Self {
        let before = stream.take_before().values;
        Self { stream, left: 0, repeated: None, before }
    }

    /// Returns the position reached.
    pub(super) fn reached(&mut self) -> Result<DecodedPosition, OrcReadError> {
        self.read(0)?;
        Ok(DecodedPosition { cursor: self.stream.cursor(), run: self.left, bits: 0 })
    }

    pub(super) fn read(&mut self, len: usize) -> Result<Vec<u8>, OrcReadError> {
        if self.before > 0 {
            let before = skippable(std::mem::take(&mut self.before))?;
            self.read(before)?;
        }
        let mut values = Vec::with_capacity(len.min(INITIAL_CAPACITY));
        while values.len() < len {
            self.next_run()?;
            let now = self.left.min(len - values.len());
            match self.repeated {
                Some(byte) => values.extend(std::iter::repeat_n(byte, now)),
                None => self.stream.append_to(&mut values, now)?,
            }
            self.left -= now;
        }

        Ok(values)
    }

    fn byte(&mut self) -> Result<u8, OrcReadError> {
        self.next_run()?;
        self.left -= 1;
        match self.repeated {
            Some(byte) => Ok(byte),
            None => self.stream.byte(),
        }
    }

    fn next_run(&mut self) -> Result<(), OrcReadError> {
        if self.left == 0 {
            let control = self.stream.byte()? as i8;
            (self.left, self.repeated) = match control {
                0.. => (usize::from(control.unsigned_abs()) + 3, Some(self.stream.byte()?)),
                _ => (usize::from(control.unsigned_abs()), None),
            };
        }
        Ok(())
    }
}

/// Decoder of a bit stream, highest bit of each byte first.
#[derive(Debug)]
pub(super) struct BooleanRleDecoder {
    bytes: ByteRleDecoder,
    /// Bits read and not yet returned: the lowest `have`.
    bits: u16,
    have: u32,
    /// Bits to skip in the first requested byte.
    before: u64,
}

impl BooleanRleDecoder {
    pub(super) fn new(mut stream: OrcStreamReader) -> Self {
        let before = stream.take_before();
        let mut bytes = ByteRleDecoder::new(stream);
        bytes.before = before.values;
        Self { bytes, bits: 0, have: 0, before: before.bits }
    }

    /// Returns the position reached.
    pub(super) fn reached(&mut self) -> Result<DecodedPosition, OrcReadError> {
        self.begin()?;
        Ok(DecodedPosition { bits: self.have, ..self.bytes.reached()? })
    }

    /// Skips to the first requested bit.
    fn begin(&mut self) -> Result<(), OrcReadError> {
        self.bytes.read(0)?;
        if self.before > 0 {
            let before = u32::try_from(std::mem::take(&mut self.before)).ok();
            let left = before.and_then(|before| u8::BITS.checked_sub(before));
            self.have = left.ok_or_else(|| OrcReadError::corrupt("a position of more than 8 bits"))?;
            self.bits = u16::from(self.bytes.byte()?);
        }
        Ok(())
    }

    pub(super) fn read(&mut self, len: usize) -> Result<BooleanBuffer, OrcReadError> {
        self.begin()?;
        let mut packed = self.bytes.read(len / 8)?;
        for byte in &mut packed {
            // Pending bits come first, and the same number of bits of this byte is pending afterwards.
            self.bits = self.bits << 8 | u16::from(*byte);
            *byte = ((self.bits >> self.have) as u8).reverse_bits();
        }

        let left = (len % 8) as u32;
        if left > 0 {
            if self.have < left {
                self.bits = self.bits << 8 | u16::from(self.bytes.byte()?);
                self.have += 8;
            }
            self.have -= left;
            // Bits returned before are shifted out to the left; those after are cut off on the right.
            let next = (self.bits >> self.have << (8 - left)) as u8;
            packed.push(next.reverse_bits());
        }

        Ok(BooleanBuffer::new(Buffer::from_vec(packed), 0, len))
    }
}

/// Decoder of a column's validity.
#[derive(Debug)]
pub(super) struct PresentStreamDecoder(Option<BooleanRleDecoder>);

/// Validity of a batch.
#[derive(Debug)]
pub(super) struct BatchValidity {
    pub(super) len: usize,
    /// `None` if all rows have a value.
    pub(super) nulls: Option<NullBuffer>,
}

impl PresentStreamDecoder {
    pub(super) fn of(column: u32, streams: &StripeStreams) -> Self {
        Self(streams.find(column, StreamKind::Present).map(BooleanRleDecoder::new))
    }

    /// Returns the position reached, if there is a stream.
    pub(super) fn reached(&mut self) -> Result<Option<DecodedPosition>, OrcReadError> {
        self.0.as_mut().map(BooleanRleDecoder::reached).transpose()
    }

    /// Reads the next `len` rows. The stream omits rows that the column's parent lacks.
    pub(super) fn read(
        &mut self,
        len: usize,
        parent: Option<&NullBuffer>,
    ) -> Result<BatchValidity, OrcReadError> {
        let parent = parent.filter(|parent| parent.null_count() > 0);
        let nulls = match (&mut self.0, parent) {
            (None, parent) => parent.cloned(),
            (Some(bits), None) => Some(NullBuffer::new(bits.read(len)?)),
            (Some(bits), Some(parent)) => {
                let own = bits.read(len - parent.null_count())?;
                let mut merged = MutableBuffer::from_len_zeroed(len.div_ceil(8));
                let bytes = merged.as_slice_mut();

                for (row, present) in parent.valid_indices().zip(own.iter()) {
                    if let Some(byte) = bytes.get_mut(row / 8) {
                        *byte |= u8::from(present) << (row % 8);
                    }
                }

                Some(NullBuffer::new(BooleanBuffer::new(merged.into(), 0, len)))
            }
        };

        Ok(BatchValidity { len, nulls: nulls.filter(|nulls| nulls.null_count() > 0) })
    }
}

impl BatchValidity {
    /// Returns the number of rows with a value.
    pub(super) fn values(&self) -> usize {
        self.len - self.nulls.as_ref().map_or(0, NullBuffer::null_count)
    }

    /// Scatters values to their rows; rows without one get the default.
    pub(super) fn scatter<T: Copy + Default>(&self, values: Vec<T>) -> Vec<T> {
        let Some(nulls) = &self.nulls else { return values };
        let mut rows = Vec::with_capacity(self.len);
        let mut left = values.as_slice();

        for (start, end) in nulls.valid_slices() {
            rows.resize(start, T::default());
            let (run, rest) = left.split_at(left.len().min(end - start));
            rows.extend_from_slice(run);
            left = rest;
        }

        rows.resize(self.len, T::default());
        rows
    }

    pub(super) fn spread_bits(&self, values: BooleanBuffer) -> BooleanBuffer {
        let Some(nulls) = &self.nulls else { return values };
        let mut rows = MutableBuffer::from_len_zeroed(self.len.div_ceil(8));
        let bytes = rows.as_slice_mut();

        for (row, value) in nulls.valid_indices().zip(values.iter()) {
            if let Some(byte) = bytes.get_mut(row / 8) {
                *byte |= u8::from(value) << (row % 8);
            }
        }

        BooleanBuffer::new(rows.into(), 0, self.len)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn stream(bytes: &[u8]) -> OrcStreamReader {
        OrcStreamReader::new(Bytes::copy_from_slice(bytes), None)
    }

    #[test]
    fn the_examples_of_the_specification_decode_to_what_it_says() {
        assert_eq!(ByteRleDecoder::new(stream(&[0x61, 0])).read(100).unwrap(), [0; 100]);
        assert_eq!(ByteRleDecoder::new(stream(&[0xfe, 0x44, 0x45])).read(2).unwrap(), [0x44, 0x45]);
        let bits = BooleanRleDecoder::new(stream(&[0xff, 0x80])).read(8).unwrap();
        assert_eq!(bits.iter().collect::<Vec<_>>(), [true, false, false, false, false, false, false, false]);
    }

    #[test]
    fn bits_are_the_same_in_whatever_pieces_they_are_read() {
        let bytes = [0xfb, 0b1010_0110, 0xff, 0x01, 0b0110_1001, 0x80];
        let all: Vec<bool> = BooleanRleDecoder::new(stream(&bytes)).read(40).unwrap().iter().collect();
        for piece in 1..20 {
            let mut bits = BooleanRleDecoder::new(stream(&bytes));
            let mut read = Vec::new();
            while read.len() < 40 {
                read.extend(bits.read(piece.min(40 - read.len())).unwrap().iter());
            }
            assert_eq!(read, all, "pieces of {piece}");
        }

        assert!(BooleanRleDecoder::new(stream(&bytes)).read(41).is_err());
    }
}
