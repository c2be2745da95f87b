//! Converts literals to the column's own representation, exactly: `a < 2.5` becomes `a <= 2` for integers.

use std::cmp::Ordering;

use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, i256};

use super::{
    CompareOp, Literal, Operand, TypeClass, ValuePredicate,
    civil::{NANOS_PER_DAY, parse_date, parse_time, parse_timestamp},
    classes::whole_range,
    like::{LikeMatcher, LikePattern},
    sql::literals::uuid,
    tokens::{quoted, refuse},
};
use crate::{Error, Result};

/// Bytes of a UUID.
const UUID_BYTES: i32 = 16;

/// Outcome of a comparison for the rows that are not null.
#[derive(Clone, Debug)]
pub(super) enum ComparisonOutcome {
    Never,
    Always,
    /// Comparison with NULL: neither it nor its negation is true.
    Unknown,
    Holds {
        check: ValuePredicate,
        negated: bool,
    },
}

impl ComparisonOutcome {
    fn holds(check: ValuePredicate) -> Self {
        Self::Holds { check, negated: false }
    }

    pub(super) fn negated_if(self, negate: bool) -> Self {
        match self {
            Self::Never if negate => Self::Always,
            Self::Always if negate => Self::Never,
            Self::Holds { check, negated } => Self::Holds { check, negated: negated != negate },
            other => other,
        }
    }
}

/// The column that literals are compared with.
pub(super) struct ComparisonTarget<'a> {
    operand: &'a Operand,
    data_type: &'a DataType,
    class: TypeClass,
    /// True if the schema declares the values to be UUIDs.
    is_uuid: bool,
}

/// Position of a literal among a column's integers.
#[derive(Clone, Copy, Debug)]
enum LiteralPosition {
    /// Below all values.
    Below,
    /// At `floor`, or between it and the next if not `exact`.
    At { floor: i256, exact: bool },
    /// Above all values.
    Above,
    /// Unordered.
    Nan,
}

impl<'a> ComparisonTarget<'a> {
    pub(super) fn new(operand: &'a Operand, data_type: &'a DataType, is_uuid: bool) -> Self {
        Self { operand, data_type, class: TypeClass::of(data_type), is_uuid }
    }

    fn mismatch(&self, what: impl ToString) -> Error {
        let subject = match self.operand {
            Operand::Column(column) => format!("column {}", column.name()),
            computed => quoted(computed),
        };
        refuse(format!("{subject} is {}: not comparable with {}", self.data_type, quoted(what)))
    }

    pub(super) fn compare(&self, op: CompareOp, literal: &Literal) -> Result<ComparisonOutcome> {
        if self.class == TypeClass::Other {
            return Err(self.mismatch(literal));
        }
        if *literal == Literal::Null || self.class == TypeClass::Null {
            return Ok(ComparisonOutcome::Unknown);
        }

        let (op, negate) = match op {
            CompareOp::NotEqual => (CompareOp::Equal, true),
            op => (op, false),
        };

        let outcome = match self.class {
            TypeClass::Float => self.compare_float(op, literal)?,
            TypeClass::Text | TypeClass::Bytes => {
                ComparisonOutcome::holds(ValuePredicate::Bytes { op, value: self.bytes(op, literal)?.into() })
            }
            _ => self.range(op, self.literal_position(literal)?),
        };

        Ok(outcome.negated_if(negate))
    }

    /// Types an IN list. No row is in an empty list.
    pub(super) fn is_in(&self, literals: &[Literal], negate: bool) -> Result<ComparisonOutcome> {
        let mut wholes = Vec::new();
        let mut floats = Vec::new();
        let mut bytes = Vec::new();
        let mut has_unknown = false;

        for literal in literals {
            match self.compare(CompareOp::Equal, literal)? {
                ComparisonOutcome::Holds { check: ValuePredicate::Range { low, .. }, .. } => wholes.push(low),
                ComparisonOutcome::Holds { check: ValuePredicate::Float { value, .. }, .. } => {
                    floats.push(value);
                }
                ComparisonOutcome::Holds { check: ValuePredicate::Bytes { value, .. }, .. } => {
                    bytes.push(value);
                }
                ComparisonOutcome::Always => wholes.extend(whole_range(self.data_type).map(|(low, _)| low)),
                ComparisonOutcome::Unknown => has_unknown = true,
                ComparisonOutcome::Never | ComparisonOutcome::Holds { .. } => {}
            }
        }

        if negate && has_unknown {
            return Ok(ComparisonOutcome::Never);
        }

        let check = ValuePredicate::among(wholes).or_else(|| ValuePredicate::among_floats(floats));
        let outcome = match check.or_else(|| ValuePredicate::among_bytes(bytes)) {
            Some(check) => ComparisonOutcome::holds(check),
            None if has_unknown => ComparisonOutcome::Unknown,
            None => ComparisonOutcome::Never,
        };

        Ok(outcome.negated_if(negate))
    }

    pub(super) fn like(&self, pattern: &str, ignore_case: bool) -> Result<ComparisonOutcome> {
        if self.is_null_or_text(|| format!("LIKE '{pattern}'"))? {
            return Ok(ComparisonOutcome::Unknown);
        }

        let equal =
            |value: String| ValuePredicate::Bytes { op: CompareOp::Equal, value: value.into_bytes().into() };
        Ok(match LikeMatcher::compile(pattern, ignore_case) {
            LikePattern::Anything => ComparisonOutcome::Always,
            LikePattern::Equal(value) => ComparisonOutcome::holds(equal(value)),
            LikePattern::Prefix(value) => {
                ComparisonOutcome::holds(ValuePredicate::Prefix(value.into_bytes().into()))
            }
            LikePattern::Contains(value) => ComparisonOutcome::holds(ValuePredicate::Contains(value)),
            LikePattern::Like(like) => ComparisonOutcome::holds(ValuePredicate::Like(like)),
        })
    }

    pub(super) fn starts_with(&self, prefix: &str) -> Result<ComparisonOutcome> {
        match self.class {
            TypeClass::Null => Ok(ComparisonOutcome::Unknown),
            TypeClass::Text | TypeClass::Bytes if prefix.is_empty() => Ok(ComparisonOutcome::Always),
            TypeClass::Text | TypeClass::Bytes => {
                Ok(ComparisonOutcome::holds(ValuePredicate::Prefix(prefix.as_bytes().into())))
            }
            _ => Err(self.mismatch(format!("starts_with '{prefix}'"))),
        }
    }

    pub(super) fn contains(&self, text: &str) -> Result<ComparisonOutcome> {
        if self.is_null_or_text(|| format!("contains '{text}'"))? {
            return Ok(ComparisonOutcome::Unknown);
        }
        Ok(if text.is_empty() {
            ComparisonOutcome::Always
        } else {
            ComparisonOutcome::holds(ValuePredicate::Contains(text.to_owned()))
        })
    }

    /// Returns true for a column of only nulls, false for one of strings, and an error for all others.
    fn is_null_or_text(&self, what: impl FnOnce() -> String) -> Result<bool> {
        match self.class {
            TypeClass::Null => Ok(true),
            TypeClass::Text => Ok(false),
            _ => Err(self.mismatch(what())),
        }
    }

    fn bytes(&self, op: CompareOp, literal: &Literal) -> Result<Vec<u8>> {
        match (self.class, literal) {
            (_, Literal::String(text)) if *self.data_type == DataType::FixedSizeBinary(UUID_BYTES) => {
                // No spelling of a UUID has 16 bytes, so it cannot be raw bytes. Many files do not declare 16-byte
                // values to be UUIDs; but no such value equals a string of another length.
                let is_raw = !self.is_uuid && (text.len() == 16 || op != CompareOp::Equal);
                let raw = || is_raw.then(|| text.clone().into_bytes());
                uuid(text).or_else(raw).ok_or_else(|| self.mismatch(literal))
            }
            (_, Literal::String(text)) => Ok(text.clone().into_bytes()),
            (TypeClass::Bytes, Literal::Binary(bytes)) => Ok(bytes.clone()),
            _ => Err(self.mismatch(literal)),
        }
    }

    /// Returns the position of the literal, in the column's own units.
    fn literal_position(&self, literal: &Literal) -> Result<LiteralPosition> {
        let wrong = || self.mismatch(literal);
        Ok(match (self.class, literal) {
            (TypeClass::Boolean, Literal::Boolean(value)) => exactly(i128::from(*value)),
            (TypeClass::Integer, Literal::Integer(value)) => exactly(*value),
            (TypeClass::Integer, Literal::Decimal { unscaled, scale }) => {
                scaled(*unscaled, -i64::from(*scale))
            }
            (TypeClass::Integer, Literal::Float(value)) => floor(*value),
            (TypeClass::Decimal { scale }, Literal::Integer(value)) => scaled(*value, i64::from(scale)),
            (TypeClass::Decimal { scale }, Literal::Decimal { unscaled, scale: own }) => {
                scaled(*unscaled, i64::from(scale) - i64::from(*own))
            }
            (TypeClass::Decimal { scale }, Literal::Float(value)) => shortest(*value, scale),
            (TypeClass::Duration { nanos }, Literal::Duration(span)) => divided(*span, nanos),
            (TypeClass::Time { nanos }, Literal::Time(time)) => divided(i128::from(*time), nanos),
            (TypeClass::Time { nanos }, Literal::String(text)) => {
                divided(parse_time(text).map(i128::from).ok_or_else(wrong)?, nanos)
            }
            (TypeClass::Date { nanos }, Literal::String(text)) => {
                let moment = match parse_date(text) {
                    Some(days) => days.checked_mul(NANOS_PER_DAY),
                    None => parse_timestamp(text),
                };
                divided(moment.ok_or_else(wrong)?, nanos)
            }
            (TypeClass::Date { nanos } | TypeClass::Timestamp { nanos }, Literal::Date(days)) => {
                divided(i128::from(*days) * NANOS_PER_DAY, nanos)
            }
            (TypeClass::Date { nanos } | TypeClass::Timestamp { nanos }, Literal::Timestamp(moment)) => {
                divided(*moment, nanos)
            }
            (TypeClass::Timestamp { nanos }, Literal::String(text)) => {
                divided(parse_timestamp(text).ok_or_else(wrong)?, nanos)
            }
            _ => return Err(wrong()),
        })
    }

    /// Returns the range of the column's values for which `value op literal` holds.
    fn range(&self, op: CompareOp, position: LiteralPosition) -> ComparisonOutcome {
        let Some((lowest, highest)) = whole_range(self.data_type) else { return ComparisonOutcome::Never };

        let is_upper_bound = matches!(op, CompareOp::Less | CompareOp::LessOrEqual);
        let is_lower_bound = matches!(op, CompareOp::Greater | CompareOp::GreaterOrEqual);
        let range = match position {
            LiteralPosition::Below if is_lower_bound => Some((lowest, highest)),
            LiteralPosition::Above if is_upper_bound => Some((lowest, highest)),
            LiteralPosition::Below | LiteralPosition::Above | LiteralPosition::Nan => None,
            LiteralPosition::At { floor, exact } => match op {
                CompareOp::Less if exact => floor.checked_sub(i256::ONE).map(|high| (lowest, high)),
                CompareOp::Less | CompareOp::LessOrEqual => Some((lowest, floor)),
                CompareOp::GreaterOrEqual if exact => Some((floor, highest)),
                CompareOp::Greater | CompareOp::GreaterOrEqual => {
                    floor.checked_add(i256::ONE).map(|low| (low, highest))
                }
                CompareOp::Equal | CompareOp::NotEqual => exact.then_some((floor, floor)),
            },
        };

        match range.map(|(low, high)| (low.max(lowest), high.min(highest))) {
            Some((low, high)) if low > high => ComparisonOutcome::Never,
            Some((low, high)) if low == lowest && high == highest => ComparisonOutcome::Always,
            Some((low, high)) => ComparisonOutcome::holds(ValuePredicate::Range { low, high }),
            None => ComparisonOutcome::Never,
        }
    }

    fn compare_float(&self, op: CompareOp, literal: &Literal) -> Result<ComparisonOutcome> {
        let (value, exact) = match literal {
            Literal::Integer(value) => float_floor(*value),
            Literal::Decimal { unscaled, scale } => {
                let nearest = self.nearest(&format!("{unscaled}e-{scale}"));
                (nearest.ok_or_else(|| self.mismatch(literal))?, true)
            }
            Literal::Float(value) if value.is_nan() => return Ok(ComparisonOutcome::Never),
            Literal::Float(value) => (self.nearest_to(*value), true),
            _ => return Err(self.mismatch(literal)),
        };

        let op = match op {
            CompareOp::Equal | CompareOp::NotEqual if !exact => return Ok(ComparisonOutcome::Never),
            CompareOp::Less if !exact => CompareOp::LessOrEqual,
            CompareOp::GreaterOrEqual if !exact => CompareOp::Greater,
            op => op,
        };

        // Adding zero turns minus zero into zero.
        Ok(ComparisonOutcome::holds(ValuePredicate::Float { op, value: value + 0.0 }))
    }

    /// Returns the column's number nearest to a decimal one.
    fn nearest(&self, text: &str) -> Option<f64> {
        match self.data_type {
            DataType::Float32 => {
                // Parsing as 64 bits first would round twice.
                let nearest = f64::from(text.parse::<f32>().ok()?);
                if nearest.is_finite() && nearest != 0.0 { Some(nearest) } else { text.parse().ok() }
            }
            _ => text.parse().ok().map(|value| self.nearest_to(value)),
        }
    }

    /// Returns the column's number nearest to another: in a column of 32 bits, `x = 0.1` matches the 32-bit 0.1.
    /// Numbers that would round to infinity or zero are kept.
    fn nearest_to(&self, value: f64) -> f64 {
        let nearest = match self.data_type {
            DataType::Float16 => <Float16Type as ArrowPrimitiveType>::Native::from_f64(value).to_f64(),
            DataType::Float32 => f64::from(value as f32),
            _ => value,
        };
        if nearest.is_finite() && (nearest != 0.0 || value == 0.0) { nearest } else { value }
    }
}

fn exactly(value: i128) -> LiteralPosition {
    LiteralPosition::At { floor: i256::from_i128(value), exact: true }
}

fn divided(value: i128, unit: i128) -> LiteralPosition {
    LiteralPosition::At { floor: i256::from_i128(value.div_euclid(unit)), exact: value.rem_euclid(unit) == 0 }
}

/// Returns the position of `digits` times 10^`exponent`.
fn scaled(digits: i128, exponent: i64) -> LiteralPosition {
    let beyond = if digits < 0 { LiteralPosition::Below } else { LiteralPosition::Above };
    let power = u32::try_from(exponent.unsigned_abs()).unwrap_or(u32::MAX);
    match (digits.cmp(&0), exponent) {
        (Ordering::Equal, _) => exactly(0),
        (_, 0..) => {
            // 10^77 exceeds 256 bits.
            let factor = if power < 77 { i256::from_i128(10).checked_pow(power) } else { None };
            match factor.and_then(|factor| factor.checked_mul(i256::from_i128(digits))) {
                Some(floor) => LiteralPosition::At { floor, exact: true },
                None => beyond,
            }
        }
        (sign, _) => match 10_i128.checked_pow(power) {
            Some(divisor) => divided(digits, divisor),
            None => LiteralPosition::At { floor: i256::from_i128(-i128::from(sign.is_lt())), exact: false },
        },
    }
}

fn floor(value: f64) -> LiteralPosition {
    const LIMIT: f64 = (1_u128 << 127) as f64;
    match value {
        _ if value.is_nan() => LiteralPosition::Nan,
        _ if value >= LIMIT => LiteralPosition::Above,
        _ if value < -LIMIT => LiteralPosition::Below,
        _ => LiteralPosition::At {
            floor: i256::from_i128(value.floor() as i128),
            exact: value.floor() == value,
        },
    }
}

/// Returns the position among decimals of the shortest decimal number that parses as this one.
fn shortest(value: f64, scale: i8) -> LiteralPosition {
    if value.is_nan() {
        return LiteralPosition::Nan;
    }

    let beyond = if value < 0.0 { LiteralPosition::Below } else { LiteralPosition::Above };
    let text = format!("{value:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return beyond };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    match (format!("{whole}{fraction}").parse(), exponent.parse::<i64>()) {
        (Ok(digits), Ok(exponent)) => scaled(digits, exponent - fraction.len() as i64 + i64::from(scale)),
        _ => beyond,
    }
}

/// Returns the largest floating-point number not above an integer, and whether it is equal.
fn float_floor(value: i128) -> (f64, bool) {
    let nearest = value as f64;
    match float_order(value, nearest) {
        Some(Ordering::Equal) => (nearest, true),
        Some(Ordering::Less) => (nearest.next_down(), false),
        _ => (nearest, false),
    }
}

/// Compares an integer and a floating-point number exactly; `None` for NaN.
pub(super) fn float_order(whole: i128, float: f64) -> Option<Ordering> {
    match floor(float) {
        LiteralPosition::Nan => None,
        LiteralPosition::Above => Some(Ordering::Less),
        LiteralPosition::Below => Some(Ordering::Greater),
        LiteralPosition::At { floor, exact } => {
            let order = i256::from_i128(whole).cmp(&floor);
            Some(if exact { order } else { order.then(Ordering::Less) })
        }
    }
}
