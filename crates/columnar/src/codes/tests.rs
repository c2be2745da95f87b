//! Codes packed and unpacked.

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

fn unpacked<T: Code>(data: &[u8], width: u8, count: usize, values: usize) -> Result<Vec<u32>, Reason> {
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
