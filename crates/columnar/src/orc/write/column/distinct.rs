//! Interns the values of a stripe's column; a value's code is its position in the order of arrival.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use crate::kernels::first_bytes::first_bytes;

#[cfg(test)]
thread_local! {
    /// Texts that this thread has hashed.
    pub(super) static HASHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[derive(Default)]
pub(super) struct OrcStringInterner {
    bytes: Vec<u8>,
    /// End offset of each value.
    ends: Vec<usize>,
    codes: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl OrcStringInterner {
    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of all values.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes in memory.
    pub(super) fn memory(&self) -> usize {
        const PER_CODE: usize = size_of::<u32>() + 1;
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>() + self.codes.capacity() * PER_CODE
    }

    /// Returns the value with this code.
    #[inline]
    pub(super) fn value(&self, code: u32) -> &[u8] {
        value(&self.bytes, &self.ends, code)
    }

    /// Returns the code of a value, adding it if it is new.
    #[inline]
    pub(super) fn code(&mut self, text: &[u8]) -> u32 {
        #[cfg(test)]
        HASHED.set(HASHED.get() + 1);
        let Self { bytes, ends, codes, hasher } = self;
        let hash = |text: &[u8]| {
            let mut hasher = hasher.build_hasher();
            hasher.write(text);
            hasher.finish()
        };
        let is_same = |code: &u32| value(bytes, ends, *code) == text;
        match codes.entry(hash(text), is_same, |code| hash(value(bytes, ends, *code))) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => {
                let code = ends.len() as u32;
                place.insert(code);
                bytes.extend_from_slice(text);
                ends.push(bytes.len());
                code
            }
        }
    }

    /// Returns the codes in the order of their values.
    pub(super) fn order(&self) -> Vec<u32> {
        let mut order: Vec<(u64, u32)> =
            (0..self.len() as u32).map(|code| (first_bytes(self.value(code)), code)).collect();
        order.sort_unstable_by(|(start, code), (other_start, other)| {
            start.cmp(other_start).then_with(|| self.value(*code).cmp(self.value(*other)))
        });
        order.into_iter().map(|(_, code)| code).collect()
    }
}

fn value<'a>(bytes: &'a [u8], ends: &[usize], code: u32) -> &'a [u8] {
    let code = code as usize;
    let start = code.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
    let end = ends.get(code).copied().unwrap_or_default();
    bytes.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_one_code_each_and_an_order() {
        let mut distinct = OrcStringInterner::default();
        let texts = ["b", "", "a\0", "a", "longer than eight", "longer than", "b", "a", "a\0\0"];
        let codes: Vec<u32> = texts.iter().map(|text| distinct.code(text.as_bytes())).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 0, 3, 6]);
        let ordered: Vec<&[u8]> = distinct.order().into_iter().map(|code| distinct.value(code)).collect();
        let expected: [&[u8]; 7] = [b"", b"a", b"a\0", b"a\0\0", b"b", b"longer than", b"longer than eight"];
        assert_eq!(ordered, expected);
    }
}
