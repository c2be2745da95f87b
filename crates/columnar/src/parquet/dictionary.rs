//! Decodes a column chunk straight into its dictionary: the codes of all its pages in one buffer, the values once.

use arrow::{
    array::{ArrayRef, BooleanBufferBuilder},
    buffer::{BooleanBuffer, NullBuffer},
};
use bytes::Bytes;
use parquet::{
    basic::Encoding, column::page::Page, errors::ParquetError, file::metadata::ColumnChunkMetaData,
    schema::types::ColumnDescPtr,
};

use super::{
    ParquetBytes, ParquetFile,
    distinct::Distinct,
    footer::is_dictionary_encoding,
    levels,
    plain::{self, PlainValues},
};
use crate::{
    Result,
    codes::{self, Code, CodeWidth, Codes},
    schema::Projected,
};

/// Rows that memory is taken for before any were read: a footer may claim any number.
const MOST_ROWS_AHEAD: usize = 1 << 24;

/// A chunk of a column that is neither nested nor repeated.
pub(super) struct Flat<'a> {
    pub(super) file: &'a ParquetFile,
    pub(super) unit: usize,
    pub(super) column: &'a Projected,
    pub(super) leaf: usize,
    pub(super) descriptor: &'a ColumnDescPtr,
    pub(super) chunk: &'a ColumnChunkMetaData,
}

/// The codes of a chunk, with the values that they stand for.
struct Coded<T> {
    plain: PlainValues,
    codes: Codes<T>,
    nulls: Option<NullBuffer>,
}

/// The values of one data page, and where its levels are.
pub(super) struct DataPage {
    pub(super) encoding: Encoding,
    pub(super) rows: usize,
    /// `None` where every row has a value.
    levels: Option<Bytes>,
    pub(super) values: Bytes,
}

type Pages<'a> = &'a mut dyn Iterator<Item = Result<Page, ParquetError>>;

impl Flat<'_> {
    /// The chunk as a dictionary array, or `None` where a page is encoded otherwise. With `insist`, values of such
    /// pages are looked up in the dictionary and added to it where they are new; then `None` means an encoding that
    /// only a general reader knows.
    pub(super) fn decode(&self, bytes: &ParquetBytes, insist: bool) -> Result<Option<ArrayRef>> {
        let wrong = |reason: String| self.file.corrupt(self.unit, self.column, reason);
        let mut pages =
            bytes.pages(self.leaf, self.chunk, self.rows()).map_err(|error| wrong(error.to_string()))?;
        let mut first = pages.next().transpose().map_err(|error| wrong(error.to_string()))?;
        let mut dictionary = PlainValues::default();
        if let Some(Page::DictionaryPage { buf, num_values, .. }) = first {
            dictionary = PlainValues { bytes: buf, count: num_values as usize };
            first = None;
        }
        let mut pages = first.map(Ok).into_iter().chain(pages);
        if insist {
            let coded = self.codes::<u32>(&mut pages, dictionary, true).map_err(wrong)?;
            return coded.map(|coded| self.narrowest(coded)).transpose();
        }
        match CodeWidth::of(dictionary.count) {
            CodeWidth::U8 => self.array::<u8>(self.codes(&mut pages, dictionary, false)),
            CodeWidth::U16 => self.array::<u16>(self.codes(&mut pages, dictionary, false)),
            CodeWidth::U32 => self.array::<u32>(self.codes(&mut pages, dictionary, false)),
        }
    }

    /// Rows of the row group.
    pub(super) fn rows(&self) -> usize {
        self.file.unit_rows(self.unit) as usize
    }

    fn array<T: Code>(&self, coded: Result<Option<Coded<T>>, String>) -> Result<Option<ArrayRef>> {
        let coded = coded.map_err(|reason| self.file.corrupt(self.unit, self.column, reason))?;
        let Some(Coded { plain, codes, nulls }) = coded else { return Ok(None) };
        let values = plain::values(self.file, self.unit, self.column, self.descriptor, plain)?;
        let array = codes.into_array(nulls, values);
        array.map(Some).map_err(|reason| self.file.corrupt(self.unit, self.column, reason))
    }

    /// Codes of a dictionary that grew while it was read are as narrow as it allows in the end.
    fn narrowest(&self, coded: Coded<u32>) -> Result<ArrayRef> {
        fn narrow<T: Code>(Coded { plain, codes, nulls }: Coded<u32>) -> Coded<T> {
            Coded { plain, codes: codes.narrowed(), nulls }
        }
        let array = match CodeWidth::of(coded.plain.count) {
            CodeWidth::U8 => self.array(Ok(Some(narrow::<u8>(coded)))),
            CodeWidth::U16 => self.array(Ok(Some(narrow::<u16>(coded)))),
            CodeWidth::U32 => self.array(Ok(Some(coded))),
        }?;
        array.ok_or_else(|| self.file.corrupt(self.unit, self.column, "no codes"))
    }

    fn codes<T: Code>(
        &self,
        pages: Pages<'_>,
        dictionary: PlainValues,
        insist: bool,
    ) -> Result<Option<Coded<T>>, String> {
        let rows = self.rows();
        let mut codes: Codes<T> = Codes::with_capacity(rows.min(MOST_ROWS_AHEAD));
        let mut validity: Option<BooleanBufferBuilder> = None;
        let mut present: Codes<T> = Codes::with_capacity(0);
        let mut distinct: Option<Distinct> = None;
        for page in pages {
            let page = self.data_page(page.map_err(|error| error.to_string())?)?;
            if page.rows > rows - codes.len() {
                return Err("its pages have more rows than the row group".to_owned());
            }
            let valid = self.page_validity(&page, codes.len(), &mut validity)?;
            let count = valid.as_ref().map_or(page.rows, BooleanBuffer::count_set_bits);
            let into = if valid.is_some() { &mut present } else { &mut codes };
            if is_dictionary_encoding(page.encoding) {
                let values = distinct.as_ref().map_or(dictionary.count, Distinct::len);
                match page.values.split_first() {
                    Some((width, packed)) => codes::append_hybrid(packed, *width, count, values, into)?,
                    // A page of nulls only may leave out even the width.
                    None if count == 0 => {}
                    None => return Err("a page of codes is empty".to_owned()),
                }
            } else if insist && page.encoding == Encoding::PLAIN {
                let distinct = match &mut distinct {
                    Some(distinct) => distinct,
                    none => none.insert(Distinct::new(self.descriptor, &dictionary)?),
                };
                distinct.append(&page.values, count, |code| into.push(code))?;
            } else {
                return Ok(None);
            }
            if let Some(valid) = valid {
                codes.spread(&present, &valid);
                present.clear();
            }
        }
        if codes.len() != rows {
            return Err(format!("its pages have {} rows of the row group's {rows}", codes.len()));
        }
        let nulls = validity.map(|mut validity| NullBuffer::new(validity.finish()));
        let plain = distinct.map_or(dictionary, Distinct::into_plain);
        Ok(Some(Coded { plain, codes, nulls: nulls.filter(|nulls| nulls.null_count() > 0) }))
    }

    pub(super) fn data_page(&self, page: Page) -> Result<DataPage, String> {
        let nullable = self.descriptor.max_def_level() > 0;
        match page {
            Page::DictionaryPage { .. } => Err("a dictionary behind the first page".to_owned()),
            Page::DataPage { buf, num_values, encoding, .. } if !nullable => {
                Ok(DataPage { encoding, rows: num_values as usize, levels: None, values: buf })
            }
            Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                if def_level_encoding != Encoding::RLE {
                    return Err(format!("levels encoded as {def_level_encoding}"));
                }
                let (length, rest) = buf.split_first_chunk::<4>().ok_or("a page ends within its levels")?;
                let length = u32::from_le_bytes(*length) as usize;
                if rest.len() < length {
                    return Err("a page ends within its levels".to_owned());
                }
                let (levels, values) = (buf.slice(4..4 + length), buf.slice(4 + length..));
                Ok(DataPage { encoding, rows: num_values as usize, levels: Some(levels), values })
            }
            Page::DataPageV2 {
                buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, ..
            } => {
                let from = rep_levels_byte_len as usize;
                let to = from.saturating_add(def_levels_byte_len as usize);
                if buf.len() < to {
                    return Err("a page ends within its levels".to_owned());
                }
                let levels = nullable.then(|| buf.slice(from..to));
                Ok(DataPage { encoding, rows: num_values as usize, levels, values: buf.slice(to..) })
            }
        }
    }

    /// Which rows of the page have values; `None` for all of them.
    pub(super) fn valid(page: &DataPage) -> Result<Option<BooleanBuffer>, String> {
        let Some(levels) = &page.levels else { return Ok(None) };
        let mut bits = BooleanBufferBuilder::new(page.rows.min(MOST_ROWS_AHEAD));
        let set = levels::append(levels, page.rows, &mut bits)?;
        Ok((set < page.rows).then(|| bits.finish()))
    }

    /// The same; the chunk's validity begins with the first page that has a null.
    fn page_validity(
        &self,
        page: &DataPage,
        before: usize,
        validity: &mut Option<BooleanBufferBuilder>,
    ) -> Result<Option<BooleanBuffer>, String> {
        let valid = Self::valid(page)?;
        match (&valid, &mut *validity) {
            (Some(valid), _) => {
                let validity = validity.get_or_insert_with(|| {
                    let mut validity = BooleanBufferBuilder::new(self.rows().min(MOST_ROWS_AHEAD));
                    validity.append_n(before, true);
                    validity
                });
                validity.append_buffer(valid);
            }
            (None, Some(validity)) => validity.append_n(page.rows, true),
            (None, None) => {}
        }
        Ok(valid)
    }
}
