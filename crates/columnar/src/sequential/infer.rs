//! Infers the type of a column of strings: the narrowest that represents each of them without loss.

use arrow::{
    compute::kernels::cast_utils::{Parser, string_to_datetime},
    datatypes::{DataType, Date32Type, TimeUnit},
};
use chrono::Utc;

/// Characters of `2020-01-02`.
const DATE: usize = 10;
/// Largest integer up to which every integer has a distinct float64.
const MAX_EXACT: u64 = 1 << 53;

/// Strings that are recognized as timestamps. All of them are read in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimestampInference {
    /// Strings with at most six fractional digits. If all strings of a column have an offset from UTC, the type
    /// has the zone UTC; if only some have one, the column remains text.
    #[default]
    Microseconds,
    /// Strings with at most three fractional digits, as in graphs. Offsets are applied, and the type has no zone.
    UtcMilliseconds,
}

/// Returns the type of timestamps with an offset from UTC.
fn in_utc() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Type of timestamps without an offset.
const LOCAL: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// The types that fit all values seen so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypeInference {
    timestamps: TimestampInference,
    has_values: bool,
    boolean: bool,
    integer: bool,
    number: bool,
    /// True if one of the numbers is neither `NaN` nor infinite.
    has_finite: bool,
    /// True if one of the numbers is not written as an integer. `-0` alone does not make a column floating-point.
    has_float: bool,
    date: bool,
    local: bool,
    utc: bool,
}

impl TypeInference {
    pub(super) fn new(timestamps: TimestampInference) -> Self {
        Self {
            timestamps,
            has_values: false,
            boolean: true,
            integer: true,
            number: true,
            has_finite: false,
            has_float: false,
            date: true,
            local: true,
            utc: timestamps == TimestampInference::Microseconds,
        }
    }

    /// Adds a value. An empty string has no effect.
    pub(super) fn see(&mut self, text: &str) {
        if text.is_empty() || self.is_text() {
            return;
        }

        self.has_values = true;
        self.boolean = self.boolean && is_boolean(text);
        self.integer = self.integer && is_integer(text);
        if self.number {
            let number = number(text);
            self.number = number.is_some();
            self.has_finite |= number == Some(NumberFiniteness::Finite);
            self.has_float |= number.is_some() && !is_digits(text);
        }

        self.date = self.date && is_date(text);
        if self.local || self.utc {
            let (local, utc) = point_in_time(text, self.timestamps);
            self.local = self.local && local;
            self.utc = self.utc && utc;
        }
    }

    fn is_text(&self) -> bool {
        let text = Self::text(self.timestamps);
        self.has_values && *self == Self { has_finite: self.has_finite, has_float: self.has_float, ..text }
    }

    fn text(timestamps: TimestampInference) -> Self {
        Self {
            timestamps,
            has_values: true,
            boolean: false,
            integer: false,
            number: false,
            has_finite: false,
            has_float: false,
            date: false,
            local: false,
            utc: false,
        }
    }

    /// Returns the inferred type.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Self { has_values: false, .. } => DataType::Utf8,
            Self { boolean: true, .. } => DataType::Boolean,
            Self { integer: true, .. } => DataType::Int64,
            Self { number: true, has_finite: true, has_float: true, .. } => DataType::Float64,
            Self { date: true, .. } => DataType::Date32,
            Self { local: true, .. } => LOCAL,
            Self { utc: true, .. } => in_utc(),
            _ => DataType::Utf8,
        }
    }
}

/// Returns `true` if a value fits an inferred type by the rules of the inference, which are stricter than those of a
/// cast.
pub(super) fn fits(text: &str, data_type: &DataType, timestamps: TimestampInference) -> bool {
    match data_type {
        DataType::Boolean => is_boolean(text),
        DataType::Int64 => is_integer(text),
        DataType::Float64 => number(text).is_some(),
        DataType::Date32 => is_date(text),
        DataType::Timestamp(_, None) => point_in_time(text, timestamps).0,
        DataType::Timestamp(_, Some(_)) => point_in_time(text, timestamps).1,
        _ => true,
    }
}

fn is_boolean(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
}

/// Returns `true` for 64-bit integers in canonical form: not for `007`, which may be an identifier, nor for `-0`, whose
/// sign would be lost.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = text == "0" || !digits.starts_with('0');
    is_plain && is_digits(text) && text.parse::<i64>().is_ok()
}

/// Returns `true` for digits after an optional minus.
fn is_digits(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberFiniteness {
    Finite,
    NotFinite,
}

/// Recognizes integers that float64 represents exactly, among them `-0`, numbers with a point or an exponent, `NaN` and
/// infinity.
fn number(text: &str) -> Option<NumberFiniteness> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if is_digits(text) {
        let is_exact = unsigned.parse::<u64>().is_ok_and(|number| number <= MAX_EXACT);
        return (is_exact && (is_integer(text) || text == "-0")).then_some(NumberFiniteness::Finite);
    }

    let is_infinite = ["inf", "infinity"].iter().any(|name| unsigned.eq_ignore_ascii_case(name));
    if is_infinite || text.eq_ignore_ascii_case("nan") {
        return Some(NumberFiniteness::NotFinite);
    }

    let leading = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    let is_plain = leading <= 1 || !unsigned.starts_with('0');
    let is_of_numbers = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    let begins = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let is_number = is_plain
        && begins
        && unsigned.bytes().all(is_of_numbers)
        && text.parse::<f64>().is_ok_and(f64::is_finite);

    is_number.then_some(NumberFiniteness::Finite)
}

/// Returns `true` for calendar days such as `2020-01-02`.
fn is_date(text: &str) -> bool {
    text.len() == DATE && begins_with_date(text) && Date32Type::parse(text).is_some()
}

/// Returns `true` for a prefix such as `2020-01-02`, followed by the end or a time.
fn begins_with_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let begins = bytes.iter().take(DATE).enumerate().all(|(at, byte)| match at {
        4 | 7 => *byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    begins && bytes.len() >= DATE && matches!(bytes.get(DATE), None | Some(b'T' | b't' | b' '))
}

/// Returns whether the string is a timestamp of a column without a zone, and of one in UTC.
fn point_in_time(text: &str, timestamps: TimestampInference) -> (bool, bool) {
    if !begins_with_date(text) || string_to_datetime(&Utc, text).is_err() {
        return (false, false);
    }

    let time = text.get(DATE + 1..).unwrap_or_default();
    let clock = time.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.')).unwrap_or(time.len());
    let (clock, offset) = time.split_at(clock);
    // The name of a zone carries more than an offset.
    let is_offset = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b':' | b'Z' | b'z');
    if !offset.bytes().all(is_offset) {
        return (false, false);
    }

    let max_digits = match timestamps {
        TimestampInference::Microseconds => 6,
        TimestampInference::UtcMilliseconds => 3,
    };

    let fraction = clock.split_once('.').map_or("", |(_, fraction)| fraction);
    if fraction.bytes().skip(max_digits).any(|digit| digit != b'0') {
        return (false, false);
    }
    match timestamps {
        TimestampInference::Microseconds => (offset.is_empty(), !offset.is_empty()),
        TimestampInference::UtcMilliseconds => (true, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred_as(timestamps: TimestampInference, texts: &[&str]) -> DataType {
        let mut inference = TypeInference::new(timestamps);
        for text in texts {
            inference.see(text);
            inference.see("");
        }
        let data_type = inference.data_type();
        for text in texts.iter().filter(|text| !text.is_empty()) {
            assert!(fits(text, &data_type, timestamps), "{text} as {data_type}");
        }
        data_type
    }

    fn inferred(texts: &[&str]) -> DataType {
        inferred_as(TimestampInference::Microseconds, texts)
    }

    #[test]
    fn the_narrowest_type_that_holds_all_values_is_taken() {
        assert_eq!(inferred(&["0", "-12", "9223372036854775807"]), DataType::Int64);
        assert_eq!(
            inferred(&["1", "2.5", "-1e-3", "0.5", ".5", "5.", "9007199254740992"]),
            DataType::Float64
        );
        assert_eq!(inferred(&["NaN", "1", "-inf", "Infinity"]), DataType::Float64);
        assert_eq!(inferred(&["-0", "1", "0.5"]), DataType::Float64);
        assert_eq!(inferred(&["true", "False"]), DataType::Boolean);
        assert_eq!(inferred(&["2020-02-29", "1969-12-31", "9999-12-31"]), DataType::Date32);
        assert_eq!(inferred(&["2020-02-29", "0001-01-01 10:00:00.123456"]), LOCAL);
        assert_eq!(inferred(&["2010-07-30T15:19:53.298+0000", "2010-07-30 15:19:53Z"]), in_utc());
        assert_eq!(inferred(&["", ""]), DataType::Utf8);
    }

    #[test]
    fn points_in_time_of_graphs_are_milliseconds_in_utc() {
        let graph = |texts: &[&str]| inferred_as(TimestampInference::UtcMilliseconds, texts);
        assert_eq!(graph(&["2010-07-30T15:19:53.298+0000", "2010-07-30 15:19:53", "2010-07-30"]), LOCAL);
        assert_eq!(graph(&["2010-07-30T15:19:53.298000Z"]), LOCAL);
        assert_eq!(graph(&["2010-07-30T15:19:53.2981"]), DataType::Utf8);
    }

    #[test]
    fn what_would_be_lost_stays_text() {
        for texts in [
            &["007"][..],
            &["-0"],
            &["0", "-0", "1"],
            &["-00", "0.5"],
            &["-"],
            &["."],
            &["+1"],
            &[" 1"],
            &["1 "],
            &["9223372036854775808"],
            &["9007199254740993", "0.5"],
            &["00.5"],
            &["1", "true"],
            &["NaN"],
            &["inf", "nan"],
            &["1e999"],
            &["1e"],
            &["2019-02-29"],
            &["2020-1-2"],
            &["2020-01-02x"],
            &["2010-07-30T15:19:53.2981234"],
            &["2010-07-30T25:19:53"],
            &["2010-07-30T15:19:53Z", "2010-07-30T15:19:53"],
            &["2010-07-30T15:19:53 Europe/Oslo"],
            &["2020-01-01", "7"],
            &["1.2.3"],
        ] {
            assert_eq!(inferred(texts), DataType::Utf8, "{texts:?}");
        }
    }

    #[test]
    fn a_later_value_fits_by_the_same_rules() {
        let fits = |text, data_type| fits(text, &data_type, TimestampInference::Microseconds);
        assert!(fits("7", DataType::Int64) && !fits("07", DataType::Int64) && !fits("+7", DataType::Int64));
        assert!(fits("7", DataType::Float64) && !fits("x", DataType::Float64));
        assert!(fits("-0", DataType::Float64) && !fits("-0", DataType::Int64));
        assert!(fits("x", DataType::Utf8) && !fits("1", DataType::Boolean));
        assert!(!fits("2020-01-02 00:00:00", DataType::Date32));
    }
}
