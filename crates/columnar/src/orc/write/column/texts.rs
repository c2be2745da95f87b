//! Encodes columns of strings and bytes: with a dictionary, or as consecutive values.
//!
//! A column begins with codes. If the input is values, it is sampled, and drops its dictionary if values hardly
//! repeat. If the input is a dictionary, keys are mapped to codes, and each value is interned once. At the end of
//! the stripe, the number of distinct values decides.

use arrow::{
    array::{Array, ArrayAccessor, ArrayRef, AsArray, GenericByteArray, downcast_dictionary_array},
    buffer::NullBuffer,
    datatypes::{
        ArrowNativeType, BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type,
    },
};

use super::{
    FinishedColumnStreams, OrcColumnError, OrcColumnWriter, RowGroupStats, codes::DictionaryStringEncoder,
    direct::DirectStringEncoder,
};
use crate::{
    kernels::texts::downcast_texts,
    orc::write::{compression::OrcChunkCompressor, options::OrcEncoderOptions, plan::OrcTextLength},
};

/// Rows of a dictionary that are expanded to values at a time.
const EXPANDED: usize = 1024;
/// Rows after which the distinct values of a column whose input is values are counted for the first time.
const SAMPLE: usize = 10_000;

pub(super) struct StringColumnWriter {
    layout: OrcStringEncoder,
    /// `None` for bytes.
    length: Option<OrcTextLength>,
    options: OrcEncoderOptions,
    /// True if the dictionary is dropped as soon as values can be compressed.
    gives_up: bool,
    /// Row at which to check the number of distinct values next.
    next_look: usize,
    room: Vec<u8>,
}

enum OrcStringEncoder {
    Codes(Box<DictionaryStringEncoder>),
    Direct(Box<DirectStringEncoder>),
}

impl StringColumnWriter {
    pub(super) fn new(length: Option<OrcTextLength>, options: &OrcEncoderOptions) -> Self {
        // The format has no dictionaries of bytes.
        let layout = if length.is_some() && options.dictionary_threshold > 0.0 {
            OrcStringEncoder::Codes(Box::default())
        } else {
            OrcStringEncoder::Direct(Box::new(DirectStringEncoder::new(options)))
        };
        Self {
            layout,
            length,
            options: options.clone(),
            gives_up: false,
            next_look: SAMPLE,
            room: Vec::new(),
        }
    }

    /// Appends values, in the form of the file.
    fn values<'v, T: AsRef<[u8]> + ?Sized + 'v>(
        &mut self,
        array: impl ArrayAccessor<Item = &'v T>,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let length = self.length.unwrap_or(OrcTextLength::Any);
        let room = &mut self.room;
        let direct = match &mut self.layout {
            OrcStringEncoder::Codes(codes) => return Ok(codes.push_texts(&array, nulls, length, room)?),
            OrcStringEncoder::Direct(direct) => direct,
        };

        let whole = nulls.is_none().then_some((0, array.len()));
        for (start, end) in whole.into_iter().chain(nulls.into_iter().flat_map(NullBuffer::valid_slices)) {
            if length == OrcTextLength::Any {
                direct.push_rows(&array, start..end, stats);
            } else {
                for row in start..end {
                    direct.push(length.padded(array.value(row).as_ref(), room)?, stats);
                }
            }
        }

        Ok(())
    }

    /// Appends values that are contiguous.
    fn contiguous<T: ByteArrayType>(
        &mut self,
        array: &GenericByteArray<T>,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError>
    where
        T::Native: AsRef<[u8]>,
    {
        match (&mut self.layout, self.length) {
            (OrcStringEncoder::Direct(direct), None | Some(OrcTextLength::Any)) => {
                let whole = nulls.is_none().then_some((0, array.len()));
                let runs = whole.into_iter().chain(nulls.into_iter().flat_map(NullBuffer::valid_slices));
                for (start, end) in runs {
                    let offsets = array.value_offsets().get(start..=end).unwrap_or_default();
                    direct.push_all(array.value_data(), offsets, stats);
                }
                Ok(())
            }
            _ => self.values(array, nulls, stats),
        }
    }

    fn plain(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        match array.data_type() {
            DataType::Utf8 => self.contiguous(array.as_bytes::<Utf8Type>(), nulls, stats),
            DataType::LargeUtf8 => self.contiguous(array.as_bytes::<LargeUtf8Type>(), nulls, stats),
            DataType::Binary => self.contiguous(array.as_bytes::<BinaryType>(), nulls, stats),
            DataType::LargeBinary => self.contiguous(array.as_bytes::<LargeBinaryType>(), nulls, stats),
            DataType::Utf8View => self.values(array.as_string_view(), nulls, stats),
            DataType::BinaryView => self.values(array.as_binary_view(), nulls, stats),
            DataType::FixedSizeBinary(_) => self.values(array.as_fixed_size_binary(), nulls, stats),
            other => Err(format!("{other} where texts or bytes were promised").into()),
        }
    }

    /// Appends rows of a dictionary.
    fn coded(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let values = array.as_any_dictionary_opt().map(|any| any.values().clone());
        let values = values.ok_or_else(|| "not a dictionary".to_owned())?;
        match &mut self.layout {
            OrcStringEncoder::Codes(codes) => codes.learn_values(&values),
            OrcStringEncoder::Direct(_) => {
                for start in (0..array.len()).step_by(EXPANDED) {
                    let rows = EXPANDED.min(array.len() - start);
                    let plain = arrow::compute::cast(&array.slice(start, rows), values.data_type());
                    let nulls = nulls.map(|nulls| nulls.slice(start, rows));
                    self.plain(&plain.map_err(|error| error.to_string())?, nulls.as_ref(), stats)?;
                }
                return Ok(());
            }
        }

        downcast_dictionary_array!(
            array => self.keys(array.keys().values(), &values, nulls),
            other => Err(format!("{other} where a dictionary was promised").into())
        )
    }

    fn keys<K: ArrowNativeType>(
        &mut self,
        keys: &[K],
        values: &ArrayRef,
        nulls: Option<&NullBuffer>,
    ) -> Result<(), OrcColumnError> {
        let OrcStringEncoder::Codes(codes) = &mut self.layout else { return Ok(()) };
        let length = self.length.unwrap_or(OrcTextLength::Any);
        let room = &mut self.room;
        let mut learn = |fresh: &[usize], codes: &mut DictionaryStringEncoder| {
            downcast_texts!(
                values,
                |texts| codes.map_keys(&texts, fresh, length, room),
                DataType::FixedSizeBinary(_) => {
                    codes.map_keys(&values.as_fixed_size_binary(), fresh, length, room)
                },
                other => Err(format!("a dictionary of {other} where texts or bytes were promised"))
            )?;
            Ok(())
        };
        let whole = nulls.is_none().then_some((0, keys.len()));

        for (start, end) in whole.into_iter().chain(nulls.into_iter().flat_map(NullBuffer::valid_slices)) {
            codes.push_keys(keys.get(start..end).unwrap_or_default(), &mut learn)?;
        }
        Ok(())
    }

    /// Drops a dictionary that is too large, or whose values do not repeat.
    fn check_dictionary(&mut self, arrives_coded: bool, stats: &mut RowGroupStats) {
        let OrcStringEncoder::Codes(codes) = &mut self.layout else { return };
        let is_large = codes.bytes() > self.options.dictionary_size;
        self.gives_up |= is_large;
        if !arrives_coded && codes.rows() >= self.next_look {
            self.next_look = codes.rows().saturating_mul(2);
            self.gives_up |= !codes.repeat(self.options.dictionary_threshold);
        }
        if self.gives_up {
            codes.collect_stats(stats);
        }
    }
}

impl OrcColumnWriter for StringColumnWriter {
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let arrives_coded = matches!(array.data_type(), DataType::Dictionary(..));
        if arrives_coded {
            self.coded(array, nulls, stats)?;
        } else {
            self.plain(array, nulls, stats)?;
        }
        self.check_dictionary(arrives_coded, stats);
        Ok(())
    }

    fn begin_group(&mut self) {
        match &mut self.layout {
            OrcStringEncoder::Codes(codes) => codes.begin_group(),
            OrcStringEncoder::Direct(direct) => direct.begin_group(),
        }
    }

    fn end_group(&mut self, stats: &mut RowGroupStats) -> Result<(), OrcColumnError> {
        if let OrcStringEncoder::Codes(codes) = &mut self.layout {
            codes.collect_stats(stats);
        }
        Ok(())
    }

    fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        match &mut self.layout {
            OrcStringEncoder::Codes(codes) if self.gives_up => {
                self.layout = OrcStringEncoder::Direct(Box::new(codes.to_direct(&self.options, compressor)?));
                Ok(())
            }
            OrcStringEncoder::Codes(_) => Ok(()),
            OrcStringEncoder::Direct(direct) => direct.compress(compressor),
        }
    }

    fn memory(&self) -> usize {
        match &self.layout {
            OrcStringEncoder::Codes(codes) => codes.memory(),
            OrcStringEncoder::Direct(direct) => direct.memory(),
        }
    }

    fn encoded(&self) -> usize {
        match &self.layout {
            OrcStringEncoder::Codes(codes) => codes.encoded(),
            OrcStringEncoder::Direct(direct) => direct.encoded(),
        }
    }

    fn finish(
        self: Box<Self>,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        match self.layout {
            OrcStringEncoder::Direct(direct) => direct.finish(compressor, end),
            OrcStringEncoder::Codes(codes)
                if !self.gives_up && codes.repeat(self.options.dictionary_threshold) =>
            {
                codes.finish(&self.options, compressor, end)
            }
            OrcStringEncoder::Codes(codes) => {
                codes.to_direct(&self.options, compressor)?.finish(compressor, end)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Int32Array, StringArray};

    use super::*;
    use crate::{
        kernels::interner::HASHED,
        orc::write::statistics::{OrcStatsAccumulator, OrcTypeStatistics},
    };

    #[test]
    fn of_what_arrives_as_a_dictionary_each_value_is_hashed_once_and_no_row() {
        const VALUES: i32 = 50;
        let plan = OrcEncoderOptions {
            dictionary_threshold: 0.8,
            dictionary_size: 1 << 20,
            bloom_filter: None,
            chunk: 1 << 16,
            aligned: true,
        };

        let values: ArrayRef =
            Arc::new((0..VALUES).map(|at| Some(format!("value {at}"))).collect::<StringArray>());
        let mut texts = StringColumnWriter::new(Some(OrcTextLength::Any), &plan);
        let mut stats =
            RowGroupStats { statistics: OrcStatsAccumulator::new(OrcTypeStatistics::Nothing), bloom: None };
        let before = HASHED.get();

        for group in 0..20 {
            texts.begin_group();
            let keys = (0..10_000).map(|row| (row % 7 > 0).then_some((row * 31 + group) % VALUES));
            let rows: ArrayRef =
                Arc::new(DictionaryArray::try_new(keys.collect::<Int32Array>(), values.clone()).unwrap());
            texts.write(&rows, rows.nulls(), &mut stats).unwrap();
            texts.end_group(&mut stats).unwrap();
        }

        assert_eq!(HASHED.get() - before, VALUES as u64);
    }
}
