//! A column of strings or bytes that is to have no dictionary: one value after another, each behind its length.

use std::{cmp::Ordering, ops::Range};

use arrow::{
    array::{Array, ArrayAccessor, ArrayRef, AsArray},
    buffer::NullBuffer,
    datatypes::DataType,
};
use parquet::{
    basic::{Encoding, Type as PhysicalType},
    file::{
        metadata::ColumnIndexBuilder, page_index::column_index::ColumnIndexMetaData, statistics::Statistics,
    },
    schema::types::ColumnDescPtr,
};

use super::{
    bounds::{boundary_order, byte_array_statistics},
    chunk::EncodedChunk,
    column_options::{DictionaryEncoding, Encoding as ColumnEncoding, StatisticsLevel},
    options::ColumnPlan,
    order::Order,
    pages::{Pages, Summary},
    rows::Rows,
};
use crate::{first_bytes::first_bytes, schema::is_text};

/// Encodes one column chunk.
pub(super) struct Strings {
    plan: ColumnPlan,
    /// The page that is being filled.
    rows: Rows,
    values: Vec<u8>,
    count: usize,
    extremes: Option<Extremes>,
    pages: Pages,
    bounds: Bounds,
}

/// The least and the greatest value of the page that is being filled: where they are in it, and how they begin.
struct Extremes {
    min: Range<usize>,
    max: Range<usize>,
    min_key: u64,
    max_key: u64,
}

/// Bounds of the chunk, and of the last of its pages.
struct Bounds {
    order: Order,
    index: ColumnIndexBuilder,
    chunk: Option<(Vec<u8>, Vec<u8>)>,
    last: Option<(Vec<u8>, Vec<u8>)>,
    ascends: bool,
    descends: bool,
}

/// Whether a column of this type is encoded here.
pub(super) fn is_strings(data_type: &DataType, plan: &ColumnPlan) -> bool {
    let is_plain = match plan.encoding {
        None => !plan.version_2,
        Some(encoding) => encoding == ColumnEncoding::Plain,
    };
    is_text(data_type)
        && is_plain
        && plan.dictionary == DictionaryEncoding::Off
        && plan.bloom_filter.is_none()
}

impl Strings {
    pub(super) fn new(descriptor: ColumnDescPtr, plan: ColumnPlan) -> Result<Self, String> {
        Ok(Self {
            rows: Rows::default(),
            values: Vec::new(),
            count: 0,
            extremes: None,
            bounds: Bounds::new(Order::of(&descriptor)),
            pages: Pages::new(descriptor, plan.clone(), Encoding::PLAIN)?,
            plan,
        })
    }

    /// Bytes in memory.
    pub(super) fn memory(&self) -> usize {
        self.pages.bytes() + self.values.capacity()
    }

    /// Bytes that the chunk will have, about.
    pub(super) fn encoded(&self) -> usize {
        self.pages.bytes() + self.values.len() / 2
    }

    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<(), String> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let nulls = nulls.as_ref();
        match array.data_type() {
            DataType::Utf8 => self.write_values(array.as_string::<i32>(), nulls),
            DataType::LargeUtf8 => self.write_values(array.as_string::<i64>(), nulls),
            DataType::Utf8View => self.write_values(array.as_string_view(), nulls),
            DataType::Binary => self.write_values(array.as_binary::<i32>(), nulls),
            DataType::LargeBinary => self.write_values(array.as_binary::<i64>(), nulls),
            DataType::BinaryView => self.write_values(array.as_binary_view(), nulls),
            other => Err(format!("a column of {other} where strings were promised")),
        }
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
        let place = start..self.values.len();
        self.rows.push_valid(1);
        self.count += 1;
        let key = first_bytes(value);
        match &mut self.extremes {
            None => {
                self.extremes = Some(Extremes { min: place.clone(), max: place, min_key: key, max_key: key });
            }
            Some(extremes) => {
                let at = |place: &Range<usize>| self.values.get(place.clone()).unwrap_or_default();
                if key < extremes.min_key || key == extremes.min_key && value < at(&extremes.min) {
                    (extremes.min, extremes.min_key) = (place, key);
                } else if key > extremes.max_key || key == extremes.max_key && value > at(&extremes.max) {
                    (extremes.max, extremes.max_key) = (place, key);
                }
            }
        }
        Ok(())
    }

    /// Encodes and compresses the page.
    fn end_page(&mut self) -> Result<(), String> {
        let values = &self.values;
        self.pages.push_data(&self.rows, self.count, |body| body.extend_from_slice(values))?;
        let at = |place: Range<usize>| values.get(place).unwrap_or_default();
        let extremes = self.extremes.take().map(|extremes| (at(extremes.min), at(extremes.max)));
        self.bounds.note(extremes, self.rows.count() - self.count);
        self.rows.clear();
        self.values.clear();
        self.count = 0;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<EncodedChunk, String> {
        if self.rows.count() > 0 || self.pages.rows() == 0 {
            self.end_page()?;
        }
        let (statistics, column_index) = self.bounds.finish(self.pages.nulls() as u64, self.plan.statistics);
        self.pages.finish(None, Summary { statistics, column_index, bloom_filter: None })
    }
}

impl Bounds {
    fn new(order: Order) -> Self {
        let index = ColumnIndexBuilder::new(PhysicalType::BYTE_ARRAY);
        Self { order, index, chunk: None, last: None, ascends: true, descends: true }
    }

    /// Adds a page with this least and greatest value.
    fn note(&mut self, extremes: Option<(&[u8], &[u8])>, nulls: usize) {
        let Some((min, max)) = extremes else {
            self.index.append(true, Vec::new(), Vec::new(), nulls as i64);
            return;
        };
        self.index.append(false, self.order.cut_min(min).0, self.order.cut_max(max).0, nulls as i64);
        if let Some((last_min, last_max)) = &self.last {
            let (min, max) = (last_min.as_slice().cmp(min), last_max.as_slice().cmp(max));
            self.ascends &= min != Ordering::Greater && max != Ordering::Greater;
            self.descends &= min != Ordering::Less && max != Ordering::Less;
        }
        self.last = Some((min.to_vec(), max.to_vec()));
        match &mut self.chunk {
            None => self.chunk.clone_from(&self.last),
            Some((least, greatest)) => {
                if min < least.as_slice() {
                    *least = min.to_vec();
                }
                if max > greatest.as_slice() {
                    *greatest = max.to_vec();
                }
            }
        }
    }

    /// What the footer says of the chunk, and the index of its pages.
    fn finish(
        mut self,
        nulls: u64,
        level: StatisticsLevel,
    ) -> (Option<Statistics>, Option<ColumnIndexMetaData>) {
        if level == StatisticsLevel::None {
            return (None, None);
        }
        let (min, max) = self.chunk.unzip();
        let statistics = byte_array_statistics(self.order, min.as_deref(), max.as_deref(), None, Some(nulls));
        if level != StatisticsLevel::Page || self.order == Order::None {
            return (Some(statistics), None);
        }
        self.index.set_boundary_order(boundary_order(self.ascends, self.descends));
        (Some(statistics), self.index.build().ok())
    }
}
