//! Assembles the pages of a column chunk: levels and values, compressed, after a header.
//!
//! Buffers are reused from page to page, so that a page takes only the memory of its own bytes.

pub(super) mod header;
pub(super) mod hybrid;
pub(super) mod rows;

use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use parquet::{
    basic::{Encoding, PageType},
    bloom_filter::Sbbf,
    compression::{Codec, CodecOptionsBuilder, create_codec},
    file::{
        metadata::{ColumnChunkMetaData, OffsetIndexBuilder, PageEncodingStats},
        page_index::column_index::ColumnIndexMetaData,
        statistics::Statistics,
    },
    schema::types::ColumnDescPtr,
};

use self::{
    header::{self as page, PageHeaderSpec},
    rows::PageValidity,
};
use super::{chunk::EncodedChunk, options::ParquetEncoderOptions};

pub(super) struct ChunkPageWriter {
    descriptor: ColumnDescPtr,
    plan: ParquetEncoderOptions,
    codec: Option<Box<dyn Codec>>,
    /// Headers and bodies of data pages.
    blobs: Vec<Bytes>,
    dictionary: Option<[Bytes; 2]>,
    offsets: OffsetIndexBuilder,
    rows: usize,
    nulls: usize,
    /// Current encoding of values, and its number of pages.
    encoding: Encoding,
    data_pages: i32,
    /// Previous encoding of values, and its number of pages.
    before: Option<(Encoding, i32)>,
    /// Compressed bytes of data pages.
    compressed: usize,
    /// Uncompressed bytes of all pages.
    uncompressed: usize,
    levels: Vec<u8>,
    body: Vec<u8>,
    room: Vec<u8>,
}

/// Statistics and indexes of a complete chunk.
pub(super) struct ChunkSummary {
    pub(super) statistics: Option<Statistics>,
    pub(super) column_index: Option<ColumnIndexMetaData>,
    pub(super) bloom_filter: Option<Sbbf>,
}

impl ChunkPageWriter {
    pub(super) fn new(
        descriptor: ColumnDescPtr,
        plan: ParquetEncoderOptions,
        encoding: Encoding,
    ) -> Result<Self, String> {
        let codec = create_codec(plan.compression, &CodecOptionsBuilder::default().build());
        Ok(Self {
            codec: codec.map_err(|error| error.to_string())?,
            descriptor,
            plan,
            blobs: Vec::new(),
            dictionary: None,
            offsets: OffsetIndexBuilder::new(),
            rows: 0,
            nulls: 0,
            encoding,
            data_pages: 0,
            before: None,
            compressed: 0,
            uncompressed: 0,
            levels: Vec::new(),
            body: Vec::new(),
            room: Vec::new(),
        })
    }

    /// Returns the size of all pages, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.compressed + self.dictionary_bytes()
    }

    fn dictionary_bytes(&self) -> usize {
        self.dictionary.iter().flatten().map(Bytes::len).sum()
    }

    /// Returns the number of rows in all pages.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of nulls of all pages.
    pub(super) fn nulls(&self) -> usize {
        self.nulls
    }

    /// Changes the encoding of the pages that follow.
    pub(super) fn go_on_with(&mut self, encoding: Encoding) {
        let pages = std::mem::take(&mut self.data_pages);
        self.before = Some((std::mem::replace(&mut self.encoding, encoding), pages));
    }

    /// Adds a page of rows, with the `count` values that `append` writes for those that are not null.
    pub(super) fn push_data(
        &mut self,
        rows: &PageValidity,
        values: usize,
        append: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), String> {
        let nulls = rows.count() - values;
        self.levels.clear();
        if self.descriptor.max_def_level() > 0 {
            match rows.valid() {
                None => hybrid::append_level(1, rows.count(), &mut self.levels),
                Some(valid) => {
                    hybrid::append_bits(BooleanBuffer::from(valid).values(), rows.count(), &mut self.levels);
                }
            }
        } else if nulls > 0 {
            return Err("a null in a column that has none".to_owned());
        }

        self.body.clear();
        let encoding = self.encoding;
        let [header, body] = if self.plan.version_2 {
            append(&mut self.body);
            self.compress_version_2(rows.count(), nulls, encoding)?
        } else {
            if !self.levels.is_empty() {
                self.body.extend_from_slice(&(self.levels.len() as u32).to_le_bytes());
                self.body.append(&mut self.levels);
            }
            append(&mut self.body);
            self.compress(&PageHeaderSpec::Data { rows: rows.count(), encoding })?
        };

        let length = header.len() + body.len();
        self.blobs.extend([header, body]);
        self.offsets.append_row_count(rows.count() as i64);
        self.offsets.append_offset_and_size(self.compressed as i64, length as i32);
        self.compressed += length;
        self.rows += rows.count();
        self.nulls += nulls;
        self.data_pages += 1;

        Ok(())
    }

    /// Compresses the values of a dictionary, and inserts their page before the others.
    pub(super) fn push_dictionary(&mut self, values: usize, plain: Vec<u8>) -> Result<[Bytes; 2], String> {
        self.body = plain;
        let page = self.compress(&PageHeaderSpec::Dictionary { values })?;
        Ok(self.dictionary.insert(page).clone())
    }

    /// Inserts an existing dictionary page before the others.
    pub(super) fn repeat_dictionary(&mut self, page: [Bytes; 2], uncompressed: usize) {
        self.uncompressed += uncompressed + page.first().map_or(0, Bytes::len);
        self.dictionary = Some(page);
    }

    /// Compresses `body` into a page.
    fn compress(&mut self, kind: &PageHeaderSpec) -> Result<[Bytes; 2], String> {
        let body = match &mut self.codec {
            None => Bytes::copy_from_slice(&self.body),
            Some(codec) => {
                self.room.clear();
                codec.compress(&self.body, &mut self.room).map_err(|error| error.to_string())?;
                Bytes::copy_from_slice(&self.room)
            }
        };

        self.page(kind, self.body.len(), body)
    }

    /// Compresses a page of version 2: its levels stay uncompressed, and so do values that do not shrink.
    fn compress_version_2(
        &mut self,
        rows: usize,
        nulls: usize,
        encoding: Encoding,
    ) -> Result<[Bytes; 2], String> {
        let levels = self.levels.len();
        let uncompressed = levels + self.body.len();
        self.room.clear();
        self.room.extend_from_slice(&self.levels);
        if let Some(codec) = &mut self.codec {
            codec.compress(&self.body, &mut self.room).map_err(|error| error.to_string())?;
        }
        let is_compressed = self.codec.is_some() && self.room.len() < uncompressed;

        if !is_compressed {
            self.room.truncate(levels);
            self.room.extend_from_slice(&self.body);
        }
        let kind = PageHeaderSpec::DataV2 { rows, nulls, levels, is_compressed, encoding };
        self.page(&kind, uncompressed, Bytes::copy_from_slice(&self.room))
    }

    /// Builds a page of a header and a body.
    fn page(
        &mut self,
        kind: &PageHeaderSpec,
        uncompressed: usize,
        body: Bytes,
    ) -> Result<[Bytes; 2], String> {
        let page = page::page(kind, uncompressed, body)?;
        self.uncompressed += uncompressed + page.first().map_or(0, Bytes::len);
        Ok(page)
    }

    /// Returns the chunk.
    pub(super) fn finish(mut self, summary: ChunkSummary) -> Result<EncodedChunk, String> {
        let data_page = if self.plan.version_2 { PageType::DATA_PAGE_V2 } else { PageType::DATA_PAGE };
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let mut encodings = vec![Encoding::PLAIN, Encoding::RLE];
        let mut page_stats = Vec::new();
        let start = self.dictionary_bytes();
        let has_dictionary = self.dictionary.is_some();

        if let Some(dictionary) = self.dictionary {
            self.blobs.splice(..0, dictionary);
            page_stats.push(stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1));
        }
        for (encoding, pages) in self.before.into_iter().chain([(self.encoding, self.data_pages)]) {
            page_stats.push(stats(data_page, encoding, pages));
            if !encodings.contains(&encoding) {
                encodings.push(encoding);
            }
        }

        let mut offset_index = self.offsets.build();
        offset_index.page_locations.iter_mut().for_each(|page| page.offset += start as i64);
        let mut metadata = ColumnChunkMetaData::builder(self.descriptor)
            .set_encodings(encodings)
            .set_compression(self.plan.compression)
            .set_num_values(self.rows as i64)
            .set_total_compressed_size((start + self.compressed) as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_dictionary_page_offset(has_dictionary.then_some(0))
            .set_data_page_offset(start as i64)
            .set_page_encoding_stats(page_stats);

        if let Some(statistics) = summary.statistics {
            metadata = metadata.set_statistics(statistics);
        }
        Ok(EncodedChunk {
            blobs: self.blobs,
            metadata: metadata.build().map_err(|error| error.to_string())?,
            column_index: summary.column_index,
            offset_index: Some(offset_index),
            bloom_filter: summary.bloom_filter,
            rows: self.rows as u64,
            hashes: None,
        })
    }
}
