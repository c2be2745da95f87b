//! Decodes strings and bytes without a dictionary, and those of chunks that fell back from one.

use arrow::{buffer::BooleanBuffer, datatypes::DataType, error::ArrowError};
use parquet::basic::{Encoding, Type as PhysicalType};
use stylobate_storage::{ByteReader, Corrupt};

use super::dictionary::FlatChunk;
use crate::{
    Result,
    chunk::{Chunk, PassingRows, SEGMENT_ROWS, SegmentCollector, collector_reason},
    kernels::{
        byte_segment::{ByteSegment, split_plain},
        codes::{self, Codes},
    },
    parquet::{
        ParquetBytes,
        footer::is_dictionary_encoding,
        pages::{DecodeScratch, FlatPage},
    },
};

/// Source of the values of a page, in order.
enum BytesPageValues<'a> {
    /// Each value after its length.
    Plain(&'a [u8]),
    /// Codes into the dictionary.
    Codes { codes: std::slice::Iter<'a, u32>, dictionary: &'a BytesDictionary },
}

/// Values of the chunk's dictionary.
#[derive(Default)]
struct BytesDictionary {
    bytes: Vec<u8>,
    /// Offset and length of each value.
    spans: Vec<(u32, u32)>,
}

impl FlatChunk<'_> {
    /// Decodes the chunk's values in segments, all or those that pass the filter; `None` if its type or an
    /// encoding needs the general reader.
    pub(crate) fn decode_bytes(
        &self,
        bytes: &ParquetBytes,
        passing: Option<&PassingRows>,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<Chunk>> {
        let field = self.file.schema().fields().get(self.column.root);
        let data_type = field.map_or(&DataType::Null, |field| field.data_type());
        if self.descriptor.physical_type() != PhysicalType::BYTE_ARRAY
            || !matches!(data_type, DataType::Utf8 | DataType::Binary)
        {
            return Ok(None);
        }
        self.segments(bytes, data_type, passing, scratch)
            .map_err(|corrupt| self.file.corrupt(self.row_group, self.column, corrupt))
    }

    fn segments(
        &self,
        bytes: &ParquetBytes,
        data_type: &DataType,
        passing: Option<&PassingRows>,
        scratch: &mut DecodeScratch,
    ) -> Result<Option<Chunk>, Corrupt> {
        let refused = |error: ArrowError| Corrupt::from(collector_reason(&error));
        let mut pages = bytes.flat_pages(self.leaf, self.chunk, scratch)?;
        let dictionary = match pages.dictionary(|_| Ok(()))? {
            Some(page) => {
                BytesDictionary::new(page.values, page.count).map_err(|corrupt| corrupt.at(page.offset))?
            }
            None => BytesDictionary::default(),
        };
        let mut segments = SegmentCollector::new(passing);
        let mut segment = ByteSegment::default();
        let mut codes: Codes<u32> = Codes::with_capacity(0);
        let mut rows = 0;

        while let Some(page) = pages.next()? {
            let page = match page {
                FlatPage::Data(page) => page,
                FlatPage::Dictionary(page) => {
                    return Err(Corrupt::new("a dictionary behind the first page").at(page.offset));
                }
            };
            let located = |corrupt: Corrupt| corrupt.at(page.offset);

            rows += page.rows;
            if rows > self.rows() {
                return Err(located("its pages have more rows than the row group".into()));
            }

            let valid = Self::valid(&page).map_err(located)?;
            let count = valid.as_ref().map_or(page.rows, BooleanBuffer::count_set_bits);
            let mut values = match page.encoding {
                Encoding::PLAIN => BytesPageValues::Plain(page.values),
                encoding if is_dictionary_encoding(encoding) => {
                    codes.clear();
                    match page.values.split_first() {
                        Some((width, packed)) => {
                            codes::append_hybrid(packed, *width, count, dictionary.spans.len(), &mut codes)
                                .map_err(located)?;
                        }
                        // A page of only nulls may omit even the bit width.
                        None if count == 0 => {}
                        None => return Err(located("a page of codes is empty".into())),
                    }

                    BytesPageValues::Codes { codes: codes.iter(), dictionary: &dictionary }
                }
                _ => return Ok(None),
            };

            let average = values.average_bytes(count);
            let mut done = 0;
            while done < page.rows {
                if segment.rows() == 0 {
                    let left = self.rows().saturating_sub(segments.pushed() * SEGMENT_ROWS).min(SEGMENT_ROWS);
                    // Slightly more than the average, so that most segments are not reallocated.
                    segment = ByteSegment::with_capacity(left, (average * left as f64 * 1.02) as usize);
                }
                let taken = (SEGMENT_ROWS - segment.rows()).min(page.rows - done);
                let valid = valid.as_ref().map(|valid| valid.slice(done, taken));
                values.append_to(&mut segment, valid.as_ref(), taken).map_err(located)?;
                done += taken;

                if segment.rows() == SEGMENT_ROWS {
                    segments.push(std::mem::take(&mut segment).into_array(data_type)?).map_err(refused)?;
                }
            }
        }

        if rows != self.rows() {
            return Err(format!("its pages have {rows} rows of the row group's {}", self.rows()).into());
        }

        if segment.rows() > 0 {
            segments.push(segment.into_array(data_type)?).map_err(refused)?;
        }
        segments.finish().map(Some).map_err(refused)
    }
}

impl BytesDictionary {
    fn new(plain: &[u8], count: usize) -> Result<Self, Corrupt> {
        let mut values = ByteReader::new(plain);
        let span = |_| {
            let length = values.u32_le()?;
            let start = u32::try_from(values.offset()).ok()?;
            values.take(length as usize)?;
            Some((start, length))
        };

        let spans: Option<Vec<_>> = (0..count).map(span).collect();
        Ok(Self { bytes: plain.to_vec(), spans: spans.ok_or("its dictionary ends early")? })
    }
}

impl BytesPageValues<'_> {
    /// Estimates the mean bytes of a value, given the `count` values of a page.
    fn average_bytes(&self, count: usize) -> f64 {
        let (bytes, of) = match self {
            Self::Plain(rest) => (rest.len(), count),
            Self::Codes { dictionary, .. } => (dictionary.bytes.len(), dictionary.spans.len()),
        };
        (bytes as f64 / of.max(1) as f64 - 4.0).max(0.0)
    }

    /// Appends the next rows; those set in `valid` have a value.
    fn append_to(
        &mut self,
        segment: &mut ByteSegment,
        valid: Option<&BooleanBuffer>,
        rows: usize,
    ) -> Result<(), Corrupt> {
        segment.mark(valid, rows);
        match valid {
            None => self.append_values(segment, rows, || true),
            Some(valid) => {
                let mut valid = valid.iter();
                self.append_values(segment, rows, || valid.next() == Some(true))
            }
        }
    }

    #[inline(always)]
    fn append_values(
        &mut self,
        segment: &mut ByteSegment,
        rows: usize,
        mut is_valid: impl FnMut() -> bool,
    ) -> Result<(), Corrupt> {
        match self {
            Self::Plain(plain) => {
                let ends_early = || Corrupt::from("a page of values ends early");
                let mut rest = *plain;
                let next = || {
                    if is_valid() {
                        split_plain(&mut rest).map(Some).ok_or_else(ends_early)
                    } else {
                        Ok(Some(ByteSegment::NULL))
                    }
                };

                segment.append(rows, next)?;
                *plain = rest;
                Ok(())
            }
            Self::Codes { codes, dictionary } => {
                let lost = || Corrupt::from("a code beyond the dictionary");
                let value = |code: &u32| {
                    let span = dictionary.spans.get(*code as usize)?;
                    Some((dictionary.bytes.get(span.0 as usize..)?, span.1 as usize))
                };
                segment.append(rows, || {
                    if is_valid() {
                        codes.next().and_then(value).map(Some).ok_or_else(lost)
                    } else {
                        Ok(Some(ByteSegment::NULL))
                    }
                })?;

                Ok(())
            }
        }
    }
}
