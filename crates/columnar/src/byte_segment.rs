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
/// Short values that are put side by side near the processor before they go to where they stay.
const TOGETHER: usize = 128;
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

/// A value behind its length, and what follows both.
#[inline(always)]
pub(crate) fn split_plain<'v>(plain: &mut &'v [u8]) -> Result<(&'v [u8], usize), String> {
    let early = || "a page of values ends early".to_owned();
    let (length, behind) = plain.split_first_chunk::<4>().ok_or_else(early)?;
    let length = u32::from_le_bytes(*length) as usize;
    *plain = behind.get(length..).ok_or_else(early)?;
    Ok((behind, length))
}

impl ByteSegment {
    /// What stands for a null among the values that are appended.
    pub(crate) const NULL: (&'static [u8], usize) = (&[0; SHORT], 0);

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

    /// Adds `count` values, each the first bytes of what `next` gives, and how many bytes these are.
    #[inline(always)]
    pub(crate) fn append<'v>(
        &mut self,
        count: usize,
        mut next: impl FnMut() -> Result<(&'v [u8], usize), String>,
    ) -> Result<(), String> {
        let mut block = [0; (TOGETHER + 1) * SHORT];
        let mut ends = [0; TOGETHER];
        let mut left = count;
        while left > 0 {
            let before = self.end(block.len())? - block.len() as i32;
            let (mut length, mut values) = (0, 0);
            let mut long = None;
            for end in ends.iter_mut().take(left) {
                let (from, bytes) = next()?;
                let to = block.get_mut(length..).and_then(|to| to.first_chunk_mut::<SHORT>());
                match (from.first_chunk::<SHORT>(), to) {
                    (Some(from), Some(to)) if bytes <= SHORT => *to = *from,
                    _ => {
                        long = Some(from.get(..bytes).ok_or("a value ends early")?);
                        break;
                    }
                }
                length += bytes;
                *end = before + length as i32;
                values += 1;
            }
            self.bytes.extend_from_slice(block.get(..length).unwrap_or_default());
            self.offsets.extend_from_slice(ends.get(..values).unwrap_or_default());
            left -= values;
            if let Some(long) = long {
                let end = self.end(long.len())?;
                self.bytes.extend_from_slice(long);
                self.offsets.push(end);
                left -= 1;
            }
        }
        Ok(())
    }

    /// Where the values end once there are so many more bytes of them.
    fn end(&self, more: usize) -> Result<i32, String> {
        let end = self.bytes.len().checked_add(more).and_then(|end| i32::try_from(end).ok());
        end.ok_or_else(|| "more than 2 GiB of values in one array".to_owned())
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
