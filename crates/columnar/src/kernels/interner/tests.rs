//! Tests of the interner against a hash map.

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*};

use super::*;

/// Interner and its model: the code of each value.
#[derive(Default)]
struct CheckedInterner {
    interner: ValueInterner,
    codes: HashMap<Vec<u8>, u32>,
    order: Vec<Vec<u8>>,
}

impl CheckedInterner {
    fn expect(&mut self, value: &[u8]) -> u32 {
        let next = self.order.len() as u32;
        let code = *self.codes.entry(value.to_vec()).or_insert(next);
        if code == next {
            self.order.push(value.to_vec());
        }
        code
    }

    fn intern_each(&mut self, values: &[Vec<u8>]) {
        let expected: Vec<u32> = values.iter().map(|value| self.expect(value)).collect();
        let mut codes = Vec::new();
        let mut next = values.iter();
        let consumed = self.interner.intern_each::<false>(
            values.len(),
            usize::MAX,
            || next.next().map(Vec::as_slice).ok_or_else(|| "no value is left".to_owned()),
            |some| codes.extend_from_slice(some),
        );
        assert_eq!(consumed, Ok(values.len()));
        assert_eq!(codes, expected);
    }

    fn check(&self) {
        let order = &self.order;
        assert_eq!(self.interner.len(), order.len());
        assert!(self.interner.values().eq(order.iter().map(Vec::as_slice)));
        assert!((0..).zip(order).all(|(code, value)| self.interner.value(code) == value.as_slice()));
        assert!(self.interner.value(order.len() as u32).is_empty());

        let bytes: usize = order.iter().map(Vec::len).sum();
        assert_eq!(self.interner.stored_bytes(), bytes);
        let held = bytes + order.len() * size_of::<(u32, u32)>();
        let gaps = order.len() * LINE;
        let memory = self.interner.memory();
        assert!(memory >= held + SMALLEST_TABLE, "{memory}");
        // A table that was just enlarged has fewer than three slots per value.
        assert!(memory <= held + gaps + SMALLEST_TABLE + order.len() * 3 * SLOT, "{memory}");
    }
}

/// Bytes of a slot: a hash and a code.
const SLOT: usize = 2 * size_of::<u32>();
/// Bytes of a table without values.
const SMALLEST_TABLE: usize = 128 * SLOT;

#[derive(Clone, Debug)]
enum InternerOp {
    One(Vec<u8>),
    Batch(Vec<Vec<u8>>),
    FreeTable,
}

fn interner_ops() -> impl Strategy<Value = Vec<InternerOp>> {
    let value = prop_oneof![
        4 => vec(0_u8..3, 0..5),
        2 => vec(any::<u8>(), 8..=8),
        2 => vec(0_u8..2, 60..70),
        1 => vec(any::<u8>(), 120..140),
    ];
    let op = prop_oneof![
        4 => value.clone().prop_map(InternerOp::One),
        4 => vec(value, 0..300).prop_map(InternerOp::Batch),
        1 => Just(InternerOp::FreeTable),
    ];
    vec(op, 0..12)
}

proptest! {
    #[test]
    fn codes_are_those_of_a_hash_map(ops in interner_ops()) {
        let mut checked = CheckedInterner::default();
        for op in ops {
            match op {
                InternerOp::One(value) => {
                    let expected = checked.expect(&value);
                    prop_assert_eq!(checked.interner.intern(&value), Some(expected));
                }
                InternerOp::Batch(values) => checked.intern_each(&values),
                InternerOp::FreeTable => checked.interner.free_table(),
            }
            checked.check();
        }
    }

    #[test]
    fn numbers_are_told_apart_by_their_bits(numbers in vec(prop_oneof![any::<u64>(), 0_u64..40], 0..400)) {
        let mut checked = CheckedInterner::default();
        let bits = |number: &u64| number.to_le_bytes().to_vec();
        checked.intern_each(&numbers.iter().map(bits).collect::<Vec<_>>());
        checked.check();
    }
}

#[test]
fn zeros_and_nans_have_one_code_for_each_bit_pattern() {
    let quiet = f64::from_bits(0x7ff8_0000_0000_0000);
    let payload = f64::from_bits(0x7ff8_0000_0000_0001);
    let floats = [0.0, -0.0, quiet, -quiet, payload, 0.0, quiet, -0.0, payload, f64::INFINITY, -quiet];
    let doubles: Vec<[u8; 8]> = floats.iter().map(|float| float.to_bits().to_le_bytes()).collect();
    let codes = ValueInterner::default().intern_all(doubles.iter().map(<[u8; 8]>::as_slice));
    assert_eq!(codes, Some(vec![0, 1, 2, 3, 4, 0, 2, 1, 4, 5, 3]));
}

#[test]
fn more_values_than_two_bytes_count_are_told_apart_while_the_table_grows() {
    const VALUES: u32 = (1 << 16) + 5_000;
    let mut checked = CheckedInterner::default();
    let numbers = (0..VALUES * 2).map(|row| (row.wrapping_mul(0x9e37_79b9) >> 3) % VALUES);
    let values: Vec<Vec<u8>> = numbers.map(|number| number.to_le_bytes().to_vec()).collect();
    for some in values.chunks(9_999) {
        checked.intern_each(some);
        checked.check();
    }

    let rest: Vec<Vec<u8>> = (0..VALUES).map(|number| number.to_le_bytes().to_vec()).collect();
    checked.intern_each(&rest);
    assert_eq!(checked.order.len(), VALUES as usize);
    checked.check();
}

#[test]
fn a_freed_table_takes_no_memory_and_comes_back() {
    let texts: Vec<Vec<u8>> = (0..1_000).map(|number: u32| number.to_string().into_bytes()).collect();
    let mut checked = CheckedInterner::default();
    checked.intern_each(&texts);
    let before = checked.interner.memory();

    checked.interner.free_table();
    let freed = checked.interner.memory();
    assert_eq!(freed, checked.interner.bytes.len() + texts.len() * 8 + SMALLEST_TABLE);
    checked.intern_each(&texts);
    assert!(freed < checked.interner.memory() && checked.interner.memory() <= before);
}

#[test]
fn a_bound_ends_the_values_after_the_batch_that_exceeds_it() {
    let texts: Vec<Vec<u8>> = (0..1_000).map(|number: u32| format!("{number:010}").into_bytes()).collect();
    let mut interner =
        ValueInterner::in_scratch(InternerScratch::default(), size_of::<u32>(), 0, 0, texts.len());
    let mut intern = |max_bytes: usize, texts: &[Vec<u8>]| {
        let mut next = texts.iter();
        let next = || next.next().map(Vec::as_slice).ok_or_else(|| "no value is left".to_owned());
        let consumed = interner.intern_each::<true>(texts.len(), max_bytes, next, |_| ()).unwrap();
        (consumed, interner.stored_bytes())
    };

    assert_eq!(intern(14 * 200, &texts), (2 * BATCH, 14 * 2 * BATCH));
    assert_eq!(intern(14 * 200, &texts), (0, 14 * 2 * BATCH));
    assert_eq!(intern(usize::MAX, &texts), (1_000, 14_000));
}

#[test]
fn equal_values_that_are_pushed_keep_their_codes_and_the_first_is_found() {
    let mut interner = ValueInterner::default();
    for value in [b"b".as_slice(), b"", b"b", b"aa"] {
        interner.push(value).unwrap();
    }

    interner.free_table();
    interner.push(b"aa").unwrap();
    assert_eq!(interner.len(), 5);
    assert_eq!(["aa", "b", "", "c"].map(|text| interner.intern(text.as_bytes())), [3, 0, 1, 5].map(Some));
}
