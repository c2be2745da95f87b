//! Columns of booleans, whole numbers, floating-point numbers and dates.

use arrow::{
    array::{ArrayRef, ArrowPrimitiveType, AsArray},
    buffer::NullBuffer,
    datatypes::{ArrowNativeType, Int8Type, ToByteSlice},
};
use orc_rust::proto::{column_encoding::Kind as Encoding, stream::Kind as StreamKind};

use super::{Encode, End, Notes, Wrong, present, primitive};
use crate::orc::write::{
    compression::Compressor,
    encode::{
        bytes::{Bits, ByteRuns},
        ints::Ints,
    },
    options::ColumnPlan,
    statistics::{Detail, Statistics},
    stream::Stream,
};

pub(super) struct Booleans {
    bits: Bits,
    chunk: usize,
}

impl Booleans {
    pub(super) fn new(options: &ColumnPlan) -> Self {
        Self { bits: Bits::new(), chunk: options.chunk }
    }
}

impl Encode for Booleans {
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        notes: &mut Notes,
    ) -> Result<(), Wrong> {
        let array = array.as_boolean_opt().ok_or_else(|| "not a boolean".to_owned())?;
        let Detail::Booleans(trues) = &mut notes.statistics.detail else { return Ok(()) };
        let whole = [(0, array.len())];
        let runs = nulls.is_none().then_some(whole).into_iter().flatten();
        for (start, end) in runs.chain(nulls.into_iter().flat_map(NullBuffer::valid_slices)) {
            let values = array.values().slice(start, end - start);
            *trues += values.count_set_bits() as u64;
            self.bits.append(&values);
        }
        Ok(())
    }

    fn begin_group(&mut self) {
        self.bits.begin_group();
    }

    fn squeeze(&mut self, _: &mut Compressor) -> Result<(), String> {
        Ok(())
    }

    fn memory(&self) -> usize {
        self.bits.memory()
    }

    fn encoded(&self) -> usize {
        self.bits.memory()
    }

    fn finish(self: Box<Self>, compressor: &mut Compressor, end: &mut End) -> Result<(), Wrong> {
        let bits = self.bits.finish(self.chunk, compressor)?;
        bits.places(&mut end.entries);
        end.streams.push((StreamKind::Data, bits.written));
        Ok(())
    }
}

/// Numbers of 8 bits.
pub(super) struct Bytes {
    runs: ByteRuns,
    chunk: usize,
    room: Vec<i8>,
}

impl Bytes {
    pub(super) fn new(options: &ColumnPlan) -> Self {
        Self { runs: ByteRuns::new(), chunk: options.chunk, room: Vec::new() }
    }
}

impl Encode for Bytes {
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        notes: &mut Notes,
    ) -> Result<(), Wrong> {
        let array = primitive::<Int8Type>(array)?;
        let values = present(array.values(), nulls, &mut self.room);
        notes.statistics.note_whole(values);
        if let Some(bloom) = &mut notes.bloom {
            values.iter().for_each(|value| bloom.add_whole(i64::from(*value)));
        }
        self.runs.values.extend(values.iter().map(|value| *value as u8));
        Ok(())
    }

    fn begin_group(&mut self) {
        self.runs.begin_group();
    }

    fn squeeze(&mut self, _: &mut Compressor) -> Result<(), String> {
        Ok(())
    }

    fn memory(&self) -> usize {
        self.runs.memory()
    }

    fn encoded(&self) -> usize {
        self.runs.values.len()
    }

    fn finish(self: Box<Self>, compressor: &mut Compressor, end: &mut End) -> Result<(), Wrong> {
        let bytes = self.runs.finish(self.chunk, compressor)?;
        bytes.places(&mut end.entries);
        end.streams.push((StreamKind::Data, bytes.written));
        Ok(())
    }
}

/// Numbers of 16, 32 and 64 bits, and dates, which are days since 1970.
pub(super) struct Integers<T: ArrowPrimitiveType> {
    ints: Ints,
    note: fn(&mut Statistics, &[T::Native]),
    room: Vec<T::Native>,
}

impl<T: ArrowPrimitiveType> Integers<T> {
    /// Numbers that statistics learn of by `note`.
    pub(super) fn new(options: &ColumnPlan, note: fn(&mut Statistics, &[T::Native])) -> Self {
        Self { ints: Ints::of(true, options), note, room: Vec::new() }
    }
}

impl<T: ArrowPrimitiveType> Encode for Integers<T>
where
    T::Native: Into<i64>,
{
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        notes: &mut Notes,
    ) -> Result<(), Wrong> {
        let array = primitive::<T>(array)?;
        let values = present(array.values(), nulls, &mut self.room);
        (self.note)(&mut notes.statistics, values);
        if let Some(bloom) = &mut notes.bloom {
            values.iter().for_each(|value| bloom.add_whole((*value).into()));
        }
        self.ints.push(values, Into::into);
        Ok(())
    }

    fn begin_group(&mut self) {
        self.ints.begin_group();
    }

    fn squeeze(&mut self, compressor: &mut Compressor) -> Result<(), String> {
        self.ints.squeeze(compressor)
    }

    fn memory(&self) -> usize {
        self.ints.memory()
    }

    fn encoded(&self) -> usize {
        self.ints.encoded()
    }

    fn finish(self: Box<Self>, compressor: &mut Compressor, end: &mut End) -> Result<(), Wrong> {
        let ints = self.ints.finish(compressor)?;
        ints.places(&mut end.entries);
        end.encoding = Encoding::DirectV2;
        end.streams.push((StreamKind::Data, ints.written));
        Ok(())
    }
}

/// Floating-point numbers, as they are.
pub(super) struct Floats<T: ArrowPrimitiveType> {
    stream: Stream,
    groups: Vec<u64>,
    room: Vec<T::Native>,
}

impl<T: ArrowPrimitiveType> Floats<T> {
    pub(super) fn new(options: &ColumnPlan) -> Self {
        Self { stream: Stream::new(options.chunk), groups: Vec::new(), room: Vec::new() }
    }
}

impl<T: ArrowPrimitiveType> Encode for Floats<T>
where
    T::Native: Into<f64> + ArrowNativeType,
{
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        notes: &mut Notes,
    ) -> Result<(), Wrong> {
        let array = primitive::<T>(array)?;
        let values = present(array.values(), nulls, &mut self.room);
        notes.statistics.note_floats(values);
        if let Some(bloom) = &mut notes.bloom {
            values.iter().for_each(|value| bloom.add_float((*value).into()));
        }
        // Little-endian, as in memory.
        self.stream.raw.extend_from_slice(values.to_byte_slice());
        Ok(())
    }

    fn begin_group(&mut self) {
        self.groups.push(self.stream.position());
    }

    fn squeeze(&mut self, compressor: &mut Compressor) -> Result<(), String> {
        self.stream.squeeze(compressor)
    }

    fn memory(&self) -> usize {
        self.stream.memory()
    }

    fn encoded(&self) -> usize {
        self.stream.encoded()
    }

    fn finish(self: Box<Self>, compressor: &mut Compressor, end: &mut End) -> Result<(), Wrong> {
        let written = self.stream.finish(compressor)?;
        for (entry, group) in end.entries.iter_mut().zip(&self.groups) {
            written.place(*group, entry);
        }
        end.streams.push((StreamKind::Data, written));
        Ok(())
    }
}
