//! Types of columns as users write them.

use arrow::datatypes::{DataType, TimeUnit};

use crate::{Error, Result};

/// The type that a text names: `int64`, `float64`, `bool`, `string`, `date`, `timestamp`, `timestamp[ms, UTC]`,
/// `decimal(10, 2)` and so on, in the words of Arrow, of SQL or of pyarrow.
///
/// # Errors
///
/// [`Error::Option`] if it names no type that a text can be read as.
pub fn parse_type(text: &str) -> Result<DataType> {
    let lower = text.trim().to_ascii_lowercase();
    let simple = match lower.as_str() {
        "bool" | "boolean" => Some(DataType::Boolean),
        "int8" | "tinyint" => Some(DataType::Int8),
        "int16" | "smallint" => Some(DataType::Int16),
        "int32" | "int" | "integer" => Some(DataType::Int32),
        "int64" | "bigint" | "long" => Some(DataType::Int64),
        "uint8" | "utinyint" => Some(DataType::UInt8),
        "uint16" | "usmallint" => Some(DataType::UInt16),
        "uint32" | "uinteger" => Some(DataType::UInt32),
        "uint64" | "ubigint" => Some(DataType::UInt64),
        "float32" | "float" | "real" => Some(DataType::Float32),
        "float64" | "double" => Some(DataType::Float64),
        "string" | "str" | "text" | "utf8" | "varchar" => Some(DataType::Utf8),
        "large_string" | "largeutf8" => Some(DataType::LargeUtf8),
        "date" | "date32" | "date32[day]" => Some(DataType::Date32),
        "time" | "time64[us]" => Some(DataType::Time64(TimeUnit::Microsecond)),
        "timestamp" | "datetime" => Some(DataType::Timestamp(TimeUnit::Microsecond, None)),
        "timestamptz" => Some(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        _ => None,
    };
    let unknown = || Error::Option {
        column: None,
        reason: format!(
            "{text}: no type of a text: write bool, int8 to int64, uint8 to uint64, float32, float64, string, date, \
             time, timestamp, timestamp[ms, UTC] or decimal(10, 2)"
        ),
    };
    simple.or_else(|| with_parameters(text.trim(), &lower)).ok_or_else(unknown)
}

fn with_parameters(text: &str, lower: &str) -> Option<DataType> {
    let open = lower.find(['[', '('])?;
    let (name, inner) = (lower.get(..open)?, text.get(open + 1..)?.strip_suffix([']', ')'])?);
    let mut parts = inner.split(',').map(str::trim);
    let first = parts.next()?;
    let second = parts.next();
    if parts.next().is_some() {
        return None;
    }
    match name {
        "timestamp" => {
            let unit = match first {
                "s" => TimeUnit::Second,
                "ms" => TimeUnit::Millisecond,
                "us" => TimeUnit::Microsecond,
                "ns" => TimeUnit::Nanosecond,
                _ => return None,
            };
            let zone = second.map(|zone| zone.strip_prefix("tz=").unwrap_or(zone).into());
            Some(DataType::Timestamp(unit, zone))
        }
        "decimal" | "decimal128" | "numeric" => {
            let (precision, scale): (u8, i8) = (first.parse().ok()?, second.unwrap_or("0").parse().ok()?);
            let is_valid = (1..=38).contains(&precision) && (0..=precision.cast_signed()).contains(&scale);
            is_valid.then_some(DataType::Decimal128(precision, scale))
        }
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
        ] {
            assert_eq!(parse_type(text).unwrap(), expected, "{text}");
        }
        for text in
            ["", "number", "decimal(39, 1)", "decimal(2, 3)", "timestamp[h]", "list<int64>", "decimal(1"]
        {
            assert!(matches!(parse_type(text), Err(Error::Option { .. })), "{text}");
        }
    }
}
