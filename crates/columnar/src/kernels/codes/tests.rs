//! Tests of packing and unpacking codes.

use arrow::array::StringArray;
use proptest::prelude::*;

use super::*;

fn pack(values: &[u32], width: u8) -> Vec<u8> {
    let mut bytes = vec![0; (values.len() * usize::from(width)).div_ceil(8)];
    for (index, value) in values.iter().enumerate() {
        for bit in 0..usize::from(width) {
            let at = index * usize::from(width) + bit;
            bytes[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
        }
    }
    bytes
}

fn hybrid(values: &[u32], width: u8) -> Vec<u8> {
    let mut header = (values.len().div_ceil(8) as u32) << 1 | 1;
    let mut bytes = Vec::new();
    while header >= 0x80 {
        bytes.push(header as u8 | 0x80);
        header >>= 7;
    }
    bytes.push(header as u8);
    bytes.extend(pack(values, width));

    bytes
}

fn unpacked<T: DictionaryCode>(
    data: &[u8],
    width: u8,
    count: usize,
    values: usize,
) -> Result<Vec<u32>, Corrupt> {
    let mut codes: Codes<T> = Codes::with_capacity(0);
    append_hybrid(data, width, count, values, &mut codes)?;
    Ok(codes.codes.iter().map(|code| code.as_usize() as u32).collect())
}

proptest! {
    #[test]
    fn what_was_packed_is_unpacked(width in 1_u8..=32, values in prop::collection::vec(any::<u32>(), 1..300)) {
        let mask = ((1_u64 << width) - 1) as u32;
        let values: Vec<u32> = values.iter().map(|value| value & mask).collect();
        let limit = values.iter().copied().max().unwrap_or(0) as usize + 1;
        let data = hybrid(&values, width);
        let count = values.len();
        let unpacked_values = unpacked::<u32>(&data, width, count, limit);
        prop_assert_eq!(unpacked_values.as_ref(), Ok(&values));
        if limit <= 65_536 {
            let unpacked_values = unpacked::<u16>(&data, width, count, limit);
            prop_assert_eq!(unpacked_values.as_ref(), Ok(&values));
        }
        if limit <= 256 {
            let unpacked_values = unpacked::<u8>(&data, width, count, limit);
            prop_assert_eq!(unpacked_values.as_ref(), Ok(&values));
        }
        prop_assert!(unpacked::<u32>(&data, width, count, limit - 1).is_err());
    }

    #[test]
    fn any_bytes_are_codes_or_an_error(
        data in prop::collection::vec(any::<u8>(), 0..200), width in 0_u8..=40, count in 0_usize..5000,
    ) {
        if let Ok(codes) = unpacked::<u8>(&data, width, count, 200) {
            prop_assert_eq!(codes.len(), count);
            prop_assert!(codes.iter().all(|code| *code < 200));
        }
    }
}

/// Appends a valid page to codes, then one that is invalid in some way.
fn after_a_wrong_page<T: DictionaryCode>(data: &[u8], width: u8, count: usize, values: usize) -> Codes<T> {
    let mut codes: Codes<T> = Codes::with_capacity(0);
    append_hybrid(&hybrid(&[1, 0, 1], 1), 1, 3, 2, &mut codes).unwrap();
    append_hybrid(data, width, count, values, &mut codes).unwrap_err();
    codes
}

#[test]
fn codes_of_a_page_that_is_wrong_are_not_there_afterwards() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let good = [1, 0, 1];

    // Enough for whole vectors of each type, and a rest that is unpacked one by one.
    for rows in [8, 9, 40, 77] {
        let all_beyond = hybrid(&vec![7; rows], 3);
        let mut last_beyond = vec![1; rows];
        last_beyond[rows - 1] = 5;
        let last_beyond = hybrid(&last_beyond, 3);
        // A valid run, then a packed one that is invalid, then one that ends early.
        let late = [&[4 << 1, 1][..], &all_beyond].concat();
        let short = [&[4 << 1, 1][..], &all_beyond[..2]].concat();

        for page in [all_beyond, last_beyond, late, short] {
            let narrow = after_a_wrong_page::<u8>(&page, 3, rows, 2);
            assert_eq!(narrow.codes, good);
            let keys = narrow.into_array(None, values.clone()).unwrap();
            assert_eq!(keys.as_dictionary::<UInt8Type>().keys().values().as_ref(), [1, 0, 1]);
            assert_eq!(after_a_wrong_page::<u16>(&page, 3, rows, 2).codes, [1, 0, 1]);
            assert_eq!(after_a_wrong_page::<u32>(&page, 3, rows, 2).codes, [1, 0, 1]);
        }
    }
}

#[test]
fn codes_that_are_used_again_after_a_wrong_page_are_those_of_the_next() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let mut present = after_a_wrong_page::<u8>(&hybrid(&[200; 64], 8), 8, 64, 2);
    present.clear();
    append_hybrid(&hybrid(&[0, 1], 1), 1, 2, 2, &mut present).unwrap();
    let valid = BooleanBuffer::from(vec![true, false, true]);
    let mut codes: Codes<u8> = Codes::with_capacity(0);
    codes.append_scattered(&present, &valid);
    let array = codes.into_array(Some(NullBuffer::new(valid)), values).unwrap();
    assert_eq!(array.as_dictionary::<UInt8Type>().keys().values().as_ref(), [0, 0, 1]);
}

#[test]
fn a_panic_leaves_no_unchecked_code() {
    let mut codes: Codes<u8> = Codes::with_capacity(0);
    codes.push(1);
    let appended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        codes.append_checked(2, |out| {
            out.extend([9; 100]);
            panic!("half-way")
        })
    }));

    assert!(appended.is_err());
    assert_eq!((codes.codes.as_slice(), codes.limit), (&[1][..], 2));
}

#[test]
fn a_code_that_is_wider_than_its_type_is_an_error() {
    let data = hybrid(&[256, 0], 9);
    assert!(unpacked::<u8>(&data, 9, 2, 300).is_err());
    assert_eq!(unpacked::<u16>(&data, 9, 2, 300), Ok(vec![256, 0]));
}

#[test]
fn a_dictionary_is_widened_and_never_narrowed() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let codes = |all: &[u32]| {
        let mut codes: Codes<u8> = Codes::with_capacity(0);
        all.iter().for_each(|code| codes.push(*code));
        codes
    };
    let narrow = codes(&[0, 1, 1]).into_array(None, values.clone()).unwrap();
    let wide = widened(&narrow, CodeWidth::U32).unwrap();
    assert_eq!(wide.as_dictionary::<UInt32Type>().keys().values().as_ref(), [0, 1, 1]);
    assert!(widened(&wide, CodeWidth::U16).is_none());
    assert!(codes(&[2]).into_array(None, values.clone()).is_err());
    assert!(codes(&[2]).into_array(Some(NullBuffer::new_null(1)), values).is_ok());
}
