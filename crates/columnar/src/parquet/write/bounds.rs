//! Tracks the minimum and maximum of pages and of a chunk, among the codes that occur in them.

pub(super) mod page_index;
pub(super) mod strings;

use parquet::{
    basic::Type as PhysicalType,
    data_type::FixedLenByteArray,
    file::{
        page_index::column_index::ColumnIndexMetaData,
        statistics::{Statistics, ValueStatistics},
    },
};

use self::{
    page_index::PageIndexBuilder,
    strings::{StringBounds, byte_array_statistics},
};
use super::{
    codebook::{
        Codebook,
        order::{MAX_BYTES, PlainValueOrder},
        used::CodeSet,
    },
    column_options::StatisticsLevel,
};

/// Number of pages without a new value after which the extremes of all values are computed: by then, finding the bounds
/// of each page has cost as much. Before, the extremes would soon be outdated.
const STABLE_PAGES: usize = 8;

/// Codes of the minimum and the maximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageBounds {
    min: u32,
    max: u32,
}

/// Bounds of a chunk's pages, and of the whole chunk.
pub(super) struct ChunkBounds {
    physical: PhysicalType,
    /// Length of the dictionary at the end of the last page.
    dictionary_len: usize,
    /// Number of pages since the dictionary last grew.
    stable_pages: usize,
    index: PageIndexBuilder,
    chunk: Option<PageBounds>,
    /// True if a page has values but no bounds.
    is_unbounded: bool,
}

impl ChunkBounds {
    pub(super) fn new(physical: PhysicalType, order: PlainValueOrder) -> Self {
        Self {
            physical,
            dictionary_len: 0,
            stable_pages: 0,
            index: PageIndexBuilder::new(physical, order),
            chunk: None,
            is_unbounded: false,
        }
    }

    /// Returns the bounds of a page that uses these codes; `None` if it has none.
    pub(super) fn end_page(&mut self, codebook: &mut Codebook, used: &CodeSet) -> Option<PageBounds> {
        if codebook.order() == PlainValueOrder::None {
            return None;
        }

        let before = std::mem::replace(&mut self.dictionary_len, codebook.len());
        self.stable_pages = if before == codebook.len() { self.stable_pages + 1 } else { 0 };
        if self.stable_pages == STABLE_PAGES && codebook.extremes().is_none() {
            codebook.find_extremes();
        }
        let extreme = codebook.extremes().and_then(|(smallest, largest)| {
            let first = |codes: &[u32]| codes.iter().copied().find(|code| used.has(*code));
            Some(PageBounds { min: first(smallest)?, max: first(largest)? })
        });
        let bounds = extreme.or_else(|| bounds_of(codebook, used));
        self.is_unbounded |= bounds.is_none() && used.iter().next().is_some();

        bounds
    }

    /// Adds a page to the index.
    pub(super) fn note(&mut self, codebook: &Codebook, page: Option<PageBounds>, nulls: usize) {
        let values = |bounds: PageBounds| (codebook.value(bounds.min), codebook.value(bounds.max));
        self.index.push(page.map(values), nulls);
        let Some(bounds) = page else { return };
        self.chunk = Some(match self.chunk {
            None => bounds,
            Some(PageBounds { min, max }) => PageBounds {
                min: if codebook.is_less(bounds.min, min) { bounds.min } else { min },
                max: if codebook.is_less(max, bounds.max) { bounds.max } else { max },
            },
        });
    }

    /// Returns the statistics of the chunk, which has `distinct` distinct values, and the index of its pages.
    pub(super) fn finish(
        self,
        codebook: &Codebook,
        distinct: usize,
        nulls: u64,
        level: StatisticsLevel,
    ) -> (Option<Statistics>, Option<ColumnIndexMetaData>) {
        if level == StatisticsLevel::None {
            return (None, None);
        }
        let statistics = self.statistics(codebook, distinct, nulls);
        if level != StatisticsLevel::Page || codebook.order() == PlainValueOrder::None || self.is_unbounded {
            return (Some(statistics), None);
        }
        (Some(statistics), self.index.build())
    }

    /// Returns the bounds for the pages of strings that follow, which have no codes.
    pub(super) fn of_strings(self, codebook: &Codebook) -> StringBounds {
        let values =
            |bounds: PageBounds| (codebook.value(bounds.min).to_vec(), codebook.value(bounds.max).to_vec());
        StringBounds { order: codebook.order(), index: self.index, chunk: self.chunk.map(values) }
    }

    fn statistics(&self, codebook: &Codebook, distinct: usize, nulls: u64) -> Statistics {
        let order = codebook.order();
        let value = |code: Option<u32>| code.map(|code| codebook.value(code));
        let min = value(self.chunk.map(|chunk| chunk.min));
        let max = value(self.chunk.map(|chunk| chunk.max));
        let count = Some(distinct as u64);
        let nulls = Some(nulls);
        let signed = matches!(order, PlainValueOrder::Decimal | PlainValueOrder::Number { signed: true });
        let min_of = |min: &[u8]| order.cut_min(min, MAX_BYTES).0;
        let max_of = |max: &[u8]| order.cut_max(max, MAX_BYTES).0;

        match self.physical {
            PhysicalType::FLOAT => {
                let number = |value: Vec<u8>| value.first_chunk().map(|bytes| f32::from_le_bytes(*bytes));
                let min = min.map(min_of).and_then(number);
                let max = max.map(max_of).and_then(number);
                let of = ValueStatistics::new(min, max, count, nulls, false);
                Statistics::Float(of.with_backwards_compatible_min_max(true))
            }
            PhysicalType::DOUBLE => {
                let number = |value: Vec<u8>| value.first_chunk().map(|bytes| f64::from_le_bytes(*bytes));
                let min = min.map(min_of).and_then(number);
                let max = max.map(max_of).and_then(number);
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
            PhysicalType::BYTE_ARRAY => byte_array_statistics(order, min, max, count, nulls),
            _ => {
                let min = min.map(|min| order.cut_min(min, MAX_BYTES));
                let max = max.map(|max| order.cut_max(max, MAX_BYTES));
                let exact = (min.as_ref().is_some_and(|min| min.1), max.as_ref().is_some_and(|max| max.1));
                let min = min.map(|min| min.0);
                let max = max.map(|max| max.0);
                let of = |bytes: Vec<u8>| FixedLenByteArray::from(bytes);
                let of = ValueStatistics::new(min.map(of), max.map(of), count, nulls, false);
                let of = of.with_min_is_exact(exact.0).with_max_is_exact(exact.1);
                Statistics::FixedLenByteArray(of.with_backwards_compatible_min_max(signed))
            }
        }
    }
}

/// Returns the bounds of the used codes, without those of unbounded values such as NaN.
fn bounds_of(codebook: &Codebook, used: &CodeSet) -> Option<PageBounds> {
    let mut codes = used.iter().filter(|code| !codebook.is_unbounded(*code));
    let first = codes.next()?;
    let mut min = first;
    let mut max = first;
    let mut min_key = codebook.key(first);
    let mut max_key = codebook.key(first);

    for code in codes {
        let key = codebook.key(code);
        if key <= min_key && (key < min_key || codebook.is_less(code, min)) {
            (min, min_key) = (code, key);
        }
        if key >= max_key && (key > max_key || codebook.is_less(max, code)) {
            (max, max_key) = (code, key);
        }
    }

    Some(PageBounds { min, max })
}
