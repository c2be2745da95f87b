//! Infers the types of JSON values: the narrowest that represents each of them without loss.

use std::{collections::HashMap, fmt, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Largest integer up to which every integer has a distinct float64.
const MAX_EXACT: u64 = 1 << 53;
/// Magnitude from which integers do not fit into a signed 64-bit integer.
const INTEGER_LIMIT: f64 = (1_u64 << 63) as f64;

/// The type that fits all values seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) enum JsonType {
    /// All values were null.
    #[default]
    Null,
    Bool,
    /// Integers of 64 bits, with a flag if float64 represents each of them exactly.
    Int {
        is_exact: bool,
    },
    Float,
    Text,
    List(Box<JsonType>),
    Struct(JsonFields),
    /// Objects or lists mixed with other values, without a common type. Holds the first line of the second kind.
    Mixed {
        line: u64,
    },
}

/// The fields of objects, in order of first appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonFields {
    positions: HashMap<String, usize>,
    fields: Vec<(String, JsonType)>,
}

impl JsonFields {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, JsonType)> {
        self.fields.iter()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&JsonType> {
        self.positions.get(name).and_then(|position| self.fields.get(*position)).map(|(_, of_field)| of_field)
    }

    /// Returns the field, and whether it is new.
    fn get_or_add(&mut self, name: String) -> Option<(&mut JsonType, bool)> {
        let next = self.fields.len();
        let position = *self.positions.entry(name.clone()).or_insert(next);
        if position == next {
            self.fields.push((name, JsonType::Null));
        }
        self.fields.get_mut(position).map(|(_, of_field)| (of_field, position == next))
    }

    /// Adds a record. Returns the top-level fields whose type became wider.
    pub(crate) fn see(&mut self, record: &[u8], line: u64) -> Result<Vec<String>, serde_json::Error> {
        let mut widened = Vec::new();
        let mut numbers = NumberTokens::new(record);
        let mut deserializer = serde_json::Deserializer::from_slice(record);
        JsonRecordSeed { fields: self, line, widened: &mut widened, numbers: &mut numbers }
            .deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(widened)
    }
}

impl JsonType {
    /// Returns the inferred type, or the line of the first value without a common type.
    pub(crate) fn data_type(&self) -> Result<DataType, u64> {
        Ok(match self {
            Self::Null | Self::Text => DataType::Utf8,
            Self::Bool => DataType::Boolean,
            Self::Int { .. } => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::List(item) => DataType::List(Arc::new(Field::new_list_field(item.data_type()?, true))),
            Self::Struct(fields) => {
                let field = |(name, of_field): &(String, Self)| {
                    Ok(Arc::new(Field::new(name, of_field.data_type()?, true)) as FieldRef)
                };
                DataType::Struct(fields.iter().map(field).collect::<Result<_, u64>>()?)
            }
            Self::Mixed { line } => return Err(*line),
        })
    }

    fn integer(value: i64) -> Self {
        Self::Int { is_exact: value.unsigned_abs() <= MAX_EXACT }
    }

    /// Adds a scalar value. Returns `true` if the type became wider.
    fn widen(&mut self, value: Self, line: u64) -> bool {
        let wider = match (&*self, value) {
            (Self::Null, value) => value,
            (Self::Bool, Self::Bool) | (Self::Float, Self::Float) | (Self::Text | Self::Mixed { .. }, _) => {
                return false;
            }
            (Self::Int { is_exact }, Self::Int { is_exact: other }) => {
                if !is_exact || other {
                    return false;
                }
                Self::Int { is_exact: false }
            }
            (Self::Float, Self::Int { is_exact: true }) => return false,
            (Self::Int { is_exact: true }, Self::Float) => Self::Float,
            (Self::List(_) | Self::Struct(_), _) => Self::Mixed { line },
            _ => Self::Text,
        };

        *self = wider;
        true
    }

    /// Adds a list. Returns the type of its items, and whether the type became wider.
    fn list(&mut self, line: u64) -> (Option<&mut Self>, bool) {
        let is_new = match self {
            Self::List(_) | Self::Mixed { .. } => false,
            Self::Null => {
                *self = Self::List(Box::default());
                true
            }
            _ => {
                *self = Self::Mixed { line };
                true
            }
        };

        (if let Self::List(item) = self { Some(item) } else { None }, is_new)
    }

    /// Adds an object. Returns its fields, and whether the type became wider.
    fn object(&mut self, line: u64) -> (Option<&mut JsonFields>, bool) {
        let is_new = match self {
            Self::Struct(_) | Self::Mixed { .. } => false,
            Self::Null => {
                *self = Self::Struct(JsonFields::default());
                true
            }
            _ => {
                *self = Self::Mixed { line };
                true
            }
        };

        (if let Self::Struct(fields) = self { Some(fields) } else { None }, is_new)
    }
}

/// The numbers of a record as they are written, located on demand.
///
/// The parser returns integers beyond 64 bits as floating-point numbers, without indicating whether a fraction or
/// an exponent was written.
struct NumberTokens<'a> {
    /// The part of the record after the last number that was found.
    rest: &'a [u8],
    found: u64,
    /// Number of numbers that the parser has returned so far.
    parsed: u64,
}

impl<'a> NumberTokens<'a> {
    fn new(record: &'a [u8]) -> Self {
        Self { rest: record, found: 0, parsed: 0 }
    }

    /// Returns `true` if the last number that the parser returned is an integer: digits, without a fraction or an
    /// exponent.
    fn is_integer(&mut self) -> bool {
        let mut token: &[u8] = &[];
        while self.found < self.parsed {
            let Some(next) = self.next() else { return false };
            token = next;
            self.found += 1;
        }

        let digits = token.strip_prefix(b"-").unwrap_or(token);
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
    }

    /// Returns the next number of the record, which is valid JSON up to there.
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let start = self.rest.iter().position(|byte| matches!(byte, b'"' | b'-' | b'0'..=b'9'))?;
            let rest = self.rest.get(start..)?;
            if let Some(text) = rest.strip_prefix(b"\"") {
                self.rest = after_string(text)?;
                continue;
            }

            let is_of_number =
                |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
            let len = rest.iter().position(|byte| !is_of_number(byte)).unwrap_or(rest.len());
            let (token, rest) = rest.split_at_checked(len)?;
            self.rest = rest;
            return Some(token);
        }
    }
}

/// Returns the text after the string whose opening quote precedes it.
fn after_string(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    loop {
        let at = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
        let is_end = rest.get(at) == Some(&b'"');
        rest = rest.get(at + if is_end { 1 } else { 2 }..)?;
        if is_end {
            return Some(rest);
        }
    }
}

/// Seed that adds a record to the inferred fields while it is parsed.
struct JsonRecordSeed<'a, 'n> {
    fields: &'a mut JsonFields,
    line: u64,
    widened: &'a mut Vec<String>,
    numbers: &'a mut NumberTokens<'n>,
}

impl<'de> DeserializeSeed<'de> for JsonRecordSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for JsonRecordSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let mut is_wider = false;
            let (of_field, is_new) =
                self.fields.get_or_add(name.clone()).ok_or_else(|| A::Error::custom("a field is missing"))?;
            map.next_value_seed(JsonValueSeed {
                of: of_field,
                line: self.line,
                is_wider: &mut is_wider,
                numbers: &mut *self.numbers,
            })?;
            if is_wider || is_new {
                self.widened.push(name);
            }
        }
        Ok(())
    }
}

/// Seed that adds a value to an inferred type while it is parsed.
struct JsonValueSeed<'a, 'n> {
    of: &'a mut JsonType,
    line: u64,
    is_wider: &'a mut bool,
    numbers: &'a mut NumberTokens<'n>,
}

impl JsonValueSeed<'_, '_> {
    fn scalar<E>(self, value: JsonType) -> Result<(), E> {
        *self.is_wider |= self.of.widen(value, self.line);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for JsonValueSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonValueSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.scalar(JsonType::Bool)
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.numbers.parsed += 1;
        self.scalar(JsonType::integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.numbers.parsed += 1;
        match i64::try_from(value) {
            Ok(value) => self.scalar(JsonType::integer(value)),
            // The number exceeds a signed 64-bit integer.
            Err(_) => self.scalar(JsonType::Text),
        }
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.numbers.parsed += 1;
        let is_beyond = value.abs() >= INTEGER_LIMIT && self.numbers.is_integer();
        self.scalar(if is_beyond { JsonType::Text } else { JsonType::Float })
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.scalar(JsonType::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let (item, is_new) = self.of.list(self.line);
        *self.is_wider |= is_new;
        // Values without a common type are parsed as all others, so that their numbers are counted.
        let mut ignored = JsonType::Mixed { line: self.line };
        let item = item.unwrap_or(&mut ignored);
        let line = self.line;
        let is_wider = self.is_wider;
        let numbers = self.numbers;
        while items
            .next_element_seed(JsonValueSeed {
                of: &mut *item,
                line,
                is_wider: &mut *is_wider,
                numbers: &mut *numbers,
            })?
            .is_some()
        {}

        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut fields, is_new) = self.of.object(self.line);
        *self.is_wider |= is_new;
        let mut ignored = JsonType::Mixed { line: self.line };

        while let Some(name) = map.next_key::<String>()? {
            let of_field = match &mut fields {
                None => &mut ignored,
                Some(fields) => {
                    let (of_field, is_new) =
                        fields.get_or_add(name).ok_or_else(|| A::Error::custom("a field is missing"))?;
                    *self.is_wider |= is_new;
                    of_field
                }
            };
            map.next_value_seed(JsonValueSeed {
                of: of_field,
                line: self.line,
                is_wider: &mut *self.is_wider,
                numbers: &mut *self.numbers,
            })?;
        }

        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(records: &[&str]) -> Vec<(String, Result<DataType, u64>)> {
        let mut fields = JsonFields::default();
        for (record, line) in records.iter().zip(1..) {
            fields.see(record.as_bytes(), line).unwrap();
        }
        fields.iter().map(|(name, of_field)| (name.clone(), of_field.data_type())).collect()
    }

    fn one(records: &[&str]) -> Result<DataType, u64> {
        inferred(records).remove(0).1
    }

    #[test]
    fn the_narrowest_type_that_holds_all_values_is_taken() {
        assert_eq!(
            one(&[r#"{"a": 1}"#, r#"{"a": null}"#, r#"{"a": -9223372036854775808}"#]),
            Ok(DataType::Int64)
        );
        assert_eq!(one(&[r#"{"a": 1}"#, r#"{"a": 1.5}"#]), Ok(DataType::Float64));
        assert_eq!(one(&[r#"{"a": 1.5}"#, r#"{"a": 1}"#]), Ok(DataType::Float64));
        assert_eq!(one(&[r#"{"a": true}"#]), Ok(DataType::Boolean));
        assert_eq!(one(&[r#"{"a": null}"#]), Ok(DataType::Utf8));

        for mixed in [r#"{"a": "x"}"#, r#"{"a": true}"#] {
            assert_eq!(one(&[r#"{"a": 1}"#, mixed]), Ok(DataType::Utf8));
        }
        assert_eq!(one(&[r#"{"a": 9223372036854775808}"#]), Ok(DataType::Utf8));
        assert_eq!(one(&[r#"{"a": 9007199254740993}"#, r#"{"a": 0.5}"#]), Ok(DataType::Utf8));
        for beyond in ["-9223372036854775809", "18446744073709551616", "123456789012345678901234567890"] {
            let record = format!(r#"{{"x": [1e30, "7\"", -2], "y": {{"5": 2.5}}, "a": {beyond}}}"#);
            let mut columns = inferred(&[&record]);
            assert_eq!(columns.remove(2).1, Ok(DataType::Utf8), "{beyond}");
            assert_eq!(one(&[&format!(r#"{{"a": {beyond}}}"#), r#"{"a": 0.5}"#]), Ok(DataType::Utf8));
            for float in [format!("{beyond}.0"), format!("{beyond}e0")] {
                assert_eq!(one(&[&format!(r#"{{"a": {float}}}"#)]), Ok(DataType::Float64), "{float}");
            }
        }
        let list = one(&[r#"{"a": []}"#, r#"{"a": [1, null]}"#, r#"{"a": [2.5]}"#]).unwrap();
        assert_eq!(list, DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true))));
    }

    #[test]
    fn fields_come_in_the_order_in_which_they_were_first_seen() {
        let columns = inferred(&[r#"{"z": 1, "s": {"y": 1}}"#, r#"{"a": true, "s": {"x": [true]}, "z": 2}"#]);
        let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["z", "s", "a"]);
        let Ok(DataType::Struct(fields)) = &columns[1].1 else { panic!() };
        assert_eq!((fields[0].name().as_str(), fields[1].name().as_str()), ("y", "x"));
    }

    #[test]
    fn objects_and_others_have_no_type_in_common() {
        assert_eq!(one(&[r#"{"a": 1}"#, r#"{"a": {}}"#, r#"{"a": []}"#]), Err(2));
        assert_eq!(one(&[r#"{"a": [[1]]}"#, r#"{"a": [1]}"#]), Err(2));
        assert_eq!(one(&[r#"{"a": {"b": {}}}"#, r#"{"a": null}"#, r#"{"a": {"b": 1}}"#]), Err(3));
    }

    #[test]
    fn a_record_says_which_columns_it_widens() {
        let mut fields = JsonFields::default();
        fields.see(br#"{"a": 1, "b": {"c": 1}, "d": null}"#, 1).unwrap();
        assert_eq!(fields.see(br#"{"a": 2, "b": {"c": 2}, "d": null}"#, 2).unwrap(), [""; 0]);
        assert_eq!(fields.see(br#"{"a": "x", "b": {"c": 1.5}, "e": null}"#, 3).unwrap(), ["a", "b", "e"]);
        assert_eq!(fields.see(br#"{"d": 1}"#, 4).unwrap(), ["d"]);
        assert!(fields.see(br#"{"d": tru}"#, 5).is_err() && fields.see(b"{} {}", 5).is_err());
    }
}
