//! Columns of strings and bytes, whether their values lie one after another or in a dictionary.

use std::{collections::HashMap, marker::PhantomData, sync::Arc};

use arrow::{
    array::{ArrayRef, GenericByteArray},
    buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::ByteArrayType,
};

use super::{
    Decode,
    bits::{Presence, Rows},
    ints::Ints,
    reached::Reached,
};
use crate::orc::{fault::Fault, stream::Stream};

/// Values one after another.
pub(super) struct Direct<T> {
    pub(super) presence: Presence,
    pub(super) lengths: Ints,
    pub(super) data: Stream,
    pub(super) of: PhantomData<fn() -> T>,
}

impl<T: ByteArrayType<Offset = i32>> Decode for Direct<T> {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, Fault> {
        let rows = self.presence.read(len, parent)?;
        let lengths = self.lengths.read(rows.values())?;
        let offsets = offsets(rows.spread(lengths))?;
        let mut data = Vec::new();
        self.data.append_to(&mut data, end(&offsets))?;
        array::<T>(offsets, data, rows)
    }

    fn reached(&mut self, reached: &mut Vec<Reached>) -> Result<(), Fault> {
        reached.extend(self.presence.reached()?);
        reached.push(self.lengths.reached()?);
        reached.push(Reached::of(&self.data));
        Ok(())
    }
}

/// Numbers of values in a dictionary.
pub(super) struct Dictionary<T> {
    pub(super) presence: Presence,
    pub(super) codes: Ints,
    pub(super) values: Arc<Values>,
    pub(super) of: PhantomData<fn() -> T>,
}

/// The dictionaries of a stripe that were decoded, by column: all of its row groups share them.
#[derive(Default)]
pub(in crate::orc) struct Dictionaries(HashMap<u32, Arc<Values>>);

impl Dictionaries {
    pub(super) fn get(
        &mut self,
        column: u32,
        read: impl FnOnce() -> Result<Values, Fault>,
    ) -> Result<Arc<Values>, Fault> {
        if let Some(known) = self.0.get(&column) {
            return Ok(known.clone());
        }
        let values = Arc::new(read()?);
        self.0.insert(column, values.clone());
        Ok(values)
    }
}

/// The values of a dictionary.
pub(super) struct Values {
    data: Vec<u8>,
    /// Where each begins, and where the last ends.
    offsets: OffsetBuffer<i32>,
}

impl Values {
    pub(super) fn read(len: u32, mut lengths: Ints, mut stream: Stream) -> Result<Self, Fault> {
        let offsets = offsets(lengths.read(len as usize)?)?;
        let mut data = Vec::new();
        stream.append_to(&mut data, end(&offsets))?;
        Ok(Self { data, offsets })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// All of them.
    pub(super) fn into_array<T: ByteArrayType<Offset = i32>>(self) -> Result<ArrayRef, Fault> {
        let rows = Rows { len: self.len(), nulls: None };
        array::<T>(self.offsets, self.data, rows)
    }

    /// What is wrong with a code.
    pub(super) fn lacks(&self, code: i64) -> Fault {
        Fault::corrupt(format!("value {code} of a dictionary of {}", self.len()))
    }

    fn get(&self, code: i64) -> Option<&[u8]> {
        let code = usize::try_from(code).ok()?;
        let (start, end) = (self.offsets.get(code)?, self.offsets.get(code.checked_add(1)?)?);
        self.data.get(*start as usize..*end as usize)
    }
}

impl<T: ByteArrayType<Offset = i32>> Decode for Dictionary<T> {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, Fault> {
        let rows = self.presence.read(len, parent)?;
        let codes = self.codes.read(rows.values())?;
        let value = |code: &i64| self.values.get(*code).ok_or_else(|| self.values.lacks(*code));
        let lengths = codes.iter().map(|code| value(code).map(|value| value.len() as i64));
        let offsets = offsets(rows.spread(lengths.collect::<Result<_, _>>()?))?;
        let mut data = Vec::with_capacity(end(&offsets));
        for code in &codes {
            data.extend_from_slice(value(code)?);
        }
        array::<T>(offsets, data, rows)
    }

    fn reached(&mut self, reached: &mut Vec<Reached>) -> Result<(), Fault> {
        reached.extend(self.presence.reached()?);
        reached.push(self.codes.reached()?);
        Ok(())
    }
}

fn array<T: ByteArrayType<Offset = i32>>(
    offsets: OffsetBuffer<i32>,
    data: Vec<u8>,
    rows: Rows,
) -> Result<ArrayRef, Fault> {
    match GenericByteArray::<T>::try_new(offsets, Buffer::from_vec(data), rows.nulls) {
        Ok(array) => Ok(Arc::new(array)),
        Err(error) => Err(Fault::corrupt(error.to_string())),
    }
}

/// Where each value begins, and where the last ends.
pub(super) fn offsets(lengths: Vec<i64>) -> Result<OffsetBuffer<i32>, Fault> {
    let mut offsets = Vec::with_capacity(lengths.len() + 1);
    let mut end = 0_i32;
    offsets.push(end);
    for length in lengths {
        let length =
            u64::try_from(length).map_err(|_| Fault::corrupt(format!("a length of {}", length as u64)))?;
        end = i32::try_from(length).ok().and_then(|length| end.checked_add(length)).ok_or_else(|| {
            Fault::unsupported(
                "the values of one batch are longer than 2 GiB, or more than 2 billion in lists",
            )
        })?;
        offsets.push(end);
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

/// How much there is of all values together.
pub(super) fn end(offsets: &OffsetBuffer<i32>) -> usize {
    offsets.last().map_or(0, |end| *end as usize)
}
