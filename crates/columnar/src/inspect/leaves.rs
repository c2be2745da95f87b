//! The types of a Parquet schema as text, and the logical types of its columns.

use ::parquet::{
    basic::{ConvertedType, LogicalType, Repetition, TimeUnit as ParquetUnit, Type as Physical},
    file::statistics::Statistics,
    schema::types::{ColumnDescriptor, Type},
};
use arrow::datatypes::TimeUnit;

use super::{
    bound::{FooterValue, FooterValueType},
    inspection::SchemaNode,
};

/// A leaf column.
pub(super) struct InspectedLeaf {
    pub(super) name: String,
    pub(super) data_type: String,
    pub(super) meaning: FooterValueType,
}

impl InspectedLeaf {
    pub(super) fn of(column: &ColumnDescriptor) -> Self {
        let (data_type, meaning) = primitive(column.self_type());
        Self { name: column.path().string(), data_type, meaning }
    }
}

/// Describes the fields of a group.
pub(super) fn nodes(group: &Type) -> Vec<SchemaNode> {
    if !group.is_group() {
        return Vec::new();
    }

    let fields = group.get_fields().iter().map(|field| {
        let info = field.get_basic_info();
        let repetition = info.has_repetition().then(|| info.repetition());
        let (data_type, physical_type) = if field.is_primitive() {
            let name = primitive(field).0;
            let physical = physical(field);
            (name.clone(), (name != physical).then_some(physical))
        } else {
            (group_type(field).to_owned(), None)
        };

        SchemaNode {
            name: field.name().to_owned(),
            data_type,
            physical_type,
            nullable: repetition == Some(Repetition::OPTIONAL),
            repeated: repetition == Some(Repetition::REPEATED),
            fields: nodes(field),
        }
    });

    fields.collect()
}

fn group_type(group: &Type) -> &'static str {
    let info = group.get_basic_info();
    match (info.logical_type_ref(), info.converted_type()) {
        (Some(LogicalType::List), _) | (None, ConvertedType::LIST) => "list",
        (Some(LogicalType::Map), _) | (None, ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE) => "map",
        (Some(LogicalType::Variant(_)), _) => "variant",
        _ => "struct",
    }
}

fn physical(leaf: &Type) -> String {
    match leaf {
        Type::PrimitiveType { physical_type: Physical::FIXED_LEN_BYTE_ARRAY, type_length, .. } => {
            format!("fixed_len_byte_array({type_length})")
        }
        _ => leaf.get_physical_type().to_string().to_lowercase(),
    }
}

/// Returns the name and the logical type of a primitive type.
fn primitive(leaf: &Type) -> (String, FooterValueType) {
    let info = leaf.get_basic_info();
    let stored = leaf.get_physical_type();
    if let Some(named) = info.logical_type_ref().and_then(|logical| logical_type(logical, stored)) {
        return named;
    }
    let decimal = || (leaf.get_scale(), leaf.get_precision());
    converted_type(info.converted_type(), decimal).unwrap_or_else(|| (physical(leaf), meaning(stored)))
}

fn meaning(stored: Physical) -> FooterValueType {
    match stored {
        Physical::BOOLEAN => FooterValueType::Boolean,
        Physical::INT32 | Physical::INT64 => FooterValueType::Signed,
        Physical::FLOAT | Physical::DOUBLE => FooterValueType::Float,
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => FooterValueType::Bytes,
        Physical::INT96 => FooterValueType::Unordered,
    }
}

fn logical_type(logical: &LogicalType, stored: Physical) -> Option<(String, FooterValueType)> {
    let named = |name: &str, meaning| Some((name.to_owned(), meaning));
    match logical {
        LogicalType::String => named("string", FooterValueType::Text),
        LogicalType::Enum => named("enum", FooterValueType::Text),
        LogicalType::Json => named("json", FooterValueType::Text),
        LogicalType::Bson => named("bson", FooterValueType::Bytes),
        LogicalType::Uuid => named("uuid", FooterValueType::Uuid),
        LogicalType::Float16 => named("float16", FooterValueType::Float16),
        LogicalType::Date => named("date", FooterValueType::Date),
        LogicalType::Unknown => named("null", FooterValueType::Unordered),
        LogicalType::Decimal(decimal) => Some(decimal_type(decimal.scale, decimal.precision)),
        LogicalType::Integer(integer) => Some(integer_type(integer.bit_width.into(), integer.is_signed)),
        LogicalType::Time(time) => Some(time_type(time.unit, time.is_adjusted_to_u_t_c)),
        LogicalType::Timestamp(time) => Some(timestamp_type(time.unit, time.is_adjusted_to_u_t_c)),
        LogicalType::Geometry(_) => named("geometry", FooterValueType::Unordered),
        LogicalType::Geography(_) => named("geography", FooterValueType::Unordered),
        LogicalType::Variant(_) => Some(("variant".to_owned(), meaning(stored))),
        _ => None,
    }
}

fn converted_type(
    converted: ConvertedType,
    decimal: impl Fn() -> (i32, i32),
) -> Option<(String, FooterValueType)> {
    use ConvertedType as C;
    let named = |name: &str, meaning| Some((name.to_owned(), meaning));
    match converted {
        C::UTF8 => named("string", FooterValueType::Text),
        C::ENUM => named("enum", FooterValueType::Text),
        C::JSON => named("json", FooterValueType::Text),
        C::BSON => named("bson", FooterValueType::Bytes),
        C::INTERVAL => named("interval", FooterValueType::Unordered),
        C::DATE => named("date", FooterValueType::Date),
        C::DECIMAL => {
            let (scale, precision) = decimal();
            Some(decimal_type(scale, precision))
        }
        C::UINT_8 => Some(integer_type(8, false)),
        C::UINT_16 => Some(integer_type(16, false)),
        C::UINT_32 => Some(integer_type(32, false)),
        C::UINT_64 => Some(integer_type(64, false)),
        C::INT_8 => Some(integer_type(8, true)),
        C::INT_16 => Some(integer_type(16, true)),
        C::INT_32 => Some(integer_type(32, true)),
        C::INT_64 => Some(integer_type(64, true)),
        C::TIME_MILLIS => Some(time_type(ParquetUnit::MILLIS, true)),
        C::TIME_MICROS => Some(time_type(ParquetUnit::MICROS, true)),
        C::TIMESTAMP_MILLIS => Some(timestamp_type(ParquetUnit::MILLIS, true)),
        C::TIMESTAMP_MICROS => Some(timestamp_type(ParquetUnit::MICROS, true)),
        C::NONE | C::MAP | C::MAP_KEY_VALUE | C::LIST => None,
    }
}

fn decimal_type(scale: i32, precision: i32) -> (String, FooterValueType) {
    let meaning = match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision), Ok(scale)) if precision <= 38 => FooterValueType::Decimal { precision, scale },
        _ => FooterValueType::Unordered,
    };
    (format!("decimal({precision}, {scale})"), meaning)
}

fn integer_type(bits: i32, signed: bool) -> (String, FooterValueType) {
    if signed {
        (format!("int{bits}"), FooterValueType::Signed)
    } else {
        (format!("uint{bits}"), FooterValueType::Unsigned)
    }
}

fn time_type(unit: ParquetUnit, utc: bool) -> (String, FooterValueType) {
    let (name, unit) = unit_of(unit);
    (format!("time({name}{})", if utc { ", utc" } else { "" }), FooterValueType::Time(unit))
}

fn timestamp_type(unit: ParquetUnit, utc: bool) -> (String, FooterValueType) {
    let (name, unit) = unit_of(unit);
    (format!("timestamp({name}{})", if utc { ", utc" } else { "" }), FooterValueType::Timestamp { unit, utc })
}

fn unit_of(unit: ParquetUnit) -> (&'static str, TimeUnit) {
    match unit {
        ParquetUnit::MILLIS => ("ms", TimeUnit::Millisecond),
        ParquetUnit::MICROS => ("us", TimeUnit::Microsecond),
        ParquetUnit::NANOS => ("ns", TimeUnit::Nanosecond),
    }
}

/// Returns the bounds of statistics; `None` if there are no reliable ones.
pub(super) fn statistics_bounds(
    statistics: &Statistics,
    leaf: &InspectedLeaf,
) -> Option<(FooterValue, FooterValue)> {
    // The deprecated fields order bytes and unsigned numbers as signed.
    let compared = matches!(
        leaf.meaning,
        FooterValueType::Boolean | FooterValueType::Signed | FooterValueType::Float | FooterValueType::Date
    ) || matches!(leaf.meaning, FooterValueType::Time(_) | FooterValueType::Timestamp { .. });

    if statistics.is_min_max_deprecated() && !compared || leaf.meaning == FooterValueType::Unordered {
        return None;
    }

    let min = statistics.min_bytes_opt()?;
    let max = statistics.max_bytes_opt()?;
    let value = |bytes| value(bytes, statistics.physical_type(), leaf.meaning);
    Some((value(min)?, value(max)?))
}

fn value(bytes: &[u8], stored: Physical, meaning: FooterValueType) -> Option<FooterValue> {
    Some(match stored {
        Physical::BOOLEAN => FooterValue::Boolean(*bytes.first()? != 0),
        Physical::INT32 => {
            let number = i32::from_le_bytes(bytes.try_into().ok()?);
            FooterValue::Integer(if meaning == FooterValueType::Unsigned {
                (number as u32).into()
            } else {
                number.into()
            })
        }
        Physical::INT64 => {
            let number = i64::from_le_bytes(bytes.try_into().ok()?);
            FooterValue::Integer(if meaning == FooterValueType::Unsigned {
                (number as u64).into()
            } else {
                number.into()
            })
        }
        Physical::FLOAT => FooterValue::Float(f32::from_le_bytes(bytes.try_into().ok()?).into()),
        Physical::DOUBLE => FooterValue::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
        Physical::INT96 => return None,
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => match meaning {
            FooterValueType::Decimal { .. } => FooterValue::Integer(big_endian(bytes)?),
            FooterValueType::Float16 => FooterValue::Float(half(u16::from_le_bytes(bytes.try_into().ok()?))),
            _ => FooterValue::Bytes(bytes.to_vec()),
        },
    })
}

/// Parses a big-endian number in two's complement, if it fits.
fn big_endian(bytes: &[u8]) -> Option<i128> {
    let sign = if *bytes.first()? & 0x80 == 0 { 0 } else { 0xff };
    let (extra, rest) = bytes.split_at(bytes.len().saturating_sub(16));
    let same_sign = rest.first().is_some_and(|first| first & 0x80 == sign & 0x80);
    if extra.iter().any(|byte| *byte != sign) || !same_sign {
        return None;
    }
    let start: i128 = if sign == 0 { 0 } else { -1 };
    Some(rest.iter().fold(start, |number, byte| (number << 8) | i128::from(*byte)))
}

/// Decodes a 16-bit floating-point number: a sign, five bits of exponent, ten of fraction.
fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f64::from(bits & 0x3ff);
    sign * match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use ::parquet::schema::parser::parse_message_type;

    use super::*;

    #[test]
    fn types_are_called_as_the_format_calls_them() {
        let schema = parse_message_type(
            "message m {
               required int64 id;
               optional binary name (UTF8);
               optional int32 price (DECIMAL(9, 2));
               optional int64 at (TIMESTAMP(MICROS, true));
               optional int32 small (INTEGER(8, false));
               optional int96 old;
               optional fixed_len_byte_array(16) uuid (UUID);
               optional group tags (LIST) { repeated group list { optional binary element (STRING); } }
             }",
        );

        let nodes = nodes(&schema.unwrap());
        let types: Vec<_> = nodes.iter().map(|node| node.data_type.as_str()).collect();
        let expected =
            ["int64", "string", "decimal(9, 2)", "timestamp(us, utc)", "uint8", "int96", "uuid", "list"];
        assert_eq!(types, expected);
        assert_eq!(nodes[1].physical_type.as_deref(), Some("byte_array"));
        assert_eq!(nodes[6].physical_type.as_deref(), Some("fixed_len_byte_array(16)"));
        assert!(nodes[0].physical_type.is_none() && !nodes[0].nullable && nodes[1].nullable);
        assert!(nodes[7].fields[0].repeated);
    }

    #[test]
    fn numbers_in_bytes_keep_their_sign() {
        assert_eq!(big_endian(&[0xff, 0xfe]), Some(-2));
        assert_eq!(big_endian(&[0x00, 0xff]), Some(255));
        assert_eq!(big_endian(&[0xff; 20]), Some(-1));
        assert_eq!(big_endian(&[1; 20]), None);
        assert_eq!(big_endian(&[]), None);
        let unsigned = value(&[0xff; 4], Physical::INT32, FooterValueType::Unsigned);
        assert_eq!(unsigned, Some(FooterValue::Integer(u32::MAX.into())));
        assert_eq!([0x3c00, 0xc000, 0x7c00, 1].map(half), [1.0, -2.0, f64::INFINITY, 2_f64.powi(-24)]);
    }

    #[test]
    fn bytes_of_another_length_are_no_value() {
        assert_eq!(value(&[1], Physical::INT64, FooterValueType::Signed), None);
        assert_eq!(value(&[], Physical::BOOLEAN, FooterValueType::Boolean), None);
    }
}
