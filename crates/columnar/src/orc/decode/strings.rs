//! Columns of strings and bytes whose values lie one after another, and the values of dictionaries, which do too.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{ArrayRef, BinaryArray},
    buffer::{NullBuffer, OffsetBuffer, ScalarBuffer},
};

use super::{
    OrcColumnReader,
    bits::{BatchValidity, PresentStreamDecoder},
    ints::{FIRST_ROOM, IntRleDecoder},
    reached::DecodedPosition,
};
use crate::{
    kernels::utf8::Utf8Values,
    orc::{fault::OrcReadError, stream::OrcStreamReader},
};

/// Bytes that room is made for before there are any.
const MOST_AHEAD: usize = 64 << 20;

/// Values one after another.
pub(super) struct DirectStringReader {
    pub(super) presence: PresentStreamDecoder,
    pub(super) lengths: IntRleDecoder,
    pub(super) data: OrcStreamReader,
    /// Whether they are strings.
    pub(super) is_text: bool,
}

impl OrcColumnReader for DirectStringReader {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let offsets = offsets(&mut self.lengths, &rows)?;
        let bytes = bytes(&mut self.data, &offsets)?;
        if self.is_text {
            return Ok(Arc::new(bytes.into_strings(offsets, rows.nulls).map_err(OrcReadError::corrupt)?));
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

/// The dictionaries of a stripe that were decoded, by column: all of its row groups share them.
pub(in crate::orc) struct StripeDictionaries {
    known: HashMap<u32, ArrayRef>,
    /// Whether top-level columns come out as what they are in the stripe, and not value by value.
    pub(super) keeps: bool,
}

impl StripeDictionaries {
    /// Of columns that come out as they are in the stripe.
    pub(in crate::orc) fn kept() -> Self {
        Self { known: HashMap::new(), keeps: true }
    }

    /// Of columns that come out value by value.
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

/// The values of a dictionary.
pub(super) fn values(
    len: u32,
    mut lengths: IntRleDecoder,
    mut data: OrcStreamReader,
) -> Result<ArrayRef, OrcReadError> {
    let offsets = offsets(&mut lengths, &BatchValidity { len: len as usize, nulls: None })?;
    let bytes = bytes(&mut data, &offsets)?;
    Ok(Arc::new(bytes.into_strings(offsets, None).map_err(OrcReadError::corrupt)?))
}

/// The bytes of all values together.
fn bytes(data: &mut OrcStreamReader, offsets: &OffsetBuffer<i32>) -> Result<Utf8Values, OrcReadError> {
    let len = end(offsets);
    let mut text = Utf8Values::with_capacity(len.min(MOST_AHEAD));
    data.each_piece(len, |piece| text.extend(piece))?;
    Ok(text)
}

/// Where the value of each row begins, and where the last ends.
pub(super) fn offsets(
    lengths: &mut IntRleDecoder,
    rows: &BatchValidity,
) -> Result<OffsetBuffer<i32>, OrcReadError> {
    let mut offsets = Vec::with_capacity(rows.values().min(FIRST_ROOM) + 1);
    offsets.push(0);
    lengths.each(rows.values(), |lengths| append(lengths, &mut offsets))?;
    let Some(nulls) = &rows.nulls else { return Ok(OffsetBuffer::new(ScalarBuffer::from(offsets))) };
    // Rows without a value end where they begin.
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

/// Appends where values of these lengths end.
fn append(lengths: &[i64], offsets: &mut Vec<i32>) -> Result<(), OrcReadError> {
    let too_long = || {
        OrcReadError::unsupported(
            "the values of one batch are longer than 2 GiB, or more than 2 billion in lists",
        )
    };
    // As many bits as any of them has: negative ones have the highest.
    let any = lengths.iter().fold(0, |any, length| any | *length as u64);
    if any > i32::MAX as u64 {
        let negative = lengths.iter().find(|length| **length < 0);
        return Err(negative.map_or_else(too_long, |length| {
            OrcReadError::corrupt(format!("a length of {}", *length as u64))
        }));
    }
    let mut end = offsets.last().copied().unwrap_or_default();
    let sum = lengths.iter().fold(0, |sum, length| sum + *length as u64);
    if sum > (i32::MAX - end) as u64 {
        return Err(too_long());
    }
    offsets.extend(lengths.iter().map(|length| {
        end += *length as i32;
        end
    }));
    Ok(())
}

/// How much there is of all values together.
pub(super) fn end(offsets: &OffsetBuffer<i32>) -> usize {
    offsets.last().map_or(0, |end| *end as usize)
}
