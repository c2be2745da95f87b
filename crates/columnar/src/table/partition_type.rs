//! Infers the types of partition columns from the values in paths, and parses these values.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, StringArray},
    compute::cast,
    datatypes::{DataType, TimeUnit},
    error::ArrowError,
};
use chrono::NaiveDate;

use crate::{kernels::exact_cast::common_cast, predicate::parse_timestamp};

/// Position of the second colon in `10:00:00`: a time of a path has seconds.
const SECONDS_COLON: usize = 5;

/// A timestamp in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathTimestamp {
    /// Nanoseconds since 1970-01-01T00:00:00, in UTC if it has an offset.
    nanos: i128,
    /// True if it ends in `Z` or an offset.
    has_offset: bool,
}

/// Infers the type of partition values: integers, dates or timestamps if all values parse as such, else strings.
/// Timestamps are in microseconds unless one of them is finer, and in UTC if all of them have an offset.
pub(crate) fn inferred_type<'v>(values: impl Iterator<Item = &'v str> + Clone) -> DataType {
    let all = |holds: fn(&str) -> bool| values.clone().all(holds);
    match () {
        () if all(is_signed) => DataType::Int64,
        () if all(is_unsigned) => DataType::UInt64,
        () if all(is_date) => DataType::Date32,
        () => timestamp_type(values).unwrap_or(DataType::Utf8),
    }
}

/// Parses the value of a path as an array of one row.
///
/// # Errors
///
/// The error of the cast if the text is not a value of the type.
pub(crate) fn parse_value(text: &str, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    // Arrow reads only years of four digits, and the offset of a local time from its zone.
    if let Some(value) = timestamp_value(text, data_type) {
        return cast(&Int64Array::from(vec![value]), data_type);
    }
    let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
    common_cast(&text, data_type)
}

/// Returns whether a string is an integer. Other spellings, such as 007, are names, not numbers.
fn is_signed(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|number| number.to_string() == text)
}

fn is_unsigned(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|number| number.to_string() == text)
}

fn is_date(text: &str) -> bool {
    NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok_and(|date| date.to_string() == text)
}

/// Parses a date, or a date and a time with seconds, separated by `T` or a blank.
fn timestamp(text: &str) -> Option<PathTimestamp> {
    if text.trim() != text {
        return None;
    }

    let Some((_, time)) = text.split_once(['T', ' ']) else {
        let nanos = is_date(text).then(|| parse_timestamp(text))??;
        return Some(PathTimestamp { nanos, has_offset: false });
    };
    if time.as_bytes().get(SECONDS_COLON) != Some(&b':') {
        return None;
    }
    let nanos = parse_timestamp(text)?;
    Some(PathTimestamp { nanos, has_offset: time.contains(['Z', 'z', '+', '-']) })
}

/// Returns the type of timestamps that represents all values; `None` if one is not a timestamp, or only some have
/// an offset.
fn timestamp_type<'v>(values: impl Iterator<Item = &'v str>) -> Option<DataType> {
    let timestamps = values.map(timestamp).collect::<Option<Vec<_>>>()?;
    let has_offset = timestamps.first().is_some_and(|first| first.has_offset);
    if timestamps.iter().any(|timestamp| timestamp.has_offset != has_offset) {
        return None;
    }

    let is_whole =
        |unit: TimeUnit| timestamps.iter().all(|timestamp| in_unit(timestamp.nanos, unit).is_some());
    let unit = [TimeUnit::Microsecond, TimeUnit::Nanosecond].into_iter().find(|unit| is_whole(*unit))?;
    Some(DataType::Timestamp(unit, has_offset.then(|| "UTC".into())))
}

/// Returns the value of a timestamp in a column of this type; `None` if only one of them has a zone, and if the value
/// would change.
fn timestamp_value(text: &str, data_type: &DataType) -> Option<i64> {
    let DataType::Timestamp(unit, zone) = data_type else { return None };
    let PathTimestamp { nanos, has_offset } = timestamp(text)?;
    if zone.is_some() == has_offset { in_unit(nanos, *unit) } else { None }
}

/// Converts nanoseconds to a unit; `None` if that loses a fraction or overflows.
fn in_unit(nanos: i128, unit: TimeUnit) -> Option<i64> {
    let each = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    if nanos % each == 0 { i64::try_from(nanos / each).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use arrow::{array::AsArray, datatypes::TimestampMicrosecondType};

    use super::*;

    fn inferred(values: &[&str]) -> DataType {
        inferred_type(values.iter().copied())
    }

    fn timestamps(unit: TimeUnit, zone: Option<&str>) -> DataType {
        DataType::Timestamp(unit, zone.map(Into::into))
    }

    #[test]
    fn integers_are_written_without_leading_zeros() {
        assert_eq!(inferred(&["-1", "2024"]), DataType::Int64);
        assert_eq!(inferred(&["0", "18446744073709551615"]), DataType::UInt64);
        assert_eq!(inferred(&["-1", "18446744073709551615"]), DataType::Utf8);
        assert_eq!(inferred(&["01", "12"]), DataType::Utf8);
        assert_eq!(inferred(&["+1"]), DataType::Utf8);
        assert_eq!(inferred(&[]), DataType::Int64);
    }

    #[test]
    fn timestamps_have_the_unit_and_the_zone_of_all_values() {
        use TimeUnit::{Microsecond, Nanosecond};
        let local = timestamps(Microsecond, None);
        assert_eq!(inferred(&["2024-05-01T12:00:00", "2024-05-01 12:00:00.5"]), local);
        assert_eq!(inferred(&["2024-05-02", "2024-05-01 12:00:00"]), local);
        assert_eq!(inferred(&["2024-05-02", "2024-05-03"]), DataType::Date32);
        assert_eq!(inferred(&["+10000-01-01T00:00:00"]), local);
        assert_eq!(inferred(&["2024-05-01T12:00:00.000000001"]), timestamps(Nanosecond, None));

        let utc = timestamps(Microsecond, Some("UTC"));
        assert_eq!(inferred(&["2024-05-01T12:00:00Z", "2024-05-01T12:00:00+02:00"]), utc);
        for mixed in [
            ["2024-05-01T12:00:00Z", "2024-05-01T12:00:00"],
            ["2024-05-01T12:00:00Z", "2024-05-01"],
            ["2024-05-01T12:00:00", "May"],
            ["2024-05-01T12:00", "2024-05-01T12:00:60"],
            // Nanoseconds do not reach this far.
            ["2024-05-01T12:00:00.000000001", "9999-01-01"],
        ] {
            assert_eq!(inferred(&mixed), DataType::Utf8, "{mixed:?}");
        }
    }

    #[test]
    fn values_are_those_of_the_path_in_any_year_and_zone() {
        let value = |text: &str, zone: Option<&str>| {
            let array = parse_value(text, &timestamps(TimeUnit::Microsecond, zone)).unwrap();
            array.as_primitive::<TimestampMicrosecondType>().value(0)
        };
        assert_eq!(value("1970-01-02", None), 86_400_000_000);
        assert_eq!(value("1969-12-31T23:59:59.999999", None), -1);
        assert_eq!(value("+10000-01-01T00:00:00", None), 253_402_300_800_000_000);
        assert_eq!(value("1970-01-01T02:00:00.000001+02:00", Some("UTC")), 1);
        assert_eq!(value("1970-01-01T00:00:00Z", Some("Europe/Oslo")), 0);
        assert!(parse_value("May", &timestamps(TimeUnit::Microsecond, None)).is_err());
    }
}
