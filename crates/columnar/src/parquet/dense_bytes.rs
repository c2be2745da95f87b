//! Decodes strings and bytes that are no dictionary, or gave up on theirs: each value is copied once, to where it stays.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BinaryArray, BooleanBufferBuilder, StringArray},
    buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer},
    datatypes::DataType,
    util::bit_iterator::BitSliceIterator,
};
use parquet::{
    basic::{Encoding, Type as PhysicalType},
    column::page::Page,
};

use super::{ParquetBytes, dictionary::Flat, footer::is_dictionary_encoding, plain::PlainValues};
use crate::{
    Result,
    chunk::SEGMENT_ROWS,
    codes::{self, Codes},
};

/// Values up to so many bytes are copied as if they had as many: faster than to look how long each is.
const SHORT: usize = 32;
/// Bytes of a segment that memory is taken for before any were seen.
const MOST_BYTES_AHEAD: usize = 16 << 20;

/// Some rows that become an array.
#[derive(Default)]
struct Segment {
    /// Longer than what is used of it.
    bytes: Vec<u8>,
    used: usize,
    /// Where the values begin, and where the last ends.
    offsets: Vec<i32>,
    /// Begins with the first null.
    validity: Option<BooleanBufferBuilder>,
}

/// Where the values of a page come from, in order.
enum Values<'a> {
    /// Each behind its length.
    Plain(&'a [u8]),
    /// In the dictionary, where a code says.
    Codes { codes: std::slice::Iter<'a, u32>, dictionary: &'a [u8], spans: &'a [(u32, u32)] },
}

impl Flat<'_> {
    /// The chunk's values in segments, or `None` where its type or an encoding wants a general reader.
    pub(super) fn decode_bytes(&self, bytes: &ParquetBytes) -> Result<Option<Vec<ArrayRef>>> {
        let field = self.file.schema().fields().get(self.column.root);
        let data_type = field.map_or(&DataType::Null, |field| field.data_type());
        if self.descriptor.physical_type() != PhysicalType::BYTE_ARRAY
            || !matches!(data_type, DataType::Utf8 | DataType::Binary)
        {
            return Ok(None);
        }
        self.segments(bytes, data_type).map_err(|reason| self.file.corrupt(self.unit, self.column, reason))
    }

    fn segments(&self, bytes: &ParquetBytes, data_type: &DataType) -> Result<Option<Vec<ArrayRef>>, String> {
        let pages = bytes.pages(self.leaf, self.chunk, self.rows()).map_err(|error| error.to_string())?;
        let mut dictionary = PlainValues::default();
        let mut spans: Vec<(u32, u32)> = Vec::new();
        let mut segments = Vec::new();
        let mut segment = Segment::default();
        let mut rows = 0;
        for page in pages {
            let page = page.map_err(|error| error.to_string())?;
            if let Page::DictionaryPage { buf, num_values, .. } = page {
                if rows > 0 {
                    return Err("a dictionary behind the first page".to_owned());
                }
                dictionary = PlainValues { bytes: buf, count: num_values as usize };
                spans = self::spans(&dictionary)?;
                continue;
            }
            let page = self.data_page(page)?;
            rows += page.rows;
            if rows > self.rows() {
                return Err("its pages have more rows than the row group".to_owned());
            }
            let valid = Self::valid(&page)?;
            let count = valid.as_ref().map_or(page.rows, BooleanBuffer::count_set_bits);
            let mut codes: Codes<u32> = Codes::with_capacity(0);
            let mut values = match page.encoding {
                Encoding::PLAIN => Values::Plain(&page.values),
                encoding if is_dictionary_encoding(encoding) => {
                    match page.values.split_first() {
                        Some((width, packed)) => {
                            codes::append_hybrid(packed, *width, count, dictionary.count, &mut codes)?;
                        }
                        None if count == 0 => {}
                        None => return Err("a page of codes is empty".to_owned()),
                    }
                    Values::Codes { codes: codes.iter(), dictionary: &dictionary.bytes, spans: &spans }
                }
                _ => return Ok(None),
            };
            let average = values.average_bytes(count);
            let mut done = 0;
            while done < page.rows {
                let taken = (SEGMENT_ROWS - segment.rows()).min(page.rows - done);
                if segment.offsets.is_empty() {
                    let left = self.rows().saturating_sub(segments.len() * SEGMENT_ROWS).min(SEGMENT_ROWS);
                    segment = Segment::with_capacity(left, (average * left as f64) as usize);
                }
                segment.append(&mut values, valid.as_ref().map(|valid| valid.slice(done, taken)), taken)?;
                done += taken;
                if segment.rows() == SEGMENT_ROWS {
                    segments.push(std::mem::take(&mut segment).into_array(data_type)?);
                }
            }
        }
        if rows != self.rows() {
            return Err(format!("its pages have {rows} rows of the row group's {}", self.rows()));
        }
        if segment.rows() > 0 {
            segments.push(segment.into_array(data_type)?);
        }
        Ok(Some(segments))
    }
}

/// Where the values of a dictionary are in its bytes, and how long they are.
fn spans(dictionary: &PlainValues) -> Result<Vec<(u32, u32)>, String> {
    let whole = dictionary.bytes.as_ref();
    let mut rest = whole;
    let span = |_| {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length);
        let start = u32::try_from(whole.len() - behind.len()).ok()?;
        rest = behind.get(length as usize..)?;
        Some((start, length))
    };
    let spans: Option<Vec<_>> = (0..dictionary.count).map(span).collect();
    spans.ok_or_else(|| "the dictionary ends early".to_owned())
}

impl Values<'_> {
    /// About how many bytes a value has, of the `count` values of a page.
    fn average_bytes(&self, count: usize) -> f64 {
        let (bytes, of) = match self {
            Self::Plain(rest) => (rest.len(), count),
            Self::Codes { dictionary, spans, .. } => (dictionary.len(), spans.len()),
        };
        (bytes as f64 / of.max(1) as f64 - 4.0).max(0.0)
    }

    /// Appends the next values.
    fn append_to(&mut self, segment: &mut Segment, count: usize) -> Result<(), String> {
        match self {
            Self::Plain(rest) => {
                for _ in 0..count {
                    let (length, behind) =
                        rest.split_first_chunk::<4>().ok_or("a page of values ends early")?;
                    let length = u32::from_le_bytes(*length) as usize;
                    let next = behind.get(length..).ok_or("a page of values ends early")?;
                    segment.push(behind, length)?;
                    *rest = next;
                }
            }
            Self::Codes { codes, dictionary, spans } => {
                for code in codes.by_ref().take(count) {
                    let (start, length) = spans.get(*code as usize).ok_or("a code beyond the dictionary")?;
                    let value = dictionary.get(*start as usize..).unwrap_or_default();
                    segment.push(value, *length as usize)?;
                }
            }
        }
        Ok(())
    }
}

impl Segment {
    fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        // A little more than it takes by average, so that most segments need not grow.
        let bytes = vec![0; (bytes + bytes / 64 + SHORT).min(MOST_BYTES_AHEAD)];
        Self { bytes, used: 0, offsets, validity: None }
    }

    fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Adds the value that `from` begins with.
    fn push(&mut self, from: &[u8], length: usize) -> Result<(), String> {
        let end = self.used + length;
        if length <= SHORT
            && let (Some(to), Some(from)) =
                (self.bytes.get_mut(self.used..self.used + SHORT), from.get(..SHORT))
        {
            to.copy_from_slice(from);
        } else {
            if end > self.bytes.len() {
                self.bytes.resize(end.max(self.bytes.len().saturating_mul(2)), 0);
            }
            let value = from.get(..length).ok_or("a value ends early")?;
            if let Some(to) = self.bytes.get_mut(self.used..end) {
                to.copy_from_slice(value);
            }
        }
        self.used = end;
        self.offsets.push(i32::try_from(end).map_err(|_| "65,536 rows of more than 2 GiB")?);
        Ok(())
    }

    /// Adds so many rows, of which those that `valid` says have a value.
    fn append(
        &mut self,
        values: &mut Values<'_>,
        valid: Option<BooleanBuffer>,
        rows: usize,
    ) -> Result<(), String> {
        let Some(valid) = valid else {
            if let Some(validity) = &mut self.validity {
                validity.append_n(rows, true);
            }
            return values.append_to(self, rows);
        };
        let before = self.rows();
        let validity = self.validity.get_or_insert_with(|| {
            let mut validity = BooleanBufferBuilder::new(SEGMENT_ROWS);
            validity.append_n(before, true);
            validity
        });
        validity.append_buffer(&valid);
        for (start, end) in BitSliceIterator::new(valid.values(), valid.offset(), valid.len()) {
            self.repeat_to(before + start);
            values.append_to(self, end - start)?;
        }
        self.repeat_to(before + rows);
        Ok(())
    }

    /// Nulls have no bytes.
    fn repeat_to(&mut self, rows: usize) {
        let end = self.used as i32;
        self.offsets.resize(rows + 1, end);
    }

    fn into_array(mut self, data_type: &DataType) -> Result<ArrayRef, String> {
        self.bytes.truncate(self.used);
        if self.bytes.capacity() > self.used + self.used / 8 {
            self.bytes.shrink_to_fit();
        }
        let offsets = OffsetBuffer::new(self.offsets.into());
        let nulls = self.validity.map(|mut validity| NullBuffer::new(validity.finish()));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let bytes = Buffer::from_vec(self.bytes);
        let array: ArrayRef = match data_type {
            DataType::Utf8 => {
                Arc::new(StringArray::try_new(offsets, bytes, nulls).map_err(|error| error.to_string())?)
            }
            _ => Arc::new(BinaryArray::try_new(offsets, bytes, nulls).map_err(|error| error.to_string())?),
        };
        debug_assert!(array.len() <= SEGMENT_ROWS);
        Ok(array)
    }
}
