//! The least and the greatest value of pages and of a chunk, found among the codes that occur in them.
//!
//! Values are compared by eight bytes that ascend as they do, and by the rest of them only where these are equal.

use std::cmp::Ordering;

use parquet::{
    basic::{BoundaryOrder, LogicalType, SortOrder, Type as PhysicalType},
    data_type::{ByteArray, FixedLenByteArray},
    file::{
        metadata::ColumnIndexBuilder,
        page_index::column_index::ColumnIndexMetaData,
        statistics::{Statistics, ValueStatistics},
    },
    schema::types::ColumnDescPtr,
};

use super::options::StatisticsLevel;
use crate::parquet::distinct::Distinct;

/// Bounds of more bytes than these are cut.
const MOST_BYTES: usize = 64;

/// How values of a column are compared, by their bytes in the encoding PLAIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Bytes, unsigned. With `text`, they are cut between characters only.
    Bytes { text: bool },
    /// Big-endian numbers with a sign.
    Decimal,
    /// Little-endian numbers.
    Number { signed: bool },
    /// None that readers agree on.
    None,
}

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
    /// The page in which each code was seen last, from 1.
    seen: Vec<u32>,
    page: u32,
    index: ColumnIndexBuilder,
    chunk: Option<PageBounds>,
    last: Option<PageBounds>,
    ascends: bool,
    descends: bool,
}

impl Order {
    pub(super) fn of(descriptor: &ColumnDescPtr) -> Self {
        let logical = descriptor.logical_type_ref();
        let signed = match descriptor.sort_order() {
            SortOrder::SIGNED => true,
            SortOrder::UNSIGNED => false,
            SortOrder::UNDEFINED => return Self::None,
        };
        match descriptor.physical_type() {
            // Of any length, as no writer of today has them.
            PhysicalType::BYTE_ARRAY if signed => Self::None,
            PhysicalType::BYTE_ARRAY => Self::Bytes { text: matches!(logical, Some(LogicalType::String)) },
            PhysicalType::FIXED_LEN_BYTE_ARRAY if matches!(logical, Some(LogicalType::Float16)) => Self::None,
            PhysicalType::FIXED_LEN_BYTE_ARRAY if signed && descriptor.type_length() > 0 => Self::Decimal,
            PhysicalType::FIXED_LEN_BYTE_ARRAY => Self::Bytes { text: false },
            PhysicalType::INT32 | PhysicalType::INT64 => Self::Number { signed },
            _ => Self::None,
        }
    }

    /// Eight bytes that ascend as values do, or stay equal.
    fn key(self, value: &[u8]) -> u64 {
        let first = |bytes: &mut dyn Iterator<Item = &u8>| {
            let mut key = [0; 8];
            key.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(key)
        };
        const SIGN: u64 = 1 << 63;
        match self {
            Self::None => 0,
            Self::Bytes { .. } => first(&mut value.iter()),
            Self::Decimal => first(&mut value.iter()) ^ SIGN,
            Self::Number { signed } => first(&mut value.iter().rev()) ^ if signed { SIGN } else { 0 },
        }
    }

    /// Which of two values of equal keys is less: what is left of them, since their signs are equal.
    fn compare_rest(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytes { .. } | Self::Decimal => a.cmp(b),
            Self::Number { .. } | Self::None => Ordering::Equal,
        }
    }

    /// A bound that is not above the value, and whether it is the value.
    fn cut_min(self, value: &[u8]) -> (Vec<u8>, bool) {
        match self {
            Self::Bytes { text } if value.len() > MOST_BYTES => {
                let is_inside = |at: usize| text && value.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
                let end = (0..=MOST_BYTES).rev().find(|at| !is_inside(*at)).unwrap_or(0);
                (value.get(..end).unwrap_or_default().to_vec(), false)
            }
            _ => (value.to_vec(), true),
        }
    }

    /// A bound that is not below the value, and whether it is the value.
    fn cut_max(self, value: &[u8]) -> (Vec<u8>, bool) {
        let most = match self {
            Self::Bytes { text } if value.len() > MOST_BYTES => {
                if text {
                    0x7f
                } else {
                    0xff
                }
            }
            _ => return (value.to_vec(), true),
        };
        let (mut cut, _) = self.cut_min(value);
        // The last byte that can be larger is. Of text only ASCII is, and what it becomes is ASCII.
        while let Some(byte) = cut.pop() {
            if byte < most {
                cut.push(byte + 1);
                return (cut, false);
            }
        }
        (value.to_vec(), true)
    }
}

impl ChunkBounds {
    pub(super) fn new(order: Order, physical: PhysicalType) -> Self {
        Self {
            order,
            physical,
            keys: Vec::new(),
            seen: Vec::new(),
            page: 0,
            index: ColumnIndexBuilder::new(physical),
            chunk: None,
            last: None,
            ascends: true,
            descends: true,
        }
    }

    /// Looks at the values that are new.
    pub(super) fn learn(&mut self, distinct: &Distinct) {
        if self.order != Order::None {
            let new = self.keys.len()..distinct.len();
            self.keys.extend(new.map(|code| self.order.key(distinct.value(code as u32))));
            self.seen.resize(self.keys.len(), 0);
        }
    }

    /// The bounds of a page of these codes; `None` where it has no values.
    pub(super) fn end_page(&mut self, distinct: &Distinct, codes: &[u32]) -> Option<PageBounds> {
        if self.order == Order::None {
            return None;
        }
        self.page += 1;
        let first = *codes.first()?;
        let key_of = |keys: &[u64], code: u32| keys.get(code as usize).copied().unwrap_or(0);
        let (mut min, mut max) = (first, first);
        let mut min_key = key_of(&self.keys, first);
        let mut max_key = min_key;
        for code in codes {
            let Some(seen) = self.seen.get_mut(*code as usize) else { continue };
            if *seen == self.page {
                continue;
            }
            *seen = self.page;
            let key = key_of(&self.keys, *code);
            if key <= min_key && (key < min_key || self.is_less(distinct, *code, min)) {
                (min, min_key) = (*code, key);
            }
            if key >= max_key && (key > max_key || self.is_less(distinct, max, *code)) {
                (max, max_key) = (*code, key);
            }
        }
        Some(PageBounds { min, max })
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
        if level != StatisticsLevel::Page || self.order == Order::None {
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
        match self.physical {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_bounds_are_cut_so_that_they_still_hold() {
        let text = Order::Bytes { text: true };
        let long = format!("{}\u{e9}{}", "a".repeat(63), "b".repeat(9));
        assert_eq!(text.cut_min(long.as_bytes()), (vec![b'a'; 63], false));
        let (max, exact) = text.cut_max(long.as_bytes());
        assert!(max.as_slice() > long.as_bytes() && !exact && std::str::from_utf8(&max).is_ok());
        let high = "\u{e9}".repeat(50);
        assert_eq!(
            text.cut_max(high.as_bytes()),
            (high.clone().into_bytes(), true),
            "nothing in it can be larger"
        );
        let bytes = Order::Bytes { text: false };
        assert_eq!(bytes.cut_max(&[0xff; 80]).0, [0xff; 80]);
        assert_eq!(bytes.cut_max(&[7; 80]).0.len(), 64);
        assert_eq!(bytes.cut_max(b"short"), (b"short".to_vec(), true));
    }

    #[test]
    fn keys_ascend_as_values_do() {
        let signed = Order::Number { signed: true };
        let of = |number: i32| signed.key(&number.to_le_bytes());
        assert!(of(-5) < of(-1) && of(-1) < of(0) && of(0) < of(i32::MAX));
        let unsigned = Order::Number { signed: false };
        assert!(unsigned.key(&5_u32.to_le_bytes()) < unsigned.key(&u32::MAX.to_le_bytes()));
        let decimal = |number: i128| Order::Decimal.key(number.to_be_bytes().as_ref());
        assert!(decimal(-1 << 70) < decimal(-1) && decimal(-1) < decimal(1 << 70));
        let bytes = Order::Bytes { text: false };
        assert!(bytes.key(b"") <= bytes.key(b"\0") && bytes.key(b"a") < bytes.key(b"b"));
    }
}
