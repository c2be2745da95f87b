//! Converts days before October 15, 1582, which writers may count by the Julian calendar and Arrow counts by the
//! Gregorian, and clocks before 1900, for which Java uses the time zone's current standard time.

use arrow::array::timezone::Tz;
use chrono::{NaiveDate, Offset, TimeZone};
use orc_rust::proto::{CalendarKind, Footer};

use super::stripe_statistics::CPP_WRITER;

/// 1582-10-15, the first day of the Gregorian calendar, in days since 1970.
const GREGORIAN: i64 = -141_427;
/// Seconds of a day.
const DAY: i64 = 86_400;
/// March 1 of the year -4800 by the Julian calendar, in days since 1970.
const JULIAN_MARCH: i64 = -2_472_670;
const JULIAN_YEAR: i64 = -4_800;
/// March 1 of the year 0 by the Gregorian calendar, in days since 1970.
const GREGORIAN_MARCH: i64 = -719_468;
/// Days of four years of the Julian calendar.
const JULIAN_CYCLE: i64 = 1_461;

/// Calendar of a file's days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calendar {
    Gregorian,
    /// Julian before 1582.
    Hybrid,
}

impl Calendar {
    pub(super) fn of(footer: &Footer) -> Self {
        match footer.calendar() {
            CalendarKind::JulianGregorian => Self::Hybrid,
            CalendarKind::UnknownCalendar | CalendarKind::ProlepticGregorian => Self::Gregorian,
        }
    }

    /// Returns the day since 1970 that has the same date in the Gregorian calendar; February 29 becomes March 1 if that
    /// year lacks it.
    pub(super) fn day(self, day: i64) -> i64 {
        if self.keeps_day(day) {
            return day;
        }

        // Years begin in March, so that the leap day is the last.
        let since_march = day - JULIAN_MARCH;
        let year = (4 * since_march + 3).div_euclid(JULIAN_CYCLE);
        let of_year = since_march - (JULIAN_CYCLE * year).div_euclid(4);
        let year = year + JULIAN_YEAR;
        let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        GREGORIAN_MARCH + year * 365 + leap_days + of_year
    }

    /// Converts seconds since 1970, as [`Self::day`] converts days.
    pub(super) fn second(self, second: i64) -> i64 {
        let day = second.div_euclid(DAY);
        second.saturating_add((self.day(day) - day) * DAY)
    }

    /// Returns whether this day is the same in the file's calendar and in the Gregorian calendar, so that a bound holds
    /// unchanged.
    pub(super) fn keeps_day(self, day: i64) -> bool {
        self == Self::Gregorian || day >= GREGORIAN
    }

    /// Returns whether this millisecond is the same in the file's calendar and in the Gregorian calendar, so that a
    /// bound holds unchanged.
    pub(super) fn keeps_millisecond(self, millisecond: i64) -> bool {
        self.keeps_day(millisecond.div_euclid(DAY * 1_000))
    }
}

/// 1900-01-01T00:00:00 in UTC, in seconds since 1970: `java.util.TimeZone` has no offset that ends before it.
pub(super) const BEGINNING_OF_OFFSETS: i64 = -2_208_988_800;
/// Year whose lower offset of January and July is standard time: all changes of a time zone's standard time known today
/// come before it, and in Morocco the Januaries of some later years differ.
const STANDARD_YEAR: i32 = 2030;

/// Offsets from UTC that a writer applies to a time zone's clocks before 1900.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlyOffsets {
    /// Standard time, as `java.util.TimeZone` has it.
    Standard,
    /// Offsets of the time zone database, which are local mean time: the C++ library uses them.
    Tables,
}

impl EarlyOffsets {
    pub(super) fn of(footer: &Footer) -> Self {
        if footer.writer == Some(CPP_WRITER) { Self::Tables } else { Self::Standard }
    }

    /// Returns the seconds that the zone's clocks are ahead of UTC before 1900; `None` to use the offsets of the time
    /// zone database.
    pub(super) fn offset_of(self, zone: &Tz) -> Option<i32> {
        if self == Self::Tables {
            return None;
        }
        let offset = |month| {
            let noon = NaiveDate::from_ymd_opt(STANDARD_YEAR, month, 15)?.and_hms_opt(12, 0, 0)?;
            Some(zone.offset_from_utc_datetime(&noon).fix().local_minus_utc())
        };
        Some(offset(1)?.min(offset(7)?))
    }
}

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;

    use super::*;

    fn gregorian(year: i32, month: u32, day: u32) -> i64 {
        let date = NaiveDate::from_ymd_opt(year, month, day).unwrap();
        (date - NaiveDate::from_ymd_opt(1970, 1, 1).unwrap()).num_days()
    }

    #[test]
    fn julian_days_keep_their_names() {
        let named = |day| Calendar::Hybrid.day(day);
        assert_eq!((named(GREGORIAN), named(0), named(20_000)), (GREGORIAN, 0, 20_000));
        assert_eq!(gregorian(1582, 10, 15), GREGORIAN);
        assert_eq!(named(GREGORIAN - 1), gregorian(1582, 10, 4));
        // By then the calendars were ten days apart; in the year 300 they agreed, and before that they differed in the
        // other direction.
        assert_eq!(named(gregorian(1500, 3, 11)), gregorian(1500, 3, 1));
        assert_eq!(named(gregorian(1500, 3, 10)), gregorian(1500, 3, 1), "a February 29 that there is not");
        assert_eq!(named(gregorian(1500, 3, 9)), gregorian(1500, 2, 28));
        assert_eq!(named(gregorian(300, 1, 1)), gregorian(300, 1, 1));
        assert_eq!(named(gregorian(1, 1, 1) - 2), gregorian(1, 1, 1));
        assert_eq!(named(gregorian(1, 1, 1) - 3), gregorian(0, 12, 31));

        for day in (gregorian(-5000, 1, 1)..GREGORIAN).step_by(17) {
            assert!(named(day) <= named(day + 1));
            assert_eq!(Calendar::Gregorian.day(day), day);
        }
    }

    #[test]
    fn clocks_before_1900_show_standard_time_where_java_set_them() {
        let zones = [
            ("America/Los_Angeles", -8 * 3_600),
            ("Europe/Amsterdam", 3_600),
            ("Europe/Dublin", 0),
            ("Africa/Casablanca", 0),
            ("Australia/Sydney", 10 * 3_600),
            ("Asia/Kolkata", 19_800),
            ("+05:30", 19_800),
        ];

        for (name, offset) in zones {
            let zone: Tz = name.parse().unwrap();
            assert_eq!(EarlyOffsets::Standard.offset_of(&zone), Some(offset), "{name}");
            assert_eq!(EarlyOffsets::Tables.offset_of(&zone), None);
        }

        let by = |writer| EarlyOffsets::of(&Footer { writer, ..Footer::default() });
        assert_eq!(
            (by(None), by(Some(0)), by(Some(1))),
            (EarlyOffsets::Standard, EarlyOffsets::Standard, EarlyOffsets::Tables)
        );
    }

    #[test]
    fn the_time_of_day_stays() {
        let second = gregorian(1500, 3, 11) * DAY + 3_661;
        assert_eq!(Calendar::Hybrid.second(second), gregorian(1500, 3, 1) * DAY + 3_661);
        assert_eq!(Calendar::Hybrid.second(-1), -1);
    }
}
