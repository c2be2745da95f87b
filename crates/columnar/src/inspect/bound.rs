//! The minimum and maximum of a column: in the file's representation, comparable, and readable.

use std::cmp::Ordering;

use arrow::{
    array::{
        Array, Date32Array, Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray,
    },
    datatypes::{Decimal128Type, DecimalType, TimeUnit},
    util::display::{ArrayFormatter, FormatOptions},
};
use serde::{Serialize, Serializer};

/// Logical type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FooterValueType {
    Boolean,
    Signed,
    Unsigned,
    Float,
    Float16,
    Text,
    Bytes,
    Uuid,
    Decimal {
        precision: u8,
        scale: i8,
    },
    Date,
    Time(TimeUnit),
    Timestamp {
        unit: TimeUnit,
        utc: bool,
    },
    /// Values without a supported order.
    Unordered,
}

/// A comparable value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FooterValue {
    Boolean(bool),
    Integer(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

/// A readable bound of a column's values: dates, times and decimals are text.
#[derive(Clone, Debug, PartialEq)]
pub enum BoundValue {
    /// true or false.
    Boolean(bool),
    /// A whole number.
    Integer(i128),
    /// A floating-point number.
    Float(f64),
    /// Anything else.
    Text(String),
}

impl FooterValue {
    /// Compares two values; `None` if they are unordered.
    fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => Some(a.cmp(b)),
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// Returns the readable value; `None` if it is out of range.
    pub(super) fn shown(&self, meaning: FooterValueType) -> Option<BoundValue> {
        Some(match (self, meaning) {
            (Self::Boolean(value), _) => BoundValue::Boolean(*value),
            (Self::Float(value), _) => BoundValue::Float(*value),
            (Self::Integer(value), FooterValueType::Decimal { precision, scale }) => {
                BoundValue::Text(Decimal128Type::format_decimal(*value, precision, scale))
            }
            (Self::Integer(value), FooterValueType::Date) => {
                BoundValue::Text(formatted(&Date32Array::from(vec![i32::try_from(*value).ok()?]))?)
            }
            (Self::Integer(value), FooterValueType::Time(unit)) => {
                let nanoseconds = value.checked_mul(nanoseconds(unit))?;
                BoundValue::Text(formatted(&Time64NanosecondArray::from(vec![
                    i64::try_from(nanoseconds).ok()?,
                ]))?)
            }
            (Self::Integer(value), FooterValueType::Timestamp { unit, utc }) => {
                BoundValue::Text(timestamp(i64::try_from(*value).ok()?, unit, utc)?)
            }
            (Self::Integer(value), _) => BoundValue::Integer(*value),
            (Self::Bytes(bytes), FooterValueType::Text) => {
                BoundValue::Text(String::from_utf8_lossy(bytes).into_owned())
            }
            (Self::Bytes(bytes), FooterValueType::Uuid) => BoundValue::Text(uuid(bytes)),
            (Self::Bytes(bytes), _) => BoundValue::Text(hex::encode(bytes)),
        })
    }
}

/// Minimum and maximum over all parts; unknown once those of any part are.
#[derive(Clone, Debug, Default)]
pub(super) struct MinMaxAccumulator {
    min: Option<FooterValue>,
    max: Option<FooterValue>,
    parts: usize,
    unknown: bool,
}

impl MinMaxAccumulator {
    /// Adds a part's bounds, or `None` if they are unknown.
    pub(super) fn add(&mut self, min: Option<&FooterValue>, max: Option<&FooterValue>) {
        let (Some(min), Some(max)) = (min, max) else {
            self.unknown = true;
            return;
        };

        let less = |a: &FooterValue, b: &Option<FooterValue>| {
            b.as_ref().is_none_or(|b| a.order(b) == Some(Ordering::Less))
        };
        let more = |a: &FooterValue, b: &Option<FooterValue>| {
            b.as_ref().is_none_or(|b| a.order(b) == Some(Ordering::Greater))
        };

        if less(min, &self.min) {
            self.min = Some(min.clone());
        }
        if more(max, &self.max) {
            self.max = Some(max.clone());
        }
        self.parts += 1;
    }

    /// Returns both readable bounds, if those of all parts are known.
    pub(super) fn shown(&self, meaning: FooterValueType) -> (Option<BoundValue>, Option<BoundValue>) {
        let shown = |value: &Option<FooterValue>| value.as_ref().and_then(|value| value.shown(meaning));
        if self.unknown { (None, None) } else { (shown(&self.min), shown(&self.max)) }
    }
}

impl Serialize for BoundValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Boolean(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => serializer.serialize_i64(value),
                (_, Ok(value)) => serializer.serialize_u64(value),
                _ => serializer.collect_str(value),
            },
            Self::Float(value) if value.is_finite() => serializer.serialize_f64(*value),
            Self::Float(value) => serializer.collect_str(value),
            Self::Text(value) => serializer.serialize_str(value),
        }
    }
}

impl std::fmt::Display for BoundValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Boolean(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn timestamp(value: i64, unit: TimeUnit, utc: bool) -> Option<String> {
    let text = match unit {
        TimeUnit::Second => formatted(&TimestampMillisecondArray::from(vec![value.checked_mul(1_000)?])),
        TimeUnit::Millisecond => formatted(&TimestampMillisecondArray::from(vec![value])),
        TimeUnit::Microsecond => formatted(&TimestampMicrosecondArray::from(vec![value])),
        TimeUnit::Nanosecond => formatted(&TimestampNanosecondArray::from(vec![value])),
    };
    text.map(|text| if utc { text + "Z" } else { text })
}

/// Formats the only value of the array as arrow does; `None` if it is out of the printable range.
fn formatted(array: &dyn Array) -> Option<String> {
    let options = FormatOptions::new().with_display_error(false);
    ArrayFormatter::try_new(array, &options).ok()?.value(0).try_to_string().ok()
}

fn uuid(bytes: &[u8]) -> String {
    uuid::Uuid::from_slice(bytes).map_or_else(|_| hex::encode(bytes), |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: FooterValue, meaning: FooterValueType) -> String {
        value.shown(meaning).unwrap().to_string()
    }

    #[test]
    fn values_are_shown_as_what_they_mean() {
        use FooterValueType::*;
        let integer = FooterValue::Integer;
        assert_eq!(shown(integer(-1234), Decimal { precision: 15, scale: 2 }), "-12.34");
        assert_eq!(shown(integer(8_035), Date), "1992-01-01");
        assert_eq!(shown(integer(3_661_000), Time(TimeUnit::Millisecond)), "01:01:01");
        let utc = Timestamp { unit: TimeUnit::Microsecond, utc: true };
        assert_eq!(shown(integer(1_500_000), utc), "1970-01-01T00:00:01.500Z");
        let plain = Timestamp { unit: TimeUnit::Second, utc: false };
        assert_eq!(shown(integer(0), plain), "1970-01-01T00:00:00");
        let id: Vec<u8> = (0..16).collect();
        assert_eq!(shown(FooterValue::Bytes(id), Uuid), "00010203-0405-0607-0809-0a0b0c0d0e0f");
        assert_eq!(shown(FooterValue::Bytes(vec![255, 1]), Bytes), "ff01");
    }

    #[test]
    fn a_value_outside_of_the_calendar_is_not_shown() {
        assert_eq!(FooterValue::Integer(i128::from(i32::MAX)).shown(FooterValueType::Date), None);
        assert_eq!(FooterValue::Integer(i128::MAX).shown(FooterValueType::Time(TimeUnit::Second)), None);
    }

    #[test]
    fn bounds_of_parts_are_those_of_all_or_unknown() {
        let integer = |value| FooterValue::Integer(value);
        let mut bounds = MinMaxAccumulator::default();
        bounds.add(Some(&integer(3)), Some(&integer(5)));
        bounds.add(Some(&integer(-2)), Some(&integer(4)));
        let both = |min, max| (Some(BoundValue::Integer(min)), Some(BoundValue::Integer(max)));
        assert_eq!(bounds.shown(FooterValueType::Signed), both(-2, 5));
        bounds.add(None, None);
        assert_eq!(bounds.shown(FooterValueType::Signed), (None, None));
    }

    #[test]
    fn numbers_are_numbers_in_json_as_far_as_it_has_them() {
        let json = |value: BoundValue| serde_json::to_string(&value).unwrap();
        assert_eq!(json(BoundValue::Integer(i128::from(u64::MAX))), "18446744073709551615");
        assert_eq!(json(BoundValue::Integer(i128::MAX)), format!("\"{}\"", i128::MAX));
        assert_eq!(json(BoundValue::Float(f64::INFINITY)), "\"inf\"");
        assert_eq!(json(BoundValue::Float(1.5)), "1.5");
    }
}
