//! Encodes intervals in Parquet's format: months, days and milliseconds, four little-endian bytes each.
//!
//! Readers take months and days as signed, and milliseconds as unsigned. The parquet crate writes no intervals with
//! nanoseconds, so all are written as raw bytes, annotated as intervals.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayData, ArrayRef, FixedSizeBinaryArray, IntervalDayTimeArray, IntervalMonthDayNanoArray,
        IntervalYearMonthArray, make_array,
    },
    buffer::{Buffer, NullBuffer},
    datatypes::{DataType, Field, FieldRef, IntervalUnit},
};

/// Bytes of an interval.
const WIDTH: usize = 12;
const WIDTH_OF_TYPE: i32 = WIDTH as i32;
const NANOSECONDS: i64 = 1_000_000;

/// Returns the encoded type, with bytes in place of intervals.
pub(crate) fn as_bytes_type(data_type: &DataType) -> DataType {
    let of = |field: &FieldRef| -> FieldRef {
        Arc::new(Field::clone(field).with_data_type(as_bytes_type(field.data_type())))
    };
    match data_type {
        DataType::Interval(_) => DataType::FixedSizeBinary(WIDTH_OF_TYPE),
        DataType::List(field) => DataType::List(of(field)),
        DataType::LargeList(field) => DataType::LargeList(of(field)),
        DataType::ListView(field) => DataType::ListView(of(field)),
        DataType::LargeListView(field) => DataType::LargeListView(of(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(of(field), *size),
        DataType::Map(entries, is_sorted) => DataType::Map(of(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        other => other.clone(),
    }
}

/// Returns the values, with bytes in place of intervals.
pub(crate) fn as_bytes(array: &ArrayRef) -> Result<ArrayRef, String> {
    let to = as_bytes_type(array.data_type());
    if to == *array.data_type() { Ok(array.clone()) } else { replaced(array.to_data(), to).map(make_array) }
}

fn replaced(data: ArrayData, to: DataType) -> Result<ArrayData, String> {
    if *data.data_type() == to {
        return Ok(data);
    }
    if let DataType::Interval(unit) = data.data_type() {
        let unit = *unit;
        return bytes_of(data, unit);
    }

    let children = data.child_data().iter().cloned().map(|child| {
        let to = as_bytes_type(child.data_type());
        replaced(child, to)
    });
    let children = children.collect::<Result<Vec<_>, _>>()?;
    data.into_builder().data_type(to).child_data(children).build().map_err(|error| error.to_string())
}

fn bytes_of(data: ArrayData, unit: IntervalUnit) -> Result<ArrayData, String> {
    let nulls = data.nulls().cloned();
    let bytes = match unit {
        IntervalUnit::YearMonth => {
            let values = IntervalYearMonthArray::from(data);
            collected(values.values().iter().map(|months| Ok([*months, 0, 0])), nulls.as_ref())
        }
        IntervalUnit::DayTime => {
            let values = IntervalDayTimeArray::from(data);
            let parts = values.values().iter().map(|value| {
                let milliseconds = milliseconds(i64::from(value.milliseconds))?;
                Ok([0, value.days, milliseconds])
            });
            collected(parts, nulls.as_ref())
        }
        IntervalUnit::MonthDayNano => {
            let values = IntervalMonthDayNanoArray::from(data);
            let parts = values.values().iter().map(|value| {
                if value.nanoseconds % NANOSECONDS != 0 {
                    return Err(format!(
                        "an interval with {} ns: Parquet has whole milliseconds only; round it, or cast it to a text",
                        value.nanoseconds
                    ));
                }
                Ok([value.months, value.days, milliseconds(value.nanoseconds / NANOSECONDS)?])
            });

            collected(parts, nulls.as_ref())
        }
    }?;

    let array = FixedSizeBinaryArray::try_new(WIDTH_OF_TYPE, bytes, nulls);
    array.map(|array| array.to_data()).map_err(|error| error.to_string())
}

/// Returns milliseconds as the bits of an unsigned number.
fn milliseconds(milliseconds: i64) -> Result<i32, String> {
    let unsigned = u32::try_from(milliseconds).map_err(|_| {
        format!(
            "an interval with {milliseconds} ms: Parquet has 0 to {} ms beside months and days; cast it to a duration \
             or a text",
            u32::MAX
        )
    })?;
    Ok(unsigned.cast_signed())
}

/// Returns the bytes of all parts; those of nulls are zeros, regardless of the contents of the null slots.
fn collected(
    parts: impl ExactSizeIterator<Item = Result<[i32; 3], String>>,
    nulls: Option<&NullBuffer>,
) -> Result<Buffer, String> {
    let mut bytes = Vec::with_capacity(parts.len() * WIDTH);
    for (row, parts) in parts.enumerate() {
        let is_null = nulls.is_some_and(|nulls| nulls.is_null(row));
        let parts = if is_null { [0; 3] } else { parts? };
        parts.iter().for_each(|part| bytes.extend_from_slice(&part.to_le_bytes()));
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{AsArray, ListArray, StructArray},
        buffer::OffsetBuffer,
        datatypes::{IntervalDayTime, IntervalMonthDayNano},
    };

    use super::*;

    fn parts(array: &ArrayRef) -> Vec<Option<[i32; 3]>> {
        let bytes = as_bytes(array).unwrap();
        let part =
            |bytes: &[u8], at: usize| i32::from_le_bytes(bytes[at * 4..at * 4 + 4].try_into().unwrap());
        bytes
            .as_fixed_size_binary()
            .iter()
            .map(|value| value.map(|bytes| [part(bytes, 0), part(bytes, 1), part(bytes, 2)]))
            .collect()
    }

    #[test]
    fn months_days_and_milliseconds_are_kept() {
        let values = [Some(IntervalMonthDayNano::new(1, 2, 3_000_000)), None];
        let array: ArrayRef = Arc::new(IntervalMonthDayNanoArray::from_iter(values));
        assert_eq!(parts(&array), [Some([1, 2, 3]), None]);
        assert_eq!(parts(&array.slice(1, 1)), [None]);
        let array: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![14, -1]));
        assert_eq!(parts(&array), [Some([14, 0, 0]), Some([-1, 0, 0])]);
        let array: ArrayRef = Arc::new(IntervalDayTimeArray::from(vec![IntervalDayTime::new(-2, 5)]));
        assert_eq!(parts(&array), [Some([0, -2, 5])]);
        let max_nanoseconds = i64::from(u32::MAX) * NANOSECONDS;
        let array = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(0, 0, max_nanoseconds)]);
        assert_eq!(parts(&(Arc::new(array) as ArrayRef)), [Some([0, 0, -1])]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let nanoseconds = |nanoseconds: i64| -> Result<ArrayRef, String> {
            let value = IntervalMonthDayNano::new(0, 0, nanoseconds);
            as_bytes(&(Arc::new(IntervalMonthDayNanoArray::from(vec![value])) as ArrayRef))
        };
        assert!(nanoseconds(1).unwrap_err().contains("whole milliseconds"));
        assert!(nanoseconds(-NANOSECONDS).unwrap_err().contains("-1 ms"));
        assert!(nanoseconds((i64::from(u32::MAX) + 1) * NANOSECONDS).unwrap_err().contains("ms"));
        let negative = IntervalDayTimeArray::from(vec![IntervalDayTime::new(0, -1)]);
        assert!(as_bytes(&(Arc::new(negative) as ArrayRef)).unwrap_err().contains("-1 ms"));
    }

    #[test]
    fn intervals_within_other_values_are_replaced() {
        let months: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![1, 2, 3]));
        let field = Arc::new(Field::new("m", months.data_type().clone(), true));
        let rows: ArrayRef = Arc::new(StructArray::new(vec![field].into(), vec![months], None));
        let field = Arc::new(Field::new("element", rows.data_type().clone(), true));
        let list: ArrayRef = Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([1, 2]), rows, None));
        let bytes = as_bytes(&list.slice(1, 1)).unwrap();
        assert_eq!(bytes.len(), 1);
        let values = bytes.as_list::<i32>().value(0);
        assert_eq!(values.as_struct().column(0).as_fixed_size_binary().value(1)[..4], [3, 0, 0, 0]);
    }
}
