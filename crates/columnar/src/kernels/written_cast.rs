//! Casts to the types of files. A value that does not fit is an error, never null.

use arrow::{
    array::{Array, ArrayData, ArrayRef, PrimitiveArray, make_array},
    compute::cast_with_options,
    datatypes::{DataType, Date64Type},
    error::ArrowError,
};

use crate::kernels::{exact_cast::EXACT, nested_type::contains_type};

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// Casts values to another type. Milliseconds become the days that contain them, before 1970 too.
pub(crate) fn written_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let cast = if has_milliseconds(array.data_type()) {
        of_whole_days(array.to_data()).and_then(|days| cast_with_options(&make_array(days), to, &EXACT))
    } else {
        cast_with_options(array, to, &EXACT)
    };
    cast.map_err(|error| error.to_string())
}

/// Returns `true` if a type is, or contains, a date in milliseconds.
fn has_milliseconds(data_type: &DataType) -> bool {
    contains_type(data_type, |found| *found == DataType::Date64)
}

/// Rounds dates down to the first millisecond of their day: arrow would round towards 1970.
fn of_whole_days(data: ArrayData) -> Result<ArrayData, ArrowError> {
    if *data.data_type() == DataType::Date64 {
        let days = PrimitiveArray::<Date64Type>::from(data).try_unary::<_, Date64Type, _>(|milliseconds| {
            let days = milliseconds.div_euclid(DAY);
            i32::try_from(days).map(|_| days * DAY).map_err(|_| {
                ArrowError::CastError(format!(
                    "{milliseconds} milliseconds since 1970 are more days than fit"
                ))
            })
        });

        return days.map(|days| days.into_data());
    }

    if !has_milliseconds(data.data_type()) {
        return Ok(data);
    }

    let children = data.child_data().iter().cloned().map(of_whole_days);
    let children = children.collect::<Result<Vec<_>, _>>()?;
    data.into_builder().child_data(children).build()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        AsArray, Date32Array, Date64Array, DictionaryArray, Int8Array, ListArray, StructArray,
    };
    use arrow::{buffer::OffsetBuffer, datatypes::Field};

    use super::*;

    #[test]
    fn milliseconds_are_of_the_day_that_they_lie_in() {
        let milliseconds = Date64Array::from(vec![Some(-1), None, Some(-DAY), Some(DAY - 1), Some(DAY)]);
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(-1), None, Some(-1), Some(0), Some(1)]));
        let array: ArrayRef = Arc::new(milliseconds);
        assert_eq!(&written_cast(&array, &DataType::Date32).unwrap(), &days);
        let coded = DictionaryArray::new(Int8Array::from_iter_values(0..5), array.clone());
        let coded: ArrayRef = Arc::new(coded);
        assert_eq!(&written_cast(&coded, &DataType::Date32).unwrap(), &days);
        let nested = |values: &ArrayRef| {
            let field = Arc::new(Field::new("a", values.data_type().clone(), true));
            let rows = StructArray::new(vec![field].into(), vec![values.clone()], None);
            let field = Arc::new(Field::new("element", rows.data_type().clone(), true));
            ListArray::new(field, OffsetBuffer::from_lengths([2, 0, 3]), Arc::new(rows), None).slice(1, 2)
        };

        let given: ArrayRef = Arc::new(nested(&array));
        let expected = nested(&days);
        assert_eq!(written_cast(&given, expected.data_type()).unwrap().as_list::<i32>(), &expected);
        let far: ArrayRef = Arc::new(Date64Array::from(vec![i64::MAX]));
        assert!(written_cast(&far, &DataType::Date32).unwrap_err().contains("more days"));
    }
}
