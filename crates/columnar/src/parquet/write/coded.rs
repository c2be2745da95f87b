//! A column of codes. Where it arrives as dictionaries, their codes become the file's, and no row is hashed.
//!
//! Each code of an array is mapped to the code that its value has in the file. Only a value that occurs for the first
//! time is looked at. So what a row costs is one lookup in the map, its bits, and one comparison for the statistics of
//! its page where its value is new to that. Where values arrive, each is looked up in the dictionary, and the code that
//! it has there is mapped to itself.

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array, downcast_dictionary_array},
    buffer::{BooleanBuffer, NullBuffer},
    compute::{filter, take},
    datatypes::ArrowNativeType,
    util::bit_iterator::BitSliceIterator,
};
use bytes::Bytes;
use parquet::{
    basic::{Encoding, PageType, Type as PhysicalType},
    bloom_filter::Sbbf,
    compression::{Codec, CodecOptionsBuilder, create_codec},
    file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder, PageEncodingStats},
    schema::types::ColumnDescPtr,
};

use super::{
    bounds::{ChunkBounds, PageBounds},
    chunk::EncodedChunk,
    filling::Filling,
    hybrid,
    options::ColumnPlan,
    order::Order,
    page::{self, Kind},
    plain,
};
use crate::{parquet::distinct::Distinct, weight::weight_of};

/// Stands in a map for a value that did not occur yet.
const UNKNOWN: u32 = u32::MAX;
/// A page is filled in so many pieces.
const PIECES: usize = 8;
/// Bytes of a dictionary after which no rows should be added: a page has 2 GiB at most.
const MOST_DICTIONARY: usize = 1 << 30;

/// Encodes one column chunk.
pub(super) struct Coded {
    descriptor: ColumnDescPtr,
    plan: ColumnPlan,
    codec: Option<Box<dyn Codec>>,
    distinct: Distinct,
    /// The values of the arrays that come now, and the file's code of each.
    current: Option<ArrayRef>,
    map: Vec<u32>,
    /// Keys of values that occur for the first time.
    fresh: Vec<u64>,
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
    pub(super) fn new(descriptor: ColumnDescPtr, plan: ColumnPlan) -> Result<Self, String> {
        let text = |error: &dyn ToString| error.to_string();
        let codec = create_codec(plan.compression, &CodecOptionsBuilder::default().build());
        Ok(Self {
            codec: codec.map_err(|error| text(&error))?,
            distinct: Distinct::new(&descriptor, &[], 0)?,
            bounds: ChunkBounds::new(Order::of(&descriptor), descriptor.physical_type()),
            descriptor,
            plan,
            current: None,
            map: Vec::new(),
            fresh: Vec::new(),
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
        self.compressed + self.distinct.memory() + self.map.len() * 4 + self.page.codes.capacity() * 4
    }

    /// Bytes that the chunk will have, about.
    pub(super) fn encoded(&self) -> usize {
        self.compressed + self.distinct.bytes() + self.page.rows / 2
    }

    /// Whether no more rows should be added.
    pub(super) fn is_full(&self) -> bool {
        self.distinct.bytes() >= MOST_DICTIONARY
    }

    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<(), String> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let Some(any) = array.as_any_dictionary_opt() else {
            return self.write_values(array, nulls.as_ref());
        };
        self.learn_values(any.values());
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
        let plain = plain::values(&valid, &self.descriptor)?;
        let mut codes: Vec<u32> = Vec::with_capacity(array.len());
        self.distinct.append(&plain, valid.len(), |some| codes.extend_from_slice(some))?;
        self.bounds.learn(&self.distinct);
        self.map.extend(self.map.len() as u32..self.distinct.len() as u32);
        let Some(nulls) = nulls else { return self.write_keys(&codes, None) };
        let mut codes = codes.into_iter();
        let keys: Vec<u32> =
            nulls.iter().map(|is_valid| is_valid.then(|| codes.next()).flatten().unwrap_or(0)).collect();
        self.write_keys(&keys, Some(nulls))
    }

    /// Begins a new map, unless the values are those that came before.
    fn learn_values(&mut self, values: &ArrayRef) {
        let same = self.current.as_ref().is_some_and(|current| {
            current.len() == values.len()
                && (std::ptr::eq(current.as_ref(), values.as_ref())
                    || current.to_data().ptr_eq(&values.to_data()))
        });
        if !same {
            self.map.clear();
            self.map.resize(values.len(), UNKNOWN);
            self.distinct.reserve(values.len(), weight_of(values));
        }
        self.current = Some(values.clone());
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
        let bits = usize::from(hybrid::width(self.distinct.len() as u32)) + level;
        self.plan.page_rows.min(self.plan.page_bytes.saturating_mul(8) / bits.max(1)).max(1)
    }

    /// Adds rows that all have a value. What occurs for the first time has the next code, unless the file has the value
    /// from another dictionary, or from another place in this one.
    fn fill<K: ArrowNativeType>(&mut self, keys: &[K]) -> Result<(), String> {
        let known = self.distinct.len() as u32;
        let before = self.page.codes.len();
        let (map, fresh) = (&mut self.map, &mut self.fresh);
        fresh.clear();
        let mut is_beyond = false;
        self.page.codes.extend(keys.iter().map(|key| match map.get_mut(key.as_usize()) {
            Some(code) => {
                if *code == UNKNOWN {
                    *code = known + fresh.len() as u32;
                    fresh.push(key.as_usize() as u64);
                }
                *code
            }
            None => {
                is_beyond = true;
                UNKNOWN
            }
        }));
        if is_beyond {
            return Err("a code beyond its dictionary".to_owned());
        }
        if !self.fresh.is_empty() {
            self.learn(known, before)?;
        }
        self.page.push_valid(keys.len());
        Ok(())
    }

    /// Looks at values that occur for the first time, and mends the codes of those that the file has already.
    fn learn(&mut self, known: u32, before: usize) -> Result<(), String> {
        let Some(values) = &self.current else { return Ok(()) };
        let mut codes: Vec<u32> = Vec::with_capacity(self.fresh.len());
        let append = |some: &[u32]| codes.extend_from_slice(some);
        match values.as_string_opt::<i32>() {
            Some(texts) if self.descriptor.physical_type() == PhysicalType::BYTE_ARRAY => {
                let mut fresh = self.fresh.iter().map(|key| texts.value(*key as usize).as_bytes());
                let next = || fresh.next().ok_or_else(String::new);
                self.distinct.append_each(self.fresh.len(), next, append)?;
            }
            _ => {
                let fresh = UInt64Array::from(self.fresh.clone());
                let taken = take(values, &fresh, None).map_err(|error| error.to_string())?;
                self.distinct.append(&plain::values(&taken, &self.descriptor)?, taken.len(), append)?;
            }
        }
        self.bounds.learn(&self.distinct);
        if codes.iter().zip(known..).any(|(code, given)| *code != given) {
            for (key, code) in self.fresh.iter().zip(&codes) {
                if let Some(place) = self.map.get_mut(*key as usize) {
                    *place = *code;
                }
            }
            for given in self.page.codes.iter_mut().skip(before) {
                let code = given.checked_sub(known).and_then(|at| codes.get(at as usize));
                *given = code.copied().unwrap_or(*given);
            }
        }
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
        let width = hybrid::width(self.distinct.len().saturating_sub(1) as u32);
        self.body.push(width);
        hybrid::append(&page.codes, width, &mut self.body);
        let bounds = self.bounds.end_page(&self.distinct, &page.codes);
        let compressed = match self.plan.version_2 {
            true => self.push_version_2(page.rows, nulls)?,
            false => self.push(&Kind::Data { rows: page.rows })?,
        };
        self.offsets.append_row_count(page.rows as i64);
        self.offsets.append_offset_and_size((self.compressed - compressed) as i64, compressed as i32);
        self.note(bounds, nulls);
        self.rows += page.rows;
        self.nulls += nulls;
        self.data_pages += 1;
        self.page.codes = page.codes;
        self.page.codes.clear();
        Ok(())
    }

    fn note(&mut self, bounds: Option<PageBounds>, nulls: usize) {
        self.bounds.note(&self.distinct, bounds, nulls);
    }

    /// Compresses what is in `body` to a page behind the others, and returns how long it is.
    fn push(&mut self, kind: &Kind) -> Result<usize, String> {
        let uncompressed = self.body.len();
        let body = match self.compress(0)? {
            Some(compressed) => compressed,
            None => self.body.clone(),
        };
        self.push_page(kind, uncompressed, body)
    }

    /// The same with `levels` in front, which are not compressed; and neither is what does not get smaller by it.
    fn push_version_2(&mut self, rows: usize, nulls: usize) -> Result<usize, String> {
        let levels = self.levels.len();
        let uncompressed = levels + self.body.len();
        let compressed = self.compress(levels)?.filter(|compressed| compressed.len() < uncompressed);
        let is_compressed = compressed.is_some();
        let body = compressed.unwrap_or_else(|| [self.levels.as_slice(), self.body.as_slice()].concat());
        self.push_page(&Kind::DataV2 { rows, nulls, levels, is_compressed }, uncompressed, body)
    }

    /// What is in `body`, compressed, behind the first bytes of `levels`; `None` where there is no compression.
    fn compress(&mut self, levels: usize) -> Result<Option<Vec<u8>>, String> {
        let Some(codec) = &mut self.codec else { return Ok(None) };
        let mut compressed = self.levels.get(..levels).unwrap_or_default().to_vec();
        codec.compress(&self.body, &mut compressed).map_err(|error| error.to_string())?;
        compressed.shrink_to_fit();
        Ok(Some(compressed))
    }

    fn push_page(&mut self, kind: &Kind, uncompressed: usize, body: Vec<u8>) -> Result<usize, String> {
        let blobs = page::page(kind, uncompressed, body)?;
        let header = blobs.first().map_or(0, Bytes::len);
        let length = blobs.iter().map(Bytes::len).sum();
        self.pages.extend(blobs);
        self.compressed += length;
        self.uncompressed += uncompressed + header;
        Ok(length)
    }

    pub(super) fn finish(mut self) -> Result<EncodedChunk, String> {
        if self.page.rows > 0 || self.data_pages == 0 {
            self.end_page()?;
        }
        self.body = self.distinct.plain();
        let dictionary = self.push(&Kind::Dictionary { values: self.distinct.len() })?;
        self.pages.rotate_right(2);
        let mut offset_index = std::mem::replace(&mut self.offsets, OffsetIndexBuilder::new()).build();
        for page in &mut offset_index.page_locations {
            page.offset += dictionary as i64;
        }
        let bloom_filter = match self.plan.bloom_filter {
            None => None,
            Some(rate) => {
                let mut filter = Sbbf::new_with_ndv_fpp(self.distinct.len().max(1) as u64, rate)
                    .map_err(|error| error.to_string())?;
                (0..self.distinct.len()).for_each(|code| filter.insert(self.distinct.value(code as u32)));
                Some(filter)
            }
        };
        let (statistics, column_index) =
            self.bounds.finish(&self.distinct, self.nulls as u64, self.plan.statistics);
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
        Ok(EncodedChunk {
            blobs: self.pages,
            metadata: metadata.build().map_err(|error| error.to_string())?,
            column_index,
            offset_index: Some(offset_index),
            bloom_filter,
            rows: self.rows as u64,
        })
    }
}
