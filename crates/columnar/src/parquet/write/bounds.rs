//! The least and the greatest value of pages and of a chunk, found among the codes that occur in them.

use std::cmp::Ordering;

use parquet::{
    basic::{BoundaryOrder, Type as PhysicalType},
    data_type::{ByteArray, FixedLenByteArray},
    file::{
        metadata::ColumnIndexBuilder,
        page_index::column_index::ColumnIndexMetaData,
        statistics::{Statistics, ValueStatistics},
    },
};

use super::{column_options::StatisticsLevel, order::Order};
use crate::parquet::distinct::Distinct;

/// Bits of a word.
const WORD: usize = u64::BITS as usize;

/// The codes of the least and the greatest value.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageBounds {
    min: u32,
    max: u32,
}

/// Bounds of a chunk's pages, and of all of it.
pub(super) struct ChunkBounds {
    order: Order,
    physical: PhysicalType,
    /// For each code.
    keys: Vec<u64>,
    /// A bit for each code.
    occur: Vec<u64>,
    index: ColumnIndexBuilder,
    chunk: Option<PageBounds>,
    last: Option<PageBounds>,
    ascends: bool,
    descends: bool,
    /// A page has values, and none that could be a bound.
    is_unbounded: bool,
}

impl ChunkBounds {
    pub(super) fn new(order: Order, physical: PhysicalType) -> Self {
        Self {
            order,
            physical,
            keys: Vec::new(),
            occur: Vec::new(),
            index: ColumnIndexBuilder::new(physical),
            chunk: None,
            last: None,
            ascends: true,
            descends: true,
            is_unbounded: false,
        }
    }

    /// Looks at the values that are new.
    pub(super) fn learn(&mut self, distinct: &Distinct) {
        if self.order != Order::None {
            let new = self.keys.len()..distinct.len();
            self.keys.extend(new.map(|code| self.order.key(distinct.value(code as u32))));
        }
    }

    /// The bounds of a page of these codes; `None` where it has no values.
    pub(super) fn end_page(&mut self, distinct: &Distinct, codes: &[u32]) -> Option<PageBounds> {
        if self.order == Order::None {
            return None;
        }
        // Which codes occur takes a bit each, which stay at hand while keys would not: those are read in their order.
        self.occur.resize(self.keys.len().div_ceil(WORD), 0);
        for code in codes {
            if let Some(word) = self.occur.get_mut(*code as usize / WORD) {
                *word |= 1 << (*code as usize % WORD);
            }
        }
        let mut bounds: Option<(PageBounds, u64, u64)> = None;
        for (at, word) in self.occur.iter().enumerate() {
            let mut word = *word;
            while word != 0 {
                let code = (at * WORD) as u32 + word.trailing_zeros();
                word &= word - 1;
                let key = self.key(code);
                if self.order.is_unbounded(key) {
                    continue;
                }
                let Some((bounds, min, max)) = &mut bounds else {
                    bounds = Some((PageBounds { min: code, max: code }, key, key));
                    continue;
                };
                if key <= *min && (key < *min || self.is_less(distinct, code, bounds.min)) {
                    (bounds.min, *min) = (code, key);
                }
                if key >= *max && (key > *max || self.is_less(distinct, bounds.max, code)) {
                    (bounds.max, *max) = (code, key);
                }
            }
        }
        self.occur.fill(0);
        self.is_unbounded |= bounds.is_none() && !codes.is_empty();
        bounds.map(|(bounds, ..)| bounds)
    }

    fn key(&self, code: u32) -> u64 {
        self.keys.get(code as usize).copied().unwrap_or(0)
    }

    fn is_less(&self, distinct: &Distinct, a: u32, b: u32) -> bool {
        self.compare(distinct, a, b) == Ordering::Less
    }

    fn compare(&self, distinct: &Distinct, a: u32, b: u32) -> Ordering {
        let keys = self.keys.get(a as usize).cmp(&self.keys.get(b as usize));
        keys.then_with(|| self.order.compare_rest(distinct.value(a), distinct.value(b)))
    }

    /// Adds a page to the index.
    pub(super) fn note(&mut self, distinct: &Distinct, page: Option<PageBounds>, nulls: usize) {
        let Some(bounds) = page else {
            self.index.append(true, Vec::new(), Vec::new(), nulls as i64);
            return;
        };
        let (min, max) = (
            self.order.cut_min(distinct.value(bounds.min)).0,
            self.order.cut_max(distinct.value(bounds.max)).0,
        );
        self.index.append(false, min, max, nulls as i64);
        if let Some(last) = self.last {
            let min = self.compare(distinct, last.min, bounds.min);
            let max = self.compare(distinct, last.max, bounds.max);
            self.ascends &= min != Ordering::Greater && max != Ordering::Greater;
            self.descends &= min != Ordering::Less && max != Ordering::Less;
        }
        self.last = Some(bounds);
        self.chunk = Some(match self.chunk {
            None => bounds,
            Some(PageBounds { min, max }) => PageBounds {
                min: if self.is_less(distinct, bounds.min, min) { bounds.min } else { min },
                max: if self.is_less(distinct, max, bounds.max) { bounds.max } else { max },
            },
        });
    }

    /// What the footer says of the chunk, and the index of its pages.
    pub(super) fn finish(
        mut self,
        distinct: &Distinct,
        nulls: u64,
        level: StatisticsLevel,
    ) -> (Option<Statistics>, Option<ColumnIndexMetaData>) {
        if level == StatisticsLevel::None {
            return (None, None);
        }
        let statistics = self.statistics(distinct, nulls);
        if level != StatisticsLevel::Page || self.order == Order::None || self.is_unbounded {
            return (Some(statistics), None);
        }
        self.index.set_boundary_order(match (self.ascends, self.descends) {
            (true, _) => BoundaryOrder::ASCENDING,
            (_, true) => BoundaryOrder::DESCENDING,
            _ => BoundaryOrder::UNORDERED,
        });
        (Some(statistics), self.index.build().ok())
    }

    fn statistics(&self, distinct: &Distinct, nulls: u64) -> Statistics {
        let value = |code: Option<u32>| code.map(|code| distinct.value(code));
        let (min, max) = (value(self.chunk.map(|chunk| chunk.min)), value(self.chunk.map(|chunk| chunk.max)));
        let (count, nulls) = (Some(distinct.len() as u64), Some(nulls));
        let signed = matches!(self.order, Order::Decimal | Order::Number { signed: true });
        let min_of = |min: &[u8]| self.order.cut_min(min).0;
        let max_of = |max: &[u8]| self.order.cut_max(max).0;
        match self.physical {
            PhysicalType::FLOAT => {
                let number = |value: Vec<u8>| value.first_chunk().map(|bytes| f32::from_le_bytes(*bytes));
                let (min, max) = (min.map(min_of).and_then(number), max.map(max_of).and_then(number));
                let of = ValueStatistics::new(min, max, count, nulls, false);
                Statistics::Float(of.with_backwards_compatible_min_max(true))
            }
            PhysicalType::DOUBLE => {
                let number = |value: Vec<u8>| value.first_chunk().map(|bytes| f64::from_le_bytes(*bytes));
                let (min, max) = (min.map(min_of).and_then(number), max.map(max_of).and_then(number));
                let of = ValueStatistics::new(min, max, count, nulls, false);
                Statistics::Double(of.with_backwards_compatible_min_max(true))
            }
            PhysicalType::INT32 => {
                let number = |value: &[u8]| value.first_chunk().map(|bytes| i32::from_le_bytes(*bytes));
                let of =
                    ValueStatistics::new(min.and_then(number), max.and_then(number), count, nulls, false);
                Statistics::Int32(of.with_backwards_compatible_min_max(signed))
            }
            PhysicalType::INT64 => {
                let number = |value: &[u8]| value.first_chunk().map(|bytes| i64::from_le_bytes(*bytes));
                let of =
                    ValueStatistics::new(min.and_then(number), max.and_then(number), count, nulls, false);
                Statistics::Int64(of.with_backwards_compatible_min_max(signed))
            }
            physical => {
                let (min, max) =
                    (min.map(|min| self.order.cut_min(min)), max.map(|max| self.order.cut_max(max)));
                let exact = (min.as_ref().is_some_and(|min| min.1), max.as_ref().is_some_and(|max| max.1));
                let (min, max) = (min.map(|min| min.0), max.map(|max| max.0));
                if physical == PhysicalType::FIXED_LEN_BYTE_ARRAY {
                    let of = |bytes: Vec<u8>| FixedLenByteArray::from(bytes);
                    let of = ValueStatistics::new(min.map(of), max.map(of), count, nulls, false);
                    let of = of.with_min_is_exact(exact.0).with_max_is_exact(exact.1);
                    return Statistics::FixedLenByteArray(of.with_backwards_compatible_min_max(signed));
                }
                let of = ValueStatistics::new(
                    min.map(ByteArray::from),
                    max.map(ByteArray::from),
                    count,
                    nulls,
                    false,
                );
                let of = of.with_min_is_exact(exact.0).with_max_is_exact(exact.1);
                Statistics::ByteArray(of.with_backwards_compatible_min_max(signed))
            }
        }
    }
}
