//! The pages of a column chunk as they will be in the file: levels and values, compressed, behind a header.
//!
//! What pages are made in is kept from one to the next, so that a page takes no memory but its own.

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

use super::{
    chunk::EncodedChunk,
    hybrid,
    options::ColumnPlan,
    page::{self, Kind},
    rows::Rows,
};

pub(super) struct Pages {
    descriptor: ColumnDescPtr,
    plan: ColumnPlan,
    /// Of the values of data pages.
    encoding: Encoding,
    codec: Option<Box<dyn Codec>>,
    /// Headers and bodies.
    blobs: Vec<Bytes>,
    offsets: OffsetIndexBuilder,
    rows: usize,
    nulls: usize,
    data_pages: i32,
    compressed: usize,
    uncompressed: usize,
    levels: Vec<u8>,
    body: Vec<u8>,
    room: Vec<u8>,
}

/// What is known of a chunk when its last page is made.
pub(super) struct Summary {
    pub(super) statistics: Option<Statistics>,
    pub(super) column_index: Option<ColumnIndexMetaData>,
    pub(super) bloom_filter: Option<Sbbf>,
}

impl Pages {
    pub(super) fn new(
        descriptor: ColumnDescPtr,
        plan: ColumnPlan,
        encoding: Encoding,
    ) -> Result<Self, String> {
        let codec = create_codec(plan.compression, &CodecOptionsBuilder::default().build());
        Ok(Self {
            codec: codec.map_err(|error| error.to_string())?,
            descriptor,
            plan,
            encoding,
            blobs: Vec::new(),
            offsets: OffsetIndexBuilder::new(),
            rows: 0,
            nulls: 0,
            data_pages: 0,
            compressed: 0,
            uncompressed: 0,
            levels: Vec::new(),
            body: Vec::new(),
            room: Vec::new(),
        })
    }

    /// Bytes of all pages.
    pub(super) fn bytes(&self) -> usize {
        self.compressed
    }

    /// Rows of all pages.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// How many of them are null.
    pub(super) fn nulls(&self) -> usize {
        self.nulls
    }

    /// Adds a page of rows, with the values that `append` appends for those that have one, so many.
    pub(super) fn push_data(
        &mut self,
        rows: &Rows,
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
        let length = match self.plan.version_2 {
            true => {
                append(&mut self.body);
                self.compress_version_2(rows.count(), nulls)?
            }
            false => {
                if !self.levels.is_empty() {
                    self.body.extend_from_slice(&(self.levels.len() as u32).to_le_bytes());
                    self.body.append(&mut self.levels);
                }
                append(&mut self.body);
                self.compress(&Kind::Data { rows: rows.count(), encoding: self.encoding })?
            }
        };
        self.offsets.append_row_count(rows.count() as i64);
        self.offsets.append_offset_and_size((self.compressed - length) as i64, length as i32);
        self.rows += rows.count();
        self.nulls += nulls;
        self.data_pages += 1;
        Ok(())
    }

    /// Compresses the values of a dictionary, and adds their page.
    pub(super) fn push_dictionary(&mut self, values: usize, plain: Vec<u8>) -> Result<[Bytes; 2], String> {
        self.body = plain;
        self.compress(&Kind::Dictionary { values })?;
        match self.blobs.as_slice() {
            [.., header, body] => Ok([header.clone(), body.clone()]),
            _ => Err("a page that is not there".to_owned()),
        }
    }

    /// Compresses what is in `body` to a page behind the others, and returns how long it is.
    fn compress(&mut self, kind: &Kind) -> Result<usize, String> {
        let body = match &mut self.codec {
            None => Bytes::copy_from_slice(&self.body),
            Some(codec) => {
                self.room.clear();
                codec.compress(&self.body, &mut self.room).map_err(|error| error.to_string())?;
                Bytes::copy_from_slice(&self.room)
            }
        };
        let uncompressed = self.body.len();
        Ok(self.push(page::page(kind, uncompressed, body)?, uncompressed))
    }

    /// The same with the levels in front, which are not compressed; and neither is what does not get smaller by it.
    fn compress_version_2(&mut self, rows: usize, nulls: usize) -> Result<usize, String> {
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
        let kind = Kind::DataV2 { rows, nulls, levels, is_compressed, encoding: self.encoding };
        let page = page::page(&kind, uncompressed, Bytes::copy_from_slice(&self.room))?;
        Ok(self.push(page, uncompressed))
    }

    /// Puts a header and its body behind the other pages, and returns how long they are.
    pub(super) fn push(&mut self, blobs: [Bytes; 2], uncompressed: usize) -> usize {
        let header = blobs.first().map_or(0, Bytes::len);
        let length = blobs.iter().map(Bytes::len).sum();
        self.blobs.extend(blobs);
        self.compressed += length;
        self.uncompressed += uncompressed + header;
        length
    }

    /// The chunk. With a `dictionary`, the last page is one, of so many bytes, and goes to the front.
    pub(super) fn finish(
        mut self,
        dictionary: Option<usize>,
        summary: Summary,
    ) -> Result<EncodedChunk, String> {
        let data_page = if self.plan.version_2 { PageType::DATA_PAGE_V2 } else { PageType::DATA_PAGE };
        let stats = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let mut encodings = vec![Encoding::PLAIN, Encoding::RLE];
        let mut page_stats = vec![stats(data_page, self.encoding, self.data_pages)];
        if dictionary.is_some() {
            self.blobs.rotate_right(2);
            encodings.push(self.encoding);
            page_stats.insert(0, stats(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1));
        }
        let start = dictionary.unwrap_or_default() as i64;
        let mut offset_index = self.offsets.build();
        offset_index.page_locations.iter_mut().for_each(|page| page.offset += start);
        let mut metadata = ColumnChunkMetaData::builder(self.descriptor)
            .set_encodings(encodings)
            .set_compression(self.plan.compression)
            .set_num_values(self.rows as i64)
            .set_total_compressed_size(self.compressed as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_dictionary_page_offset(dictionary.map(|_| 0))
            .set_data_page_offset(start)
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
        })
    }
}
