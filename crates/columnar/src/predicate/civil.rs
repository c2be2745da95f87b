//! Days, times and timestamps to and from ISO 8601, over the whole range of their integers.
//!
//! The calendar is proleptic Gregorian, counted in eras of 400 years that begin in March, so that the leap day is the
//! last of its year.

use std::fmt;

pub(super) const NANOS_PER_SECOND: i128 = 1_000_000_000;
pub(super) const NANOS_PER_DAY: i128 = 86_400 * NANOS_PER_SECOND;

const DAYS_PER_ERA: i64 = 146_097;
/// From 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_EPOCH: i128 = 719_468;
/// More digits than any timestamp's year has.
const MAX_YEAR_DIGITS: usize = 22;

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CivilDate {
    pub(super) year: i128,
    pub(super) month: u8,
    pub(super) day: u8,
}

impl CivilDate {
    /// Returns the day this many days after 1970-01-01.
    pub(super) fn from_days(days: i128) -> Self {
        let days = days + DAYS_BEFORE_EPOCH;
        // Almost all days fit 64 bits, whose division is far cheaper.
        let (era, of_era) = match i64::try_from(days) {
            Ok(days) => (i128::from(days.div_euclid(DAYS_PER_ERA)), days.rem_euclid(DAYS_PER_ERA)),
            Err(_) => {
                let per_era = i128::from(DAYS_PER_ERA);
                (days.div_euclid(per_era), days.rem_euclid(per_era) as i64)
            }
        };

        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = era * 400 + i128::from(year_of_era + i64::from(month <= 2));

        Self { year, month: month as u8, day: day as u8 }
    }

    /// Returns the number of days after 1970-01-01.
    pub(super) fn to_days(self) -> i128 {
        let year = self.year - i128::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month = i128::from(self.month);
        let shifted_month = if month > 2 { month - 3 } else { month + 9 };
        let of_year = (153 * shifted_month + 2) / 5 + i128::from(self.day) - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        era * i128::from(DAYS_PER_ERA) + of_era - DAYS_BEFORE_EPOCH
    }

    /// Returns the same day this many months later, or the last day of a shorter month.
    pub(super) fn plus_months(self, months: i64) -> Self {
        let months = self.year * 12 + i128::from(self.month) - 1 + i128::from(months);
        let year = months.div_euclid(12);
        let month = months.rem_euclid(12) as u8 + 1;
        Self { year, month, day: self.day.min(month_days(year, month)) }
    }
}

impl fmt::Display for CivilDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.year {
            ..0 => "-",
            0..10_000 => "",
            _ => "+",
        };
        write!(f, "{sign}{:04}-{:02}-{:02}", self.year.unsigned_abs(), self.month, self.day)
    }
}

fn month_days(year: i128, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Writes a time, given in nanoseconds since midnight, without trailing zeros of the second.
pub(super) fn write_time(f: &mut impl fmt::Write, nanos: i128) -> fmt::Result {
    let seconds = nanos / NANOS_PER_SECOND;
    write!(f, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
    match nanos % NANOS_PER_SECOND {
        0 => Ok(()),
        fraction => f.write_str(format!(".{fraction:09}").trim_end_matches('0')),
    }
}

/// Writes a timestamp, given in nanoseconds since 1970-01-01T00:00:00.
pub(super) fn write_timestamp(f: &mut impl fmt::Write, nanos: i128) -> fmt::Result {
    write!(f, "{} ", CivilDate::from_days(nanos.div_euclid(NANOS_PER_DAY)))?;
    write_time(f, nanos.rem_euclid(NANOS_PER_DAY))
}

/// Parses a date such as `2024-02-29`. Returns days since 1970-01-01.
pub(super) fn parse_date(text: &str) -> Option<i128> {
    let mut cursor = DateTimeCursor(text.trim());
    let days = cursor.date()?;
    cursor.0.is_empty().then_some(days)
}

/// Parses a time such as `12:30`, `12:30:15` or `12:30:15.123456789`. Returns nanoseconds since midnight.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    let mut cursor = DateTimeCursor(text.trim());
    let nanos = cursor.time()?;
    cursor.0.is_empty().then_some(nanos as i64)
}

/// Parses a date, or a date and a time separated by a blank or `T`, followed by `Z`, an offset such as `+02:00`, or
/// nothing, which means UTC. Returns nanoseconds since 1970-01-01T00:00:00.
pub(crate) fn parse_timestamp(text: &str) -> Option<i128> {
    let mut cursor = DateTimeCursor(text.trim());
    let midnight = cursor.date()?.checked_mul(NANOS_PER_DAY)?;
    if cursor.0.is_empty() {
        return Some(midnight);
    }
    if !(cursor.eat('T') || cursor.eat('t') || cursor.eat(' ')) {
        return None;
    }

    let local = midnight.checked_add(cursor.time()?)?;
    cursor.0 = cursor.0.trim_start();
    let offset = cursor.offset()?;
    cursor.0.is_empty().then_some(())?;

    local.checked_sub(offset)
}

struct DateTimeCursor<'a>(&'a str);

impl DateTimeCursor<'_> {
    fn eat(&mut self, wanted: char) -> bool {
        match self.0.strip_prefix(wanted) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Parses a number with a length in this range.
    fn digits(&mut self, min: usize, max: usize) -> Option<i128> {
        let count = self.0.bytes().take(max).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        if count < min { None } else { digits.parse().ok() }
    }

    fn pair(&mut self, max: i128) -> Option<i128> {
        self.digits(2, 2).filter(|value| *value <= max)
    }

    fn date(&mut self) -> Option<i128> {
        let negative = self.eat('-');
        let signed = negative || self.eat('+');
        let year = self.digits(4, if signed { MAX_YEAR_DIGITS } else { 4 })?;
        let year = if negative { -year } else { year };
        self.eat('-').then_some(())?;
        let month = self.pair(12)? as u8;
        self.eat('-').then_some(())?;
        let day = self.pair(31)? as u8;
        (month >= 1 && day >= 1 && day <= month_days(year, month)).then_some(())?;

        Some(CivilDate { year, month, day }.to_days())
    }

    fn time(&mut self) -> Option<i128> {
        let hours = self.pair(23)?;
        self.eat(':').then_some(())?;
        let minutes = self.pair(59)?;
        let seconds = if self.eat(':') { self.pair(59)? } else { 0 };
        let mut nanos = ((hours * 60 + minutes) * 60 + seconds) * NANOS_PER_SECOND;

        if self.eat('.') {
            let before = self.0.len();
            let fraction = self.digits(1, 9)?;
            let digits = (before - self.0.len()) as u32;
            nanos += fraction * 10_i128.pow(9 - digits);
        }

        Some(nanos)
    }

    fn offset(&mut self) -> Option<i128> {
        let sign = match self.0.chars().next() {
            None => return Some(0),
            Some('Z' | 'z') => {
                self.0 = self.0.get(1..)?;
                return Some(0);
            }
            Some('+') => 1,
            Some('-') => -1,
            Some(_) => return None,
        };

        self.0 = self.0.get(1..)?;
        let hours = self.pair(23)?;
        let minutes = if self.eat(':') || !self.0.is_empty() { self.pair(59)? } else { 0 };

        Some(sign * (hours * 60 + minutes) * 60 * NANOS_PER_SECOND)
    }
}
