//! Expands dictionary arrays into their values.

use arrow::{
    array::{Array, ArrayRef, AsArray, DictionaryArray, OffsetSizeTrait},
    buffer::NullBuffer,
    compute::{CastOptions, cast, cast_with_options, take},
    datatypes::{ArrowDictionaryKeyType, ArrowNativeType, DataType, UInt8Type, UInt16Type, UInt32Type},
};
use stylobate_storage::Corrupt;

use crate::{Error, Result, kernels::byte_segment::ByteSegment};

/// Expands a dictionary array into its values, row by row.
pub(crate) fn expand(array: &ArrayRef) -> Result<ArrayRef> {
    fn of<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>) -> Result<ArrayRef> {
        match expanded_bytes(array) {
            Some(expanded) => Ok(expanded),
            None => take(array.values(), array.keys(), None).map_err(Error::arrow("a dictionary")),
        }
    }
    if let Some(array) = array.as_dictionary_opt::<UInt8Type>() {
        of(array)
    } else if let Some(array) = array.as_dictionary_opt::<UInt16Type>() {
        of(array)
    } else if let Some(array) = array.as_dictionary_opt::<UInt32Type>() {
        of(array)
    } else {
        let DataType::Dictionary(_, target) = array.data_type() else { return Ok(array.clone()) };
        let exact = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(array, target, &exact).map_err(Error::arrow("a dictionary"))
    }
}

/// Returns the length in bytes of the longest value of a dictionary array; 0 if its values are not strings or bytes.
pub(crate) fn longest_value(array: &ArrayRef) -> usize {
    fn longest<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
        let ends = offsets.get(1..).unwrap_or_default();
        let lengths = offsets.iter().zip(ends).map(|(start, end)| *end - *start);
        lengths.max().map_or(0, |length| length.as_usize())
    }

    let Some(dictionary) = array.as_any_dictionary_opt() else { return 0 };
    let values = dictionary.values();

    match values.data_type() {
        DataType::Utf8 => longest(values.as_string::<i32>().value_offsets()),
        DataType::Binary => longest(values.as_binary::<i32>().value_offsets()),
        DataType::LargeUtf8 => longest(values.as_string::<i64>().value_offsets()),
        DataType::LargeBinary => longest(values.as_binary::<i64>().value_offsets()),
        _ => 0,
    }
}

/// Returns the number of leading rows of a dictionary array that expand to no more than `max` bytes, and at least one.
pub(crate) fn expanded_rows(array: &ArrayRef, max: usize) -> usize {
    let Some(dictionary) = array.as_any_dictionary_opt().filter(|of| !of.values().is_empty()) else {
        return array.len();
    };

    let mut bytes = 0_usize;
    let keys = dictionary.normalized_keys();
    let too_many = keys.iter().position(|key| {
        bytes = bytes.saturating_add(value_length(dictionary.values(), *key));
        bytes > max
    });
    too_many.map_or(array.len(), |row| row.max(1))
}

/// Returns the length in bytes of a string; 0 for other types and missing values.
fn value_length(values: &ArrayRef, at: usize) -> usize {
    fn of<O: OffsetSizeTrait>(offsets: &[O], at: usize) -> usize {
        let ends = offsets.get(at).zip(offsets.get(at + 1));
        ends.map_or(0, |(start, end)| (*end - *start).as_usize())
    }
    match values.data_type() {
        DataType::Utf8 => of(values.as_string::<i32>().value_offsets(), at),
        DataType::Binary => of(values.as_binary::<i32>().value_offsets(), at),
        DataType::LargeUtf8 => of(values.as_string::<i64>().value_offsets(), at),
        DataType::LargeBinary => of(values.as_binary::<i64>().value_offsets(), at),
        _ => 0,
    }
}

/// Expands strings and bytes, several times faster than arrow's `take`, which copies each value by its exact length.
fn expanded_bytes<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>) -> Option<ArrayRef> {
    let values = array.values();
    if values.null_count() > 0 || array.is_empty() {
        return None;
    }

    match values.data_type() {
        DataType::Utf8 => {
            let strings = values.as_string::<i32>();
            expanded(array, strings.value_offsets(), strings.value_data(), &DataType::Utf8)
        }
        DataType::Binary => {
            let binary = values.as_binary::<i32>();
            expanded(array, binary.value_offsets(), binary.value_data(), &DataType::Binary)
        }
        DataType::LargeUtf8 => {
            let strings = values.as_string::<i64>();
            expanded(array, strings.value_offsets(), strings.value_data(), &DataType::Utf8)
        }
        DataType::LargeBinary => {
            let binary = values.as_binary::<i64>();
            expanded(array, binary.value_offsets(), binary.value_data(), &DataType::Binary)
        }
        _ => None,
    }
}

/// Expands rows to strings or bytes with 32-bit offsets, regardless of the offsets of the dictionary's values.
fn expanded<K: ArrowDictionaryKeyType, O: ArrowNativeType>(
    array: &DictionaryArray<K>,
    offsets: &[O],
    bytes: &[u8],
    to: &DataType,
) -> Option<ArrayRef> {
    let keys = array.keys();
    let values = array.values();
    let average = bytes.len() as f64 / values.len().max(1) as f64;
    let mut segment = ByteSegment::with_capacity(keys.len(), (average * keys.len() as f64 * 1.02) as usize);
    segment.mark(keys.nulls().map(NullBuffer::inner), keys.len());
    let lost = || Corrupt::from("a code beyond the dictionary");
    let value = |key: &K::Native| {
        let at = key.as_usize();
        let start = offsets.get(at)?.as_usize();
        let end = offsets.get(at + 1)?.as_usize();
        Some((bytes.get(start..)?, end - start))
    };

    let mut codes = keys.values().iter();
    let mut next = || codes.next().and_then(value).map(Some).ok_or_else(lost);
    let appended = match keys.nulls() {
        None => segment.append(keys.len(), next),
        Some(nulls) => {
            let mut valid = nulls.iter();
            segment.append(keys.len(), || {
                let value = next();
                if valid.next() == Some(true) { value } else { Ok(Some(ByteSegment::NULL)) }
            })
        }
    };

    appended.ok()?;
    let expanded = segment.into_array(to).ok()?;
    // The cast to 64-bit offsets copies the offsets and shares the bytes.
    if values.data_type() == to { Some(expanded) } else { cast(&expanded, values.data_type()).ok() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{array::StringArray, compute::cast};

    use super::*;
    use crate::kernels::codes::Codes;

    #[test]
    fn rows_are_counted_that_expand_to_no_more_bytes() {
        let values: ArrayRef = Arc::new(StringArray::from(vec!["four", ""]));
        let mut codes: Codes<u8> = Codes::with_capacity(4);
        [0, 1, 0, 0].iter().for_each(|code| codes.push(*code));
        let array = codes.into_array(None, values.clone()).unwrap();
        assert_eq!([0, 4, 8, 12].map(|max| expanded_rows(&array, max)), [1, 2, 3, 4]);
        let mut null: Codes<u8> = Codes::with_capacity(1);
        null.push(0);
        let null = null.into_array(Some(NullBuffer::new_null(1)), values.slice(0, 0)).unwrap();
        assert_eq!((expanded_rows(&null, 8), longest_value(&null), longest_value(&array)), (1, 0, 4));
    }

    #[test]
    fn strings_are_expanded_with_their_nulls() {
        let values = ["", "a", "a word that is longer than what is copied at once", "\u{e9}"];
        let values: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
        let mut codes: Codes<u8> = Codes::with_capacity(5);
        [3, 2, 0, 1, 2].iter().for_each(|code| codes.push(*code));
        let nulls = NullBuffer::from(vec![true, true, false, true, true]);
        let array = codes.into_array(Some(nulls), values).unwrap();
        assert_eq!(&expand(&array).unwrap(), &cast(&array, &DataType::Utf8).unwrap());
        assert_eq!([0, 1, 2, 51, 52, 1000].map(|max| expanded_rows(&array, max)), [1, 1, 1, 3, 4, 5]);
        assert_eq!(expand(&array.slice(2, 0)).unwrap().len(), 0);
        assert_eq!(&expand(&array.slice(1, 3)).unwrap(), &cast(&array.slice(1, 3), &DataType::Utf8).unwrap());
    }
}
