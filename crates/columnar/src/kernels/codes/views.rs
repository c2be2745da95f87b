//! Casts dictionaries of strings or bytes to views, which point into the buffer of the dictionary's values.

use std::{ptr, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryViewArray, DictionaryArray, StringViewArray, make_view},
    buffer::{Buffer, NullBuffer, ScalarBuffer},
    datatypes::{ArrowDictionaryKeyType, ArrowNativeType, DataType, UInt8Type, UInt16Type, UInt32Type},
};
use parking_lot::Mutex;

/// Length in bytes of the longest value that a view stores inline.
const MAX_INLINE: usize = 12;
/// Maximum values of a dictionary whose views are kept for other rows: at most 4 MiB of views.
const MAX_KEPT: usize = 1 << 18;

/// Views of all values of dictionaries, made once for all rows that share them.
#[derive(Debug, Default)]
pub(crate) struct ViewTables(Mutex<Vec<(ArrayRef, Arc<[u128]>)>>);

impl ViewTables {
    /// Returns the views of a dictionary's values, made by `make` if absent. `None` if `make` returns `None`.
    fn of(&self, values: &ArrayRef, make: impl FnOnce() -> Option<Arc<[u128]>>) -> Option<Arc<[u128]>> {
        let mut tables = self.0.lock();
        if let Some((_, views)) =
            tables.iter().find(|(known, _)| ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(values)))
        {
            return Some(views.clone());
        }

        let views = make()?;
        tables.push((values.clone(), views.clone()));
        Some(views)
    }
}

/// Casts a dictionary array to views of type `to`, without copying long values. `None` for arrays other than
/// dictionaries of strings or bytes without nulls among their values. `tables` holds the views of dictionaries that
/// other rows share.
pub(crate) fn string_views(array: &ArrayRef, to: &DataType, tables: Option<&ViewTables>) -> Option<ArrayRef> {
    if let Some(array) = array.as_dictionary_opt::<UInt8Type>() {
        of_dictionary(array, to, tables)
    } else if let Some(array) = array.as_dictionary_opt::<UInt16Type>() {
        of_dictionary(array, to, tables)
    } else if let Some(array) = array.as_dictionary_opt::<UInt32Type>() {
        of_dictionary(array, to, tables)
    } else {
        None
    }
}

fn of_dictionary<K: ArrowDictionaryKeyType>(
    array: &DictionaryArray<K>,
    to: &DataType,
    tables: Option<&ViewTables>,
) -> Option<ArrayRef> {
    let values = array.values();
    if values.null_count() > 0 {
        return None;
    }

    match (values.data_type(), to) {
        (DataType::Utf8, DataType::Utf8View) => {
            let strings = values.as_string::<i32>();
            views(array, strings.value_offsets(), strings.values(), to, tables)
        }
        (DataType::LargeUtf8, DataType::Utf8View) => {
            let strings = values.as_string::<i64>();
            views(array, strings.value_offsets(), strings.values(), to, tables)
        }
        (DataType::Binary, DataType::BinaryView) => {
            let binary = values.as_binary::<i32>();
            views(array, binary.value_offsets(), binary.values(), to, tables)
        }
        (DataType::LargeBinary, DataType::BinaryView) => {
            let binary = values.as_binary::<i64>();
            views(array, binary.value_offsets(), binary.values(), to, tables)
        }
        _ => None,
    }
}

/// Returns the views of all rows. `offsets` and `bytes` are those of the dictionary's values, whose offsets fit 32
/// bits.
fn views<K: ArrowDictionaryKeyType, O: ArrowNativeType>(
    array: &DictionaryArray<K>,
    offsets: &[O],
    bytes: &Buffer,
    to: &DataType,
    tables: Option<&ViewTables>,
) -> Option<ArrayRef> {
    if bytes.len() > u32::MAX as usize {
        return None;
    }

    let view_of = |value: usize| {
        let start = offsets.get(value)?.as_usize();
        let end = offsets.get(value + 1)?.as_usize();
        Some(make_view(bytes.get(start..end)?, 0, start as u32))
    };

    let keys = array.keys().values();
    let nulls = array.nulls();
    let values = array.values().len();
    let all = || (0..values).map(view_of).collect::<Option<Arc<[u128]>>>();
    let of_values = match tables.filter(|_| values <= MAX_KEPT) {
        Some(tables) => Some(tables.of(array.values(), all)?),
        None if values <= keys.len() => Some(all()?),
        None => None,
    };

    let of_rows: Vec<u128> = match of_values {
        Some(of_values) => views_of_keys(keys, nulls, |key| of_values.get(key.as_usize()).copied())?,
        None => views_of_keys(keys, nulls, |key| view_of(key.as_usize()))?,
    };

    let longest = offsets.last().is_some_and(|end| end.as_usize() > MAX_INLINE);
    let buffers = if longest { vec![bytes.clone()] } else { Vec::new() };
    let of_rows = ScalarBuffer::from(of_rows);
    let nulls = nulls.cloned();

    // Each view is empty, holds its value, or points to a value within the only buffer. Without a buffer, all values
    // together fit inline.
    Some(match to {
        // SAFETY: the views are valid, and values of an array of strings are UTF-8.
        DataType::Utf8View => Arc::new(unsafe { StringViewArray::new_unchecked(of_rows, buffers, nulls) }),
        // SAFETY: the views are valid.
        _ => Arc::new(unsafe { BinaryViewArray::new_unchecked(of_rows, buffers, nulls) }),
    })
}

/// Returns `view_at` of each key, and an empty view for nulls, whose keys are unspecified. `None` if `view_at` returns
/// `None` for a key.
fn views_of_keys<K>(
    keys: &[K],
    nulls: Option<&NullBuffer>,
    view_at: impl Fn(&K) -> Option<u128>,
) -> Option<Vec<u128>> {
    // Collecting into an `Option` would lose the size hint.
    let mut is_whole = true;
    let mut view_or_empty = |key: &K| {
        view_at(key).unwrap_or_else(|| {
            is_whole = false;
            0
        })
    };

    let views: Vec<u128> = match nulls {
        None => keys.iter().map(view_or_empty).collect(),
        Some(nulls) => {
            let valid = keys.iter().zip(nulls);
            valid.map(|(key, is_valid)| if is_valid { view_or_empty(key) } else { 0 }).collect()
        }
    };

    is_whole.then_some(views)
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{LargeBinaryArray, StringArray},
        compute::cast,
    };

    use super::*;
    use crate::kernels::codes::{Codes, DictionaryCode};

    fn coded<T: DictionaryCode>(codes: &[u32], nulls: Option<NullBuffer>, values: ArrayRef) -> ArrayRef {
        let mut of_rows: Codes<T> = Codes::with_capacity(codes.len());
        codes.iter().for_each(|code| of_rows.push(*code));
        of_rows.into_array(nulls, values).unwrap()
    }

    #[test]
    fn views_are_those_of_the_values() {
        let texts = ["", "a", "a value that is longer than a view holds", "\u{e9}"];
        let values: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
        let nulls = || Some(NullBuffer::from(vec![true, true, false, true, true]));
        let tables = ViewTables::default();

        for array in [
            coded::<u8>(&[3, 2, 0, 1, 2], nulls(), values.clone()),
            coded::<u16>(&[2, 2], None, values.clone()),
            coded::<u32>(&[], None, values.slice(0, 0)),
            coded::<u8>(&[3, 2, 0, 1, 2], nulls(), values.clone()).slice(1, 3),
            coded::<u32>(&[1, 0], None, values.slice(1, 2)),
        ] {
            let views = string_views(&array, &DataType::Utf8View, None).unwrap();
            views.to_data().validate_full().unwrap();
            let plain = cast(&array, &DataType::Utf8).unwrap();
            assert_eq!(&cast(&views, &DataType::Utf8).unwrap(), &plain);
            for _ in 0..2 {
                assert_eq!(&string_views(&array, &DataType::Utf8View, Some(&tables)).unwrap(), &views);
            }
        }
    }

    #[test]
    fn bytes_are_views_too_and_no_long_value_is_copied() {
        let long = [7_u8; 100];
        let values: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values([&long[..], b"ab"]));
        let array = coded::<u16>(&[0, 1, 0], None, values.clone());
        let views = string_views(&array, &DataType::BinaryView, None).unwrap();
        let views = views.as_binary_view();
        assert_eq!(views.iter().collect::<Vec<_>>(), [Some(&long[..]), Some(b"ab"), Some(&long[..])]);
        assert_eq!(views.data_buffers()[0].as_ptr(), values.as_binary::<i64>().value_data().as_ptr());
        assert!(string_views(&array, &DataType::Utf8View, None).is_none());
    }
}
