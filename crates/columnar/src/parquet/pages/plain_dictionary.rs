//! Dictionary whose values arrive PLAIN-encoded: those of a chunk's dictionary page, and of PLAIN fallback pages.

use parquet::{basic::Type as PhysicalType, schema::types::ColumnDescPtr};

use crate::kernels::interner::{InternerScratch, ValueInterner};

/// Memory that is kept for the next chunk.
const MAX_KEPT: usize = 32 << 20;

/// Distinct values of a chunk; a value's code is its position in the order of arrival.
pub(crate) struct PlainDictionary {
    pub(crate) values: ValueInterner,
    layout: PlainValueLayout,
    /// All values in PLAIN, once requested.
    plain: Vec<u8>,
}

/// Memory that successive chunks reuse.
#[derive(Default)]
pub(crate) struct PlainDictionaryScratch {
    values: InternerScratch,
    plain: Vec<u8>,
}

#[derive(Clone, Copy)]
enum PlainValueLayout {
    /// Four bytes of length before each value.
    Prefixed,
    /// Fixed number of bytes per value.
    Fixed(usize),
}

impl PlainValueLayout {
    /// Returns the number of bytes before a value.
    fn prefix(self) -> usize {
        match self {
            Self::Prefixed => size_of::<u32>(),
            Self::Fixed(_) => 0,
        }
    }

    /// Returns the first value and the rest.
    #[inline(always)]
    fn split(self, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Prefixed => {
                let (length, rest) = bytes.split_first_chunk::<4>()?;
                rest.split_at_checked(u32::from_le_bytes(*length) as usize)
            }
            Self::Fixed(length) => bytes.split_at_checked(length),
        }
    }
}

impl PlainDictionary {
    /// Creates a dictionary without values.
    pub(crate) fn new(descriptor: &ColumnDescPtr) -> Result<Self, String> {
        Self::in_scratch(PlainDictionaryScratch::default(), descriptor, &[], 0, 0)
    }

    /// Creates a dictionary with the values of a page, whose codes stay the same even if a value occurs twice. It will
    /// hold at most `max_values` values.
    pub(crate) fn in_scratch(
        scratch: PlainDictionaryScratch,
        descriptor: &ColumnDescPtr,
        page: &[u8],
        count: usize,
        max_values: usize,
    ) -> Result<Self, String> {
        let layout = match descriptor.physical_type() {
            PhysicalType::BYTE_ARRAY => PlainValueLayout::Prefixed,
            PhysicalType::INT32 | PhysicalType::FLOAT => PlainValueLayout::Fixed(4),
            PhysicalType::INT64 | PhysicalType::DOUBLE => PlainValueLayout::Fixed(8),
            PhysicalType::INT96 => PlainValueLayout::Fixed(12),
            PhysicalType::FIXED_LEN_BYTE_ARRAY => {
                PlainValueLayout::Fixed(descriptor.type_length().max(0) as usize)
            }
            PhysicalType::BOOLEAN => return Err("booleans have no dictionary".to_owned()),
        };

        if matches!(layout, PlainValueLayout::Fixed(0)) && count > 1 {
            return Err("a dictionary of empty values".to_owned());
        }
        // A count that exceeds the bytes is detected below.
        let likely = count.min(page.len());
        let PlainDictionaryScratch { values, plain } = scratch;
        let mut values = ValueInterner::in_scratch(values, layout.prefix(), likely, page.len(), max_values);
        let mut rest = page;

        for _ in 0..count {
            let (value, behind) = layout.split(rest).ok_or("the dictionary ends early")?;
            rest = behind;
            values.push(value)?;
        }

        Ok(Self { values, layout, plain })
    }

    /// Returns its memory for reuse.
    pub(crate) fn into_scratch(self) -> PlainDictionaryScratch {
        let Self { values, plain, .. } = self;
        let values = values.into_scratch();
        let kept = values.memory() + plain.capacity();
        if kept > MAX_KEPT {
            PlainDictionaryScratch::default()
        } else {
            PlainDictionaryScratch { values, plain }
        }
    }

    /// Emits the codes of the `count` values in `page`, in batches and in order, adding new ones.
    pub(crate) fn append(
        &mut self,
        page: &[u8],
        count: usize,
        append: impl FnMut(&[u32]),
    ) -> Result<(), String> {
        let mut rest = page;
        let layout = self.layout;
        let next = || {
            let (value, behind) = layout.split(rest).ok_or("a page of values ends early")?;
            rest = behind;
            Ok(value)
        };
        self.values.intern_each::<false>(count, usize::MAX, next, append).map(drop)
    }

    /// Returns the values in the order of their codes, PLAIN-encoded.
    pub(crate) fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        self.append_plain(&mut plain);
        plain
    }

    /// Returns the values as [`Self::plain`] does, in memory that this dictionary reuses.
    pub(crate) fn as_plain(&mut self) -> &[u8] {
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        self.append_plain(&mut plain);
        self.plain = plain;
        &self.plain
    }

    fn append_plain(&self, plain: &mut Vec<u8>) {
        plain.reserve(self.values.stored_bytes());
        for value in self.values.values() {
            if matches!(self.layout, PlainValueLayout::Prefixed) {
                plain.extend_from_slice(&(value.len() as u32).to_le_bytes());
            }
            plain.extend_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};

    use super::*;

    fn strings() -> ColumnDescPtr {
        let leaf = Type::primitive_type_builder("v", PhysicalType::BYTE_ARRAY).build().unwrap();
        Arc::new(ColumnDescriptor::new(Arc::new(leaf), 0, 0, ColumnPath::new(vec!["v".to_owned()])))
    }

    fn plain<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        let mut count = 0;
        for value in values {
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(value);
            count += 1;
        }
        (bytes, count)
    }

    fn dictionary((page, count): &(Vec<u8>, usize)) -> Result<PlainDictionary, String> {
        PlainDictionary::in_scratch(PlainDictionaryScratch::default(), &strings(), page, *count, 1 << 20)
    }

    fn codes(
        dictionary: &mut PlainDictionary,
        (values, count): &(Vec<u8>, usize),
    ) -> Result<Vec<u32>, String> {
        let mut codes = Vec::new();
        dictionary.append(values, *count, |some| codes.extend_from_slice(some))?;
        Ok(codes)
    }

    #[test]
    fn known_values_keep_their_codes_and_new_ones_follow() {
        let mut dictionary = dictionary(&plain([b"b".as_ref(), b"", b"b", b"aa"])).unwrap();
        let page = plain([b"aa".as_ref(), b"", b"b", b"ab", b"a", b"ab"]);
        assert_eq!(codes(&mut dictionary, &page).unwrap(), [3, 1, 0, 4, 5, 4]);
        assert_eq!(dictionary.plain(), plain([b"b".as_ref(), b"", b"b", b"aa", b"ab", b"a"]).0);
    }

    #[test]
    fn many_values_are_told_apart_while_the_table_grows() {
        let texts: Vec<String> = (0..40_000).map(|number| format!("{}", number * 7 % 30_011)).collect();
        let page = plain(texts.iter().map(String::as_bytes));
        let mut dictionary = dictionary(&plain([])).unwrap();
        let codes = codes(&mut dictionary, &page).unwrap();
        let mut seen: std::collections::HashMap<&str, u32> = std::collections::HashMap::new();

        for (text, code) in texts.iter().zip(&codes) {
            let next = seen.len() as u32;
            assert_eq!(seen.entry(text).or_insert(next), code, "{text}");
        }

        assert_eq!(dictionary.values.len(), seen.len());
    }

    #[test]
    fn values_are_found_after_a_rest() {
        let mut dictionary = dictionary(&plain([b"b".as_ref(), b"", b"b", b"aa"])).unwrap();
        let page = plain([b"aa".as_ref(), b"", b"b", b"ab"]);
        for _ in 0..2 {
            dictionary.values.free_table();
            assert_eq!(codes(&mut dictionary, &page).unwrap(), [3, 1, 0, 4]);
        }
    }

    #[test]
    fn what_others_left_in_the_memory_is_not_found() {
        let texts: Vec<String> = (0..10_000).map(|number| format!("{number}")).collect();
        let mut before = dictionary(&plain(texts.iter().map(String::as_bytes))).unwrap();
        let all = before.plain();
        assert_eq!(before.as_plain(), all);
        let (first, count) = plain([b"8".as_ref(), b"7"]);
        let mut next =
            PlainDictionary::in_scratch(before.into_scratch(), &strings(), &first, count, 5).unwrap();
        let page = plain([b"9".as_ref(), b"7", b"1234", b"8"]);
        assert_eq!(codes(&mut next, &page).unwrap(), [2, 1, 3, 0]);
        assert_eq!(next.as_plain(), plain([b"8".as_ref(), b"7", b"9", b"1234"]).0);
    }

    #[test]
    fn values_that_end_early_are_errors() {
        let whole = plain([b"abc".as_ref()]);
        assert!(codes(&mut dictionary(&plain([])).unwrap(), &(whole.0[..5].to_vec(), 1)).is_err());
        assert!(dictionary(&(whole.0, 2)).is_err());
    }
}
