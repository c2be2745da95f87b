//! Encodes columns of booleans, integers, floating-point numbers and dates.

use arrow::{
    array::{ArrayRef, ArrowPrimitiveType, AsArray},
    buffer::NullBuffer,
    datatypes::{ArrowNativeType, Int8Type, ToByteSlice},
};
use orc_rust::proto::{column_encoding::Kind as Encoding, stream::Kind as StreamKind};

use super::{FinishedColumnStreams, OrcColumnError, OrcColumnWriter, RowGroupStats, present, primitive};
use crate::orc::write::{
    compression::OrcChunkCompressor,
    encode::{
        bytes::{BooleanRleEncoder, ByteRleEncoder},
        ints::RleV2Encoder,
    },
    options::OrcEncoderOptions,
    statistics::{OrcStatsAccumulator, OrcTypeStatistics},
    stream::OrcStreamWriter,
};

pub(super) struct BooleanColumnWriter {
    bits: BooleanRleEncoder,
    chunk: usize,
}

impl BooleanColumnWriter {
    pub(super) fn new(options: &OrcEncoderOptions) -> Self {
        Self { bits: BooleanRleEncoder::new(), chunk: options.chunk }
    }
}

impl OrcColumnWriter for BooleanColumnWriter {
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let array = array.as_boolean_opt().ok_or_else(|| "not a boolean".to_owned())?;
        let OrcTypeStatistics::Booleans(trues) = &mut stats.statistics.detail else { return Ok(()) };
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

    fn compress(&mut self, _: &mut OrcChunkCompressor) -> Result<(), String> {
        Ok(())
    }

    fn memory(&self) -> usize {
        self.bits.memory()
    }

    fn encoded(&self) -> usize {
        self.bits.memory()
    }

    fn finish(
        self: Box<Self>,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        let bits = self.bits.finish(self.chunk, compressor)?;
        bits.append_positions(&mut end.entries);
        end.streams.push((StreamKind::Data, bits.written));
        Ok(())
    }
}

/// Encoder of 8-bit integers.
pub(super) struct ByteColumnWriter {
    runs: ByteRleEncoder,
    chunk: usize,
    room: Vec<i8>,
}

impl ByteColumnWriter {
    pub(super) fn new(options: &OrcEncoderOptions) -> Self {
        Self { runs: ByteRleEncoder::new(), chunk: options.chunk, room: Vec::new() }
    }
}

impl OrcColumnWriter for ByteColumnWriter {
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let array = primitive::<Int8Type>(array)?;
        let values = present(array.values(), nulls, &mut self.room);
        stats.statistics.add_whole(values);
        if let Some(bloom) = &mut stats.bloom {
            values.iter().for_each(|value| bloom.add_whole(i64::from(*value)));
        }
        self.runs.values.extend(values.iter().map(|value| *value as u8));
        Ok(())
    }

    fn begin_group(&mut self) {
        self.runs.begin_group();
    }

    fn compress(&mut self, _: &mut OrcChunkCompressor) -> Result<(), String> {
        Ok(())
    }

    fn memory(&self) -> usize {
        self.runs.memory()
    }

    fn encoded(&self) -> usize {
        self.runs.values.len()
    }

    fn finish(
        self: Box<Self>,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        let bytes = self.runs.finish(self.chunk, compressor)?;
        bytes.append_positions(&mut end.entries);
        end.streams.push((StreamKind::Data, bytes.written));
        Ok(())
    }
}

/// Encoder of integers of 16, 32 and 64 bits, and of dates, which are days since 1970.
pub(super) struct IntColumnWriter<T: ArrowPrimitiveType> {
    ints: RleV2Encoder,
    note: fn(&mut OrcStatsAccumulator, &[T::Native]),
    room: Vec<T::Native>,
}

impl<T: ArrowPrimitiveType> IntColumnWriter<T> {
    /// Creates an encoder that passes numbers to the statistics by `note`.
    pub(super) fn new(options: &OrcEncoderOptions, note: fn(&mut OrcStatsAccumulator, &[T::Native])) -> Self {
        Self { ints: RleV2Encoder::of(true, options), note, room: Vec::new() }
    }
}

impl<T: ArrowPrimitiveType> OrcColumnWriter for IntColumnWriter<T>
where
    T::Native: Into<i64>,
{
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let array = primitive::<T>(array)?;
        let values = present(array.values(), nulls, &mut self.room);
        (self.note)(&mut stats.statistics, values);
        if let Some(bloom) = &mut stats.bloom {
            values.iter().for_each(|value| bloom.add_whole((*value).into()));
        }
        self.ints.push(values, Into::into);
        Ok(())
    }

    fn begin_group(&mut self) {
        self.ints.begin_group();
    }

    fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        self.ints.compress(compressor)
    }

    fn memory(&self) -> usize {
        self.ints.memory()
    }

    fn encoded(&self) -> usize {
        self.ints.encoded()
    }

    fn finish(
        self: Box<Self>,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        let ints = self.ints.finish(compressor)?;
        ints.append_positions(&mut end.entries);
        end.encoding = Encoding::DirectV2;
        end.streams.push((StreamKind::Data, ints.written));
        Ok(())
    }
}

/// Encoder of floating-point numbers, stored unchanged.
pub(super) struct FloatColumnWriter<T: ArrowPrimitiveType> {
    stream: OrcStreamWriter,
    groups: Vec<u64>,
    room: Vec<T::Native>,
}

impl<T: ArrowPrimitiveType> FloatColumnWriter<T> {
    pub(super) fn new(options: &OrcEncoderOptions) -> Self {
        Self { stream: OrcStreamWriter::new(options.chunk), groups: Vec::new(), room: Vec::new() }
    }
}

impl<T: ArrowPrimitiveType> OrcColumnWriter for FloatColumnWriter<T>
where
    T::Native: Into<f64> + ArrowNativeType,
{
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let array = primitive::<T>(array)?;
        let values = present(array.values(), nulls, &mut self.room);
        stats.statistics.add_floats(values);
        if let Some(bloom) = &mut stats.bloom {
            values.iter().for_each(|value| bloom.add_float((*value).into()));
        }
        // Little-endian, as in memory.
        self.stream.raw.extend_from_slice(values.to_byte_slice());

        Ok(())
    }

    fn begin_group(&mut self) {
        self.groups.push(self.stream.position());
    }

    fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        self.stream.compress(compressor)
    }

    fn memory(&self) -> usize {
        self.stream.memory()
    }

    fn encoded(&self) -> usize {
        self.stream.encoded()
    }

    fn finish(
        self: Box<Self>,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        let written = self.stream.finish(compressor)?;
        for (entry, group) in end.entries.iter_mut().zip(&self.groups) {
            written.append_position(*group, entry);
        }
        end.streams.push((StreamKind::Data, written));
        Ok(())
    }
}
