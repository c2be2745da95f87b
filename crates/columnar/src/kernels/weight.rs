//! Bytes that the rows of an array take, independent of the size of their buffers: a batch may be a small slice of a
//! large table, whose slices all share its buffers.

use arrow::{
    array::{Array, ArrayData, ArrayRef, RecordBatch},
    datatypes::{ArrowNativeType, DataType, UnionMode},
};

/// Bytes that a view stores inline; longer values lie in a buffer.
const INLINE: usize = 12;

/// Returns the size in bytes of all rows of a batch.
pub(crate) fn weight(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(weight_of).sum()
}

/// Returns the size in bytes of all rows of an array.
pub(crate) fn weight_of(array: &ArrayRef) -> usize {
    of(&array.to_data(), true)
}

/// Returns the size in bytes of all rows of a batch, without the dictionaries that they refer to.
pub(crate) fn weight_of_rows(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|array| of(&array.to_data(), false)).sum()
}

fn of(data: &ArrayData, dictionaries: bool) -> usize {
    let rows = data.len();
    let validity = if data.nulls().is_some() { rows / 8 } else { 0 };
    let values = match data.data_type() {
        DataType::Null => 0,
        DataType::Boolean => rows / 8,
        DataType::Utf8 | DataType::Binary => rows * 4 + span::<i32>(data).len(),
        DataType::LargeUtf8 | DataType::LargeBinary => rows * 8 + span::<i64>(data).len(),
        DataType::Utf8View | DataType::BinaryView => rows * 16 + behind_views(data),
        DataType::FixedSizeBinary(size) => rows * (*size).max(0) as usize,
        DataType::List(_) | DataType::Map(..) => {
            rows * 4 + of_children(data, span::<i32>(data), dictionaries)
        }
        DataType::LargeList(_) => rows * 8 + of_children(data, span::<i64>(data), dictionaries),
        DataType::FixedSizeList(_, size) => {
            let size = (*size).max(0) as usize;
            of_children(data, data.offset() * size..(data.offset() + rows) * size, dictionaries)
        }
        DataType::Union(_, UnionMode::Sparse) => {
            rows + of_children(data, data.offset()..data.offset() + rows, dictionaries)
        }
        DataType::Struct(_) => of_children(data, data.offset()..data.offset() + rows, dictionaries),
        DataType::Dictionary(key, _) => {
            // Other rows share the dictionary's values.
            let values = data.child_data().first().filter(|_| dictionaries);
            let part = |values: &ArrayData| of(values, true) * rows.min(values.len()) / values.len().max(1);
            let values = values.map_or(0, part);
            rows * key.primitive_width().unwrap_or(0) + values
        }
        other => match other.primitive_width() {
            Some(width) => rows * width,
            None => data.get_array_memory_size(),
        },
    };

    validity + values
}

/// Returns the range of values that the rows refer to.
fn span<O: ArrowNativeType>(data: &ArrayData) -> std::ops::Range<usize> {
    let offsets = data.buffers().first().map(|buffer| buffer.typed_data::<O>()).unwrap_or_default();
    let at = |row: usize| offsets.get(row).map_or(0, |offset| offset.as_usize());
    at(data.offset())..at(data.offset() + data.len())
}

fn of_children(data: &ArrayData, rows: std::ops::Range<usize>, dictionaries: bool) -> usize {
    let fits = |child: &&ArrayData| rows.end <= child.len() && rows.start <= rows.end;
    data.child_data()
        .iter()
        .filter(fits)
        .map(|child| of(&child.slice(rows.start, rows.len()), dictionaries))
        .sum()
}

fn behind_views(data: &ArrayData) -> usize {
    let views = data.buffers().first().map(|buffer| buffer.typed_data::<u128>()).unwrap_or_default();
    let views = views.get(data.offset()..data.offset() + data.len()).unwrap_or_default();
    views.iter().map(|view| *view as u32 as usize).filter(|length| *length > INLINE).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::*,
        datatypes::{Int32Type, UInt16Type},
    };

    use super::*;

    #[test]
    fn a_part_of_a_large_array_weighs_its_part() {
        let texts: Vec<String> = (0..10_000).map(|row| "x".repeat(row % 50)).collect();
        let lists = (0..10_000).map(|row| Some((0..row % 5).map(Some)));
        let strings: ArrayRef = Arc::new(StringArray::from_iter_values(&texts));
        let arrays: Vec<(ArrayRef, usize)> = vec![
            (Arc::new(Int64Array::from_iter_values(0..10_000)), 8),
            (strings.clone(), 4 + 24),
            (Arc::new(LargeStringArray::from_iter_values(&texts)), 8 + 24),
            (Arc::new(StringViewArray::from_iter_values(&texts)), 16 + 23),
            (Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)), 4 + 8),
            (Arc::new(texts.iter().map(String::as_str).collect::<DictionaryArray<UInt16Type>>()), 2),
            (
                Arc::new(StructArray::from(vec![(
                    Arc::new(arrow::datatypes::Field::new("a", DataType::Utf8, true)),
                    strings,
                )])),
                4 + 24,
            ),
        ];

        for (array, row) in arrays {
            for (start, count) in [(0, 10_000), (5_000, 1_000), (9_950, 50)] {
                let found = weight_of(&array.slice(start, count));
                let wanted = row * count;
                let slack = wanted / 5 + 2_000;
                assert!(found.abs_diff(wanted) <= slack, "{}: {found} for {wanted}", array.data_type());
            }
            assert_eq!(weight_of(&array.slice(7, 0)), 0);
        }
    }
}
