//! A column of codes. Where it arrives as dictionaries, their codes become the file's, and no row is hashed.
//!
//! What a row costs is one lookup in the map of its codebook, its bits, and a bit for the statistics of its page.
//! Where values arrive, each is looked up in the dictionary, and the code that it has there is mapped to itself.

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

/// A page is filled in so many pieces.
const PIECES: usize = 8;
/// A codebook may serve the next chunk where its values occur so many times on average,
const TIMES: usize = 4;
/// and where at most one in so many does not occur.
const UNUSED: usize = 16;
/// Bytes of a dictionary after which no rows should be added: a page has 2 GiB at most.
const MOST_DICTIONARY: usize = 1 << 30;

/// Encodes one column chunk.
pub(crate) struct DictionaryChunkEncoder {
    descriptor: ColumnDescPtr,
    plan: ParquetEncoderOptions,
    codebook: Codebook,
    /// Which of its values occur.
    used: CodeSet,
    used_by_page: CodeSet,
    /// The page that is being filled: its rows, and the codes of those that have a value.
    rows: PageValidity,
    codes: Vec<u32>,
    pages: ChunkPageWriter,
    bounds: ChunkBounds,
}

impl DictionaryChunkEncoder {
    /// A chunk that comes behind one that had the `codebook`.
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

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        // How large the dictionaries are that rows come with says nothing of the rows.
        let map = if self.plan.dictionary_bytes > 0 { self.codebook.map_bytes() } else { 0 };
        self.pages.bytes() + self.codebook.memory() + map + self.codes.capacity() * 4
    }

    /// Bytes that the chunk will have, about.
    pub(crate) fn encoded(&self) -> usize {
        self.pages.bytes() + self.codebook.bytes() + self.rows.count() / 2
    }

    /// Whether no more rows should be added.
    pub(crate) fn is_full(&self) -> bool {
        self.codebook.bytes() >= MOST_DICTIONARY
    }

    pub(crate) fn write(&mut self, arrays: &[ArrayRef]) -> Result<(), String> {
        let (most, is_ordered) = (self.plan.dictionary_bytes, self.plan.is_ordered);
        let is_begun = self.pages.rows() + self.rows.count() > 0;
        if !is_begun && (most == 0 || !self.codebook.serves(arrays, is_ordered)) {
            self.codebook = Codebook::new(&self.descriptor)?;
            self.codebook.take_dictionary(arrays, most, is_ordered)?;
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

    /// Rows that arrive as values, as long as the dictionary has no more bytes than `most`; returns how many.
    pub(crate) fn write_values(&mut self, array: &ArrayRef, most: usize) -> Result<usize, String> {
        if !self.codebook.is_bytes() {
            return self.write_whole(array);
        }
        let mut start = 0;
        while start < array.len() && self.codebook.bytes() <= most {
            let some = array.slice(start, self.piece(array.len() - start));
            let done = self.codebook.append_values(&some, most, &mut self.codes)?;
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

    /// The same for values that are no strings, all of which are looked up before.
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

    /// How many of the rows that are left are looked at together: codes get wider as values are found, to four bytes at
    /// most.
    fn piece(&self, left: usize) -> usize {
        let rows = self.page_rows();
        let piece = (rows / PIECES).min(self.plan.page_bytes / 4).max(PIECES);
        rows.saturating_sub(self.rows.count()).min(piece).clamp(1, left.max(1))
    }

    fn end_full_page(&mut self) -> Result<(), String> {
        if self.rows.count() >= self.page_rows() { self.end_page() } else { Ok(()) }
    }

    /// Rows of a page, so that neither they nor its bytes are too many.
    fn page_rows(&self) -> usize {
        let level = usize::from(self.descriptor.max_def_level() > 0);
        let bits = usize::from(hybrid::width(self.codebook.len() as u32)) + level;
        self.plan.page_rows.min(self.plan.page_bytes.saturating_mul(8) / bits.max(1)).max(1)
    }

    /// Encodes and compresses the page.
    fn end_page(&mut self) -> Result<(), String> {
        let (codes, width) = (&self.codes, hybrid::width(self.codebook.len().saturating_sub(1) as u32));
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

    /// Adds the page of the dictionary.
    fn push_dictionary(&mut self) -> Result<(), String> {
        match self.codebook.page() {
            Some(EncodedDictionaryPage { blobs, uncompressed, .. }) => {
                self.pages.repeat_dictionary(blobs.clone(), *uncompressed);
            }
            None => {
                let (values, plain) = (self.codebook.len(), self.codebook.plain());
                let uncompressed = plain.len();
                let blobs = self.pages.push_dictionary(values, plain)?;
                self.codebook.keep_page(EncodedDictionaryPage { blobs, values, uncompressed });
            }
        }
        Ok(())
    }

    /// Distinct values that occur, and the filter that knows them.
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

    /// The chunk, and its codebook if that may serve the next one.
    pub(crate) fn finish(mut self) -> Result<(EncodedChunk, Option<Codebook>), String> {
        if self.rows.count() > 0 || self.pages.rows() == 0 {
            self.end_page()?;
        }
        let (distinct, bloom_filter) = self.bloom_filter()?;
        let (values, rows, nulls) = (self.codebook.len(), self.pages.rows(), self.pages.nulls());
        let is_often = rows - nulls >= values * TIMES && (values - distinct) * UNUSED <= values;
        let is_kept =
            is_often && self.codebook.may_serve() && !self.is_full() && self.plan.dictionary_bytes > 0;
        self.push_dictionary()?;
        let hashes = self.hashes();
        let (statistics, column_index) =
            self.bounds.finish(&self.codebook, distinct, nulls as u64, self.plan.statistics);
        let mut chunk = self.pages.finish(ChunkSummary { statistics, column_index, bloom_filter })?;
        chunk.hashes = hashes;
        self.codebook.rest();
        Ok((chunk, is_kept.then_some(self.codebook)))
    }

    /// Goes on with values that are no codes.
    pub(crate) fn give_up(mut self) -> Result<PlainStringEncoder, String> {
        if self.rows.count() > 0 {
            self.end_page()?;
        }
        self.push_dictionary()?;
        self.pages.go_on_with(Encoding::PLAIN);
        Ok(PlainStringEncoder::behind(self.pages, self.bounds.of_strings(&self.codebook), self.plan))
    }
}
