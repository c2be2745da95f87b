//! Top-k rows by a column, without a full sort.

use std::cmp::Ordering;

use arrow::{
    array::{Array, ArrayRef, AsArray, make_comparator},
    compute::SortOptions,
    datatypes::{DataType, Date32Type, Int32Type, Int64Type, TimestampMicrosecondType},
};

use crate::{Result, store::delta::rows::arrow_error};

/// Returns the rows with the greatest or least values, in that order; nulls come last, and equal values keep their
/// order.
pub(crate) fn first_rows(values: &ArrayRef, rows: usize, descending: bool) -> Result<Vec<u32>> {
    let widened: Option<Vec<i64>> = match values.data_type() {
        _ if values.null_count() > 0 => None,
        DataType::Int64 => Some(values.as_primitive::<Int64Type>().values().to_vec()),
        DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, _) => {
            Some(values.as_primitive::<TimestampMicrosecondType>().values().to_vec())
        }
        DataType::Int32 => {
            Some(values.as_primitive::<Int32Type>().values().iter().map(|value| (*value).into()).collect())
        }
        DataType::Date32 => {
            Some(values.as_primitive::<Date32Type>().values().iter().map(|value| (*value).into()).collect())
        }
        _ => None,
    };

    if let Some(values) = widened {
        let keyed = values.into_iter().enumerate().map(|(row, value)| (value, row as u32));
        // The complement reverses the order without overflow.
        let keyed = keyed.map(|(value, row)| (if descending { !value } else { value }, row));
        return Ok(smallest(keyed.collect(), rows, Ord::cmp).into_iter().map(|(_, row)| row).collect());
    }

    let options = SortOptions { descending, nulls_first: false };
    let compare = make_comparator(values, values, options)
        .map_err(|error| arrow_error("rows of a traversal", error))?;
    let all = (0..values.len() as u32).collect();
    Ok(smallest(all, rows, |a, b| compare(*a as usize, *b as usize).then(a.cmp(b))))
}

/// Returns the first `count` in order.
fn smallest<T: Copy>(mut all: Vec<T>, count: usize, compare: impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    if count == 0 {
        return Vec::new();
    }
    if count < all.len() {
        all.select_nth_unstable_by(count - 1, &compare);
        all.truncate(count);
    }
    all.sort_unstable_by(&compare);
    all
}

#[cfg(test)]
mod tests {
    use std::{cmp::Reverse, sync::Arc};

    use arrow::array::{Int64Array, StringArray};

    use super::*;

    #[test]
    fn the_first_rows_are_those_that_a_stable_sort_has_first() {
        let numbers: Vec<i64> =
            (0..1_000).map(|row| row * 7_919 % 97 - 50).chain([i64::MIN, i64::MAX]).collect();
        let array: ArrayRef = Arc::new(Int64Array::from(numbers.clone()));
        for rows in [0, 1, 20, 999, 5_000] {
            let mut sorted: Vec<u32> = (0..numbers.len() as u32).collect();
            sorted.sort_by_key(|row| Reverse(numbers[*row as usize]));
            sorted.truncate(rows);
            assert_eq!(first_rows(&array, rows, true).unwrap(), sorted);
            let mut sorted: Vec<u32> = (0..numbers.len() as u32).collect();
            sorted.sort_by_key(|row| numbers[*row as usize]);
            sorted.truncate(rows);
            assert_eq!(first_rows(&array, rows, false).unwrap(), sorted);
        }
    }

    #[test]
    fn texts_are_ordered_and_nulls_come_last() {
        let array: ArrayRef = Arc::new(StringArray::from(vec![None, Some("b"), Some("c"), Some("b"), None]));
        assert_eq!(first_rows(&array, 4, true).unwrap(), [2, 1, 3, 0]);
        assert_eq!(first_rows(&array, 5, false).unwrap(), [1, 3, 2, 0, 4]);
    }
}
