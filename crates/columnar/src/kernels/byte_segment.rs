//! Assembles strings or bytes into one array. Each value is copied once, to its final position.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BinaryArray, BooleanBufferBuilder},
    buffer::{BooleanBuffer, NullBuffer},
    datatypes::DataType,
};
use stylobate_storage::Corrupt;

use crate::kernels::utf8::{Utf8Offsets, Utf8Values};

/// Values up to this many bytes are copied as blocks of this size, which is faster than copies of their exact lengths.
const SHORT: usize = 32;
/// Short values that are appended before they are checked together, while they are in the CPU cache.
const BATCH: usize = 128;
/// Reason of the error if the values exceed the offsets of an array.
pub(crate) const ARRAY_TOO_LONG: &str = "more than 2 GiB of values in one array";
/// Maximum bytes to reserve before any value is seen.
const MAX_BYTES_AHEAD: usize = 64 << 20;

/// Rows that become an array.
#[derive(Default)]
pub(crate) struct ByteSegment {
    text: Utf8Values,
    offsets: Utf8Offsets,
    /// Allocated at the first null.
    validity: Option<BooleanBufferBuilder>,
}

/// Splits off a value after its length prefix. Returns the bytes from the value on, and its length; `None` if it is
/// truncated.
#[inline(always)]
pub(crate) fn split_plain<'v>(plain: &mut &'v [u8]) -> Option<(&'v [u8], usize)> {
    let (length, behind) = plain.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    *plain = behind.get(length..)?;
    Some((behind, length))
}

impl ByteSegment {
    /// Placeholder of a null among the appended values.
    pub(crate) const NULL: (&'static [u8], usize) = (&[0; SHORT], 0);

    /// Creates a segment without rows, with room for `rows` rows of `bytes` bytes in total.
    pub(crate) fn with_capacity(rows: usize, bytes: usize) -> Self {
        let offsets = Utf8Offsets::with_capacity(rows);
        let text = Utf8Values::with_capacity(bytes.min(MAX_BYTES_AHEAD).saturating_add(BATCH * SHORT));
        Self { text, offsets, validity: None }
    }

    pub(crate) fn rows(&self) -> usize {
        self.offsets.strings()
    }

    /// Appends up to `count` values. `next` returns bytes that begin with the value, and its length. Returns the number
    /// of values before `next` returned `None`.
    #[inline(always)]
    pub(crate) fn append<'v>(
        &mut self,
        count: usize,
        mut next: impl FnMut() -> Result<Option<(&'v [u8], usize)>, Corrupt>,
    ) -> Result<usize, Corrupt> {
        let mut ends = [0; BATCH];
        let mut left = count;
        let mut is_last = false;

        while left > 0 && !is_last {
            self.end(BATCH * SHORT)?;
            let ends = ends.get_mut(..left.min(BATCH)).unwrap_or_default();
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

    /// Returns the end offset of the values after `more` bytes.
    fn end(&self, more: usize) -> Result<i32, Corrupt> {
        let end = self.text.len().checked_add(more).and_then(|end| i32::try_from(end).ok());
        Ok(end.ok_or(ARRAY_TOO_LONG)?)
    }

    /// Marks the next rows as valid or null. Must be called before they are appended.
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

    /// Returns the rows as strings if that is the type, else as bytes. Strings are checked to be UTF-8.
    pub(crate) fn into_array(self, data_type: &DataType) -> Result<ArrayRef, Corrupt> {
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
