//! Comparison of two columns of a row.

use std::cmp::Ordering;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::ScalarBuffer,
    compute::{cast, kernels::cmp},
    datatypes::{ArrowNativeType, DataType, Float64Type, i256},
};

use super::{
    CompareOp, TypeClass,
    classes::{ComparableInteger, IntegerVisitor, with_whole},
    input::{PredicateInput, dense, unbound},
    typing::float_order,
    words::{keep_rows, keep_valid},
};
use crate::{Error, Result};

/// Comparison of two columns by an operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnComparison {
    /// Index of the bound column.
    pub(crate) left: usize,
    pub(crate) op: CompareOp,
    /// Index of the bound column.
    pub(crate) right: usize,
    /// Passes the rows for which the comparison is false.
    pub(crate) negated: bool,
}

impl ColumnComparison {
    /// Returns `true` if the values of both types have a common order.
    pub(super) fn is_comparable(left: &DataType, right: &DataType) -> bool {
        match (TypeClass::of(left), TypeClass::of(right)) {
            (TypeClass::Other, _) | (_, TypeClass::Other) => false,
            // Decimals of scale 0 and at most 128 bits compare with floating-point numbers as integers do.
            (TypeClass::Decimal { scale: 0 }, TypeClass::Float) => !matches!(left, DataType::Decimal256(..)),
            (TypeClass::Float, TypeClass::Decimal { scale: 0 }) => !matches!(right, DataType::Decimal256(..)),
            (TypeClass::Integer, TypeClass::Decimal { .. } | TypeClass::Float) => true,
            (TypeClass::Decimal { .. } | TypeClass::Float, TypeClass::Integer) => true,
            (TypeClass::Decimal { .. }, TypeClass::Decimal { .. }) => true,
            (
                TypeClass::Date { .. } | TypeClass::Timestamp { .. },
                TypeClass::Date { .. } | TypeClass::Timestamp { .. },
            ) => true,
            (TypeClass::Time { .. }, TypeClass::Time { .. }) => true,
            (TypeClass::Duration { .. }, TypeClass::Duration { .. }) => true,
            (left, right) => left == right,
        }
    }

    /// Clears the rows for which the comparison is not true.
    pub(super) fn keep(
        &self,
        left: &PredicateInput,
        right: &PredicateInput,
        words: &mut [u64],
    ) -> Result<()> {
        keep_valid(words, left.nulls.as_ref());
        keep_valid(words, right.nulls.as_ref());
        if is_coded_text(&left.array, &right.array) {
            return self.keep_coded_text(&left.array, &right.array, words);
        }

        let left = dense(&left.array)?;
        let right = dense(&right.array)?;
        if left.data_type() == &DataType::Null || right.data_type() == &DataType::Null {
            words.fill(0);
            return Ok(());
        }

        keep_valid(words, left.logical_nulls().as_ref());
        keep_valid(words, right.logical_nulls().as_ref());
        let passes = |order: Option<Ordering>| match order {
            Some(order) => self.op.holds(order) != self.negated,
            // NaN equals nothing, not even itself.
            None => (self.op == CompareOp::NotEqual) != self.negated,
        };

        match (TypeClass::of(left.data_type()), TypeClass::of(right.data_type())) {
            (TypeClass::Float, TypeClass::Float) => {
                let left = floats(&left)?;
                let right = floats(&right)?;
                keep_rows(words, |row| passes(at(&left, row).partial_cmp(&at(&right, row))));
            }
            (TypeClass::Float, _) => {
                let left = floats(&left)?;
                let right = wholes(&right)?;
                let order =
                    |row| float_order(at(&right, row).as_i128(), at(&left, row)).map(Ordering::reverse);
                keep_rows(words, |row| passes(order(row)));
            }
            (_, TypeClass::Float) => {
                let left = wholes(&left)?;
                let right = floats(&right)?;
                keep_rows(words, |row| passes(float_order(at(&left, row).as_i128(), at(&right, row))));
            }
            _ if left.data_type() == right.data_type() => self.keep_equal_types(&left, &right, words)?,
            (TypeClass::Text | TypeClass::Bytes, _) => {
                let to = DataType::LargeBinary;
                let context = || Error::arrow("comparing two columns");
                let left = cast(&left, &to).map_err(context())?;
                let right = cast(&right, &to).map_err(context())?;
                self.keep_equal_types(&left, &right, words)?;
            }
            (left_class, right_class) => {
                let (left_factor, right_factor) = factors(left_class, right_class);
                let left = wholes(&left)?;
                let right = wholes(&right)?;
                let order = |row| scaled_order(at(&left, row), left_factor, at(&right, row), right_factor);
                keep_rows(words, |row| passes(Some(order(row))));
            }
        }

        Ok(())
    }

    /// Compares strings or bytes of dictionaries without expanding them: rows of one long value may exceed any array.
    fn keep_coded_text(&self, left: &ArrayRef, right: &ArrayRef, words: &mut [u64]) -> Result<()> {
        keep_valid(words, left.logical_nulls().as_ref());
        keep_valid(words, right.logical_nulls().as_ref());
        if value_type(left.data_type()) == value_type(right.data_type()) {
            return self.keep_equal_types(left, right, words);
        }
        self.keep_equal_types(&with_views(left)?, &with_views(right)?, words)
    }

    fn keep_equal_types(&self, left: &ArrayRef, right: &ArrayRef, words: &mut [u64]) -> Result<()> {
        let compare = match self.op {
            CompareOp::Equal => cmp::eq,
            CompareOp::NotEqual => cmp::neq,
            CompareOp::Less => cmp::lt,
            CompareOp::LessOrEqual => cmp::lt_eq,
            CompareOp::Greater => cmp::gt,
            CompareOp::GreaterOrEqual => cmp::gt_eq,
        };

        let passing = compare(left, right).map_err(Error::arrow("comparing two columns"))?;
        let flip = if self.negated { u64::MAX } else { 0 };
        for (word, bits) in words.iter_mut().zip(passing.values().bit_chunks().iter_padded()) {
            *word &= bits ^ flip;
        }

        Ok(())
    }
}

/// Returns whether both columns are strings or bytes of any length, and at least one is a dictionary.
fn is_coded_text(left: &ArrayRef, right: &ArrayRef) -> bool {
    let types = [left.data_type(), right.data_type()];
    let is_text = |data_type: &DataType| data_type.is_string() || data_type.is_binary();
    types.iter().all(|data_type| is_text(value_type(data_type)))
        && types.iter().any(|data_type| matches!(data_type, DataType::Dictionary(..)))
}

/// Returns the type of the values: that of a dictionary's values, or the type itself.
fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Returns strings or bytes as views, which share the long values; those of a dictionary remain its values.
fn with_views(array: &ArrayRef) -> Result<ArrayRef> {
    let viewed =
        |array: &ArrayRef| cast(array, &DataType::BinaryView).map_err(Error::arrow("comparing two columns"));

    match array.as_any_dictionary_opt() {
        Some(dictionary) => Ok(dictionary.with_values(viewed(dictionary.values())?)),
        None => viewed(array),
    }
}

fn floats(array: &ArrayRef) -> Result<ScalarBuffer<f64>> {
    let array = cast(array, &DataType::Float64).map_err(Error::arrow("comparing two columns"))?;
    array.as_primitive_opt::<Float64Type>().map(|array| array.values().clone()).ok_or_else(|| unbound(&array))
}

fn wholes(array: &ArrayRef) -> Result<Vec<i256>> {
    struct WidenValues;
    impl IntegerVisitor for WidenValues {
        type Output = Vec<i256>;

        fn with<T: ComparableInteger + ArrowNativeType>(self, values: &ScalarBuffer<T>) -> Vec<i256> {
            values.iter().map(|value| value.wide()).collect()
        }
    }

    with_whole(array, WidenValues).ok_or_else(|| unbound(array))
}

fn at<T: Copy + Default>(values: &[T], row: usize) -> T {
    values.get(row).copied().unwrap_or_default()
}

/// Returns the factors that convert the values of two classes to a common unit.
fn factors(left: TypeClass, right: TypeClass) -> (i256, i256) {
    let power = |exponent: i16| {
        let exponent = u32::try_from(exponent).unwrap_or(0);
        i256::from_i128(10).checked_pow(exponent).unwrap_or(i256::MAX)
    };

    let scale = |class| match class {
        TypeClass::Decimal { scale } => i16::from(scale),
        _ => 0,
    };
    match (left, right) {
        (
            TypeClass::Date { nanos: left }
            | TypeClass::Time { nanos: left }
            | TypeClass::Timestamp { nanos: left }
            | TypeClass::Duration { nanos: left },
            TypeClass::Date { nanos: right }
            | TypeClass::Time { nanos: right }
            | TypeClass::Timestamp { nanos: right }
            | TypeClass::Duration { nanos: right },
        ) => (i256::from_i128(left), i256::from_i128(right)),
        _ => {
            let left = scale(left);
            let right = scale(right);
            (power(right - left), power(left - right))
        }
    }
}

/// Compares two products.
fn scaled_order(left: i256, left_factor: i256, right: i256, right_factor: i256) -> Ordering {
    match (left.checked_mul(left_factor), right.checked_mul(right_factor)) {
        (Some(left), Some(right)) => left.cmp(&right),
        // At most one factor is not 1: a product that overflows is the larger in magnitude, so its sign decides.
        (None, _) => left.cmp(&i256::ZERO),
        (_, None) => i256::ZERO.cmp(&right),
    }
}
