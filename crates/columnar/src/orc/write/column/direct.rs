//! Encodes consecutive strings and bytes: one stream of all values, and one of their lengths.

use std::ops::Range;

use arrow::array::{ArrayAccessor, OffsetSizeTrait};
use orc_rust::proto::{column_encoding::Kind as Encoding, stream::Kind as StreamKind};

use super::{FinishedColumnStreams, OrcColumnError, RowGroupStats};
use crate::{
    kernels::prefix_key::prefix_key,
    orc::write::{
        compression::OrcChunkCompressor, encode::ints::RleV2Encoder, options::OrcEncoderOptions,
        stream::OrcStreamWriter,
    },
};

pub(super) struct DirectStringEncoder {
    data: OrcStreamWriter,
    groups: Vec<u64>,
    lengths: RleV2Encoder,
    room: Vec<i64>,
}

impl DirectStringEncoder {
    pub(super) fn new(options: &OrcEncoderOptions) -> Self {
        Self {
            data: OrcStreamWriter::new(options.chunk),
            groups: Vec::new(),
            lengths: RleV2Encoder::of(false, options),
            room: Vec::new(),
        }
    }

    pub(super) fn begin_group(&mut self) {
        self.groups.push(self.data.position());
        self.lengths.begin_group();
    }

    /// Appends a value whose statistics were collected already.
    pub(super) fn push_noted(&mut self, text: &[u8]) {
        self.data.raw.extend_from_slice(text);
        self.lengths.push(&[text.len()], |length| length as i64);
    }

    pub(super) fn push(&mut self, text: &[u8], stats: &mut RowGroupStats) {
        self.push_noted(text);
        stats.statistics.add_texts(Some((text, text)), text.len() as u64);
        if let Some(bloom) = &mut stats.bloom {
            bloom.add_bytes(text);
        }
    }

    /// Appends values of an array that need not be contiguous.
    pub(super) fn push_rows<A: ArrayAccessor>(
        &mut self,
        array: &A,
        rows: Range<usize>,
        stats: &mut RowGroupStats,
    ) where
        A::Item: AsRef<[u8]>,
    {
        let before = self.data.raw.len();
        // First bytes and rows of the minimum and the maximum.
        let mut bounds: Option<[(u64, usize); 2]> = None;
        self.room.clear();

        for row in rows {
            let value = array.value(row);
            let text = value.as_ref();
            self.data.raw.extend_from_slice(text);
            self.room.push(text.len() as i64);
            if let Some(bloom) = &mut stats.bloom {
                bloom.add_bytes(text);
            }
            let here = prefix_key(text);
            let [min, max] = bounds.get_or_insert([(here, row); 2]);

            if here < min.0 || here == min.0 && text < array.value(min.1).as_ref() {
                *min = (here, row);
            }
            if here > max.0 || here == max.0 && text > array.value(max.1).as_ref() {
                *max = (here, row);
            }
        }

        self.lengths.push(&self.room, |length| length);
        let Some([min, max]) = bounds else { return };
        let bytes = (self.data.raw.len() - before) as u64;
        let min = array.value(min.1);
        let max = array.value(max.1);
        stats.statistics.add_texts(Some((min.as_ref(), max.as_ref())), bytes);
    }

    /// Appends values that are contiguous in `data`.
    pub(super) fn push_all<O: OffsetSizeTrait>(
        &mut self,
        data: &[u8],
        offsets: &[O],
        stats: &mut RowGroupStats,
    ) {
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return };
        let first = first.as_usize();
        let last = last.as_usize();
        if offsets.len() < 2 {
            return;
        }

        self.data.raw.extend_from_slice(data.get(first..last).unwrap_or_default());
        self.room.clear();
        let ends = offsets.iter().zip(offsets.iter().skip(1));
        self.room.extend(ends.clone().map(|(start, end)| (*end - *start).as_usize() as i64));
        self.lengths.push(&self.room, |length| length);

        let texts = ends.map(|(start, end)| data.get(start.as_usize()..end.as_usize()).unwrap_or_default());
        if let Some(bloom) = &mut stats.bloom {
            texts.clone().for_each(|text| bloom.add_bytes(text));
        }
        let bounds = if stats.statistics.detail.has_text_bounds() { bounds_of(texts) } else { None };
        stats.statistics.add_texts(bounds, (last - first) as u64);
    }

    pub(super) fn compress(&mut self, compressor: &mut OrcChunkCompressor) -> Result<(), String> {
        self.data.compress(compressor)?;
        self.lengths.compress(compressor)
    }

    pub(super) fn memory(&self) -> usize {
        self.data.memory() + self.lengths.memory()
    }

    pub(super) fn encoded(&self) -> usize {
        self.data.encoded() + self.lengths.encoded()
    }

    pub(super) fn finish(
        self,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        let data = self.data.finish(compressor)?;
        for (entry, group) in end.entries.iter_mut().zip(&self.groups) {
            data.append_position(*group, entry);
        }
        let lengths = self.lengths.finish(compressor)?;
        lengths.append_positions(&mut end.entries);
        end.encoding = Encoding::DirectV2;
        end.streams.extend([(StreamKind::Data, data), (StreamKind::Length, lengths.written)]);

        Ok(())
    }
}

/// Returns the minimum and maximum string: most strings differ in their first eight bytes.
fn bounds_of<'a>(mut texts: impl Iterator<Item = &'a [u8]>) -> Option<(&'a [u8], &'a [u8])> {
    let first = texts.next()?;
    let mut min = first;
    let mut max = first;
    let mut min_start = prefix_key(first);
    let mut max_start = prefix_key(first);

    for text in texts {
        let here = prefix_key(text);
        if here < min_start || here == min_start && text < min {
            (min, min_start) = (text, here);
        }
        if here > max_start || here == max_start && text > max {
            (max, max_start) = (text, here);
        }
    }

    Some((min, max))
}
