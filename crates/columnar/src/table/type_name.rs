//! Parses type names as users write them.

use arrow::datatypes::{DataType, TimeUnit};

use crate::{Error, Result};

/// Parses a type name: `int64`, `float64`, `bool`, `string`, `date`, `timestamp`, `timestamp[ms, UTC]`,
/// `decimal(10, 2)` and so on, as Arrow, SQL, pyarrow or the arrow crate spell it.
///
/// # Errors
///
/// [`Error::Option`] if it is not a type.
pub fn parse_type(text: &str) -> Result<DataType> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    let known = simple(&lower).or_else(|| with_parameters(text, &lower)).or_else(|| text.parse().ok());

    known.ok_or_else(|| Error::Option {
        column: None,
        reason: format!(
            "no type {text:?}: give one such as int64, float64, bool, string, date, timestamp, timestamp[ms, UTC] or \
             decimal(10, 2)"
        ),
    })
}

fn simple(name: &str) -> Option<DataType> {
    Some(match name {
        "null" => DataType::Null,
        "bool" | "boolean" => DataType::Boolean,
        "int8" | "tinyint" => DataType::Int8,
        "int16" | "smallint" => DataType::Int16,
        "int32" | "int" | "integer" => DataType::Int32,
        "int64" | "bigint" | "long" => DataType::Int64,
        "uint8" | "utinyint" => DataType::UInt8,
        "uint16" | "usmallint" => DataType::UInt16,
        "uint32" | "uinteger" => DataType::UInt32,
        "uint64" | "ubigint" => DataType::UInt64,
        "float16" | "halffloat" => DataType::Float16,
        "float32" | "float" | "real" => DataType::Float32,
        "float64" | "double" => DataType::Float64,
        "string" | "str" | "text" | "utf8" | "varchar" => DataType::Utf8,
        "large_string" | "large_utf8" | "largeutf8" => DataType::LargeUtf8,
        "string_view" => DataType::Utf8View,
        "binary" | "blob" => DataType::Binary,
        "large_binary" => DataType::LargeBinary,
        "date" | "date32" | "date32[day]" => DataType::Date32,
        "date64" | "date64[ms]" => DataType::Date64,
        "time" | "time64[us]" => DataType::Time64(TimeUnit::Microsecond),
        "time64[ns]" => DataType::Time64(TimeUnit::Nanosecond),
        "time32[ms]" => DataType::Time32(TimeUnit::Millisecond),
        "timestamp" | "datetime" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        _ => return None,
    })
}

fn with_parameters(text: &str, lower: &str) -> Option<DataType> {
    let open = lower.find(['[', '('])?;
    let name = lower.get(..open)?;
    let inner = text.get(open + 1..)?.strip_suffix([']', ')'])?;
    let mut parts = inner.split(',').map(str::trim);
    let first = parts.next()?;
    let second = parts.next();
    if parts.next().is_some() {
        return None;
    }

    if name == "timestamp" {
        let unit = match first {
            "s" => TimeUnit::Second,
            "ms" => TimeUnit::Millisecond,
            "us" => TimeUnit::Microsecond,
            "ns" => TimeUnit::Nanosecond,
            _ => return None,
        };
        let zone = second.map(|zone| zone.strip_prefix("tz=").unwrap_or(zone).into());
        return Some(DataType::Timestamp(unit, zone));
    }

    if !matches!(name, "decimal" | "decimal128" | "decimal256" | "numeric") {
        return None;
    }
    let precision: u8 = first.parse().ok()?;
    let scale: i8 = second.unwrap_or("0").parse().ok()?;
    let fits = (0..=precision.cast_signed()).contains(&scale);
    match precision {
        1..=38 if fits && name != "decimal256" => Some(DataType::Decimal128(precision, scale)),
        1..=76 if fits && name != "decimal128" => Some(DataType::Decimal256(precision, scale)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_in_the_words_of_several_systems() {
        let timestamp = |unit, zone: Option<&str>| DataType::Timestamp(unit, zone.map(Into::into));
        for (text, expected) in [
            ("int64", DataType::Int64),
            ("BIGINT", DataType::Int64),
            (" double ", DataType::Float64),
            ("varchar", DataType::Utf8),
            ("date32[day]", DataType::Date32),
            ("timestamp", timestamp(TimeUnit::Microsecond, None)),
            ("timestamp[ms]", timestamp(TimeUnit::Millisecond, None)),
            ("timestamp[ns, tz=Europe/Oslo]", timestamp(TimeUnit::Nanosecond, Some("Europe/Oslo"))),
            ("decimal(10, 2)", DataType::Decimal128(10, 2)),
            ("decimal128(38, 0)", DataType::Decimal128(38, 0)),
            ("decimal(39, 1)", DataType::Decimal256(39, 1)),
            ("decimal256(9, 1)", DataType::Decimal256(9, 1)),
            ("Timestamp(ns)", timestamp(TimeUnit::Nanosecond, None)),
        ] {
            assert_eq!(parse_type(text).unwrap(), expected, "{text}");
        }
        for text in [
            "",
            "number",
            "decimal(77, 1)",
            "decimal128(39, 1)",
            "decimal(2, 3)",
            "timestamp[h]",
            "list<int64>",
            "decimal(1",
        ] {
            assert!(matches!(parse_type(text), Err(Error::Option { .. })), "{text}");
        }
    }
}
