//! Decodes a column chunk straight into its dictionary: the codes of all its pages in one buffer, the values once.

use arrow::{
    array::{ArrayRef, BooleanBufferBuilder},
    buffer::{BooleanBuffer, NullBuffer},
};
use parquet::{basic::Encoding, file::metadata::ColumnChunkMetaData, schema::types::ColumnDescPtr};
use stylobate_storage::Corrupt;

use crate::{
    Result,
    file::schema::ProjectedColumn,
    kernels::codes::{self, CodeWidth, Codes, DictionaryCode},
    parquet::{
        ParquetBytes, ParquetFile,
        footer::is_dictionary_encoding,
        pages::{
            DataPage, DecodeScratch, FlatPage, FlatPageReader, levels,
            plain::{self, PlainStringDecoder},
            plain_dictionary::PlainDictionary,
        },
    },
};

/// Rows that memory is reserved for before any is read: a footer may claim any number.
const MAX_ROWS_AHEAD: usize = 1 << 24;

/// Chunk of a column that is neither nested nor repeated.
pub(crate) struct FlatChunk<'a> {
    pub(crate) file: &'a ParquetFile,
    pub(crate) row_group: usize,
    pub(crate) column: &'a ProjectedColumn,
    pub(crate) leaf: usize,
    pub(crate) descriptor: &'a ColumnDescPtr,
    pub(crate) chunk: &'a ColumnChunkMetaData,
}

/// Codes of a chunk, with the values that they stand for.
struct DecodedDictionary<T> {
    codes: Codes<T>,
    nulls: Option<NullBuffer>,
    values: ArrayRef,
}

/// Values that the codes of a chunk refer to.
enum ChunkDictionary<'d> {
    /// Fixed number of values, as the file has them.
    Fixed { values: ArrayRef, count: usize },
    /// Values of the dictionary page, and those interned after them.
    Growing(&'d mut PlainDictionary),
}

impl ChunkDictionary<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Fixed { count, .. } => *count,
            Self::Growing(dictionary) => dictionary.values.len(),
        }
    }
}

impl FlatChunk<'_> {
    /// Decodes the chunk as a dictionary array; `None` if a page is not dictionary-encoded. With `insist`, values of
    /// such pages are interned into the dictionary; then `None` means an encoding that only the general reader
    /// supports.
    pub(crate) fn decode(
        &self,
        bytes: &ParquetBytes,
        insist: bool,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<ArrayRef>> {
        self.array(bytes, insist, scratch)
            .map_err(|corrupt| self.file.corrupt(self.row_group, self.column, corrupt))
    }

    fn array(
        &self,
        bytes: &ParquetBytes,
        insist: bool,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<ArrayRef>, Corrupt> {
        if insist {
            return self.grown(bytes, scratch);
        }

        let mut pages = bytes.flat_pages(self.leaf, self.chunk, scratch)?;
        let mut strings = PlainStringDecoder::of(self.file, self.column, self.descriptor);
        let page = pages.dictionary(|some| strings.as_mut().map_or(Ok(()), |strings| strings.take(some)))?;
        let page = page.unwrap_or_default();
        let count = page.count;
        let values = match strings {
            Some(mut strings) => strings.take(&page).and_then(|()| strings.finish()),
            None => self.values(page.values, count),
        };
        let offset = page.offset;
        let values = values.map_err(|corrupt| corrupt.at(offset))?;

        let dictionary = ChunkDictionary::Fixed { values, count };
        match CodeWidth::of(count) {
            CodeWidth::U8 => Self::coded(self.codes::<u8>(pages, dictionary)?),
            CodeWidth::U16 => Self::coded(self.codes::<u16>(pages, dictionary)?),
            CodeWidth::U32 => Self::coded(self.codes::<u32>(pages, dictionary)?),
        }
    }

    /// Decodes with a dictionary that grows.
    fn grown(&self, bytes: &ParquetBytes, scratch: &mut DecodeScratch) -> Result<Option<ArrayRef>, Corrupt> {
        let reused = std::mem::take(&mut scratch.dictionary);
        let mut pages = bytes.flat_pages(self.leaf, self.chunk, scratch)?;
        let page = pages.dictionary(|_| Ok(()))?.unwrap_or_default();
        let offset = page.offset;
        let count = page.count;
        let max_values = page.count.saturating_add(self.rows());
        let dictionary = PlainDictionary::in_scratch(reused, self.descriptor, page.values, count, max_values);
        let mut dictionary = dictionary.map_err(|reason| Corrupt::from(reason).at(offset))?;
        let coded = self.codes::<u32>(pages, ChunkDictionary::Growing(&mut dictionary));
        scratch.dictionary = dictionary.into_scratch();
        coded?.map(Self::narrowest).transpose()
    }

    /// Returns the number of rows in the row group.
    pub(crate) fn rows(&self) -> usize {
        self.file.row_group_rows(self.row_group) as usize
    }

    fn coded<T: DictionaryCode>(coded: Option<DecodedDictionary<T>>) -> Result<Option<ArrayRef>, Corrupt> {
        let Some(DecodedDictionary { codes, nulls, values }) = coded else { return Ok(None) };
        Ok(Some(codes.into_array(nulls, values)?))
    }

    /// Narrows the codes of a dictionary that grew while it was read to the smallest key type that holds them.
    fn narrowest(
        DecodedDictionary { codes, nulls, values }: DecodedDictionary<u32>,
    ) -> Result<ArrayRef, Corrupt> {
        Ok(match CodeWidth::of(values.len()) {
            CodeWidth::U8 => codes.narrowed::<u8>().into_array(nulls, values)?,
            CodeWidth::U16 => codes.narrowed::<u16>().into_array(nulls, values)?,
            CodeWidth::U32 => codes.into_array(nulls, values)?,
        })
    }

    fn codes<T: DictionaryCode>(
        &self,
        mut pages: FlatPageReader<'_>,
        mut dictionary: ChunkDictionary<'_>,
    ) -> Result<Option<DecodedDictionary<T>>, Corrupt> {
        let rows = self.rows();
        let mut codes: Codes<T> = Codes::with_capacity(rows.min(MAX_ROWS_AHEAD));
        let mut validity: Option<BooleanBufferBuilder> = None;
        let mut present: Codes<T> = Codes::with_capacity(0);

        while let Some(page) = pages.next()? {
            let page = match page {
                FlatPage::Data(page) => page,
                FlatPage::Dictionary(page) => {
                    return Err(Corrupt::new("a dictionary behind the first page").at(page.offset));
                }
            };
            let offset = page.offset;
            let located = |corrupt: Corrupt| corrupt.at(offset);
            if page.rows > rows - codes.len() {
                return Err(located("its pages have more rows than the row group".into()));
            }

            let valid = self.page_validity(&page, codes.len(), &mut validity).map_err(located)?;
            let count = valid.as_ref().map_or(page.rows, BooleanBuffer::count_set_bits);
            let into = if valid.is_some() { &mut present } else { &mut codes };
            match &mut dictionary {
                dictionary if is_dictionary_encoding(page.encoding) => match page.values.split_first() {
                    Some((width, packed)) => {
                        codes::append_hybrid(packed, *width, count, dictionary.len(), into)
                            .map_err(located)?;
                    }
                    // A page of only nulls may omit even the bit width.
                    None if count == 0 => {}
                    None => return Err(located("a page of codes is empty".into())),
                },
                ChunkDictionary::Growing(growing) if page.encoding == Encoding::PLAIN => {
                    let appended = growing.append(page.values, count, |codes| into.extend(codes));
                    appended.map_err(|reason| located(reason.into()))?;
                }
                _ => return Ok(None),
            }

            if let Some(valid) = valid {
                codes.append_scattered(&present, &valid);
                present.clear();
            }
        }

        if codes.len() != rows {
            return Err(format!("its pages have {} rows of the row group's {rows}", codes.len()).into());
        }

        let nulls = validity.map(|mut validity| NullBuffer::new(validity.finish()));
        let values = match dictionary {
            ChunkDictionary::Fixed { values, .. } => values,
            ChunkDictionary::Growing(growing) => {
                let count = growing.values.len();
                self.values(growing.as_plain(), count)?
            }
        };

        Ok(Some(DecodedDictionary { codes, nulls: nulls.filter(|nulls| nulls.null_count() > 0), values }))
    }

    fn values(&self, plain: &[u8], count: usize) -> Result<ArrayRef, Corrupt> {
        plain::values(self.file, self.column, self.descriptor, plain, count)
    }

    /// Returns the validity of the page's rows; `None` if all have a value.
    pub(crate) fn valid(page: &DataPage<'_>) -> Result<Option<BooleanBuffer>, Corrupt> {
        let Some(levels) = page.levels else { return Ok(None) };
        if levels::are_all_present(levels, page.rows) {
            return Ok(None);
        }

        let mut bits = BooleanBufferBuilder::new(page.rows.min(MAX_ROWS_AHEAD));
        let set = levels::append(levels, page.rows, &mut bits)?;
        Ok((set < page.rows).then(|| bits.finish()))
    }

    /// Returns the validity of the page's rows, and appends it to that of the chunk, which begins with the first page
    /// that has a null.
    fn page_validity(
        &self,
        page: &DataPage<'_>,
        before: usize,
        validity: &mut Option<BooleanBufferBuilder>,
    ) -> Result<Option<BooleanBuffer>, Corrupt> {
        let valid = Self::valid(page)?;
        match (&valid, &mut *validity) {
            (Some(valid), _) => {
                let validity = validity.get_or_insert_with(|| {
                    let mut validity = BooleanBufferBuilder::new(self.rows().min(MAX_ROWS_AHEAD));
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
