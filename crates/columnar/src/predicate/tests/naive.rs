//! Evaluates predicates row by row, in three-valued logic, as slowly and as plainly as possible.

use std::cmp::Ordering;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type,
        Int32Type, Int64Type, Time32SecondType, TimestampMicrosecondType, UInt8Type, UInt64Type, i256,
    },
};

use super::{super::civil, PredicateSample, dense_columns};
use crate::{CompareOp, Literal, Operand, Predicate};

/// A value, independent of its type.
#[derive(Clone, Debug)]
enum NaiveValue {
    Null,
    Boolean(bool),
    /// Unscaled digits and scale.
    Exact(i256, i32),
    /// The value, and the width in bits of its column.
    Float(f64, u8),
    Bytes(Vec<u8>),
    Nanos(i128),
}

/// Returns whether the predicate is true, false or unknown for a row.
pub(crate) fn holds(predicate: &Predicate, sample: &PredicateSample, row: usize) -> Option<bool> {
    let text = |column: &Operand| match value(sample, column, row) {
        NaiveValue::Null => None,
        NaiveValue::Bytes(bytes) => Some(bytes),
        other => panic!("{other:?} is no text"),
    };
    match predicate {
        Predicate::Constant(value) => Some(*value),
        Predicate::Compare(column, op, literal) => compare(sample, column, row, *op, literal),
        Predicate::CompareColumns(left, op, right) => {
            let left = value(sample, left, row);
            let right = value(sample, right, row);
            if matches!(left, NaiveValue::Null) || matches!(right, NaiveValue::Null) {
                return None;
            }
            Some(order(&left, &right).map_or(*op == CompareOp::NotEqual, |order| op.holds(order)))
        }
        Predicate::In(column, literals) => {
            let equal =
                literals.iter().map(|literal| compare(sample, column, row, CompareOp::Equal, literal));
            any(equal)
        }
        Predicate::IsNull(column) => Some(matches!(value(sample, column, row), NaiveValue::Null)),
        Predicate::Like { column, pattern, ignore_case } => {
            let text = String::from_utf8(text(column)?).unwrap();
            let lower = |text: &str| if *ignore_case { text.to_lowercase() } else { text.to_owned() };
            let letters = |text: String| text.chars().collect::<Vec<_>>();
            Some(like(&letters(lower(pattern)), &letters(lower(&text))))
        }
        Predicate::StartsWith(column, prefix) => Some(text(column)?.starts_with(prefix.as_bytes())),
        Predicate::Contains(column, wanted) => {
            Some(String::from_utf8(text(column)?).unwrap().contains(wanted.as_str()))
        }
        Predicate::And(all) => {
            any(all.iter().map(|predicate| holds(predicate, sample, row).map(|is| !is))).map(|is| !is)
        }
        Predicate::Or(any_of) => any(any_of.iter().map(|predicate| holds(predicate, sample, row))),
        Predicate::Not(predicate) => holds(predicate, sample, row).map(|is| !is),
    }
}

fn any(values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut unknown = false;
    for value in values {
        match value {
            Some(true) => return Some(true),
            Some(false) => {}
            None => unknown = true,
        }
    }

    (!unknown).then_some(false)
}

fn like(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|start| like(rest, &text[start..])),
        ['_', rest @ ..] => !text.is_empty() && like(rest, &text[1..]),
        ['\\', escaped, rest @ ..] => text.first() == Some(escaped) && like(rest, &text[1..]),
        [letter, rest @ ..] => text.first() == Some(letter) && like(rest, &text[1..]),
    }
}

fn compare(
    sample: &PredicateSample,
    column: &Operand,
    row: usize,
    op: CompareOp,
    literal: &Literal,
) -> Option<bool> {
    let value = value(sample, column, row);
    let literal = match (&value, literal) {
        (NaiveValue::Null, _) | (_, Literal::Null) => return None,
        (_, Literal::Boolean(value)) => NaiveValue::Boolean(*value),
        (_, Literal::Integer(value)) => NaiveValue::Exact(i256::from_i128(*value), 0),
        (NaiveValue::Float(_, 16), Literal::Decimal { .. }) => {
            let nearest: f64 = literal.to_string().parse().unwrap();
            let half = <<Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native>::from_f64(nearest);
            NaiveValue::Float(half.to_f64(), 16)
        }
        (NaiveValue::Float(_, 32), Literal::Decimal { .. }) => {
            NaiveValue::Float(f64::from(literal.to_string().parse::<f32>().unwrap()), 32)
        }
        (NaiveValue::Float(_, 16), Literal::Float(value)) => {
            let half = <<Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native>::from_f64(*value);
            NaiveValue::Float(
                if half.is_finite() && (half.to_f64() != 0.0 || *value == 0.0) {
                    half.to_f64()
                } else {
                    *value
                },
                16,
            )
        }
        (NaiveValue::Float(_, 32), Literal::Float(value)) => {
            let single = f64::from(*value as f32);
            NaiveValue::Float(
                if single.is_finite() && (single != 0.0 || *value == 0.0) { single } else { *value },
                32,
            )
        }
        (NaiveValue::Float(_, 64), Literal::Decimal { .. }) => {
            NaiveValue::Float(literal.to_string().parse().unwrap(), 64)
        }
        (_, Literal::Decimal { unscaled, scale }) => {
            NaiveValue::Exact(i256::from_i128(*unscaled), i32::from(*scale))
        }
        (_, Literal::Float(value)) => NaiveValue::Float(*value, 64),
        (NaiveValue::Nanos(_), Literal::String(text)) => {
            let time = civil::parse_time(text).map(i128::from);
            NaiveValue::Nanos(time.or_else(|| civil::parse_timestamp(text)).unwrap())
        }
        (_, Literal::String(text)) => NaiveValue::Bytes(text.clone().into_bytes()),
        (_, Literal::Binary(bytes)) => NaiveValue::Bytes(bytes.clone()),
        (_, Literal::Date(days)) => NaiveValue::Nanos(i128::from(*days) * civil::NANOS_PER_DAY),
        (_, Literal::Time(nanos)) => NaiveValue::Nanos(i128::from(*nanos)),
        (_, Literal::Timestamp(nanos) | Literal::Duration(nanos)) => NaiveValue::Nanos(*nanos),
    };

    Some(order(&value, &literal).map_or(op == CompareOp::NotEqual, |order| op.holds(order)))
}

/// `None` for NaN.
fn order(left: &NaiveValue, right: &NaiveValue) -> Option<Ordering> {
    match (left, right) {
        (NaiveValue::Boolean(left), NaiveValue::Boolean(right)) => Some(left.cmp(right)),
        (NaiveValue::Bytes(left), NaiveValue::Bytes(right)) => Some(left.cmp(right)),
        (NaiveValue::Nanos(left), NaiveValue::Nanos(right)) => Some(left.cmp(right)),
        (NaiveValue::Float(left, _), NaiveValue::Float(right, _)) => left.partial_cmp(right),
        (NaiveValue::Exact(left, left_scale), NaiveValue::Exact(right, right_scale)) => {
            let scale = *left_scale.max(right_scale);
            Some(grown(*left, scale - left_scale).cmp(&grown(*right, scale - right_scale)))
        }
        (NaiveValue::Exact(value, scale), NaiveValue::Float(float, _)) => {
            if float.is_nan() {
                return None;
            }
            // A float has one exact decimal form; a decimal column takes the shortest, which whole numbers of this
            // sample cannot tell from the exact one.
            if float.is_infinite() || float.abs() > 1e60 {
                let huge = float.abs() > 1e100;
                let beyond = if *float > 0.0 { Ordering::Less } else { Ordering::Greater };
                assert!(huge, "no such sample");
                return Some(beyond);
            }

            let text = format!("{float}");
            let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
            let digits = i256::from_string(&format!("{whole}{fraction}")).unwrap();
            order(&NaiveValue::Exact(*value, *scale), &NaiveValue::Exact(digits, fraction.len() as i32))
        }
        (NaiveValue::Float(..), NaiveValue::Exact(..)) => order(right, left).map(Ordering::reverse),
        other => panic!("not comparable: {other:?}"),
    }
}

fn grown(value: i256, power: i32) -> WideNumber {
    (0..power).fold(WideNumber(vec![value]), |wide, _| wide.times_ten())
}

/// An unbounded number: the sum of its parts, each 10^60 times the previous one.
#[derive(Debug, PartialEq, Eq)]
struct WideNumber(Vec<i256>);

impl WideNumber {
    fn base() -> i256 {
        i256::from_i128(10).wrapping_pow(60)
    }

    fn times_ten(mut self) -> Self {
        self.normalize();
        self.0.iter_mut().for_each(|part| *part = part.wrapping_mul(i256::from_i128(10)));
        self.normalize();
        self
    }

    /// Normalizes every part but the last to the range from zero to the base.
    fn normalize(&mut self) {
        for index in 0..8 {
            if self.0.len() <= index + 1 {
                self.0.push(i256::ZERO);
            }
            let mut rest = self.0[index].wrapping_rem(Self::base());
            let mut carry = self.0[index].wrapping_div(Self::base());
            if rest < i256::ZERO {
                rest = rest.wrapping_add(Self::base());
                carry = carry.wrapping_sub(i256::ONE);
            }
            self.0[index] = rest;
            self.0[index + 1] = self.0[index + 1].wrapping_add(carry);
        }
    }

    fn cmp(mut self, other: &Self) -> Ordering {
        let mut other = Self(other.0.clone());
        self.normalize();
        other.normalize();
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

fn value(sample: &PredicateSample, operand: &Operand, row: usize) -> NaiveValue {
    let Operand::Column(column) = operand else { panic!("{operand} is computed") };
    let (array, parents) = dense_columns(sample, column);
    if parents.is_some_and(|parents| parents.is_null(row)) || array.is_null(row) {
        return NaiveValue::Null;
    }
    of(&array, row)
}

fn of(array: &ArrayRef, row: usize) -> NaiveValue {
    let exact = |value: i128| NaiveValue::Exact(i256::from_i128(value), 0);
    match array.data_type() {
        DataType::Boolean => NaiveValue::Boolean(array.as_boolean().value(row)),
        DataType::Int32 => exact(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => exact(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::UInt8 => exact(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt64 => exact(array.as_primitive::<UInt64Type>().value(row).into()),
        DataType::Decimal128(_, scale) => {
            let value = array.as_primitive::<Decimal128Type>().value(row);
            NaiveValue::Exact(i256::from_i128(value), i32::from(*scale))
        }
        DataType::Decimal256(_, scale) => {
            NaiveValue::Exact(array.as_primitive::<Decimal256Type>().value(row), i32::from(*scale))
        }
        DataType::Float16 => NaiveValue::Float(array.as_primitive::<Float16Type>().value(row).to_f64(), 16),
        DataType::Float32 => NaiveValue::Float(array.as_primitive::<Float32Type>().value(row).into(), 32),
        DataType::Float64 => NaiveValue::Float(array.as_primitive::<Float64Type>().value(row), 64),
        DataType::Utf8 => NaiveValue::Bytes(array.as_string::<i32>().value(row).as_bytes().to_vec()),
        DataType::Utf8View => NaiveValue::Bytes(array.as_string_view().value(row).as_bytes().to_vec()),
        DataType::Binary => NaiveValue::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        DataType::FixedSizeBinary(_) => NaiveValue::Bytes(array.as_fixed_size_binary().value(row).to_vec()),
        DataType::Date32 => NaiveValue::Nanos(
            i128::from(array.as_primitive::<Date32Type>().value(row)) * civil::NANOS_PER_DAY,
        ),
        DataType::Time32(_) => NaiveValue::Nanos(
            i128::from(array.as_primitive::<Time32SecondType>().value(row)) * civil::NANOS_PER_SECOND,
        ),
        DataType::Timestamp(..) => {
            NaiveValue::Nanos(i128::from(array.as_primitive::<TimestampMicrosecondType>().value(row)) * 1_000)
        }
        other => panic!("no such sample: {other}"),
    }
}
