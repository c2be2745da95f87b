//! The least and the greatest of strings, in pages and in a chunk, where they have no codes.

use std::cmp::Ordering;

use parquet::{
    basic::{BoundaryOrder, Type as PhysicalType},
    data_type::ByteArray,
    file::{
        metadata::ColumnIndexBuilder,
        page_index::column_index::ColumnIndexMetaData,
        statistics::{Statistics, ValueStatistics},
    },
};

use super::{column_options::StatisticsLevel, order::Order};

/// Bounds of the chunk, and of the last of its pages.
pub(super) struct StringBounds {
    pub(super) order: Order,
    pub(super) index: ColumnIndexBuilder,
    pub(super) chunk: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) last: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) ascends: bool,
    pub(super) descends: bool,
}

impl StringBounds {
    pub(super) fn new(order: Order) -> Self {
        let index = ColumnIndexBuilder::new(PhysicalType::BYTE_ARRAY);
        Self { order, index, chunk: None, last: None, ascends: true, descends: true }
    }

    /// Adds a page with this least and greatest value.
    pub(super) fn note(&mut self, extremes: Option<(&[u8], &[u8])>, nulls: usize) {
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
    pub(super) fn finish(
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

/// What an index says of pages whose bounds ascend, or descend.
pub(super) fn boundary_order(ascends: bool, descends: bool) -> BoundaryOrder {
    match (ascends, descends) {
        (true, _) => BoundaryOrder::ASCENDING,
        (_, true) => BoundaryOrder::DESCENDING,
        _ => BoundaryOrder::UNORDERED,
    }
}

/// Statistics of strings or bytes.
pub(super) fn byte_array_statistics(
    order: Order,
    min: Option<&[u8]>,
    max: Option<&[u8]>,
    distinct: Option<u64>,
    nulls: Option<u64>,
) -> Statistics {
    let (min, max) = (min.map(|min| order.cut_min(min)), max.map(|max| order.cut_max(max)));
    let exact = (min.as_ref().is_some_and(|min| min.1), max.as_ref().is_some_and(|max| max.1));
    let bound = |bound: Option<(Vec<u8>, bool)>| bound.map(|(bytes, _)| ByteArray::from(bytes));
    let of = ValueStatistics::new(bound(min), bound(max), distinct, nulls, false);
    Statistics::ByteArray(of.with_min_is_exact(exact.0).with_max_is_exact(exact.1))
}
