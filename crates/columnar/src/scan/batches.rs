//! Batches as they come out: rows that pass the filter, in the types that were promised.

use arrow::{
    array::{
        Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, RecordBatchOptions, UInt32Array,
        new_null_array,
    },
    buffer::{BooleanBuffer, NullBuffer},
    compute::{cast_with_options, filter, take},
    datatypes::{
        ArrowDictionaryKeyType, ArrowNativeType, DataType, SchemaRef, UInt8Type, UInt16Type, UInt32Type,
    },
};

use crate::{
    Error, Result,
    byte_segment::ByteSegment,
    codes::{self, CodeWidth, Codes},
    table::{EXACT, Output},
};

/// A batch of the rows of `columns` that `keep` has, all if there is none.
pub(super) fn batch(
    schema: &SchemaRef,
    outputs: &[Output],
    columns: &[ArrayRef],
    rows: usize,
    keep: Option<&BooleanBuffer>,
) -> Result<RecordBatch> {
    let kept = keep.map_or(rows, BooleanBuffer::count_set_bits);
    let mask = keep.filter(|_| kept < rows).map(|keep| keep.clone().into());
    let arrays = columns.iter().zip(outputs).map(|(column, output)| {
        let context = || format!("column {}", output.field.name());
        let column = match &mask {
            None => column.clone(),
            Some(mask) => filter(column, mask).map_err(Error::arrow(context()))?,
        };
        as_type(column, output.field.data_type()).map_err(|error| match error {
            Error::Arrow { source, .. } => Error::Arrow { context: context(), source },
            other => other,
        })
    });
    let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(kept));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(Error::arrow("a batch"))
}

/// As many rows of one value.
pub(super) fn repeated(value: &ArrayRef, rows: usize, target: &DataType) -> Result<ArrayRef> {
    if value.is_null(0) {
        return Ok(new_null_array(target, rows));
    }
    if let DataType::Dictionary(key, _) = target
        && **key == DataType::UInt16
    {
        let mut codes: Codes<u16> = Codes::with_capacity(rows);
        (0..rows).for_each(|_| codes.push(0));
        return codes
            .into_array(None, value.clone())
            .map_err(|reason| Error::Ended { reason: reason.to_owned() });
    }
    let zeros = UInt32Array::from(vec![0_u32; rows]);
    as_type(take(value, &zeros, None).map_err(Error::arrow("a value of a path"))?, target)
}

/// The rows in another type: with wider codes, with fewer values than codes can tell apart, or without a dictionary.
fn as_type(array: ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(array);
    }
    if let (DataType::Dictionary(_, from), DataType::Dictionary(key, to)) = (array.data_type(), target)
        && from == to
    {
        let width = match key.as_ref() {
            DataType::UInt8 => Some(CodeWidth::U8),
            DataType::UInt16 => Some(CodeWidth::U16),
            DataType::UInt32 => Some(CodeWidth::U32),
            _ => None,
        };
        if let Some(wide) = width.and_then(|width| codes::widened(&array, width)) {
            return Ok(wide);
        }
        if let Some(codes) = array.as_dictionary_opt::<UInt32Type>().filter(|_| width == Some(CodeWidth::U16))
        {
            return compact(codes);
        }
    }
    if let (DataType::Dictionary(_, from), false) =
        (array.data_type(), matches!(target, DataType::Dictionary(..)))
        && **from == *target
    {
        return expand(&array);
    }
    cast_with_options(&array, target, &EXACT).map_err(Error::arrow("a cast"))
}

/// The values one by one.
fn expand(array: &ArrayRef) -> Result<ArrayRef> {
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
        let target = crate::table::value_type(array.data_type());
        cast_with_options(array, target, &EXACT).map_err(Error::arrow("a dictionary"))
    }
}

/// Strings and bytes one by one: several times faster than by a general way, which asks of each how long it is.
fn expanded_bytes<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>) -> Option<ArrayRef> {
    let (keys, values) = (array.keys(), array.values());
    let (offsets, bytes) = match values.data_type() {
        DataType::Utf8 => {
            let strings = values.as_string::<i32>();
            (strings.value_offsets(), strings.value_data())
        }
        DataType::Binary => {
            let binary = values.as_binary::<i32>();
            (binary.value_offsets(), binary.value_data())
        }
        _ => return None,
    };
    if values.null_count() > 0 || keys.is_empty() {
        return None;
    }
    let average = bytes.len() as f64 / values.len().max(1) as f64;
    let mut segment = ByteSegment::with_capacity(keys.len(), (average * keys.len() as f64 * 1.02) as usize);
    segment.mark(keys.nulls().map(NullBuffer::inner), keys.len());
    let lost = || "a code beyond the dictionary".to_owned();
    let value = |key: &K::Native| {
        let at = key.as_usize();
        let (start, end) = (*offsets.get(at)? as usize, *offsets.get(at + 1)? as usize);
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
    segment.into_array(values.data_type()).ok()
}

/// The same rows over a dictionary of those values only that occur in them: at most as many as there are rows, which
/// two bytes tell apart.
fn compact(array: &DictionaryArray<UInt32Type>) -> Result<ArrayRef> {
    const ABSENT: u32 = u32::MAX;
    let keys = array.keys();
    let mut place = vec![ABSENT; array.values().len()];
    let mut occurring: Vec<u32> = Vec::new();
    let mut compact: Codes<u16> = Codes::with_capacity(keys.len());
    for (row, code) in keys.values().iter().enumerate() {
        compact.push(match place.get_mut(*code as usize).filter(|_| keys.is_valid(row)) {
            None => 0,
            Some(place) => {
                if *place == ABSENT {
                    *place = occurring.len() as u32;
                    occurring.push(*code);
                }
                *place
            }
        });
    }
    let values =
        take(array.values(), &UInt32Array::from(occurring), None).map_err(Error::arrow("a dictionary"))?;
    let compact = compact.into_array(keys.nulls().cloned(), values);
    compact.map_err(|reason| Error::Ended { reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{array::StringArray, compute::cast};

    use super::*;

    #[test]
    fn a_large_dictionary_is_compacted_to_what_a_batch_holds() {
        let values: ArrayRef = Arc::new((0..100_000).map(|i| Some(format!("v{i}"))).collect::<StringArray>());
        let mut codes: Codes<u32> = Codes::with_capacity(5);
        [99_999, 7, 7, 0, 70_000].iter().for_each(|code| codes.push(*code));
        let nulls = NullBuffer::from(vec![true, true, true, false, true]);
        let wide = codes.into_array(Some(nulls), values).unwrap();
        let key = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
        let narrow = as_type(wide.clone(), &key).unwrap();
        assert_eq!(narrow.as_dictionary::<UInt16Type>().values().len(), 3);
        assert_eq!(&cast(&narrow, &DataType::Utf8).unwrap(), &cast(&wide, &DataType::Utf8).unwrap());
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
        assert_eq!(expand(&array.slice(2, 0)).unwrap().len(), 0);
        assert_eq!(&expand(&array.slice(1, 3)).unwrap(), &cast(&array.slice(1, 3), &DataType::Utf8).unwrap());
    }

    #[test]
    fn one_value_is_repeated_as_a_dictionary() {
        let value: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let key = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
        let rows = repeated(&value, 3, &key).unwrap();
        assert_eq!((rows.len(), rows.as_dictionary::<UInt16Type>().values().len()), (3, 1));
        assert_eq!(repeated(&new_null_array(&DataType::Utf8, 1), 2, &key).unwrap().null_count(), 2);
    }
}
