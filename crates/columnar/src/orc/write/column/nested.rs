//! Encodes columns with children: structs, lists and maps.

use std::ops::Range;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, OffsetSizeTrait},
    buffer::NullBuffer,
    compute::filter,
    datatypes::DataType,
};
use orc_rust::proto::{column_encoding::Kind as Encoding, stream::Kind as StreamKind};

use super::{FinishedColumnStreams, OrcColumnError, OrcColumnWriter, RowGroupStats, StripeColumnEncoder};
use crate::orc::write::{
    compression::OrcChunkCompressor,
    encode::ints::RleV2Encoder,
    options::OrcEncoderOptions,
    statistics::{OrcTypeStatistics, bounds_of, widen},
};

pub(super) struct StructColumnWriter {
    pub(super) children: Vec<StripeColumnEncoder>,
}

impl OrcColumnWriter for StructColumnWriter {
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        _: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let array = array.as_struct_opt().ok_or_else(|| "not a struct".to_owned())?;
        // The fields omit rows that the struct lacks.
        let present = nulls.map(|nulls| BooleanArray::new(nulls.inner().clone(), None));
        for (child, column) in self.children.iter_mut().zip(array.columns()) {
            match &present {
                None => child.write(column)?,
                Some(present) => child.write(&filter(column, present).map_err(|error| error.to_string())?)?,
            }
        }

        Ok(())
    }

    fn begin_group(&mut self) {
        self.children.iter_mut().for_each(StripeColumnEncoder::begin_group);
    }

    fn end_group(&mut self, _: &mut RowGroupStats) -> Result<(), OrcColumnError> {
        self.children.iter_mut().try_for_each(StripeColumnEncoder::end_group)
    }

    fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        self.children.iter_mut().try_for_each(|child| child.compress(compressor))
    }

    fn memory(&self) -> usize {
        self.children.iter().map(StripeColumnEncoder::memory).sum()
    }

    fn encoded(&self) -> usize {
        self.children.iter().map(StripeColumnEncoder::encoded).sum()
    }

    fn finish(
        self: Box<Self>,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        self.children.into_iter().try_for_each(|child| child.finish(compressor, &mut end.children))
    }
}

/// Encoder of the lengths of lists or maps.
struct ListLengthEncoder {
    ints: RleV2Encoder,
    room: Vec<u64>,
}

impl ListLengthEncoder {
    fn new(options: &OrcEncoderOptions) -> Self {
        Self { ints: RleV2Encoder::of(false, options), room: Vec::new() }
    }

    /// Appends the lengths of the rows that are not null, and returns the ranges of their items, with neighbours
    /// merged.
    fn push<O: OffsetSizeTrait>(
        &mut self,
        offsets: &[O],
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Vec<Range<usize>> {
        let rows = offsets.len().saturating_sub(1);
        let whole = nulls.is_none().then_some((0, rows)).filter(|_| rows > 0);
        let mut items: Vec<Range<usize>> = Vec::new();
        self.room.clear();

        for (start, end) in whole.into_iter().chain(nulls.into_iter().flat_map(NullBuffer::valid_slices)) {
            let offsets = offsets.get(start..=end).unwrap_or_default();
            let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { continue };
            let lengths = offsets.iter().zip(offsets.iter().skip(1));
            self.room.extend(lengths.map(|(start, end)| (*end - *start).as_usize() as u64));
            match items.last_mut() {
                Some(before) if before.end == first.as_usize() => before.end = last.as_usize(),
                _ => items.push(first.as_usize()..last.as_usize()),
            }
        }

        self.collect_stats(stats);
        items.retain(|items| !items.is_empty());
        items
    }

    /// Appends the lengths of lists that all have `size` items, and returns the ranges like [`Self::push`].
    fn push_fixed(
        &mut self,
        size: usize,
        rows: usize,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Vec<Range<usize>> {
        let whole = nulls.is_none().then_some((0, rows));
        let runs = whole.into_iter().chain(nulls.into_iter().flat_map(NullBuffer::valid_slices));
        let items: Vec<Range<usize>> = runs.map(|(start, end)| start * size..end * size).collect();
        self.room.clear();
        self.room.resize(rows - nulls.map_or(0, NullBuffer::null_count), size as u64);
        self.collect_stats(stats);
        items.into_iter().filter(|items| !items.is_empty()).collect()
    }

    fn collect_stats(&mut self, stats: &mut RowGroupStats) {
        self.ints.push(&self.room, |length| length as i64);
        if let OrcTypeStatistics::Children { bounds, total } = &mut stats.statistics.detail {
            widen(bounds, bounds_of(&self.room));
            *total += self.room.iter().sum::<u64>();
        }
    }

    fn finish(
        self,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        let lengths = self.ints.finish(compressor)?;
        lengths.append_positions(&mut end.entries);
        end.encoding = Encoding::DirectV2;
        end.streams.push((StreamKind::Length, lengths.written));
        Ok(())
    }
}

/// Encoder of lists, and of maps, which are lists of keys and values.
pub(super) struct ListColumnWriter {
    lengths: ListLengthEncoder,
    children: Vec<StripeColumnEncoder>,
}

impl ListColumnWriter {
    pub(super) fn new(children: Vec<StripeColumnEncoder>, options: &OrcEncoderOptions) -> Self {
        Self { lengths: ListLengthEncoder::new(options), children }
    }
}

impl OrcColumnWriter for ListColumnWriter {
    fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        stats: &mut RowGroupStats,
    ) -> Result<(), OrcColumnError> {
        let (ranges, values) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (self.lengths.push(list.value_offsets(), nulls, stats), vec![list.values()])
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (self.lengths.push(list.value_offsets(), nulls, stats), vec![list.values()])
            }
            DataType::FixedSizeList(..) => {
                let list = array.as_fixed_size_list();
                let size = usize::try_from(list.value_length()).unwrap_or_default();
                (self.lengths.push_fixed(size, list.len(), nulls, stats), vec![list.values()])
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let ranges = self.lengths.push(map.value_offsets(), nulls, stats);
                let has_null = |range: &Range<usize>| {
                    map.keys().slice(range.start, range.len()).logical_null_count() > 0
                };
                if ranges.iter().any(has_null) {
                    return Err("a map with a key that is null".to_owned().into());
                }

                (ranges, vec![map.keys(), map.values()])
            }
            other => return Err(format!("{other} where a list was promised").into()),
        };

        for range in ranges {
            for (child, values) in self.children.iter_mut().zip(&values) {
                child.write(&values.slice(range.start, range.len()))?;
            }
        }

        Ok(())
    }

    fn begin_group(&mut self) {
        self.lengths.ints.begin_group();
        self.children.iter_mut().for_each(StripeColumnEncoder::begin_group);
    }

    fn end_group(&mut self, _: &mut RowGroupStats) -> Result<(), OrcColumnError> {
        self.children.iter_mut().try_for_each(StripeColumnEncoder::end_group)
    }

    fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        self.lengths.ints.compress(compressor)?;
        self.children.iter_mut().try_for_each(|child| child.compress(compressor))
    }

    fn memory(&self) -> usize {
        self.lengths.ints.memory() + self.children.iter().map(StripeColumnEncoder::memory).sum::<usize>()
    }

    fn encoded(&self) -> usize {
        self.lengths.ints.encoded() + self.children.iter().map(StripeColumnEncoder::encoded).sum::<usize>()
    }

    fn finish(
        self: Box<Self>,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        self.lengths.finish(compressor, end)?;
        self.children.into_iter().try_for_each(|child| child.finish(compressor, &mut end.children))
    }
}
