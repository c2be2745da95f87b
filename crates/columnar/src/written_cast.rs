//! Values in the type that a file has for them: one that does not fit is an error, never null.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::cast_with_options,
    datatypes::{DataType, Date32Type, Date64Type},
    error::ArrowError,
};

use crate::exact_cast::EXACT;

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// The same values in another type. Milliseconds become the days that they lie in, before 1970 too.
pub(crate) fn written_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let has_milliseconds = match array.data_type() {
        DataType::Date64 => true,
        DataType::Dictionary(_, values) => **values == DataType::Date64,
        DataType::RunEndEncoded(_, values) => *values.data_type() == DataType::Date64,
        _ => false,
    };
    let cast = match has_milliseconds && *to == DataType::Date32 {
        true => cast_with_options(array, &DataType::Date64, &EXACT).and_then(|array| days(&array)),
        false => cast_with_options(array, to, &EXACT),
    };
    cast.map_err(|error| error.to_string())
}

fn days(milliseconds: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let days = milliseconds.as_primitive::<Date64Type>().try_unary::<_, Date32Type, _>(|milliseconds| {
        i32::try_from(milliseconds.div_euclid(DAY)).map_err(|_| {
            ArrowError::CastError(format!("{milliseconds} milliseconds since 1970 are more days than fit"))
        })
    });
    Ok(Arc::new(days?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Date64Array, DictionaryArray, Int8Array};

    use super::*;

    #[test]
    fn milliseconds_are_of_the_day_that_they_lie_in() {
        let milliseconds = Date64Array::from(vec![Some(-1), None, Some(-DAY), Some(DAY - 1), Some(DAY)]);
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(-1), None, Some(-1), Some(0), Some(1)]));
        let array: ArrayRef = Arc::new(milliseconds);
        assert_eq!(&written_cast(&array, &DataType::Date32).unwrap(), &days);
        let coded = DictionaryArray::new(Int8Array::from_iter_values(0..5), array);
        let coded: ArrayRef = Arc::new(coded);
        assert_eq!(&written_cast(&coded, &DataType::Date32).unwrap(), &days);
        let far: ArrayRef = Arc::new(Date64Array::from(vec![i64::MAX]));
        assert!(written_cast(&far, &DataType::Date32).unwrap_err().contains("more days"));
    }
}
