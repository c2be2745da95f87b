//! Dates and times in ISO 8601.

use proptest::prelude::*;

use super::super::civil::{CivilDate, parse_date, parse_time, parse_timestamp, write_timestamp};

#[test]
fn days_are_counted_from_1970() {
    assert_eq!(parse_date("1970-01-01"), Some(0));
    assert_eq!(parse_date("1969-12-31"), Some(-1));
    assert_eq!(parse_date("2024-02-29"), Some(19_782));
    assert_eq!(parse_date("0000-03-01"), Some(-719_468));
    assert_eq!(parse_date("+10000-01-01"), Some(2_932_897));
}

#[test]
fn days_that_no_calendar_has_are_refused() {
    for text in [
        "2023-02-29",
        "1900-02-29",
        "2024-13-01",
        "2024-00-01",
        "2024-01-00",
        "2024-04-31",
        "24-01-01",
        "",
        "x",
    ] {
        assert_eq!(parse_date(text), None, "{text}");
    }
}

#[test]
fn times_have_up_to_nine_digits_behind_the_second() {
    assert_eq!(parse_time("00:00"), Some(0));
    assert_eq!(parse_time("01:02:03.5"), Some(3_723_500_000_000));
    assert_eq!(parse_time("23:59:59.999999999"), Some(86_399_999_999_999));
    for text in ["24:00", "1:00", "00:60", "00:00:60", "00:00:00.", "00:00:00.1234567890", "00:00x"] {
        assert_eq!(parse_time(text), None, "{text}");
    }
}

#[test]
fn offsets_of_timestamps_lead_to_utc() {
    let noon = parse_timestamp("2024-05-01T12:00:00Z");
    assert!(noon.is_some());
    for text in [
        "2024-05-01 12:00",
        "2024-05-01 14:00:00+02:00",
        "2024-05-01T07:30:00.0-0430",
        "2024-05-01 13:00 +01",
    ] {
        assert_eq!(parse_timestamp(text), noon, "{text}");
    }

    for text in [
        "2024-05-01T",
        "2024-05-01 12:00 CET",
        "2024-05-01 12:00+1",
        "2024-05-01 12:00Zx",
        "2024-05-01x12:00",
    ] {
        assert_eq!(parse_timestamp(text), None, "{text}");
    }
}

#[test]
fn months_end_where_they_end() {
    let day = |text| parse_date(text).map(CivilDate::from_days).unwrap();
    assert_eq!(day("2024-01-31").plus_months(1), day("2024-02-29"));
    assert_eq!(day("2024-01-31").plus_months(-2), day("2023-11-30"));
    assert_eq!(day("2024-02-29").plus_months(12), day("2025-02-28"));
}

proptest! {
    #[test]
    fn every_timestamp_reads_as_it_is_written(nanos: i128) {
        let mut text = String::new();
        write_timestamp(&mut text, nanos).unwrap();
        prop_assert_eq!(parse_timestamp(&text), Some(nanos), "{}", text);
    }

    #[test]
    fn any_text_is_a_date_or_none(text: String) {
        parse_date(&text);
        parse_time(&text);
        parse_timestamp(&text);
    }
}
