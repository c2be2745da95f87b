//! Encodes strings and bytes as codes of a stripe's dictionary.

use std::ops::Range;

use arrow::{
    array::{Array, ArrayAccessor, ArrayRef},
    buffer::NullBuffer,
    datatypes::ArrowNativeType,
};
use orc_rust::proto::{column_encoding::Kind as Encoding, stream::Kind as StreamKind};

use super::{FinishedColumnStreams, OrcColumnError, RowGroupStats, direct::DirectStringEncoder};
use crate::{
    kernels::{
        interner::{FULL, ValueInterner},
        prefix_key::prefix_key,
        same::is_same,
    },
    orc::write::{
        compression::OrcChunkCompressor, encode::ints::RleV2Encoder, options::OrcEncoderOptions,
        plan::OrcTextLength, stream::OrcStreamWriter,
    },
};

/// Rows expanded to values before these are compressed.
const EXPANDED: usize = 1024;
/// Maximum distinct values that are counted per code instead of row by row.
const MAX_COUNTED_CODES: usize = 256;
/// Minimum number of strings to intern together: for fewer, the memory of a batch costs more than the batch saves.
const MIN_INTERNED_BATCH: usize = 16;
/// Marks a value in the map that has not occurred yet.
const UNKNOWN: u32 = u32::MAX;

#[derive(Default)]
pub(super) struct DictionaryStringEncoder {
    values: ValueInterner,
    /// Code of each non-null row.
    rows: Vec<u32>,
    /// Starts of row groups within `rows`.
    groups: Vec<usize>,
    /// Rows whose statistics were collected.
    rows_in_stats: usize,
    /// Number of row groups begun when each code was last seen.
    seen: Vec<u32>,
    /// Dictionary of the current arrays, and the code of each of its values.
    arriving: Option<ArrayRef>,
    map: Vec<u32>,
}

impl DictionaryStringEncoder {
    pub(super) fn begin_group(&mut self) {
        self.groups.push(self.rows.len());
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the size of the values, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.values.stored_bytes()
    }

    /// Returns the memory in use, in bytes, except that of the map, which is as long as the input dictionary:
    /// equal rows must make equal stripes. For the same reason, the capacity of the rows counts as if it doubled,
    /// regardless of how they are split into batches.
    pub(super) fn memory(&self) -> usize {
        let codes = self.rows.len().next_power_of_two() + self.seen.capacity();
        self.values.memory() + codes * size_of::<u32>()
    }

    pub(super) fn encoded(&self) -> usize {
        let width = self.values.len().max(2).ilog2() as usize + 1;
        self.values.stored_bytes() / 2 + self.rows.len() * width / 8
    }

    /// Returns whether there are at most `threshold` distinct values per row.
    pub(super) fn repeat(&self, threshold: f64) -> bool {
        self.values.len() as f64 <= threshold * self.rows.len() as f64
    }

    /// Appends the strings of an array, in the form of the file.
    pub(super) fn push_texts<'v, T: AsRef<[u8]> + ?Sized + 'v>(
        &mut self,
        array: &impl ArrayAccessor<Item = &'v T>,
        nulls: Option<&NullBuffer>,
        length: OrcTextLength,
        scratch: &mut Vec<u8>,
    ) -> Result<(), String> {
        let Self { values, rows: codes, .. } = self;
        let append = |some: &[u32]| codes.extend_from_slice(some);
        match nulls {
            None => intern_texts(values, array, 0..array.len(), array.len(), length, scratch, append),
            Some(nulls) => {
                let count = nulls.len() - nulls.null_count();
                intern_texts(values, array, nulls.valid_indices(), count, length, scratch, append)
            }
        }
    }

    /// Begins a new map, unless the values are the current ones.
    pub(super) fn learn_values(&mut self, values: &ArrayRef) {
        if !self.arriving.as_ref().is_some_and(|known| is_same(known, values)) {
            self.map.clear();
            self.map.resize(values.len(), UNKNOWN);
            self.arriving = Some(values.clone());
        }
    }

    /// Maps keys of the input dictionary to its strings, in the form of the file.
    pub(super) fn map_keys<'v, T: AsRef<[u8]> + ?Sized + 'v>(
        &mut self,
        array: &impl ArrayAccessor<Item = &'v T>,
        keys: &[usize],
        length: OrcTextLength,
        scratch: &mut Vec<u8>,
    ) -> Result<(), String> {
        let Self { values, map, .. } = self;
        let mut left = keys.iter();
        intern_texts(values, array, keys.iter().copied(), keys.len(), length, scratch, |codes| {
            for (code, key) in codes.iter().zip(left.by_ref()) {
                if let Some(known) = map.get_mut(*key) {
                    *known = *code;
                }
            }
        })
    }

    /// Appends rows of the input dictionary without nulls. `learn` is called for keys that occur for the first
    /// time, in the order of the rows: equal rows must make equal stripes, regardless of the order of the
    /// dictionary.
    pub(super) fn push_keys<K: ArrowNativeType>(
        &mut self,
        keys: &[K],
        learn: &mut impl FnMut(&[usize], &mut Self) -> Result<(), OrcColumnError>,
    ) -> Result<(), OrcColumnError> {
        let before = self.rows.len();
        loop {
            let map = &self.map;
            self.rows.extend(keys.iter().map(|key| map.get(key.as_usize()).copied().unwrap_or(UNKNOWN)));
            let added = self.rows.get(before..).unwrap_or_default();
            if added.iter().fold(0, |max, code| max.max(*code)) < UNKNOWN {
                return Ok(());
            }

            let mut fresh = Vec::new();
            for (key, _) in keys.iter().zip(added).filter(|(_, code)| **code == UNKNOWN) {
                let key = key.as_usize();
                let known = self.map.get_mut(key);
                let known = known.ok_or_else(|| "a code beyond its dictionary".to_owned())?;
                if *known == UNKNOWN {
                    // Placeholder code, so that the key is listed once; `learn` sets the real code.
                    *known = 0;
                    fresh.push(key);
                }
            }

            self.rows.truncate(before);
            learn(&fresh, self)?;
        }
    }

    /// Collects statistics of new rows, each value once per row group.
    pub(super) fn collect_stats(&mut self, stats: &mut RowGroupStats) {
        let group = self.groups.len() as u32;
        let rows = self.rows.get(self.rows_in_stats..).unwrap_or_default();
        self.rows_in_stats = self.rows.len();
        self.seen.resize(self.values.len(), 0);
        let mut bytes = 0;
        let mut note = |code: u32, text: &[u8]| {
            let Some(seen) = self.seen.get_mut(code as usize).filter(|seen| **seen != group) else { return };
            *seen = group;
            stats.statistics.add_texts(Some((text, text)), 0);
            if let Some(bloom) = &mut stats.bloom {
                bloom.add_bytes(text);
            }
        };

        if self.values.len() <= MAX_COUNTED_CODES {
            for (code, count) in (0..self.values.len() as u32).zip(counts(rows)).filter(|it| it.1 > 0) {
                let text = self.values.value(code);
                bytes += text.len() as u64 * u64::from(count);
                note(code, text);
            }
        } else {
            for &code in rows {
                let text = self.values.value(code);
                bytes += text.len() as u64;
                note(code, text);
            }
        }

        stats.statistics.add_texts(None, bytes);
    }

    /// Returns the range of rows of each row group.
    fn by_group(&self) -> impl Iterator<Item = Range<usize>> {
        let ends = self.groups.iter().skip(1).copied().chain([self.rows.len()]);
        self.groups.iter().zip(ends).map(|(start, end)| *start..end)
    }

    /// Converts to values without a dictionary.
    pub(super) fn to_direct(
        &self,
        options: &OrcEncoderOptions,
        compressor: &mut OrcChunkCompressor,
    ) -> Result<DirectStringEncoder, String> {
        let mut direct = DirectStringEncoder::new(options);
        for group in self.by_group() {
            direct.begin_group();
            for codes in self.rows.get(group).unwrap_or_default().chunks(EXPANDED) {
                codes.iter().for_each(|code| direct.push_noted(self.values.value(*code)));
                direct.compress(compressor)?;
            }
        }

        Ok(direct)
    }

    /// Finishes the stream with a dictionary sorted by value.
    pub(super) fn finish(
        self,
        options: &OrcEncoderOptions,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        let order = order(&self.values);
        let mut ranks = vec![0_u32; order.len()];
        let mut values = OrcStreamWriter::new(options.chunk);
        let mut lengths = RleV2Encoder::of(false, options);

        for (rank, code) in order.iter().enumerate() {
            let value = self.values.value(*code);
            values.raw.extend_from_slice(value);
            lengths.push(&[value.len()], |length| length as i64);
            if let Some(slot) = ranks.get_mut(*code as usize) {
                *slot = rank as u32;
            }
        }

        let mut codes = RleV2Encoder::of(false, options);
        for group in self.by_group() {
            codes.begin_group();
            let rows = self.rows.get(group).unwrap_or_default();
            codes.push(rows, |code| ranks.get(code as usize).copied().map_or(0, i64::from));
        }

        let codes = codes.finish(compressor)?;
        codes.append_positions(&mut end.entries);
        end.encoding = Encoding::DictionaryV2;
        end.dictionary = Some(order.len() as u32);
        end.streams.extend([
            (StreamKind::Data, codes.written),
            (StreamKind::Length, lengths.finish(compressor)?.written),
            (StreamKind::DictionaryData, values.finish(compressor)?),
        ]);

        Ok(())
    }
}

/// Emits the codes of an array's strings in these `count` rows, in the form of the file.
#[inline]
fn intern_texts<'v, T: AsRef<[u8]> + ?Sized + 'v>(
    values: &mut ValueInterner,
    array: &impl ArrayAccessor<Item = &'v T>,
    mut rows: impl Iterator<Item = usize>,
    count: usize,
    length: OrcTextLength,
    scratch: &mut Vec<u8>,
    mut append: impl FnMut(&[u32]),
) -> Result<(), String> {
    // Padded strings share the scratch memory, so each is interned before the next is padded.
    if count < MIN_INTERNED_BATCH || matches!(length, OrcTextLength::Exactly(_)) {
        for row in rows {
            let text = length.padded(array.value(row).as_ref(), scratch)?;
            append(&[values.intern(text).ok_or(FULL)?]);
        }
        return Ok(());
    }

    let next = || {
        let row = rows.next().ok_or("fewer rows than announced")?;
        let text: &'v [u8] = array.value(row).as_ref();
        length.padding(text).map(|_| text)
    };
    values.intern_each::<false>(count, usize::MAX, next, append).map(drop)
}

/// Returns the codes in the order of their values.
fn order(values: &ValueInterner) -> Vec<u32> {
    let starts = (0..).zip(values.values());
    let mut order: Vec<(u64, u32)> = starts.map(|(code, value)| (prefix_key(value), code)).collect();
    order.sort_unstable_by(|(start, code), (other_start, other)| {
        start.cmp(other_start).then_with(|| values.value(*code).cmp(values.value(*other)))
    });
    order.into_iter().map(|(_, code)| code).collect()
}

/// Counts the occurrences of each code.
fn counts(codes: &[u32]) -> [u32; MAX_COUNTED_CODES] {
    // Interleaved, so that no count depends on the previous one.
    let mut counts = [[0_u32; MAX_COUNTED_CODES]; 4];
    for four in codes.chunks(4) {
        for (code, counts) in four.iter().zip(&mut counts) {
            if let Some(count) = counts.get_mut(usize::from(*code as u8)) {
                *count += 1;
            }
        }
    }

    let [mut all, others @ ..] = counts;
    for counts in others {
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn codes_are_ordered_by_their_values() {
        let texts = ["b", "", "a\0", "a", "longer than eight", "longer than", "b", "a", "a\0\0"];
        let mut values = ValueInterner::default();
        let codes = values.intern_all(texts.iter().map(|text| text.as_bytes()));
        assert_eq!(codes, Some(vec![0, 1, 2, 3, 4, 5, 0, 3, 6]));
        let ordered: Vec<&[u8]> = order(&values).into_iter().map(|code| values.value(code)).collect();
        let expected: [&[u8]; 7] = [b"", b"a", b"a\0", b"a\0\0", b"b", b"longer than", b"longer than eight"];
        assert_eq!(ordered, expected);
    }

    #[test]
    fn rows_have_the_same_codes_and_memory_whatever_the_order_of_their_dictionary() {
        let encoded = |values: &[&str], keys: &[u8], length: OrcTextLength| {
            let texts = values.iter().copied().map(Some).collect::<StringArray>();
            let values: ArrayRef = Arc::new(texts.clone());
            let mut encoder = DictionaryStringEncoder::default();
            encoder.learn_values(&values);
            let mut scratch = Vec::new();
            let mut learn = |keys: &[usize], encoder: &mut DictionaryStringEncoder| {
                encoder.map_keys(&&texts, keys, length, &mut scratch).map_err(OrcColumnError::from)
            };
            let pushed = encoder.push_keys(keys, &mut learn);
            pushed.map(|()| (encoder.rows.clone(), encoder.values.memory())).map_err(|error| error.reason)
        };

        for length in [OrcTextLength::Any, OrcTextLength::AtMost(3), OrcTextLength::Exactly(3)] {
            let rows = encoded(&["x", "yy", "unused", "zzz"], &[3, 1, 3, 0], length);
            assert_eq!(rows.as_ref().map(|(codes, _)| codes.as_slice()), Ok([0, 1, 0, 2].as_slice()));
            assert_eq!(encoded(&["zzz", "x", "yy"], &[0, 2, 0, 1], length), rows);
        }

        assert!(encoded(&["x"], &[0, 1], OrcTextLength::Any).is_err());
        assert!(encoded(&["four"], &[0], OrcTextLength::AtMost(3)).is_err());
    }
}
