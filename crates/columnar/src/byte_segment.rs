//! Strings or bytes on their way into one array: each value is copied once, to where it stays.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BinaryArray, BooleanBufferBuilder},
    buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer},
    datatypes::DataType,
};

use crate::utf8;

/// Values up to so many bytes are copied as if they had as many: faster than to look how long each is.
const SHORT: usize = 32;
/// Bytes that memory is taken for before any were seen.
const MOST_BYTES_AHEAD: usize = 64 << 20;

/// Some rows that become an array.
#[derive(Default)]
pub(crate) struct ByteSegment {
    bytes: Vec<u8>,
    /// Where the values begin, and where the last ends.
    offsets: Vec<i32>,
    /// Begins with the first null.
    validity: Option<BooleanBufferBuilder>,
}

impl ByteSegment {
    /// No rows, and room for so many of so many bytes in all.
    pub(crate) fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        let bytes = Vec::with_capacity(bytes.saturating_add(SHORT).min(MOST_BYTES_AHEAD));
        Self { bytes, offsets, validity: None }
    }

    pub(crate) fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Adds the next `count` values of `plain`, each behind its length, and goes behind them.
    pub(crate) fn append_plain(&mut self, plain: &mut &[u8], count: usize) -> Result<(), String> {
        for _ in 0..count {
            let (length, behind) = plain.split_first_chunk::<4>().ok_or("a page of values ends early")?;
            let length = u32::from_le_bytes(*length) as usize;
            let next = behind.get(length..).ok_or("a page of values ends early")?;
            self.push(behind, length)?;
            *plain = next;
        }
        Ok(())
    }

    /// Adds the value that the first `length` bytes of `from` are.
    #[inline(always)]
    pub(crate) fn push(&mut self, from: &[u8], length: usize) -> Result<(), String> {
        let end = self.bytes.len() + length;
        match from.first_chunk::<SHORT>() {
            Some(block) if length <= SHORT => {
                self.bytes.extend_from_slice(block);
                self.bytes.truncate(end);
            }
            _ => self.bytes.extend_from_slice(from.get(..length).ok_or("a value ends early")?),
        }
        self.offsets.push(i32::try_from(end).map_err(|_| "more than 2 GiB of values in one array")?);
        Ok(())
    }

    /// Says which of the next rows have a value; to be called before they are added.
    pub(crate) fn mark(&mut self, valid: Option<&BooleanBuffer>, rows: usize) {
        let before = self.rows();
        match (valid, &mut self.validity) {
            (None, None) => {}
            (None, Some(validity)) => validity.append_n(rows, true),
            (Some(valid), validity) => {
                let validity = validity.get_or_insert_with(|| {
                    let mut validity = BooleanBufferBuilder::new(before + rows);
                    validity.append_n(before, true);
                    validity
                });
                validity.append_buffer(valid);
            }
        }
    }

    /// Adds nulls, which have no bytes, up to so many rows in all.
    pub(crate) fn fill_to(&mut self, rows: usize) {
        let end = self.offsets.last().copied().unwrap_or(0);
        self.offsets.resize(rows + 1, end);
    }

    /// The rows as strings if that is the type, else as bytes. Strings are checked to be UTF-8 all at once.
    pub(crate) fn into_array(mut self, data_type: &DataType) -> Result<ArrayRef, String> {
        let used = self.bytes.len();
        if self.bytes.capacity() > used + used / 8 + SHORT {
            self.bytes.shrink_to_fit();
        }
        let offsets = OffsetBuffer::new(self.offsets.into());
        let nulls = self.validity.map(|mut validity| NullBuffer::new(validity.finish()));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let bytes = Buffer::from_vec(self.bytes);
        Ok(match data_type {
            DataType::Utf8 => Arc::new(utf8::strings(offsets, bytes, nulls)?),
            _ => Arc::new(BinaryArray::try_new(offsets, bytes, nulls).map_err(|error| error.to_string())?),
        })
    }
}
