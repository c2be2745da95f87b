//! Identity of arrays: results computed from one hold for the other.

use arrow::array::{Array, ArrayRef};

/// Returns `true` if two arrays are the same, or lie in the same memory.
pub(crate) fn is_same(a: &ArrayRef, b: &ArrayRef) -> bool {
    a.len() == b.len() && (std::ptr::addr_eq(a.as_ref(), b.as_ref()) || a.to_data().ptr_eq(&b.to_data()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, make_array};

    use super::*;

    #[test]
    fn arrays_are_one_where_they_lie_in_the_same_memory() {
        let array: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let equal: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        assert!(is_same(&array, &array.clone()) && is_same(&array, &make_array(array.to_data())));
        assert!(!is_same(&array, &equal));
        assert!(!is_same(&array, &array.slice(0, 2)) && !is_same(&array.slice(0, 2), &array.slice(1, 2)));
    }
}
