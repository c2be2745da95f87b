//! Tracks the minimum and maximum of strings, in pages and in a chunk, without codes.

use parquet::{
    basic::Type as PhysicalType,
    data_type::ByteArray,
    file::{
        page_index::column_index::ColumnIndexMetaData,
        statistics::{Statistics, ValueStatistics},
    },
};

use super::page_index::PageIndexBuilder;
use crate::parquet::write::{
    codebook::order::{MAX_BYTES, PlainValueOrder},
    column_options::StatisticsLevel,
};

/// Bounds of the chunk and of its pages.
pub(crate) struct StringBounds {
    pub(crate) order: PlainValueOrder,
    pub(crate) index: PageIndexBuilder,
    pub(crate) chunk: Option<(Vec<u8>, Vec<u8>)>,
}

impl StringBounds {
    pub(crate) fn new(order: PlainValueOrder) -> Self {
        Self { order, index: PageIndexBuilder::new(PhysicalType::BYTE_ARRAY, order), chunk: None }
    }

    /// Adds a page with these bounds.
    pub(crate) fn note(&mut self, extremes: Option<(&[u8], &[u8])>, nulls: usize) {
        let extremes = extremes.filter(|_| self.order != PlainValueOrder::None);
        self.index.push(extremes, nulls);
        let Some((min, max)) = extremes else { return };

        match &mut self.chunk {
            None => self.chunk = Some((min.to_vec(), max.to_vec())),
            Some((chunk_min, chunk_max)) => {
                if min < chunk_min.as_slice() {
                    *chunk_min = min.to_vec();
                }
                if max > chunk_max.as_slice() {
                    *chunk_max = max.to_vec();
                }
            }
        }
    }

    /// Returns the statistics of the chunk, and the index of its pages.
    pub(crate) fn finish(
        self,
        nulls: u64,
        level: StatisticsLevel,
    ) -> (Option<Statistics>, Option<ColumnIndexMetaData>) {
        if level == StatisticsLevel::None {
            return (None, None);
        }

        let (min, max) = self.chunk.unzip();
        let statistics = byte_array_statistics(self.order, min.as_deref(), max.as_deref(), None, Some(nulls));
        if level != StatisticsLevel::Page || self.order == PlainValueOrder::None {
            return (Some(statistics), None);
        }

        (Some(statistics), self.index.build())
    }
}

/// Returns statistics of strings or bytes.
pub(crate) fn byte_array_statistics(
    order: PlainValueOrder,
    min: Option<&[u8]>,
    max: Option<&[u8]>,
    distinct: Option<u64>,
    nulls: Option<u64>,
) -> Statistics {
    let min = min.map(|min| order.cut_min(min, MAX_BYTES));
    let max = max.map(|max| order.cut_max(max, MAX_BYTES));
    let exact = (min.as_ref().is_some_and(|min| min.1), max.as_ref().is_some_and(|max| max.1));
    let bound = |bound: Option<(Vec<u8>, bool)>| bound.map(|(bytes, _)| ByteArray::from(bytes));
    let of = ValueStatistics::new(bound(min), bound(max), distinct, nulls, false);
    Statistics::ByteArray(of.with_min_is_exact(exact.0).with_max_is_exact(exact.1))
}
