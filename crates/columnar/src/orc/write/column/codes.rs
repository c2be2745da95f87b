//! Encodes texts and bytes as codes of a stripe's dictionary.

use std::ops::Range;

use arrow::{
    array::{Array, ArrayRef},
    datatypes::ArrowNativeType,
};
use orc_rust::proto::{column_encoding::Kind as Encoding, stream::Kind as StreamKind};

use super::{
    FinishedColumnStreams, OrcColumnError, RowGroupStats, direct::DirectStringEncoder,
    distinct::OrcStringInterner,
};
use crate::{
    kernels::same::is_same,
    orc::write::{
        compression::OrcChunkCompressor, encode::ints::RleV2Encoder, options::OrcEncoderOptions,
        stream::OrcStreamWriter,
    },
};

/// Rows expanded to values before these are compressed.
const EXPANDED: usize = 1024;
/// Maximum distinct values that are counted per code instead of row by row.
const FEW: usize = 256;
/// Marks a value in the map that has not occurred yet.
const UNKNOWN: u32 = u32::MAX;

#[derive(Default)]
pub(super) struct DictionaryStringEncoder {
    values: OrcStringInterner,
    /// Code of each row with a value.
    rows: Vec<u32>,
    /// Starts of row groups among these.
    groups: Vec<usize>,
    /// Rows whose statistics were collected.
    noted: usize,
    /// Row groups begun when each code was last seen.
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

    /// Returns the bytes of the values.
    pub(super) fn bytes(&self) -> usize {
        self.values.bytes()
    }

    /// Returns the bytes in memory, without the map, which is as long as the arriving dictionary: equal rows must make
    /// equal stripes.
    pub(super) fn memory(&self) -> usize {
        let codes = self.rows.capacity() + self.seen.capacity();
        self.values.memory() + codes * size_of::<u32>()
    }

    pub(super) fn encoded(&self) -> usize {
        let width = self.values.len().max(2).ilog2() as usize + 1;
        self.values.bytes() / 2 + self.rows.len() * width / 8
    }

    /// Returns whether there are at most `threshold` distinct values per row.
    pub(super) fn repeat(&self, threshold: f64) -> bool {
        self.values.len() as f64 <= threshold * self.rows.len() as f64
    }

    /// Appends a value.
    #[inline]
    pub(super) fn push(&mut self, text: &[u8]) {
        let code = self.values.code(text);
        self.rows.push(code);
    }

    /// Begins a new map, unless the values are the current ones.
    pub(super) fn learn_values(&mut self, values: &ArrayRef) {
        if !self.arriving.as_ref().is_some_and(|known| is_same(known, values)) {
            self.map.clear();
            self.map.resize(values.len(), UNKNOWN);
            self.arriving = Some(values.clone());
        }
    }

    /// Maps a key of the arriving dictionary to its value.
    pub(super) fn learn(&mut self, key: usize, text: &[u8]) {
        let code = self.values.code(text);
        if let Some(place) = self.map.get_mut(key) {
            *place = code;
        }
    }

    /// Appends rows of the arriving dictionary without nulls. `learn` is called for keys that occur for the first time.
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
            if added.iter().fold(0, |most, code| most.max(*code)) < UNKNOWN {
                return Ok(());
            }

            let mut fresh: Vec<usize> = keys
                .iter()
                .zip(added)
                .filter(|(_, code)| **code == UNKNOWN)
                .map(|it| it.0.as_usize())
                .collect();
            fresh.sort_unstable();
            fresh.dedup();
            if fresh.last().is_some_and(|key| *key >= self.map.len()) {
                return Err("a code beyond its dictionary".to_owned().into());
            }

            self.rows.truncate(before);
            learn(&fresh, self)?;
        }
    }

    /// Collects statistics of new rows, each value once per row group.
    pub(super) fn note(&mut self, notes: &mut RowGroupStats) {
        let group = self.groups.len() as u32;
        let rows = self.rows.get(self.noted..).unwrap_or_default();
        self.noted = self.rows.len();
        self.seen.resize(self.values.len(), 0);
        let mut bytes = 0;
        let mut note = |code: u32, text: &[u8]| {
            let Some(seen) = self.seen.get_mut(code as usize).filter(|seen| **seen != group) else { return };
            *seen = group;
            notes.statistics.note_texts(Some((text, text)), 0);
            if let Some(bloom) = &mut notes.bloom {
                bloom.add_bytes(text);
            }
        };

        if self.values.len() <= FEW {
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

        notes.statistics.note_texts(None, bytes);
    }

    /// Returns the rows of each row group.
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
                direct.squeeze(compressor)?;
            }
        }

        Ok(direct)
    }

    /// Finishes a dictionary sorted by value.
    pub(super) fn finish(
        self,
        options: &OrcEncoderOptions,
        compressor: &mut OrcChunkCompressor,
        end: &mut FinishedColumnStreams,
    ) -> Result<(), OrcColumnError> {
        let order = self.values.order();
        let mut ranks = vec![0_u32; order.len()];
        let mut values = OrcStreamWriter::new(options.chunk);
        let mut lengths = RleV2Encoder::of(false, options);

        for (rank, code) in order.iter().enumerate() {
            let value = self.values.value(*code);
            values.raw.extend_from_slice(value);
            lengths.push(&[value.len()], |length| length as i64);
            if let Some(place) = ranks.get_mut(*code as usize) {
                *place = rank as u32;
            }
        }

        let mut codes = RleV2Encoder::of(false, options);
        for group in self.by_group() {
            codes.begin_group();
            let rows = self.rows.get(group).unwrap_or_default();
            codes.push(rows, |code| ranks.get(code as usize).copied().map_or(0, i64::from));
        }

        let codes = codes.finish(compressor)?;
        codes.places(&mut end.entries);
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

/// Counts the occurrences of each code.
fn counts(codes: &[u32]) -> [u32; FEW] {
    // In turns, so that no count depends on the previous one.
    let mut counts = [[0_u32; FEW]; 4];
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
