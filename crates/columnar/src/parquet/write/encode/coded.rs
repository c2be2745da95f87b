//! Encodes a column with a dictionary. The codes of input dictionaries are mapped to the file's codes, so no row
//! is hashed.
//!
//! A row costs one lookup in the map of its codebook, its bits, and a bit for the statistics of its page. Plain
//! input values are interned into the dictionary, and their codes are mapped to themselves.

use std::hash::{DefaultHasher, Hasher};

use arrow::{
    array::{Array, ArrayRef, AsArray, downcast_dictionary_array},
    buffer::NullBuffer,
    datatypes::ArrowNativeType,
};
use parquet::{basic::Encoding, bloom_filter::Sbbf, schema::types::ColumnDescPtr};

use super::strings::PlainStringEncoder;
use crate::parquet::write::{
    bounds::ChunkBounds,
    chunk::{EncodedChunk, MAX_NARROW},
    codebook::{Codebook, EncodedDictionaryPage, order::PlainValueOrder, used::CodeSet},
    options::ParquetEncoderOptions,
    pages::{ChunkPageWriter, ChunkSummary, hybrid, rows::PageValidity},
};

/// Number of steps in which a page is filled.
const PIECES: usize = 8;
/// Minimum mean occurrences of a value for a codebook to be reused by the next chunk.
const MIN_OCCURRENCES: usize = 4;
/// For that, at most `1 / UNUSED_VALUES_DIVISOR` of the values may be unused.
const UNUSED_VALUES_DIVISOR: usize = 16;
/// Bytes of a dictionary after which no rows should be added: a page has at most 2 GiB.
const MAX_DICTIONARY: usize = 1 << 30;

/// Encoder of one column chunk.
pub(crate) struct DictionaryChunkEncoder {
    descriptor: ColumnDescPtr,
    plan: ParquetEncoderOptions,
    codebook: Codebook,
    /// Codes that occur in the chunk.
    used: CodeSet,
    used_by_page: CodeSet,
    /// Page that is being filled: its rows, and the codes of those that have a value.
    rows: PageValidity,
    codes: Vec<u32>,
    pages: ChunkPageWriter,
    bounds: ChunkBounds,
}

impl DictionaryChunkEncoder {
    /// Begins a chunk, after one with the `codebook`.
    pub(crate) fn new(
        descriptor: ColumnDescPtr,
        plan: ParquetEncoderOptions,
        codebook: Option<Codebook>,
    ) -> Result<Self, String> {
        Ok(Self {
            used: CodeSet::default(),
            used_by_page: CodeSet::default(),
            codebook: codebook.map_or_else(|| Codebook::new(&descriptor), Ok)?,
            rows: PageValidity::default(),
            codes: Vec::new(),
            pages: ChunkPageWriter::new(descriptor.clone(), plan.clone(), Encoding::RLE_DICTIONARY)?,
            bounds: ChunkBounds::new(descriptor.physical_type(), PlainValueOrder::of(&descriptor)),
            descriptor,
            plan,
        })
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        // The size of input dictionaries is not determined by the rows.
        let map = if self.plan.dictionary_bytes > 0 { self.codebook.map_bytes() } else { 0 };
        self.pages.bytes() + self.codebook.memory() + map + self.codes.capacity() * 4
    }

    /// Returns an estimate of the chunk's bytes.
    pub(crate) fn encoded(&self) -> usize {
        self.pages.bytes() + self.codebook.bytes() + self.rows.count() / 2
    }

    /// Returns whether no more rows should be added.
    pub(crate) fn is_full(&self) -> bool {
        self.codebook.bytes() >= MAX_DICTIONARY
    }

    pub(crate) fn write(&mut self, arrays: &[ArrayRef]) -> Result<(), String> {
        let max_bytes = self.plan.dictionary_bytes;
        let is_ordered = self.plan.is_ordered;
        let is_begun = self.pages.rows() + self.rows.count() > 0;
        if !is_begun && (max_bytes == 0 || !self.codebook.serves(arrays, is_ordered)) {
            self.codebook = Codebook::new(&self.descriptor)?;
            self.codebook.take_dictionary(arrays, max_bytes, is_ordered)?;
        }

        for array in arrays {
            match array.as_any_dictionary_opt() {
                None => {
                    self.write_values(array, usize::MAX)?;
                }
                Some(any) => {
                    self.codebook.begin(any.values());
                    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
                    downcast_dictionary_array!(
                        array => self.write_keys(array.keys().values(), nulls.as_ref())?,
                        other => return Err(format!("a column of {other} where a dictionary was promised"))
                    );
                }
            }
        }

        Ok(())
    }

    /// Appends rows that are plain values, while the dictionary has at most `max_bytes` bytes; returns the number
    /// of rows.
    pub(crate) fn write_values(&mut self, array: &ArrayRef, max_bytes: usize) -> Result<usize, String> {
        if !self.codebook.is_bytes() {
            return self.write_whole(array);
        }

        let mut start = 0;
        while start < array.len() && self.codebook.bytes() <= max_bytes {
            let some = array.slice(start, self.piece(array.len() - start));
            let done = self.codebook.append_values(&some, max_bytes, &mut self.codes)?;
            start += match some.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
                None => {
                    self.rows.push_valid(done);
                    done
                }
                Some(nulls) => {
                    let rows = nulls.valid_indices().nth(done).unwrap_or(some.len());
                    self.rows.push(&nulls.inner().slice(0, rows));
                    rows
                }
            };

            self.end_full_page()?;
        }

        Ok(start)
    }

    /// Appends rows that are not strings, interning all of them first.
    fn write_whole(&mut self, array: &ArrayRef) -> Result<usize, String> {
        let mut codes = Vec::with_capacity(array.len());
        self.codebook.append_values(array, usize::MAX, &mut codes)?;
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let mut left = codes.as_slice();
        let mut start = 0;

        while start < array.len() {
            let count = self.piece(array.len() - start);
            let valid = nulls.as_ref().map(|nulls| nulls.inner().slice(start, count));
            let values = valid.as_ref().map_or(count, |valid| valid.count_set_bits());
            let (some, behind) = left.split_at_checked(values).ok_or("codes that are not there")?;
            self.codes.extend_from_slice(some);
            left = behind;

            match &valid {
                None => self.rows.push_valid(count),
                Some(valid) => self.rows.push(valid),
            }
            start += count;
            self.end_full_page()?;
        }

        Ok(start)
    }

    fn write_keys<K: ArrowNativeType>(
        &mut self,
        keys: &[K],
        nulls: Option<&NullBuffer>,
    ) -> Result<(), String> {
        let mut start = 0;
        while start < keys.len() {
            let count = self.piece(keys.len() - start);
            let some = keys.get(start..start + count).unwrap_or_default();
            match nulls {
                None => {
                    self.codebook.append(some, &mut self.codes)?;
                    self.rows.push_valid(count);
                }
                Some(nulls) => {
                    let valid = nulls.inner().slice(start, count);
                    for (from, to) in valid.set_slices() {
                        self.codebook.append(some.get(from..to).unwrap_or_default(), &mut self.codes)?;
                    }
                    self.rows.push(&valid);
                }
            }

            start += count;
            self.end_full_page()?;
        }

        Ok(())
    }

    /// Returns the number of remaining rows to process together: codes get wider as values are found, up to four bytes.
    fn piece(&self, left: usize) -> usize {
        let rows = self.page_rows();
        let piece = (rows / PIECES).min(self.plan.page_bytes / 4).max(PIECES);
        rows.saturating_sub(self.rows.count()).min(piece).clamp(1, left.max(1))
    }

    fn end_full_page(&mut self) -> Result<(), String> {
        if self.rows.count() >= self.page_rows() { self.end_page() } else { Ok(()) }
    }

    /// Returns the number of rows of a page, limited by count and by bytes.
    fn page_rows(&self) -> usize {
        let level = usize::from(self.descriptor.max_def_level() > 0);
        let bits = usize::from(hybrid::width(self.codebook.len() as u32)) + level;
        self.plan.page_rows.min(self.plan.page_bytes.saturating_mul(8) / bits.max(1)).max(1)
    }

    /// Encodes and compresses the page.
    fn end_page(&mut self) -> Result<(), String> {
        let codes = &self.codes;
        let width = hybrid::width(self.codebook.len().saturating_sub(1) as u32);
        self.pages.push_data(&self.rows, codes.len(), |body| {
            body.push(width);
            hybrid::append(codes, width, body);
        })?;
        self.used_by_page.clear();
        self.used_by_page.add(codes, self.codebook.len());
        self.used.join(&self.used_by_page);
        let bounds = self.bounds.end_page(&mut self.codebook, &self.used_by_page);
        self.bounds.note(&self.codebook, bounds, self.rows.count() - codes.len());
        self.rows.clear();
        self.codes.clear();

        Ok(())
    }

    /// Adds the dictionary page.
    fn push_dictionary(&mut self) -> Result<(), String> {
        match self.codebook.page() {
            Some(EncodedDictionaryPage { blobs, uncompressed, .. }) => {
                self.pages.repeat_dictionary(blobs.clone(), *uncompressed);
            }
            None => {
                let values = self.codebook.len();
                let plain = self.codebook.plain();
                let uncompressed = plain.len();
                let blobs = self.pages.push_dictionary(values, plain)?;
                self.codebook.keep_page(EncodedDictionaryPage { blobs, values, uncompressed });
            }
        }

        Ok(())
    }

    /// Returns the number of distinct values that occur, and a bloom filter of them.
    fn bloom_filter(&self) -> Result<(usize, Option<Sbbf>), String> {
        let distinct = self.used.count();
        let Some(rate) = self.plan.bloom_filter else { return Ok((distinct, None)) };
        let mut filter =
            Sbbf::new_with_ndv_fpp(distinct.max(1) as u64, rate).map_err(|error| error.to_string())?;
        self.used.iter().for_each(|code| filter.insert(self.codebook.value(code)));
        Ok((distinct, Some(filter)))
    }

    /// See [`EncodedChunk::hashes`].
    fn hashes(&self) -> Option<Vec<u64>> {
        let fits = self.plan.has_narrow_keys && self.codebook.len() <= MAX_NARROW;
        let hash = |code| {
            let mut hasher = DefaultHasher::new();
            hasher.write(self.codebook.value(code));
            hasher.finish()
        };
        fits.then(|| (0..self.codebook.len() as u32).map(hash).collect())
    }

    /// Returns the chunk, and its codebook if that may serve the next one.
    pub(crate) fn finish(mut self) -> Result<(EncodedChunk, Option<Codebook>), String> {
        if self.rows.count() > 0 || self.pages.rows() == 0 {
            self.end_page()?;
        }
        let (distinct, bloom_filter) = self.bloom_filter()?;
        let values = self.codebook.len();
        let rows = self.pages.rows();
        let nulls = self.pages.nulls();
        let is_often =
            rows - nulls >= values * MIN_OCCURRENCES && (values - distinct) * UNUSED_VALUES_DIVISOR <= values;
        let is_kept =
            is_often && self.codebook.may_serve() && !self.is_full() && self.plan.dictionary_bytes > 0;
        self.push_dictionary()?;
        let hashes = self.hashes();
        let (statistics, column_index) =
            self.bounds.finish(&self.codebook, distinct, nulls as u64, self.plan.statistics);
        let mut chunk = self.pages.finish(ChunkSummary { statistics, column_index, bloom_filter })?;
        chunk.hashes = hashes;
        self.codebook.release_buffers();

        Ok((chunk, is_kept.then_some(self.codebook)))
    }

    /// Falls back to plain values.
    pub(crate) fn give_up(mut self) -> Result<PlainStringEncoder, String> {
        if self.rows.count() > 0 {
            self.end_page()?;
        }
        self.push_dictionary()?;
        self.pages.go_on_with(Encoding::PLAIN);
        Ok(PlainStringEncoder::after_pages(self.pages, self.bounds.of_strings(&self.codebook), self.plan))
    }
}
