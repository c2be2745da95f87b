//! Iterates over the pages of a flat column chunk, decompressing them into the same memory.
//!
//! A decompressed page stays in the CPU cache, since the next one overwrites it: each must be consumed before the next
//! is requested.

pub(super) mod chunk_bytes;
pub(super) mod header;
pub(super) mod levels;
pub(super) mod lz4;
pub(super) mod plain;
pub(super) mod plain_dictionary;
pub(super) mod reader;
pub(super) mod window;

use std::{ops::Range, sync::Arc};

use ::bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding},
    compression::{Codec, CodecOptionsBuilder, create_codec},
    file::metadata::ColumnChunkMetaData,
};
use stylobate_storage::{ByteReader, Corrupt, LocalFile};

use self::{
    header::{PageHeader, PageKind},
    plain_dictionary::PlainDictionaryScratch,
};
use super::footer;
use crate::kernels::snappy;

/// Bytes of a file that are read at a time: few enough to stay in the CPU cache.
const WINDOW: usize = 256 << 10;
/// Maximum bytes of a page header, statistics with long strings included.
const MAX_HEADER: usize = 16 << 20;

/// Source of a chunk's bytes.
pub(super) enum FlatPageSource {
    /// All of them in memory.
    Held(Bytes),
    /// A local file.
    File(Arc<LocalFile>),
}

/// Scratch memory, shared by the chunks of a thread.
#[derive(Default)]
pub(crate) struct DecodeScratch {
    /// Bytes of a file, longer than the used part.
    window: Vec<u8>,
    /// Decompressed page, as long as the longest so far.
    page: Vec<u8>,
    /// Memory of growing dictionaries.
    pub(super) dictionary: PlainDictionaryScratch,
}

/// Reader of a chunk's pages, in order.
pub(crate) struct FlatPageReader<'a> {
    input: FlatPageInput<'a>,
    /// Range of the file after the pages returned so far.
    left: Range<u64>,
    decompressor: PageDecompressor<'a>,
    /// Remaining rows: bytes after the last page are padding.
    rows_left: u64,
    /// True if the column may have nulls: then pages begin with levels.
    nullable: bool,
}

/// Decompressed page.
#[derive(Debug)]
pub(super) enum FlatPage<'a> {
    Dictionary(DictionaryPage<'a>),
    Data(DataPage<'a>),
}

/// Values of a dictionary, PLAIN-encoded.
#[derive(Debug, Default)]
pub(super) struct DictionaryPage<'a> {
    /// Offset of the page's bytes, after its header, in the file.
    pub(super) offset: u64,
    /// Bytes of the values, or a prefix of them.
    pub(super) values: &'a [u8],
    /// Number of all values.
    pub(super) count: usize,
    /// Bytes of all values.
    pub(super) length: usize,
}

/// Values of one data page.
#[derive(Debug)]
pub(super) struct DataPage<'a> {
    /// Offset of the page's bytes, after its header, in the file.
    pub(super) offset: u64,
    pub(super) encoding: Encoding,
    pub(super) rows: usize,
    /// Definition levels of the rows; `None` if every row has a value.
    pub(super) levels: Option<&'a [u8]>,
    pub(super) values: &'a [u8],
}

struct FlatPageInput<'a> {
    source: FlatPageSource,
    /// Offset of the chunk in the file.
    start: u64,
    end: u64,
    /// Bytes of the file from `window_start`; its length is the capacity, not the bytes read.
    window: &'a mut Vec<u8>,
    window_start: u64,
    window_used: usize,
}

struct PageDecompressor<'a> {
    codec: PageCodec,
    page: &'a mut Vec<u8>,
}

enum PageCodec {
    None,
    Snappy,
    Zstd(zstd::bulk::Decompressor<'static>),
    /// Hadoop's LZ4, or other framings under its name.
    Lz4(Box<dyn Codec>),
    Other(Box<dyn Codec>),
}

impl<'a> FlatPageReader<'a> {
    pub(super) fn new(
        source: FlatPageSource,
        chunk: &ColumnChunkMetaData,
        scratch: &'a mut DecodeScratch,
    ) -> Result<Self, Corrupt> {
        let range = footer::range(chunk);
        let codec = match chunk.compression() {
            Compression::UNCOMPRESSED => PageCodec::None,
            Compression::SNAPPY => PageCodec::Snappy,
            Compression::ZSTD(_) => {
                PageCodec::Zstd(zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?)
            }
            other => {
                let codec = create_codec(other, &CodecOptionsBuilder::default().build());
                match codec.map_err(|error| error.to_string())? {
                    Some(codec) if other == Compression::LZ4 => PageCodec::Lz4(codec),
                    Some(codec) => PageCodec::Other(codec),
                    None => PageCodec::None,
                }
            }
        };

        let start = range.start;
        let end = range.end;
        let DecodeScratch { window, page, .. } = scratch;
        let input = FlatPageInput { source, start, end, window, window_start: start, window_used: 0 };
        let decompressor = PageDecompressor { codec, page };
        let nullable = chunk.column_descr().max_def_level() > 0;
        let rows_left = chunk.num_values().max(0) as u64;

        Ok(Self { input, left: range, decompressor, rows_left, nullable })
    }

    /// Returns the dictionary's values and their number, if the first page is one. Must be called before
    /// [`Self::next`]. From time to time, `made` is called with the prefix of the values that is available, while it is
    /// in the CPU cache.
    pub(super) fn dictionary(
        &mut self,
        mut made: impl FnMut(&DictionaryPage<'_>) -> Result<(), Corrupt>,
    ) -> Result<Option<DictionaryPage<'_>>, Corrupt> {
        let before = self.left.start;
        if self.left.is_empty() || !matches!(self.header()?.kind, PageKind::Dictionary { .. }) {
            self.left.start = before;
            return Ok(None);
        }

        self.left.start = before;
        match self.read(&mut made)? {
            Some(FlatPage::Dictionary(page)) => Ok(Some(page)),
            _ => Ok(None),
        }
    }

    /// Returns the next page, or `None` after the last. Errors have offsets in the file.
    pub(super) fn next(&mut self) -> Result<Option<FlatPage<'_>>, Corrupt> {
        self.read(&mut |_| Ok(()))
    }

    fn read(
        &mut self,
        made: &mut dyn FnMut(&DictionaryPage<'_>) -> Result<(), Corrupt>,
    ) -> Result<Option<FlatPage<'_>>, Corrupt> {
        let header = loop {
            if self.left.is_empty() || self.rows_left == 0 {
                return Ok(None);
            }
            let header = self.header()?;
            if header.kind != PageKind::Other {
                break header;
            }
            self.left.start = self.left.start.saturating_add(header.compressed as u64);
        };

        let from = self.left.start;
        let end = from.saturating_add(header.compressed as u64);
        if end > self.left.end {
            return Err(Corrupt::new("a page that ends outside its column chunk").at(from));
        }

        self.left.start = end;
        let body = self.input.at(from, header.compressed)?;
        if let PageKind::Data { rows, .. } | PageKind::DataV2 { rows, .. } = header.kind {
            self.rows_left = self.rows_left.saturating_sub(rows as u64);
        }

        let page = self.decompressor.page(from, &header, body, self.nullable, made);
        page.map(Some).map_err(|corrupt| corrupt.at(from))
    }

    /// Reads the next header, and moves past it.
    fn header(&mut self) -> Result<PageHeader, Corrupt> {
        let left = (self.left.end - self.left.start) as usize;
        let mut wanted = left.min(1 << 10);
        loop {
            let start = self.left.start;
            let bytes = self.input.at(start, wanted)?;
            let header = PageHeader::read(bytes).map_err(|corrupt| corrupt.within(start))?;
            if let Some((header, length)) = header {
                self.left.start = start.saturating_add(length as u64).min(self.left.end);
                return Ok(header);
            }
            if wanted >= left.min(MAX_HEADER) {
                return Err(Corrupt::new("a page's header ends early").at(start));
            }

            wanted = wanted.saturating_mul(8).min(left);
        }
    }
}

impl FlatPageInput<'_> {
    /// Returns at least `length` bytes from `start`, if the chunk has that many.
    fn at(&mut self, start: u64, length: usize) -> Result<&[u8], Corrupt> {
        let outside = || Corrupt::new("a page outside its column chunk").at(start);
        let file = match &self.source {
            FlatPageSource::Held(bytes) => {
                let skip = start.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
                let bytes = skip.and_then(|skip| bytes.get(skip..));
                return bytes.ok_or_else(outside);
            }
            FlatPageSource::File(file) => file,
        };

        let skip = start.checked_sub(self.window_start).and_then(|skip| usize::try_from(skip).ok());
        let held = skip.and_then(|skip| self.window_used.checked_sub(skip)).unwrap_or(0);
        if held < length {
            let left = usize::try_from(self.end.saturating_sub(start)).unwrap_or(usize::MAX);
            let wanted = length.max(WINDOW).min(left);
            let from = self.window_used - held;
            if self.window.len() < wanted {
                let mut larger = vec![0; wanted];
                if let (Some(to), Some(kept)) =
                    (larger.get_mut(..held), self.window.get(from..self.window_used))
                {
                    to.copy_from_slice(kept);
                }
                *self.window = larger;
            } else {
                self.window.copy_within(from..self.window_used, 0);
            }

            (self.window_start, self.window_used) = (start, held);
            let into = self.window.get_mut(held..wanted).unwrap_or_default();
            file.read_into(start.saturating_add(held as u64), into).map_err(|error| error.to_string())?;
            self.window_used = wanted.max(held);
        }

        let skip = (start - self.window_start) as usize;
        self.window.get(skip..self.window_used).ok_or_else(outside)
    }
}

impl PageDecompressor<'_> {
    /// Returns the page whose bytes after the header begin at `offset` in the file; `body` may continue after them.
    /// Pages of `nullable` columns begin with levels.
    fn page<'b>(
        &'b mut self,
        offset: u64,
        header: &PageHeader,
        body: &'b [u8],
        nullable: bool,
        made: &mut dyn FnMut(&DictionaryPage<'_>) -> Result<(), Corrupt>,
    ) -> Result<FlatPage<'b>, Corrupt> {
        let body = body.get(..header.compressed).ok_or("a page that ends outside its column chunk")?;
        if let Some(crc) = header.crc
            && crc32fast::hash(body) != crc
        {
            return Err("a page whose checksum is wrong".into());
        }

        Ok(match header.kind {
            PageKind::Dictionary { values: count, encoding } => {
                if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
                    return Err(format!("a dictionary in the encoding {encoding}").into());
                }
                let length = header.uncompressed;
                let mut some = |values: &[u8]| made(&DictionaryPage { offset, values, count, length });
                let values = self.run(offset, body, length, &mut some)?;
                FlatPage::Dictionary(DictionaryPage { offset, values, count, length })
            }
            // Encodings of levels that only the general reader supports are reported as an unknown encoding of values.
            PageKind::Data { rows, levels, .. } if nullable && levels != Encoding::RLE => {
                FlatPage::Data(DataPage { offset, encoding: levels, rows, levels: None, values: &[] })
            }
            PageKind::Data { rows, encoding, .. } => {
                let values = self.run(offset, body, header.uncompressed, &mut |_| Ok(()))?;
                let mut values = ByteReader::new(values);
                let levels = if nullable {
                    let levels = values.u32_le().and_then(|length| values.take(length as usize));
                    Some(levels.ok_or("a page ends within its levels")?)
                } else {
                    None
                };

                FlatPage::Data(DataPage { offset, encoding, rows, levels, values: values.rest() })
            }
            PageKind::DataV2 { rows, encoding, definition, repetition, compressed, .. } => {
                let before = definition.saturating_add(repetition);
                let (levels, values) =
                    body.split_at_checked(before).ok_or("a page ends within its levels")?;
                let levels = levels.get(repetition..).filter(|_| nullable);
                let length =
                    header.uncompressed.checked_sub(before).ok_or("a page shorter than its levels")?;
                // Some writers mark an empty page as compressed.
                let values = if compressed && !values.is_empty() {
                    self.run(offset.saturating_add(before as u64), values, length, &mut |_| Ok(()))?
                } else {
                    values
                };

                FlatPage::Data(DataPage { offset, encoding, rows, levels, values })
            }
            PageKind::Other => return Err("a page of no known kind".into()),
        })
    }

    /// Decompresses a page of `length` bytes, whose compressed bytes begin at `offset` in the file. `made` is
    /// called with the bytes available so far.
    fn run<'b>(
        &'b mut self,
        offset: u64,
        from: &'b [u8],
        length: usize,
        made: &mut dyn FnMut(&[u8]) -> Result<(), Corrupt>,
    ) -> Result<&'b [u8], Corrupt> {
        let wrong = || Corrupt::from("a page that is longer or shorter than it says");
        if matches!(self.codec, PageCodec::None) {
            return Ok(from);
        }

        if matches!(self.codec, PageCodec::Snappy)
            && let Some(stored) = snappy::stored(from)
        {
            return if stored.len() == length { Ok(stored) } else { Err(wrong()) };
        }

        let room = length.saturating_add(snappy::SLACK);
        if self.page.len() < room && !matches!(self.codec, PageCodec::Other(_)) {
            // Reallocated, since growing would copy stale bytes.
            *self.page = vec![0; room];
        }

        let into = &mut *self.page;
        let made = match &mut self.codec {
            PageCodec::None => 0,
            PageCodec::Snappy => {
                let made = snappy::decompress(from, into.get_mut(..room).unwrap_or_default(), made);
                made.map_err(|corrupt| corrupt.within(offset))?
            }
            PageCodec::Zstd(decoder) => {
                let into = into.get_mut(..length).unwrap_or_default();
                decoder.decompress_to_buffer(from, into).map_err(|error| error.to_string())?
            }
            PageCodec::Lz4(_)
                if let Some(made) =
                    lz4::decompress_blocks(from, into.get_mut(..length).unwrap_or_default()) =>
            {
                made
            }
            PageCodec::Lz4(codec) | PageCodec::Other(codec) => {
                into.clear();
                codec.decompress(from, into, Some(length)).map_err(|error| error.to_string())?
            }
        };

        if made != length {
            return Err(wrong());
        }

        self.page.get(..length).ok_or_else(wrong)
    }
}
