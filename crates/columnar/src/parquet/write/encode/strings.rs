//! Encodes strings or bytes without a dictionary, or after the fallback from one: each value after its length.

use std::ops::Range;

use arrow::{
    array::{Array, ArrayAccessor, ArrayRef},
    buffer::NullBuffer,
};
use parquet::{basic::Encoding, schema::types::ColumnDescPtr};

use crate::{
    kernels::{prefix_key::prefix_key, texts::downcast_texts},
    parquet::write::{
        bounds::strings::StringBounds,
        chunk::EncodedChunk,
        codebook::order::PlainValueOrder,
        options::ParquetEncoderOptions,
        pages::{ChunkPageWriter, ChunkSummary, rows::PageValidity},
    },
};

/// Encoder of one column chunk.
pub(crate) struct PlainStringEncoder {
    plan: ParquetEncoderOptions,
    /// Page that is being filled.
    rows: PageValidity,
    values: Vec<u8>,
    count: usize,
    extremes: Option<PageStringExtremes>,
    pages: ChunkPageWriter,
    bounds: StringBounds,
}

/// Minimum and maximum of the page that is being filled: their ranges in it, and their first bytes.
struct PageStringExtremes {
    min: Range<usize>,
    max: Range<usize>,
    min_key: u64,
    max_key: u64,
}

impl PlainStringEncoder {
    pub(crate) fn new(descriptor: ColumnDescPtr, plan: ParquetEncoderOptions) -> Result<Self, String> {
        let bounds = StringBounds::new(PlainValueOrder::of(&descriptor));
        Ok(Self::after_pages(ChunkPageWriter::new(descriptor, plan.clone(), Encoding::PLAIN)?, bounds, plan))
    }

    /// Continues a chunk that has pages.
    pub(crate) fn after_pages(
        pages: ChunkPageWriter,
        bounds: StringBounds,
        plan: ParquetEncoderOptions,
    ) -> Self {
        Self {
            plan,
            rows: PageValidity::default(),
            values: Vec::new(),
            count: 0,
            extremes: None,
            pages,
            bounds,
        }
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.pages.bytes() + self.values.capacity()
    }

    /// Returns an estimate of the chunk's bytes.
    pub(crate) fn encoded(&self) -> usize {
        self.pages.bytes() + self.values.len() / 2
    }

    pub(crate) fn write(&mut self, array: &ArrayRef) -> Result<(), String> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        downcast_texts!(
            array,
            |texts| self.write_values(texts, nulls.as_ref()),
            other => Err(format!("a column of {other} where strings were promised"))
        )
    }

    fn write_values<A: ArrayAccessor>(&mut self, array: A, nulls: Option<&NullBuffer>) -> Result<(), String>
    where
        A::Item: AsRef<[u8]>,
    {
        for row in 0..array.len() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                self.rows.push_nulls(1);
            } else {
                self.push(array.value(row).as_ref())?;
            }
            if self.rows.count() >= self.plan.page_rows || self.values.len() >= self.plan.page_bytes {
                self.end_page()?;
            }
        }

        Ok(())
    }

    #[inline]
    fn push(&mut self, value: &[u8]) -> Result<(), String> {
        let length = u32::try_from(value.len()).map_err(|_| "a value of more than 4 GiB".to_owned())?;
        self.values.extend_from_slice(&length.to_le_bytes());
        let start = self.values.len();
        self.values.extend_from_slice(value);
        let range = start..self.values.len();
        self.rows.push_valid(1);
        self.count += 1;
        let key = prefix_key(value);

        match &mut self.extremes {
            None => {
                self.extremes =
                    Some(PageStringExtremes { min: range.clone(), max: range, min_key: key, max_key: key });
            }
            Some(extremes) => {
                let at = |range: &Range<usize>| self.values.get(range.clone()).unwrap_or_default();
                if key < extremes.min_key || key == extremes.min_key && value < at(&extremes.min) {
                    (extremes.min, extremes.min_key) = (range, key);
                } else if key > extremes.max_key || key == extremes.max_key && value > at(&extremes.max) {
                    (extremes.max, extremes.max_key) = (range, key);
                }
            }
        }

        Ok(())
    }

    /// Encodes and compresses the page.
    fn end_page(&mut self) -> Result<(), String> {
        let values = &self.values;
        self.pages.push_data(&self.rows, self.count, |body| body.extend_from_slice(values))?;
        let at = |range: Range<usize>| values.get(range).unwrap_or_default();
        let extremes = self.extremes.take().map(|extremes| (at(extremes.min), at(extremes.max)));
        self.bounds.note(extremes, self.rows.count() - self.count);
        self.rows.clear();
        self.values.clear();
        self.count = 0;

        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<EncodedChunk, String> {
        if self.rows.count() > 0 || self.pages.rows() == 0 {
            self.end_page()?;
        }
        let (statistics, column_index) = self.bounds.finish(self.pages.nulls() as u64, self.plan.statistics);
        self.pages.finish(ChunkSummary { statistics, column_index, bloom_filter: None })
    }
}
