//! Decodes columns of timestamps: seconds since the beginning of 2015, and nanoseconds.

use std::{marker::PhantomData, sync::Arc};

use arrow::{
    array::{ArrayRef, PrimitiveArray},
    buffer::NullBuffer,
    datatypes::{ArrowTimestampType, TimeUnit},
};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, Offset, TimeZone};

use super::{OrcColumnReader, bits::PresentStreamDecoder, ints::IntRleDecoder, reached::DecodedPosition};
use crate::orc::{
    calendar::{BEGINNING_OF_OFFSETS, Calendar},
    fault::OrcReadError,
    stripe::{TimeZoneClock, WriterTimeZone},
};

/// 2015-01-01T00:00:00 in UTC.
const EPOCH: i64 = 1_420_070_400;
/// Seconds before 1970 were truncated towards zero if their nanoseconds exceed this.
const CUT_OFF: i64 = 999_999;
/// Last year of the time zone database.
const LAST_YEAR: i32 = 2099;

pub(super) struct TimestampColumnReader<T> {
    pub(super) presence: PresentStreamDecoder,
    pub(super) seconds: IntRleDecoder,
    pub(super) nanoseconds: IntRleDecoder,
    /// Time zone of the clock to show; `None` for UTC.
    pub(super) zone: Option<TimeZoneClock>,
    pub(super) calendar: Calendar,
    /// Time zone of the Arrow type.
    pub(super) labelled: Option<Arc<str>>,
    pub(super) of: PhantomData<fn() -> T>,
}

/// Returns the zone of timestamps without zone; an error if its name is unknown.
pub(super) fn zone(zone: &WriterTimeZone) -> Result<Option<TimeZoneClock>, OrcReadError> {
    match zone {
        WriterTimeZone::Utc => Ok(None),
        WriterTimeZone::Other(clock) => Ok(Some(*clock)),
        WriterTimeZone::Unknown(name) => {
            Err(OrcReadError::unsupported(format!("the writer's time zone {name} is not known here")))
        }
    }
}

impl<T: ArrowTimestampType> OrcColumnReader for TimestampColumnReader<T> {
    fn next(&mut self, len: usize, parent: Option<&NullBuffer>) -> Result<ArrayRef, OrcReadError> {
        let rows = self.presence.read(len, parent)?;
        let seconds = self.seconds.read(rows.values())?;
        let nanoseconds = self.nanoseconds.read(rows.values())?;
        let values = seconds.into_iter().zip(nanoseconds).map(|(seconds, coded)| self.value(seconds, coded));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let array = PrimitiveArray::<T>::new(rows.scatter(values).into(), rows.nulls);
        Ok(Arc::new(array.with_timezone_opt(self.labelled.clone())))
    }

    fn reached(&mut self, reached: &mut Vec<DecodedPosition>) -> Result<(), OrcReadError> {
        reached.extend(self.presence.reached()?);
        reached.push(self.seconds.reached()?);
        reached.push(self.nanoseconds.reached()?);
        Ok(())
    }
}

impl<T: ArrowTimestampType> TimestampColumnReader<T> {
    fn value(&self, seconds: i64, coded: i64) -> Result<i64, OrcReadError> {
        let out_of_range = || OrcReadError::corrupt(format!("{seconds} seconds since 2015 are no timestamp"));
        let nanoseconds = nanoseconds(coded)?;
        let epoch = self.zone.as_ref().map_or(EPOCH, |clock| clock.epoch);
        let mut since_1970 = seconds.checked_add(epoch).ok_or_else(out_of_range)?;
        // Writers truncate fractions towards zero, except those of less than a millisecond.
        if since_1970 < 0 && nanoseconds > CUT_OFF {
            since_1970 = since_1970.checked_sub(1).ok_or_else(out_of_range)?;
        }
        if let Some(clock) = &self.zone {
            let offset = offset(clock, since_1970).ok_or_else(out_of_range)?;
            since_1970 = since_1970.checked_add(i64::from(offset)).ok_or_else(out_of_range)?;
        }
        let since_1970 = self.calendar.second(since_1970);

        in_unit::<T>(since_1970, nanoseconds).ok_or_else(|| {
            let unit = T::UNIT;
            OrcReadError::unsupported(format!(
                "{since_1970} seconds and {nanoseconds} nanoseconds since 1970 are no {unit:?}s"
            ))
        })
    }
}

/// Returns the seconds that a clock is ahead of UTC at this second since 1970.
fn offset(clock: &TimeZoneClock, since_1970: i64) -> Option<i32> {
    let utc = DateTime::from_timestamp(since_1970, 0)?;
    match clock.before_1900 {
        Some(offset) if since_1970 < BEGINNING_OF_OFFSETS => Some(offset),
        _ => Some(clock.zone.offset_from_utc_datetime(&ruled(utc.naive_utc())).fix().local_minus_utc()),
    }
}

/// Maps a time to a year that the time zone database covers and that has the same calendar. Zone rules depend on
/// weekdays within months only, and any 28 years in which no leap year is skipped have all calendars.
fn ruled(time: NaiveDateTime) -> NaiveDateTime {
    let calendar = |year| NaiveDate::from_yo_opt(year, 1).map(|first| (first.weekday(), first.leap_year()));
    if time.year() <= LAST_YEAR {
        return time;
    }
    let same = (LAST_YEAR - 27..=LAST_YEAR).find(|year| calendar(*year) == calendar(time.year()));
    same.and_then(|year| time.with_year(year)).unwrap_or(time)
}

/// Decodes nanoseconds: the last three bits are the number of trailing zeros removed, minus one.
fn nanoseconds(coded: i64) -> Result<i64, OrcReadError> {
    let zeros = (coded & 7) as u32;
    let digits = coded >> 3;
    let factor = if zeros == 0 { 1 } else { 10_i64.pow(zeros + 1) };
    // Some writers keep the fraction negative before 1970.
    digits
        .checked_mul(factor)
        .filter(|nanoseconds| nanoseconds.unsigned_abs() < 1_000_000_000)
        .ok_or_else(|| OrcReadError::corrupt(format!("a second of {digits} nanoseconds and {zeros} zeros")))
}

/// Returns seconds and nanoseconds in the unit; `None` if it cannot express them exactly.
fn in_unit<T: ArrowTimestampType>(seconds: i64, nanoseconds: i64) -> Option<i64> {
    let (per_second, nanoseconds_each) = match T::UNIT {
        TimeUnit::Second => (1, 1_000_000_000),
        TimeUnit::Millisecond => (1_000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1_000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    if nanoseconds % nanoseconds_each != 0 {
        return None;
    }

    let value = i128::from(seconds) * per_second + i128::from(nanoseconds / nanoseconds_each);
    i64::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::timezone::Tz,
        datatypes::{TimestampMicrosecondType, TimestampNanosecondType},
    };

    use super::*;

    #[test]
    fn zeros_that_were_left_out_come_back() {
        assert_eq!(nanoseconds(0x0a).unwrap(), 1000);
        assert_eq!(nanoseconds(0x0c).unwrap(), 100_000);
        assert_eq!(nanoseconds(5 << 3 | 7).unwrap(), 500_000_000);
        assert_eq!(nanoseconds(-5 << 3 | 7).unwrap(), -500_000_000);
        assert!(nanoseconds(i64::MAX).is_err());
    }

    #[test]
    fn summer_time_goes_on_after_the_tables_of_zones_end() {
        let zone: Tz = "America/Los_Angeles".parse().unwrap();
        let offset = |year, month, day| {
            let time = NaiveDate::from_ymd_opt(year, month, day).unwrap().and_hms_opt(12, 0, 0).unwrap();
            zone.offset_from_utc_datetime(&ruled(time)).fix().local_minus_utc() / 3600
        };
        for year in [2015, 2099, 2100, 2101, 2150, 2400, 9999] {
            assert_eq!((offset(year, 1, 15), offset(year, 7, 15)), (-8, -7), "{year}");
        }
        // The second Sunday in March: the 14th of 2100, the 13th of 2101.

        assert_eq!((offset(2100, 3, 13), offset(2100, 3, 14)), (-8, -7));
        assert_eq!((offset(2101, 3, 12), offset(2101, 3, 13)), (-8, -7));
        assert_eq!(offset(2104, 2, 29), -8);
    }

    #[test]
    fn what_a_unit_cannot_express_is_not_rounded() {
        assert_eq!(in_unit::<TimestampNanosecondType>(-9_223_372_037, 145_224_192), Some(i64::MIN));
        assert_eq!(in_unit::<TimestampNanosecondType>(-9_223_372_037, 145_224_191), None);
        assert_eq!(
            in_unit::<TimestampMicrosecondType>(253_402_300_799, 5_000),
            Some(253_402_300_799_000_005)
        );
        assert_eq!(in_unit::<TimestampMicrosecondType>(253_402_300_799, 5_001), None);
    }
}
