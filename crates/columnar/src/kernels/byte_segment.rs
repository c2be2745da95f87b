//! Strings or bytes on their way into one array: each value is copied once, to where it stays.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BinaryArray, BooleanBufferBuilder},
    buffer::{BooleanBuffer, NullBuffer},
    datatypes::DataType,
};

use crate::kernels::utf8::{Utf8Offsets, Utf8Values};

/// Values up to so many bytes are copied as if they had as many: faster than to look how long each is.
const SHORT: usize = 32;
/// Short values that are put side by side before they are looked at, while they are near the processor.
const TOGETHER: usize = 128;
/// Bytes that memory is taken for before any were seen.
const MOST_BYTES_AHEAD: usize = 64 << 20;

/// Some rows that become an array.
#[derive(Default)]
pub(crate) struct ByteSegment {
    text: Utf8Values,
    offsets: Utf8Offsets,
    /// Begins with the first null.
    validity: Option<BooleanBufferBuilder>,
}

/// A value behind its length, with what follows it, and how long it is; `None` if it is not there to its end.
#[inline(always)]
pub(crate) fn split_plain<'v>(plain: &mut &'v [u8]) -> Option<(&'v [u8], usize)> {
    let (length, behind) = plain.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    *plain = behind.get(length..)?;
    Some((behind, length))
}

pub(crate) fn ends_early() -> String {
    "a page of values ends early".to_owned()
}

impl ByteSegment {
    /// What stands for a null among the values that are appended.
    pub(crate) const NULL: (&'static [u8], usize) = (&[0; SHORT], 0);

    /// No rows, and room for so many of so many bytes in all.
    pub(crate) fn with_capacity(rows: usize, bytes: usize) -> Self {
        let offsets = Utf8Offsets::with_capacity(rows);
        let text = Utf8Values::with_capacity(bytes.min(MOST_BYTES_AHEAD).saturating_add(TOGETHER * SHORT));
        Self { text, offsets, validity: None }
    }

    pub(crate) fn rows(&self) -> usize {
        self.offsets.strings()
    }

    /// Adds up to `count` values, each the first bytes of what `next` gives, and how many bytes these are. Returns how
    /// many there were before it gave none.
    #[inline(always)]
    pub(crate) fn append<'v>(
        &mut self,
        count: usize,
        mut next: impl FnMut() -> Result<Option<(&'v [u8], usize)>, String>,
    ) -> Result<usize, String> {
        let mut ends = [0; TOGETHER];
        let mut left = count;
        let mut is_last = false;
        while left > 0 && !is_last {
            self.end(TOGETHER * SHORT)?;
            let ends = ends.get_mut(..left.min(TOGETHER)).unwrap_or_default();
            let mut long = None;
            let values = self.text.extend_blocks(ends, || {
                let Some((from, bytes)) = next()? else {
                    is_last = true;
                    return Ok(None);
                };
                match from.first_chunk::<SHORT>() {
                    Some(from) if bytes <= SHORT => Ok(Some((from, bytes))),
                    _ => {
                        long = Some(from.get(..bytes).ok_or("a value ends early")?);
                        Ok(None)
                    }
                }
            })?;
            self.offsets.extend(ends.get(..values).unwrap_or_default())?;
            left -= values;
            if let Some(long) = long {
                let end = self.end(long.len())?;
                self.text.extend(long);
                self.offsets.extend(&[end])?;
                left -= 1;
            }
        }
        Ok(count - left)
    }

    /// Where the values end once there are so many more bytes of them.
    fn end(&self, more: usize) -> Result<i32, String> {
        let end = self.text.len().checked_add(more).and_then(|end| i32::try_from(end).ok());
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

    /// The rows as strings if that is the type, else as bytes. Strings are checked to be UTF-8.
    pub(crate) fn into_array(self, data_type: &DataType) -> Result<ArrayRef, String> {
        let offsets = self.offsets.into_buffer();
        let nulls = self.validity.map(|mut validity| NullBuffer::new(validity.finish()));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Ok(match data_type {
            DataType::Utf8 => Arc::new(self.text.into_strings(offsets, nulls)?),
            _ => {
                let array = BinaryArray::try_new(offsets, self.text.into_bytes(), nulls);
                Arc::new(array.map_err(|error| error.to_string())?)
            }
        })
    }
}
