//! Which type the values of a column of texts have: the narrowest that loses nothing of any of them.

use arrow::{
    array::{Array, ArrayRef, AsArray, StringArray},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, TimeUnit},
};

/// The type that points in time are read as.
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
/// Letters of `2020-01-02`.
const DATE: usize = 10;

/// What the values that were seen so far can all be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    has_values: bool,
    boolean: bool,
    integer: bool,
    number: bool,
    date: bool,
    timestamp: bool,
}

impl Guess {
    pub(super) fn new() -> Self {
        Self { has_values: false, boolean: true, integer: true, number: true, date: true, timestamp: true }
    }

    /// Looks at values. Those that are missing or empty say nothing.
    pub(super) fn see(&mut self, texts: &ArrayRef) {
        let Some(values) = texts.as_string_opt::<i32>() else { return };
        for text in values.iter().flatten().filter(|text| !text.is_empty()) {
            self.has_values = true;
            self.boolean &= text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
            self.integer &= is_integer(text);
            self.number &= is_number(text);
            self.date &= text.len() == DATE && is_date(text);
            self.timestamp &= is_date(text) && is_in_milliseconds(text);
            if self.is_text() {
                return;
            }
        }
        // The calendar knows best which of them there are.
        self.date = self.date && all_are(values, &DataType::Date32);
        self.timestamp = self.timestamp && all_are(values, &TIMESTAMP);
    }

    fn is_text(&self) -> bool {
        !(self.boolean || self.integer || self.number || self.date || self.timestamp)
    }

    /// The type to read them as.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Self { has_values: false, .. } => DataType::Utf8,
            Self { boolean: true, .. } => DataType::Boolean,
            Self { integer: true, .. } => DataType::Int64,
            Self { number: true, .. } => DataType::Float64,
            Self { date: true, .. } => DataType::Date32,
            Self { timestamp: true, .. } => TIMESTAMP,
            _ => DataType::Utf8,
        }
    }
}

/// Whole numbers as they are written again: not `007`, which is a name made of digits, nor what 64 bits do not hold.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits == "0" || !digits.starts_with('0');
    is_plain && digits.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i64>().is_ok()
}

/// Whole numbers, and those with a point or an exponent.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return is_integer(text);
    }
    let leads = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let is_plain = leads == 1 || !unsigned.starts_with('0');
    let is_of_numbers = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    is_plain
        && leads > 0
        && unsigned.bytes().all(is_of_numbers)
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Whether it begins as `2020-01-02` does, and ends there or goes on with a time.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let begins = bytes.iter().take(DATE).enumerate().all(|(at, byte)| match at {
        4 | 7 => *byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    begins && bytes.len() >= DATE && matches!(bytes.get(DATE), None | Some(b'T' | b't' | b' '))
}

/// Whether no digit stands behind that of milliseconds: the graph would not hold it.
fn is_in_milliseconds(text: &str) -> bool {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit);
    digits.skip(3).all(|digit| digit == b'0')
}

/// Whether all texts can be read as values of a type.
fn all_are(texts: &StringArray, data_type: &DataType) -> bool {
    let read = cast_with_options(texts, data_type, &CastOptions { safe: true, ..CastOptions::default() });
    let is_missing = |row: usize| texts.is_null(row) || texts.value(row).is_empty();
    read.is_ok_and(|read| (0..texts.len()).all(|row| read.is_valid(row) || is_missing(row)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn guess(texts: &[&str]) -> DataType {
        let mut guess = Guess::new();
        for text in texts {
            guess.see(&(Arc::new(StringArray::from(vec![Some(*text), None, Some("")])) as ArrayRef));
        }
        guess.data_type()
    }

    #[test]
    fn the_narrowest_type_that_holds_all_values_is_taken() {
        assert_eq!(guess(&["0", "-12", "9223372036854775807"]), DataType::Int64);
        assert_eq!(guess(&["1", "2.5", "-1e-3", "0.5"]), DataType::Float64);
        assert_eq!(guess(&["true", "False"]), DataType::Boolean);
        assert_eq!(guess(&["2020-02-29", "1969-12-31"]), DataType::Date32);
        assert_eq!(guess(&["2010-07-30T15:19:53.298+0000", "2010-07-30 15:19:53", "2010-07-30"]), TIMESTAMP);
        assert_eq!(guess(&["2010-07-30T15:19:53.298000Z"]), TIMESTAMP);
        assert_eq!(guess(&["", ""]), DataType::Utf8);
    }

    #[test]
    fn what_would_be_lost_stays_text() {
        for texts in [
            &["007"][..],
            &["-"],
            &["+1"],
            &[" 1"],
            &["9223372036854775808"],
            &["00.5"],
            &["1", "true"],
            &["NaN", "1.5"],
            &["1e999"],
            &["2019-02-29"],
            &["2020-1-2"],
            &["2020-01-02x"],
            &["2010-07-30T15:19:53.2981"],
            &["2010-07-30T25:19:53"],
            &["2020-01-01", "7"],
            &["1.2.3"],
        ] {
            assert_eq!(guess(texts), DataType::Utf8, "{texts:?}");
        }
    }
}
