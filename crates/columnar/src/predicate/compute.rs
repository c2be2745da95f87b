//! Values computed from those of columns: functions of one, arithmetic of two.
//!
//! A computed value is bound and compared like a column, but has no statistics.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float16Array, Float32Array, Float64Array,
        Int64Array, LargeStringArray, new_null_array, timezone::Tz,
    },
    buffer::{NullBuffer, ScalarBuffer},
    compute::cast,
    datatypes::{ArrowNativeType, DataType, Float16Type, Float32Type, Float64Type, GenericStringType, i256},
};
use chrono::{DateTime, Offset, TimeZone};

use super::{
    ArithmeticOp, Function, Literal, Operand, TypeClass,
    civil::{CivilDate, NANOS_PER_DAY, NANOS_PER_SECOND},
    classes::{ComparableInteger, IntegerVisitor, with_whole},
    input::{PredicateInput, unbound},
    like::only,
    tokens::{quoted, refuse},
};
use crate::{Error, Result};

/// Declared precision of computed decimals; their values may use all of 128 bits.
const PRECISION: u8 = 38;
/// Largest number up to which float64 represents every integer.
const EXACT_FLOATS: u128 = 1 << 53;
/// Largest power of ten that float64 represents exactly.
const EXACT_POWER: i16 = 22;

/// A column computed from other columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ComputedColumn {
    /// The operand as the predicate names it.
    pub(super) operand: Operand,
    pub(super) step: ComputeExpr,
    pub(super) data_type: DataType,
}

/// Expression of a computed column. Columns are numbered as those of a leaf.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ComputeExpr {
    /// A function, the index of its column, and the type of the column.
    Call(Function, usize, DataType),
    Arithmetic(ArithmeticSide, ArithmeticOp, ArithmeticSide),
}

/// One side of arithmetic.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ArithmeticSide {
    Column(usize, NumberKind),
    Literal(Literal, NumberKind),
}

/// Representation of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberKind {
    /// Integers in units of 10^-`scale`.
    Exact {
        scale: i8,
    },
    Float,
    /// Only nulls.
    Null,
}

impl NumberKind {
    pub(super) fn of_type(data_type: &DataType) -> Option<Self> {
        match TypeClass::of(data_type) {
            TypeClass::Integer => Some(Self::Exact { scale: 0 }),
            TypeClass::Decimal { scale } => Some(Self::Exact { scale }),
            TypeClass::Float => Some(Self::Float),
            TypeClass::Null => Some(Self::Null),
            _ => None,
        }
    }

    pub(super) fn of_literal(literal: &Literal) -> Option<Self> {
        match literal {
            Literal::Integer(_) => Some(Self::Exact { scale: 0 }),
            Literal::Decimal { scale, .. } => Some(Self::Exact { scale: i8::try_from(*scale).ok()? }),
            Literal::Float(_) => Some(Self::Float),
            _ => None,
        }
    }
}

impl ArithmeticSide {
    fn number(&self) -> NumberKind {
        match self {
            Self::Column(_, number) | Self::Literal(_, number) => *number,
        }
    }
}

impl ComputeExpr {
    /// Returns the columns that the expression reads, to renumber them.
    pub(super) fn inputs_mut(&mut self) -> Vec<&mut usize> {
        match self {
            Self::Call(_, column, _) => vec![column],
            Self::Arithmetic(left, _, right) => [left, right]
                .into_iter()
                .filter_map(|side| match side {
                    ArithmeticSide::Column(column, _) => Some(column),
                    ArithmeticSide::Literal(..) => None,
                })
                .collect(),
        }
    }

    /// Returns the columns that the expression reads.
    pub(super) fn inputs(&self) -> Vec<usize> {
        self.clone().inputs_mut().into_iter().map(|column| *column).collect()
    }

    /// Returns the column that the expression reads, if there is only one.
    pub(super) fn only_input(&self) -> Option<usize> {
        match self.inputs().as_slice() {
            [column] => Some(*column),
            [left, right] if left == right => Some(*left),
            _ => None,
        }
    }

    /// Returns the column of floating-point numbers that is negated: `-x` is `0 - x`, and exact in the type of `x`.
    pub(super) fn negated_float(&self) -> Option<usize> {
        match self {
            Self::Arithmetic(
                ArithmeticSide::Literal(Literal::Integer(0), _),
                ArithmeticOp::Subtract,
                ArithmeticSide::Column(column, NumberKind::Float),
            ) => Some(*column),
            _ => None,
        }
    }

    /// Returns the type of the result. Fails if the columns' types are not supported.
    pub(super) fn data_type(&self, operand: &Operand) -> Result<DataType> {
        let refused =
            |of: &DataType, wanted: &str| refuse(format!("{}: {of} is not {wanted}", quoted(operand)));
        match self {
            Self::Call(_, _, DataType::Null) => Ok(DataType::Null),
            Self::Call(Function::Lower | Function::Upper, _, of) => match TypeClass::of(of) {
                TypeClass::Text => Ok(DataType::LargeUtf8),
                _ => Err(refused(of, "text")),
            },
            Self::Call(Function::Abs, _, of) => match NumberKind::of_type(of) {
                Some(NumberKind::Exact { scale }) => Ok(DataType::Decimal128(PRECISION, scale)),
                Some(_) => Ok(of.clone()),
                None => Err(refused(of, "a number")),
            },
            Self::Call(Function::Year | Function::Month | Function::Day, _, of) => match TypeClass::of(of) {
                TypeClass::Date { .. } | TypeClass::Timestamp { .. } => Ok(DataType::Int64),
                _ => Err(refused(of, "a date or timestamp")),
            },
            Self::Call(Function::IsNan, _, of) => match TypeClass::of(of) {
                TypeClass::Float => Ok(DataType::Boolean),
                _ => Err(refused(of, "a floating-point number")),
            },
            Self::Arithmetic(left, op, right) => match (left.number(), right.number()) {
                (NumberKind::Null, _) | (_, NumberKind::Null) => Ok(DataType::Null),
                (NumberKind::Exact { scale: left }, NumberKind::Exact { scale: right })
                    if *op != ArithmeticOp::Divide =>
                {
                    let scale = match op {
                        ArithmeticOp::Multiply => left.checked_add(right),
                        _ => Some(left.max(right)),
                    };
                    let scale =
                        scale.ok_or_else(|| refuse(format!("{}: too many digits", quoted(operand))))?;
                    Ok(DataType::Decimal128(PRECISION, scale))
                }
                _ => Ok(DataType::Float64),
            },
        }
    }
}

impl ComputedColumn {
    /// Computes the values of rows from these columns.
    pub(super) fn values(
        &self,
        rows: usize,
        column: &dyn Fn(usize) -> Result<PredicateInput>,
    ) -> Result<ArrayRef> {
        let mut inputs = Vec::new();
        for index in self.step.inputs() {
            inputs.push(column(index)?.dense()?);
        }

        let nulls =
            inputs.iter().fold(None, |nulls, input| NullBuffer::union(nulls.as_ref(), input.nulls.as_ref()));
        let all_null = self.data_type == DataType::Null
            || inputs.iter().any(|input| input.array.data_type() == &DataType::Null);
        if all_null {
            return Ok(new_null_array(&self.data_type, rows));
        }

        let mut inputs = inputs.iter().map(|input| &input.array);
        let mut next = || inputs.next().ok_or_else(|| refuse("a column of the filter is missing"));
        match &self.step {
            ComputeExpr::Call(function, _, data_type) => self.call(*function, data_type, next()?, nulls),
            ComputeExpr::Arithmetic(left, op, right) => match self.data_type {
                DataType::Decimal128(_, scale) => {
                    let left = self.exact_operand(left, &mut next, nulls.as_ref())?;
                    let right = self.exact_operand(right, &mut next, nulls.as_ref())?;
                    self.exact(&left, *op, &right, scale, rows, nulls)
                }
                _ => {
                    let left = self.float_operand(left, &mut next)?;
                    let right = self.float_operand(right, &mut next)?;
                    let values = (0..rows).map(|row| float(left.at(row), *op, right.at(row)));
                    let values: ArrayRef = Arc::new(Float64Array::new(values.collect(), nulls));
                    // Only a negated column has fewer bits.
                    cast(&values, &self.data_type).map_err(Error::arrow("negating a column"))
                }
            },
        }
    }

    /// Applies a function to a column of this type.
    fn call(
        &self,
        function: Function,
        data_type: &DataType,
        array: &ArrayRef,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        match function {
            Function::Lower => {
                texts(array, nulls.as_ref(), |letter, text| push(text, letter, letter.to_lowercase()))
            }
            Function::Upper => {
                texts(array, nulls.as_ref(), |letter, text| push(text, letter, letter.to_uppercase()))
            }
            Function::Abs => self.absolute(array, nulls),
            Function::IsNan => {
                let values = floats(array)?;
                Ok(Arc::new(BooleanArray::new(values.iter().map(|value| value.is_nan()).collect(), nulls)))
            }
            Function::Year => date_parts(array, data_type, nulls, |day| i64::try_from(day.year).ok()),
            Function::Month => date_parts(array, data_type, nulls, |day| Some(day.month.into())),
            Function::Day => date_parts(array, data_type, nulls, |day| Some(day.day.into())),
        }
    }

    /// Computes absolute values in the type of [`ComputeExpr::data_type`].
    fn absolute(&self, array: &ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let unbound = || unbound(array);
        Ok(match array.data_type() {
            DataType::Float16 => {
                let values = array.as_primitive_opt::<Float16Type>().ok_or_else(unbound)?.values();
                let positive = |value: &<Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native| {
                    <Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native::from_f64(
                        value.to_f64().abs(),
                    )
                };
                Arc::new(Float16Array::new(values.iter().map(positive).collect(), nulls))
            }
            DataType::Float32 => {
                let values = array.as_primitive_opt::<Float32Type>().ok_or_else(unbound)?.values();
                Arc::new(Float32Array::new(values.iter().map(|value| value.abs()).collect(), nulls))
            }
            DataType::Float64 => {
                let values = array.as_primitive_opt::<Float64Type>().ok_or_else(unbound)?.values();
                Arc::new(Float64Array::new(values.iter().map(|value| value.abs()).collect(), nulls))
            }
            _ => {
                let values = self.exact_values(array, nulls.as_ref())?;
                let values = values.into_iter().map(i128::checked_abs).collect::<Option<Vec<_>>>();
                let values = values.ok_or_else(|| self.overflow())?;
                Arc::new(Decimal128Array::new(values.into(), nulls).with_data_type(self.data_type.clone()))
            }
        })
    }

    /// Computes exact arithmetic on numbers of two scales.
    fn exact(
        &self,
        left: &ArithmeticValues<i128>,
        op: ArithmeticOp,
        right: &ArithmeticValues<i128>,
        scale: i8,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let ComputeExpr::Arithmetic(left_side, _, right_side) = &self.step else {
            return Err(self.overflow());
        };

        let factor = |side: &ArithmeticSide| match (side.number(), op) {
            (
                NumberKind::Exact { scale: own },
                ArithmeticOp::Add | ArithmeticOp::Subtract | ArithmeticOp::Modulo,
            ) => 10_i128.checked_pow(u32::try_from(i16::from(scale) - i16::from(own)).ok()?),
            _ => Some(1),
        };

        let left_factor = factor(left_side).ok_or_else(|| self.overflow())?;
        let right_factor = factor(right_side).ok_or_else(|| self.overflow())?;

        let mut values = vec![0_i128; rows];
        let mut undefined = Vec::new();
        for (row, value) in values.iter_mut().enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }

            let operands = left.at(row).checked_mul(left_factor).zip(right.at(row).checked_mul(right_factor));
            let (left, right) = operands.ok_or_else(|| self.overflow())?;
            let result = match op {
                ArithmeticOp::Add => left.checked_add(right),
                ArithmeticOp::Subtract => left.checked_sub(right),
                ArithmeticOp::Multiply => left.checked_mul(right),
                ArithmeticOp::Divide | ArithmeticOp::Modulo if right == 0 => {
                    undefined.push(row);
                    Some(0)
                }
                // The lowest number divided by -1 overflows; its remainder is 0.
                ArithmeticOp::Divide | ArithmeticOp::Modulo => Some(left.checked_rem(right).unwrap_or(0)),
            };

            *value = result.ok_or_else(|| self.overflow())?;
        }

        let nulls = if undefined.is_empty() {
            nulls
        } else {
            let mut defined = vec![true; rows];
            for row in undefined {
                if let Some(defined) = defined.get_mut(row) {
                    *defined = false;
                }
            }
            NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::from(defined)))
        };

        Ok(Arc::new(Decimal128Array::new(values.into(), nulls).with_data_type(self.data_type.clone())))
    }

    fn exact_operand<'a>(
        &self,
        side: &ArithmeticSide,
        next: &mut impl FnMut() -> Result<&'a ArrayRef>,
        nulls: Option<&NullBuffer>,
    ) -> Result<ArithmeticValues<i128>> {
        match side {
            ArithmeticSide::Column(..) => Ok(ArithmeticValues::Each(self.exact_values(next()?, nulls)?)),
            ArithmeticSide::Literal(
                Literal::Integer(value) | Literal::Decimal { unscaled: value, .. },
                _,
            ) => Ok(ArithmeticValues::One(*value)),
            ArithmeticSide::Literal(literal, _) => {
                Err(refuse(format!("{} is not a number", quoted(literal))))
            }
        }
    }

    /// Returns the values in 128 bits; those of null rows are unspecified.
    fn exact_values(&self, array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<Vec<i128>> {
        struct NarrowToI128<'a>(Option<&'a NullBuffer>);
        impl IntegerVisitor for NarrowToI128<'_> {
            type Output = Option<Vec<i128>>;

            fn with<T: ComparableInteger + ArrowNativeType>(
                self,
                values: &ScalarBuffer<T>,
            ) -> Option<Vec<i128>> {
                let narrow = |(row, value): (usize, &T)| match value.wide().to_i128() {
                    None if self.0.is_some_and(|nulls| nulls.is_null(row)) => Some(0),
                    narrowed => narrowed,
                };
                values.iter().enumerate().map(narrow).collect()
            }
        }

        with_whole(array, NarrowToI128(nulls)).ok_or_else(|| unbound(array))?.ok_or_else(|| self.overflow())
    }

    fn float_operand<'a>(
        &self,
        side: &ArithmeticSide,
        next: &mut impl FnMut() -> Result<&'a ArrayRef>,
    ) -> Result<ArithmeticValues<f64>> {
        match side {
            ArithmeticSide::Column(_, NumberKind::Exact { scale }) => {
                Ok(ArithmeticValues::Each(exact_floats(next()?, *scale)?))
            }
            ArithmeticSide::Column(..) => Ok(ArithmeticValues::Each(floats(next()?)?.to_vec())),
            ArithmeticSide::Literal(Literal::Float(value), _) => Ok(ArithmeticValues::One(*value)),
            ArithmeticSide::Literal(Literal::Integer(value), _) => Ok(ArithmeticValues::One(*value as f64)),
            ArithmeticSide::Literal(Literal::Decimal { unscaled, scale }, _) => {
                Ok(ArithmeticValues::One(nearest(*unscaled, i16::from(*scale))))
            }
            ArithmeticSide::Literal(literal, _) => {
                Err(refuse(format!("{} is not a number", quoted(literal))))
            }
        }
    }

    fn overflow(&self) -> Error {
        refuse(format!("{}: a result has no room in 128 bits", quoted(&self.operand)))
    }
}

/// Values of one side of arithmetic: a literal, or one for each row.
enum ArithmeticValues<T> {
    One(T),
    Each(Vec<T>),
}

impl<T: Copy + Default> ArithmeticValues<T> {
    #[inline(always)]
    fn at(&self, row: usize) -> T {
        match self {
            Self::One(value) => *value,
            Self::Each(values) => values.get(row).copied().unwrap_or_default(),
        }
    }
}

/// Applies an operator to floating-point numbers.
fn float(left: f64, op: ArithmeticOp, right: f64) -> f64 {
    match op {
        ArithmeticOp::Add => left + right,
        ArithmeticOp::Subtract => left - right,
        ArithmeticOp::Multiply => left * right,
        ArithmeticOp::Divide => left / right,
        ArithmeticOp::Modulo => left % right,
    }
}

/// Casts numbers to float64.
fn floats(array: &ArrayRef) -> Result<ScalarBuffer<f64>> {
    let array = cast(array, &DataType::Float64).map_err(Error::arrow("computing with a column"))?;
    array.as_primitive_opt::<Float64Type>().map(|array| array.values().clone()).ok_or_else(|| unbound(&array))
}

/// Converts exact numbers to the nearest floating-point numbers.
fn exact_floats(array: &ArrayRef, scale: i8) -> Result<Vec<f64>> {
    struct NearestFloats(i16);
    impl IntegerVisitor for NearestFloats {
        type Output = Vec<f64>;

        fn with<T: ComparableInteger + ArrowNativeType>(self, values: &ScalarBuffer<T>) -> Vec<f64> {
            let nearest_wide = |value: i256| match value.to_i128() {
                Some(value) => nearest(value, self.0),
                None => parsed(value, self.0),
            };
            values.iter().map(|value| nearest_wide(value.wide())).collect()
        }
    }

    with_whole(array, NearestFloats(i16::from(scale))).ok_or_else(|| unbound(array))
}

/// Returns the floating-point number nearest to `digits` divided by 10^`scale`.
fn nearest(digits: i128, scale: i16) -> f64 {
    match scale {
        0 => digits as f64,
        // Both are exact, so only the division rounds.
        1..=EXACT_POWER if digits.unsigned_abs() <= EXACT_FLOATS => {
            digits as f64 / 10_f64.powi(i32::from(scale))
        }
        _ => parsed(digits, scale),
    }
}

/// Rounds correctly by way of decimal text.
fn parsed(digits: impl std::fmt::Display, scale: i16) -> f64 {
    format!("{digits}e{}", -i32::from(scale)).parse().unwrap_or(f64::NAN)
}

/// Replaces each character of a string.
fn texts(
    array: &ArrayRef,
    nulls: Option<&NullBuffer>,
    replace: impl Fn(char, &mut String),
) -> Result<ArrayRef> {
    let replaced = |text: &str| {
        let mut result = String::with_capacity(text.len());
        text.chars().for_each(|letter| replace(letter, &mut result));
        result
    };

    let is_null = |row| nulls.is_some_and(|nulls| nulls.is_null(row));
    macro_rules! rows {
        ($array:expr) => {{
            let array = $array.ok_or_else(|| unbound(array))?;
            (0..array.len())
                .map(|row| (!is_null(row)).then(|| replaced(array.value(row))))
                .collect::<LargeStringArray>()
        }};
    }
    Ok(Arc::new(match array.data_type() {
        DataType::Utf8 => rows!(array.as_bytes_opt::<GenericStringType<i32>>()),
        DataType::LargeUtf8 => rows!(array.as_bytes_opt::<GenericStringType<i64>>()),
        _ => rows!(array.as_string_view_opt()),
    }))
}

/// Appends the other case of a letter if that is a single character, else the letter itself.
fn push(text: &mut String, letter: char, other: impl Iterator<Item = char>) {
    text.push(only(other).unwrap_or(letter));
}

/// Extracts a part of each value's date, in the column's time zone.
fn date_parts(
    array: &ArrayRef,
    data_type: &DataType,
    nulls: Option<NullBuffer>,
    part: impl Fn(CivilDate) -> Option<i64>,
) -> Result<ArrayRef> {
    let (TypeClass::Date { nanos } | TypeClass::Timestamp { nanos }) = TypeClass::of(array.data_type())
    else {
        return Err(unbound(array));
    };

    let zone = match data_type {
        DataType::Timestamp(_, Some(zone)) if !is_utc(zone) => {
            Some(zone.parse::<Tz>().map_err(|_| unknown_zone(zone))?)
        }
        _ => None,
    };

    let per_day = i64::try_from(NANOS_PER_DAY / nanos).map_err(|_| unbound(array))?;
    let per_second = i64::try_from((NANOS_PER_SECOND / nanos).max(1)).map_err(|_| unbound(array))?;

    let mut last: Option<(i64, i64)> = None;
    let mut values = Vec::with_capacity(array.len());
    for (row, value) in moments(array)?.into_iter().enumerate() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            values.push(0);
            continue;
        }

        let day = match &zone {
            None => value.div_euclid(per_day),
            Some(zone) => local_day(value.div_euclid(per_second), zone)?,
        };

        let found = match last {
            Some((known, found)) if known == day => found,
            _ => part(CivilDate::from_days(day.into())).ok_or_else(|| unbound(array))?,
        };
        last = Some((day, found));
        values.push(found);
    }

    Ok(Arc::new(Int64Array::new(values.into(), nulls)))
}

/// Returns days or timestamps in 64 bits.
fn moments(array: &ArrayRef) -> Result<Vec<i64>> {
    struct NarrowToI64;
    impl IntegerVisitor for NarrowToI64 {
        type Output = Option<Vec<i64>>;

        fn with<T: ComparableInteger + ArrowNativeType>(self, values: &ScalarBuffer<T>) -> Option<Vec<i64>> {
            values.iter().map(|value| i64::try_from(value.wide().to_i128()?).ok()).collect()
        }
    }

    with_whole(array, NarrowToI64).flatten().ok_or_else(|| unbound(array))
}

/// Returns the day, in the zone, of a second since 1970-01-01T00:00:00 UTC.
fn local_day(second: i64, zone: &Tz) -> Result<i64> {
    const SECONDS_PER_DAY: i64 = 86_400;
    let beyond = || refuse("a timestamp is beyond the years for which offsets of time zones are known");
    let utc = DateTime::from_timestamp(second, 0).ok_or_else(beyond)?.naive_utc();
    let offset = zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
    let local = second.checked_add(offset.into()).ok_or_else(beyond)?;
    Ok(local.div_euclid(SECONDS_PER_DAY))
}

fn is_utc(zone: &str) -> bool {
    ["UTC", "Etc/UTC", "GMT", "Z", "+00:00"].contains(&zone)
}

fn unknown_zone(zone: &str) -> Error {
    refuse(format!("{} is not a time zone", quoted(zone)))
}
