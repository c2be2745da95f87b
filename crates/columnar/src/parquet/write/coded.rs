//! A column of codes. Where it arrives as dictionaries, their codes become the file's, and no row is hashed.
//!
//! What a row costs is one lookup in the map of its codebook, its bits, and a bit for the statistics of its page.
//! Where values arrive, each is looked up in the dictionary, and the code that it has there is mapped to itself.

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, downcast_dictionary_array},
    buffer::{BooleanBuffer, NullBuffer},
    compute::filter,
    datatypes::ArrowNativeType,
    util::bit_iterator::BitSliceIterator,
};
use bytes::Bytes;
use parquet::{
    basic::{Encoding, PageType},
    bloom_filter::Sbbf,
    compression::{Codec, CodecOptionsBuilder, create_codec},
    file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder, PageEncodingStats},
    schema::types::ColumnDescPtr,
};

use super::{
    bounds::ChunkBounds,
    chunk::EncodedChunk,
    codebook::{Codebook, DictionaryPage},
    filling::Filling,
    hybrid,
    options::ColumnPlan,
    page::{self, Kind},
    used::Used,
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
pub(super) struct Coded {
    descriptor: ColumnDescPtr,
    plan: ColumnPlan,
    codec: Option<Box<dyn Codec>>,
    codebook: Codebook,
    /// Which of its values occur.
    used: Used,
    used_by_page: Used,
    page: Filling,
    pages: Vec<Bytes>,
    offsets: OffsetIndexBuilder,
    bounds: ChunkBounds,
    rows: usize,
    nulls: usize,
    data_pages: i32,
    compressed: usize,
    uncompressed: usize,
    /// Where pages are made.
    levels: Vec<u8>,
    body: Vec<u8>,
}

impl Coded {
    /// A chunk that comes behind one that had the `codebook`.
    pub(super) fn new(
        descriptor: ColumnDescPtr,
        plan: ColumnPlan,
        codebook: Option<Codebook>,
    ) -> Result<Self, String> {
        let text = |error: &dyn ToString| error.to_string();
        let codec = create_codec(plan.compression, &CodecOptionsBuilder::default().build());
        Ok(Self {
            codec: codec.map_err(|error| text(&error))?,
            used: Used::default(),
            used_by_page: Used::default(),
            codebook: codebook.map_or_else(|| Codebook::new(&descriptor), Ok)?,
            bounds: ChunkBounds::new(descriptor.physical_type()),
            descriptor,
            plan,
            page: Filling::default(),
            pages: Vec::new(),
            offsets: OffsetIndexBuilder::new(),
            rows: 0,
            nulls: 0,
            data_pages: 0,
            compressed: 0,
            uncompressed: 0,
            levels: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Bytes in memory.
    pub(super) fn memory(&self) -> usize {
        // How large the dictionaries are that rows come with says nothing of the rows.
        let map = if self.plan.dictionary_bytes > 0 { self.codebook.map_bytes() } else { 0 };
        self.compressed + self.codebook.memory() + map + self.page.codes.capacity() * 4
    }

    /// Bytes that the chunk will have, about.
    pub(super) fn encoded(&self) -> usize {
        self.compressed + self.codebook.bytes() + self.page.rows / 2
    }

    /// Whether no more rows should be added.
    pub(super) fn is_full(&self) -> bool {
        self.codebook.bytes() >= MOST_DICTIONARY
    }

    pub(super) fn write(&mut self, arrays: &[ArrayRef]) -> Result<(), String> {
        let most = self.plan.dictionary_bytes;
        if self.rows + self.page.rows == 0 && (most == 0 || !self.codebook.serves(arrays)) {
            self.codebook = Codebook::new(&self.descriptor)?;
            self.codebook.take_dictionary(arrays, most)?;
        }
        arrays.iter().try_for_each(|array| self.write_array(array))
    }

    fn write_array(&mut self, array: &ArrayRef) -> Result<(), String> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let Some(any) = array.as_any_dictionary_opt() else {
            return self.write_values(array, nulls.as_ref());
        };
        self.codebook.begin(any.values());
        downcast_dictionary_array!(
            array => self.write_keys(array.keys().values(), nulls.as_ref()),
            other => Err(format!("a column of {other} where a dictionary was promised"))
        )
    }

    /// Rows that arrive as values.
    fn write_values(&mut self, array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<(), String> {
        let valid = match nulls {
            None => array.clone(),
            Some(nulls) => filter(array, &BooleanArray::new(nulls.inner().clone(), None))
                .map_err(|error| error.to_string())?,
        };
        let codes = self.codebook.codes_of(&valid)?;
        let Some(nulls) = nulls else { return self.write_keys(&codes, None) };
        let mut codes = codes.into_iter();
        let keys: Vec<u32> =
            nulls.iter().map(|is_valid| is_valid.then(|| codes.next()).flatten().unwrap_or(0)).collect();
        self.write_keys(&keys, Some(nulls))
    }

    fn write_keys<K: ArrowNativeType>(
        &mut self,
        keys: &[K],
        nulls: Option<&NullBuffer>,
    ) -> Result<(), String> {
        let mut start = 0;
        while start < keys.len() {
            let rows = self.page_rows();
            // A piece at a time: codes get wider as values are found, to four bytes at most.
            let piece = (rows / PIECES).min(self.plan.page_bytes / 4).max(PIECES);
            let room = rows.saturating_sub(self.page.rows).min(piece);
            let count = room.clamp(1, keys.len() - start);
            let some = keys.get(start..start + count).unwrap_or_default();
            match nulls {
                None => self.fill(some)?,
                Some(nulls) => {
                    let valid: BooleanBuffer = nulls.inner().slice(start, count);
                    let mut done = 0;
                    for (from, to) in BitSliceIterator::new(valid.values(), valid.offset(), valid.len()) {
                        self.page.push_nulls(from - done);
                        self.fill(some.get(from..to).unwrap_or_default())?;
                        done = to;
                    }
                    self.page.push_nulls(count - done);
                }
            }
            start += count;
            if self.page.rows >= self.page_rows() {
                self.end_page()?;
            }
        }
        Ok(())
    }

    /// Rows of a page, so that neither they nor its bytes are too many.
    fn page_rows(&self) -> usize {
        let level = usize::from(self.descriptor.max_def_level() > 0);
        let bits = usize::from(hybrid::width(self.codebook.len() as u32)) + level;
        self.plan.page_rows.min(self.plan.page_bytes.saturating_mul(8) / bits.max(1)).max(1)
    }

    /// Adds rows that all have a value.
    fn fill<K: ArrowNativeType>(&mut self, keys: &[K]) -> Result<(), String> {
        self.codebook.append(keys, &mut self.page.codes)?;
        self.page.push_valid(keys.len());
        Ok(())
    }

    /// Encodes and compresses the page.
    fn end_page(&mut self) -> Result<(), String> {
        let page = std::mem::take(&mut self.page);
        let nulls = page.rows - page.codes.len();
        self.levels.clear();
        if self.descriptor.max_def_level() > 0 {
            match page.valid.is_empty() {
                true => hybrid::append_level(1, page.rows, &mut self.levels),
                false => {
                    let valid = BooleanBuffer::from(page.valid.as_slice());
                    hybrid::append_bits(valid.values(), page.rows, &mut self.levels);
                }
            }
        } else if nulls > 0 {
            return Err("a null in a column that has none".to_owned());
        }
        self.body.clear();
        if !self.plan.version_2 && !self.levels.is_empty() {
            self.body.extend_from_slice(&(self.levels.len() as u32).to_le_bytes());
            self.body.append(&mut self.levels);
        }
        let width = hybrid::width(self.codebook.len().saturating_sub(1) as u32);
        self.body.push(width);
        hybrid::append(&page.codes, width, &mut self.body);
        self.used_by_page.clear();
        self.used_by_page.add(&page.codes, self.codebook.len());
        self.used.join(&self.used_by_page);
        let bounds = self.bounds.end_page(&mut self.codebook, &self.used_by_page);
        let compressed = match self.plan.version_2 {
            true => self.push_version_2(page.rows, nulls)?,
            false => self.push(&Kind::Data { rows: page.rows })?,
        };
        self.offsets.append_row_count(page.rows as i64);
        self.offsets.append_offset_and_size((self.compressed - compressed) as i64, compressed as i32);
        self.bounds.note(&self.codebook, bounds, nulls);
        self.rows += page.rows;
        self.nulls += nulls;
        self.data_pages += 1;
        self.page.codes = page.codes;
        self.page.codes.clear();
        Ok(())
    }

    /// Compresses what is in `body` to a page behind the others, and returns how long it is.
    fn push(&mut self, kind: &Kind) -> Result<usize, String> {
        let uncompressed = self.body.len();
        let body = match self.compress(0)? {
            Some(compressed) => compressed,
            None => self.body.clone(),
        };
        self.push_page(page::page(kind, uncompressed, body)?, uncompressed)
    }

    /// The same with `levels` in front, which are not compressed; and neither is what does not get smaller by it.
    fn push_version_2(&mut self, rows: usize, nulls: usize) -> Result<usize, String> {
        let levels = self.levels.len();
        let uncompressed = levels + self.body.len();
        let compressed = self.compress(levels)?.filter(|compressed| compressed.len() < uncompressed);
        let is_compressed = compressed.is_some();
        let body = compressed.unwrap_or_else(|| [self.levels.as_slice(), self.body.as_slice()].concat());
        let kind = Kind::DataV2 { rows, nulls, levels, is_compressed };
        self.push_page(page::page(&kind, uncompressed, body)?, uncompressed)
    }

    /// What is in `body`, compressed, behind the first bytes of `levels`; `None` where there is no compression.
    fn compress(&mut self, levels: usize) -> Result<Option<Vec<u8>>, String> {
        let Some(codec) = &mut self.codec else { return Ok(None) };
        let mut compressed = self.levels.get(..levels).unwrap_or_default().to_vec();
        codec.compress(&self.body, &mut compressed).map_err(|error| error.to_string())?;
        compressed.shrink_to_fit();
        Ok(Some(compressed))
    }

    /// Puts a header and its body behind the other pages, and returns how long they are.
    fn push_page(&mut self, blobs: [Bytes; 2], uncompressed: usize) -> Result<usize, String> {
        let header = blobs.first().map_or(0, Bytes::len);
        let length = blobs.iter().map(Bytes::len).sum();
        self.pages.extend(blobs);
        self.compressed += length;
        self.uncompressed += uncompressed + header;
        Ok(length)
    }

    /// Puts the dictionary in front of the other pages, and returns how long it is.
    fn push_dictionary(&mut self) -> Result<usize, String> {
        let length = match self.codebook.page() {
            Some(DictionaryPage { blobs, uncompressed, .. }) => {
                self.push_page(blobs.clone(), *uncompressed)?
            }
            None => {
                let values = self.codebook.len();
                self.body = self.codebook.plain();
                let length = self.push(&Kind::Dictionary { values })?;
                if let [.., header, body] = self.pages.as_slice() {
                    let blobs = [header.clone(), body.clone()];
                    self.codebook.keep_page(DictionaryPage { blobs, values, uncompressed: self.body.len() });
                }
                length
            }
        };
        self.pages.rotate_right(2);
        Ok(length)
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

    /// The chunk, and its codebook if that may serve the next one.
    pub(super) fn finish(mut self) -> Result<(EncodedChunk, Option<Codebook>), String> {
        if self.page.rows > 0 || self.data_pages == 0 {
            self.end_page()?;
        }
        let (distinct, bloom_filter) = self.bloom_filter()?;
        let values = self.codebook.len();
        let is_often = self.rows - self.nulls >= values * TIMES && (values - distinct) * UNUSED <= values;
        let is_kept =
            is_often && self.codebook.may_serve() && !self.is_full() && self.plan.dictionary_bytes > 0;
        let dictionary = self.push_dictionary()?;
        let mut offset_index = std::mem::replace(&mut self.offsets, OffsetIndexBuilder::new()).build();
        for page in &mut offset_index.page_locations {
            page.offset += dictionary as i64;
        }
        let nulls = self.nulls as u64;
        let (statistics, column_index) =
            self.bounds.finish(&self.codebook, distinct, nulls, self.plan.statistics);
        let data_page = if self.plan.version_2 { PageType::DATA_PAGE_V2 } else { PageType::DATA_PAGE };
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let mut metadata = ColumnChunkMetaData::builder(self.descriptor.clone())
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_compression(self.plan.compression)
            .set_num_values(self.rows as i64)
            .set_total_compressed_size(self.compressed as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(dictionary as i64)
            .set_page_encoding_stats(vec![
                stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1),
                stats(data_page, Encoding::RLE_DICTIONARY, self.data_pages),
            ]);
        if let Some(statistics) = statistics {
            metadata = metadata.set_statistics(statistics);
        }
        let chunk = EncodedChunk {
            blobs: self.pages,
            metadata: metadata.build().map_err(|error| error.to_string())?,
            column_index,
            offset_index: Some(offset_index),
            bloom_filter,
            rows: self.rows as u64,
        };
        self.codebook.rest();
        Ok((chunk, is_kept.then_some(self.codebook)))
    }
}
