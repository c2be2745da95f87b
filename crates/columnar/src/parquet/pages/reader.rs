//! Pages of a column chunk for the parquet crate's general reader.
//!
//! Codecs, levels and counts are treated as in [`FlatPageReader`](super::FlatPageReader), so that both readers return
//! the same column: LZ4 in any number of Hadoop's blocks, pages without rows, pages of version 2 with an unknown number
//! of nulls.

use std::{collections::VecDeque, ops::Range};

use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding},
    column::page::{Page, PageMetadata, PageReader},
    compression::{Codec, CodecOptionsBuilder, create_codec},
    errors::{ParquetError, Result},
    file::{metadata::ColumnChunkMetaData, page_index::offset_index::PageLocation},
};
use stylobate_storage::Corrupt;

use super::{
    header::{PageHeader, PageKind},
    lz4,
};
use crate::parquet::{
    decryptor::{ChunkDecryptor, MODULE_LENGTH, module_size},
    footer,
};

/// Bytes that most headers fit in.
const TYPICAL_HEADER: usize = 1 << 10;
/// Maximum bytes of a page header, statistics with long strings included.
const MAX_HEADER: usize = 16 << 20;

/// Bytes of a column chunk, by their offset in the file.
pub(crate) trait ChunkSource: Send {
    /// Returns at least `length` bytes from `start`, if the chunk, or the part of it in memory, has that many.
    fn bytes_from(&self, start: u64, length: usize) -> Result<Bytes>;
}

/// Reader of the pages of one column chunk.
pub(crate) struct ChunkPageReader<S> {
    source: S,
    remaining: RemainingPages,
    /// Decryptor of the next page, if the chunk is encrypted.
    decryptor: Option<ChunkDecryptor>,
    codec: Option<Box<dyn Codec>>,
    is_lz4: bool,
    has_definition_levels: bool,
    has_repetition_levels: bool,
}

/// Pages that are still to be read.
enum RemainingPages {
    /// All up to the end of the chunk.
    Sequential {
        bytes: Range<u64>,
        /// Remaining levels: bytes after the last page are padding.
        levels: u64,
        /// Header of the next page, whose body begins the bytes.
        header: Option<PageHeader>,
    },
    /// Pages located by an offset index.
    Located(VecDeque<LocatedPage>),
}

struct LocatedPage {
    bytes: Range<u64>,
    /// Rows of the page; `None` for the dictionary.
    rows: Option<usize>,
}

impl<S: ChunkSource> ChunkPageReader<S> {
    /// Creates a reader of all pages of the chunk, with a decryptor if they are encrypted.
    pub(crate) fn sequential(
        source: S,
        chunk: &ColumnChunkMetaData,
        decryptor: Option<ChunkDecryptor>,
    ) -> Result<Self> {
        let levels = chunk.num_values().max(0) as u64;
        let remaining = RemainingPages::Sequential { bytes: footer::range(chunk), levels, header: None };
        Self::new(source, chunk, remaining, decryptor)
    }

    /// Creates a reader of the dictionary, if any, and of the data pages at these locations of a row group with `total`
    /// rows.
    pub(crate) fn located(
        source: S,
        chunk: &ColumnChunkMetaData,
        locations: &[PageLocation],
        total: usize,
    ) -> Result<Self> {
        let start = footer::range(chunk).start;
        let first = locations.first().map_or(start, |page| page.offset.max(0) as u64);
        // The bytes before the first data page are the dictionary.
        let dictionary = (start < first).then_some(LocatedPage { bytes: start..first, rows: None });
        let nexts = locations.iter().skip(1).map(|page| page.first_row_index.max(0) as usize).chain([total]);
        let data = locations.iter().zip(nexts).map(|(page, next)| {
            let start = page.offset.max(0) as u64;
            LocatedPage {
                bytes: start..start.saturating_add(page.compressed_page_size.max(0) as u64),
                rows: Some(next.saturating_sub(page.first_row_index.max(0) as usize)),
            }
        });

        let pages = dictionary.into_iter().chain(data).collect();
        Self::new(source, chunk, RemainingPages::Located(pages), None)
    }

    fn new(
        source: S,
        chunk: &ColumnChunkMetaData,
        remaining: RemainingPages,
        decryptor: Option<ChunkDecryptor>,
    ) -> Result<Self> {
        let codec = create_codec(chunk.compression(), &CodecOptionsBuilder::default().build())?;
        let descriptor = chunk.column_descr();
        Ok(Self {
            source,
            remaining,
            decryptor,
            codec,
            is_lz4: chunk.compression() == Compression::LZ4,
            has_definition_levels: descriptor.max_def_level() > 0,
            has_repetition_levels: descriptor.max_rep_level() > 0,
        })
    }

    /// Returns the header of the next sequential page, if any.
    fn next_header(&mut self) -> Result<Option<PageHeader>> {
        let RemainingPages::Sequential { bytes, levels, header } = &mut self.remaining else {
            return Ok(None);
        };

        while header.is_none() && !bytes.is_empty() && *levels > 0 {
            let (next, length) = match &self.decryptor {
                Some(decryptor) => decrypt_header(&self.source, bytes, decryptor)?,
                None => read_header(&self.source, bytes)?,
            };
            bytes.start = bytes.start.saturating_add(length as u64);
            if bytes.start.saturating_add(next.compressed as u64) > bytes.end {
                return Err(outside());
            }

            match next.kind {
                PageKind::Other => bytes.start += next.compressed as u64,
                PageKind::Data { rows: 0, .. } | PageKind::DataV2 { rows: 0, .. } => {
                    bytes.start += next.compressed as u64;
                    if let Some(decryptor) = &mut self.decryptor {
                        decryptor.advance();
                    }
                }
                _ => *header = Some(next),
            }
        }

        Ok(*header)
    }

    /// Moves past the next page.
    fn advance(&mut self, page: &PageHeader) {
        if let RemainingPages::Sequential { bytes, levels, header } = &mut self.remaining {
            *header = None;
            bytes.start = bytes.start.saturating_add(page.compressed as u64).min(bytes.end);
            if let PageKind::Data { rows, .. } | PageKind::DataV2 { rows, .. } = page.kind {
                *levels = levels.saturating_sub(rows as u64);
            }
            if let Some(decryptor) = &mut self.decryptor {
                decryptor.advance();
            }
        }
    }

    /// Returns the header and the raw body of the next page.
    fn next_body(&mut self) -> Result<Option<(PageHeader, Bytes)>> {
        if let RemainingPages::Located(pages) = &mut self.remaining {
            let Some(page) = pages.pop_front() else { return Ok(None) };
            let (header, length) = read_header(&self.source, &page.bytes)?;
            let start = page.bytes.start.saturating_add(length as u64);
            if start.saturating_add(header.compressed as u64) > page.bytes.end {
                return Err(outside());
            }
            return Ok(Some((header, body(&self.source, start, &header)?)));
        }

        let Some(header) = self.next_header()? else { return Ok(None) };
        let RemainingPages::Sequential { bytes, .. } = &self.remaining else { return Ok(None) };
        let body = body(&self.source, bytes.start, &header)?;
        let body = match &self.decryptor {
            Some(decryptor) => decryptor.page(&body)?,
            None => body,
        };
        self.advance(&header);

        Ok(Some((header, body)))
    }

    fn decode(&mut self, header: &PageHeader, body: Bytes) -> Result<Page> {
        match header.kind {
            PageKind::Dictionary { values, encoding } => Ok(Page::DictionaryPage {
                buf: self.decompressed(body, header.uncompressed)?,
                num_values: values as u32,
                encoding,
                is_sorted: false,
            }),
            PageKind::Data { rows, encoding, levels, repetition } => {
                let buf = self.decompressed(body, header.uncompressed)?;
                Ok(data_page(buf, rows, encoding, levels, repetition))
            }
            PageKind::DataV2 { rows, encoding, .. } => {
                let buf = self.as_version_1(header, body)?;
                Ok(data_page(buf, rows, encoding, Encoding::RLE, Encoding::RLE))
            }
            PageKind::Other => Err(wrong("a page of no known kind")),
        }
    }

    fn decompressed(&mut self, body: Bytes, length: usize) -> Result<Bytes> {
        if self.codec.is_none() {
            return Ok(body);
        }
        let mut page = Vec::with_capacity(length);
        self.decompress(&body, length, &mut page)?;
        Ok(page.into())
    }

    /// Decompresses the page in the layout of version 1, which does not need the number of nulls: some writers do
    /// not record it.
    fn as_version_1(&mut self, header: &PageHeader, body: Bytes) -> Result<Bytes> {
        let PageKind::DataV2 { definition, repetition, compressed, .. } = header.kind else {
            return Err(wrong("a page of another version"));
        };

        let levels = definition.saturating_add(repetition);
        let (head, values) =
            body.split_at_checked(levels).ok_or_else(|| wrong("a page ends within its levels"))?;
        let (repetition, definition) =
            head.split_at_checked(repetition).ok_or_else(|| wrong("a page ends within its levels"))?;
        let length = header.uncompressed.checked_sub(levels);
        let length = length.ok_or_else(|| wrong("a page shorter than its levels"))?;
        // Some writers mark an empty page as compressed.
        let compressed = compressed && self.codec.is_some() && !values.is_empty();

        if !compressed && !self.has_definition_levels && !self.has_repetition_levels {
            return Ok(body.slice(levels..));
        }

        let mut page = Vec::with_capacity(header.uncompressed.saturating_add(8));
        if self.has_repetition_levels {
            page.extend_from_slice(&(repetition.len() as u32).to_le_bytes());
            page.extend_from_slice(repetition);
        }
        if self.has_definition_levels {
            page.extend_from_slice(&(definition.len() as u32).to_le_bytes());
            page.extend_from_slice(definition);
        }
        if compressed {
            self.decompress(values, length, &mut page)?;
        } else {
            page.extend_from_slice(values);
        }

        Ok(page.into())
    }

    /// Appends the decompressed bytes.
    fn decompress(&mut self, from: &[u8], length: usize, into: &mut Vec<u8>) -> Result<()> {
        let Some(codec) = &mut self.codec else { return Err(wrong("a page without a codec")) };
        let before = into.len();
        if self.is_lz4 {
            into.resize(before.saturating_add(length), 0);
            let room = into.get_mut(before..).unwrap_or_default();
            if lz4::decompress_blocks(from, room).is_some() {
                return Ok(());
            }
            into.truncate(before);
        }

        // A page of only nulls has nothing to decompress.

        if length > 0 {
            codec.decompress(from, into, Some(length))?;
        }
        if into.len() - before == length {
            Ok(())
        } else {
            Err(wrong("a page that is longer or shorter than it says"))
        }
    }
}

impl<S: ChunkSource> Iterator for ChunkPageReader<S> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<S: ChunkSource> PageReader for ChunkPageReader<S> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        match self.next_body()? {
            Some((header, body)) => self.decode(&header, body).map(Some),
            None => Ok(None),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        if let RemainingPages::Located(pages) = &self.remaining {
            return Ok(pages.front().map(|page| PageMetadata {
                num_rows: page.rows,
                num_levels: None,
                is_dict: page.rows.is_none(),
            }));
        }

        let levels = self.has_repetition_levels;
        Ok(self.next_header()?.map(|header| match header.kind {
            PageKind::DataV2 { rows, records, .. } => PageMetadata {
                num_rows: if levels { records } else { Some(rows) },
                num_levels: Some(rows),
                is_dict: false,
            },
            PageKind::Data { rows, .. } => {
                PageMetadata { num_rows: None, num_levels: Some(rows), is_dict: false }
            }
            PageKind::Dictionary { .. } | PageKind::Other => {
                PageMetadata { num_rows: None, num_levels: None, is_dict: true }
            }
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        if let RemainingPages::Located(pages) = &mut self.remaining {
            pages.pop_front();
        } else if let Some(header) = self.next_header()? {
            self.advance(&header);
        }
        Ok(())
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        match &self.remaining {
            // A page of an offset index never begins within a row.
            RemainingPages::Located(_) => Ok(true),
            // Nor does a page of version 2.
            RemainingPages::Sequential { .. } => {
                Ok(self.peek_next_page()?.is_none_or(|page| page.num_rows.is_some()))
            }
        }
    }
}

fn data_page(
    buf: Bytes,
    levels: usize,
    encoding: Encoding,
    definition: Encoding,
    repetition: Encoding,
) -> Page {
    Page::DataPage {
        buf,
        num_values: levels as u32,
        encoding,
        def_level_encoding: definition,
        rep_level_encoding: repetition,
        statistics: None,
    }
}

/// Reads the header at the start of the bytes; returns it with its length.
fn read_header(source: &impl ChunkSource, bytes: &Range<u64>) -> Result<(PageHeader, usize)> {
    let available = usize::try_from(bytes.end.saturating_sub(bytes.start)).unwrap_or(usize::MAX);
    let mut wanted = available.min(TYPICAL_HEADER);
    loop {
        let read = source.bytes_from(bytes.start, wanted)?;
        let read = read.get(..read.len().min(available)).unwrap_or_default();
        if let Some((header, length)) = PageHeader::read(read).map_err(wrong)? {
            return Ok((header, length));
        }
        if read.len() >= available.min(MAX_HEADER) || read.len() < wanted {
            return Err(wrong("a page's header ends early"));
        }

        wanted = read.len().max(wanted).saturating_mul(8).min(available);
    }
}

/// Reads and decrypts the header at the start of the bytes; returns it with the length of its module.
fn decrypt_header(
    source: &impl ChunkSource,
    bytes: &Range<u64>,
    decryptor: &ChunkDecryptor,
) -> Result<(PageHeader, usize)> {
    let length = exactly(source, bytes.start, MODULE_LENGTH)?;
    let size = module_size(*length.first_chunk().ok_or_else(outside)?);
    if size > MAX_HEADER || bytes.start.saturating_add(size as u64) > bytes.end {
        return Err(outside());
    }

    let plain = decryptor.header(&exactly(source, bytes.start, size)?)?;
    let header = PageHeader::read(&plain).map_err(wrong)?;
    let (header, _) = header.ok_or_else(|| wrong("a page's header ends early"))?;
    Ok((header, size))
}

/// Reads the body of a page, as it is stored, and verifies its checksum.
fn body(source: &impl ChunkSource, start: u64, header: &PageHeader) -> Result<Bytes> {
    let body = exactly(source, start, header.compressed)?;
    if let Some(crc) = header.crc
        && crc32fast::hash(&body) != crc
    {
        return Err(wrong("a page whose checksum is wrong"));
    }
    Ok(body)
}

fn exactly(source: &impl ChunkSource, start: u64, length: usize) -> Result<Bytes> {
    if length == 0 {
        return Ok(Bytes::new());
    }
    let mut bytes = source.bytes_from(start, length)?;
    if bytes.len() < length {
        return Err(outside());
    }
    Ok(bytes.split_to(length))
}

fn outside() -> ParquetError {
    ParquetError::EOF("a page that ends outside its column chunk".to_owned())
}

fn wrong(corrupt: impl Into<Corrupt>) -> ParquetError {
    ParquetError::General(corrupt.into().reason.into_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::{
        basic::{Repetition, Type as PhysicalType},
        schema::types::{ColumnDescriptor, ColumnPath, Type},
    };

    use super::*;

    struct WholeChunkSource(Bytes);

    impl ChunkSource for WholeChunkSource {
        fn bytes_from(&self, start: u64, _: usize) -> Result<Bytes> {
            Ok(self.0.slice((start as usize).min(self.0.len())..))
        }
    }

    /// Encodes a page of version 2 with one byte of levels.
    fn page(rows: u8, nulls: u8, values: &[u8], uncompressed: u8) -> Vec<u8> {
        let compressed = values.len() as u8 + 2;
        let mut bytes = vec![0x15, 6, 0x15, (uncompressed + 2) << 1, 0x15, compressed << 1, 0x5c];
        bytes.extend([0x15, rows << 1, 0x15, nulls, 0x15, rows << 1, 0x15, 0, 0x15, 4, 0x15, 0, 0, 0]);
        bytes.extend([rows << 1, 1]);
        bytes.extend(values);
        bytes
    }

    fn chunk(codec: Compression, levels: i64, length: usize) -> ColumnChunkMetaData {
        let leaf = Type::primitive_type_builder("v", PhysicalType::INT32);
        let leaf = leaf.with_repetition(Repetition::OPTIONAL).build().unwrap();
        let descriptor = ColumnDescriptor::new(Arc::new(leaf), 1, 0, ColumnPath::from("v"));
        ColumnChunkMetaData::builder(Arc::new(descriptor))
            .set_compression(codec)
            .set_num_values(levels)
            .set_data_page_offset(0)
            .set_total_compressed_size(length as i64)
            .build()
            .unwrap()
    }

    #[test]
    fn pages_without_rows_are_left_out_and_unknown_numbers_of_nulls_do_not_matter() {
        // The number of nulls is -1.
        let bytes = [page(0, 1, &[], 0), page(1, 1, &[7, 0, 0, 0], 4), page(0, 1, &[], 0)].concat();
        let chunk = chunk(Compression::UNCOMPRESSED, 1, bytes.len());
        let mut pages = ChunkPageReader::sequential(WholeChunkSource(bytes.into()), &chunk, None).unwrap();
        assert_eq!(pages.peek_next_page().unwrap().unwrap().num_rows, Some(1));
        let Some(Page::DataPage { buf, num_values, .. }) = pages.get_next_page().unwrap() else { panic!() };
        assert_eq!((&buf[..], num_values), (&[2, 0, 0, 0, 2, 1, 7, 0, 0, 0][..], 1));
        assert!(pages.get_next_page().unwrap().is_none());
        assert!(pages.at_record_boundary().unwrap());
    }

    #[test]
    fn values_after_the_levels_are_of_several_blocks() {
        let block = |value: u8| {
            let packed = lz4_flex::block::compress(&[value; 4]);
            [&4_u32.to_be_bytes()[..], &(packed.len() as u32).to_be_bytes(), &packed].concat()
        };
        let bytes = page(2, 0, &[block(1), block(2)].concat(), 8);
        let chunk = chunk(Compression::LZ4, 2, bytes.len());
        let mut pages = ChunkPageReader::sequential(WholeChunkSource(bytes.into()), &chunk, None).unwrap();
        let Some(Page::DataPage { buf, .. }) = pages.get_next_page().unwrap() else { panic!() };
        assert_eq!(&buf[6..], &[1, 1, 1, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn an_error_of_the_flat_reader_has_the_offset_in_the_file() {
        use crate::parquet::pages::{DecodeScratch, FlatPageReader, FlatPageSource};

        let first = page(1, 0, &[7, 0, 0, 0], 4);
        // The second field of the next header has a type that does not exist.
        let bytes = [&first[..], &[0x15, 0, 0x1d, 0]].concat();
        let chunk = chunk(Compression::UNCOMPRESSED, 2, bytes.len());
        let mut scratch = DecodeScratch::default();
        let source = FlatPageSource::Held(bytes.into());
        let mut pages = FlatPageReader::new(source, &chunk, &mut scratch).unwrap();
        assert!(pages.next().unwrap().is_some());
        assert_eq!(pages.next().unwrap_err().offset, Some(first.len() as u64 + 3));
    }

    #[test]
    fn pages_that_end_early_are_errors() {
        let bytes = page(1, 0, &[7, 0, 0, 0], 4);
        for end in 1..bytes.len() {
            let chunk = chunk(Compression::UNCOMPRESSED, 1, end);
            let bytes = Bytes::copy_from_slice(&bytes[..end]);
            let mut pages = ChunkPageReader::sequential(WholeChunkSource(bytes), &chunk, None).unwrap();
            assert!(pages.get_next_page().is_err(), "{end}");
        }
    }
}
