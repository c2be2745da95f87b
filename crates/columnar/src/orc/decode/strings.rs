//! Decodes columns of strings and bytes without a dictionary, and the values of dictionaries.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{ArrayRef, BinaryArray},
    buffer::{NullBuffer, OffsetBuffer, ScalarBuffer},
};

use super::{
    OrcColumnReader,
    bits::{BatchValidity, PresentStreamDecoder},
    ints::{INITIAL_CAPACITY, IntRleDecoder},
    reached::DecodedPosition,
};
use crate::{
    kernels::utf8::Utf8Values,
    orc::{fault::OrcReadError, stream::OrcStreamReader},
};

/// Maximum bytes that capacity is reserved for in advance.
const MAX_AHEAD: usize = 64 << 20;

/// Decoder of consecutive values.
pub(super) struct DirectStringReader {
    pub(super) presence: PresentStreamDecoder,
    pub(super) lengths: IntRleDecoder,
    pub(super) data: OrcStreamReader,
    /// True for strings.
    pub(super) is_text: bool,
}

impl OrcColumnReader for DirectStringReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let offsets = offsets(&mut self.lengths, &rows)?;
        let bytes = bytes(&mut self.data, &offsets)?;
        if self.is_text {
            return Ok(Arc::new(bytes.into_strings(offsets, rows.nulls)?));
        }
        let array = BinaryArray::try_new(offsets, bytes.into_bytes(), rows.nulls);
        Ok(Arc::new(array.map_err(|error| OrcReadError::corrupt(error.to_string()))?))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(self.lengths.reached()?);
        reached.push(DecodedPosition::of(&self.data));
        Ok(())
    }
}

/// Decoded dictionaries of a stripe, by column: all of its row groups share them.
pub(in crate::orc) struct StripeDictionaries {
    known: HashMap<u32, ArrayRef>,
    /// True if top-level columns keep the stripe's dictionaries instead of being expanded.
    pub(super) keeps: bool,
}

impl StripeDictionaries {
    /// Creates the dictionaries of columns that keep them.
    pub(in crate::orc) fn kept() -> Self {
        Self { known: HashMap::new(), keeps: true }
    }

    /// Creates the dictionaries of columns that are expanded.
    pub(in crate::orc) fn expanded() -> Self {
        Self { keeps: false, ..Self::kept() }
    }

    pub(super) fn get(
        &mut self,
        column: u32,
        read: impl FnOnce() -> Result<ArrayRef, OrcReadError>,
    ) -> Result<ArrayRef, OrcReadError> {
        if let Some(known) = self.known.get(&column) {
            return Ok(known.clone());
        }
        let values = read()?;
        self.known.insert(column, values.clone());
        Ok(values)
    }
}

/// Returns the values of a dictionary.
pub(super) fn values(
    len: u32,
    mut lengths: IntRleDecoder,
    mut data: OrcStreamReader,
) -> Result<ArrayRef, OrcReadError> {
    let offsets = offsets(&mut lengths, &BatchValidity { len: len as usize, nulls: None })?;
    let bytes = bytes(&mut data, &offsets)?;
    Ok(Arc::new(bytes.into_strings(offsets, None)?))
}

/// Reads the bytes of all values.
fn bytes(data: &mut OrcStreamReader, offsets: &OffsetBuffer<i32>) -> Result<Utf8Values, OrcReadError> {
    let len = end(offsets);
    let mut text = Utf8Values::with_capacity(len.min(MAX_AHEAD));
    data.each_piece(len, |piece| text.extend(piece))?;
    Ok(text)
}

/// Reads the offsets of the rows' values, and the end of the last.
pub(super) fn offsets(
    lengths: &mut IntRleDecoder,
    rows: &BatchValidity,
) -> Result<OffsetBuffer<i32>, OrcReadError> {
    let mut offsets = Vec::with_capacity(rows.values().min(INITIAL_CAPACITY) + 1);
    offsets.push(0);
    lengths.each(rows.values(), |lengths| append(lengths, &mut offsets))?;
    let Some(nulls) = &rows.nulls else { return Ok(OffsetBuffer::new(ScalarBuffer::from(offsets))) };
    // Rows without a value have an empty range.

    let mut spread = Vec::with_capacity(rows.len + 1);
    spread.push(0);
    let mut left = offsets.get(1..).unwrap_or_default();

    for (start, end) in nulls.valid_slices() {
        spread.resize(start + 1, spread.last().copied().unwrap_or_default());
        let (run, rest) = left.split_at(left.len().min(end - start));
        spread.extend_from_slice(run);
        left = rest;
    }

    spread.resize(rows.len + 1, spread.last().copied().unwrap_or_default());
    Ok(OffsetBuffer::new(ScalarBuffer::from(spread)))
}

/// Appends the end offsets of values with these lengths.
fn append(lengths: &[i64], offsets: &mut Vec<i32>) -> Result<(), OrcReadError> {
    // Union of the bits of all lengths: negative ones have the highest.
    let any = lengths.iter().fold(0, |any, length| any | *length as u64);
    if any > i32::MAX as u64 {
        let negative = lengths.iter().find(|length| **length < 0);
        return Err(negative.map_or_else(OrcReadError::batch_too_long, |length| {
            OrcReadError::corrupt(format!("a length of {}", *length as u64))
        }));
    }

    let mut end = offsets.last().copied().unwrap_or_default();
    let sum = lengths.iter().fold(0, |sum, length| sum + *length as u64);
    if sum > (i32::MAX - end) as u64 {
        return Err(OrcReadError::batch_too_long());
    }

    offsets.extend(lengths.iter().map(|length| {
        end += *length as i32;
        end
    }));
    Ok(())
}

/// Returns the bytes of all values.
pub(super) fn end(offsets: &OffsetBuffer<i32>) -> usize {
    offsets.last().map_or(0, |end| *end as usize)
}
