//! Durations that parse and print in common notation: `500ms`, `10s`, `5m`, `12h`, `7d`.

use std::time::Duration;

/// The error for a text that is not a duration, or not an allowed one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseDurationError {
    /// The text is not a whole number with a unit.
    #[error("{text:?} is not a time: write a whole number with a unit, such as 500ms, 30s, 5m, 12h or 7d")]
    Malformed {
        /// The text.
        text: String,
    },
    /// The duration is zero, but must be positive.
    #[error("{text:?} is too short: write a time above zero, such as 500ms or 30s")]
    Zero {
        /// The text.
        text: String,
    },
}

/// Parses a whole number with one of the units `ms`, `s`, `m`, `h` and `d`.
pub fn parse_duration(text: &str) -> Result<Duration, ParseDurationError> {
    let error = || ParseDurationError::Malformed { text: text.to_owned() };
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
    let (number, unit) = text.split_at(digits);

    let milliseconds_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(error()),
    };

    let number: u64 = number.parse().map_err(|_| error())?;
    number.checked_mul(milliseconds_per_unit).map(Duration::from_millis).ok_or_else(error)
}

/// Parses a positive duration as [`parse_duration`] does.
pub fn parse_positive_duration(text: &str) -> Result<Duration, ParseDurationError> {
    match parse_duration(text)? {
        Duration::ZERO => Err(ParseDurationError::Zero { text: text.to_owned() }),
        duration => Ok(duration),
    }
}

/// Formats whole seconds as `10s` and other durations as `1500ms`, truncated to milliseconds.
pub fn format_duration(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_duration_is_a_whole_number_with_a_unit() {
        let milliseconds =
            ["7ms", "45s", "30m", "12h", "7d"].map(|text| parse_duration(text).unwrap().as_millis());
        assert_eq!(milliseconds, [7, 45_000, 1_800_000, 43_200_000, 604_800_000]);
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn what_is_not_a_duration_is_an_error_that_shows_the_text() {
        let wrong = [
            "",
            "7",
            "d",
            "7w",
            "-1d",
            "1.5h",
            "1 s",
            "soon",
            "99999999999999999999d",
            "999999999999999999d",
        ];
        for text in wrong {
            let error = parse_duration(text).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{text:?} is not a time")), "{error}");
        }
    }

    #[test]
    fn zero_is_not_positive() {
        assert_eq!(parse_positive_duration("30s"), Ok(Duration::from_secs(30)));
        for text in ["0ms", "0d"] {
            let error = parse_positive_duration(text).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{text:?} is too short")), "{error}");
        }
        assert!(matches!(parse_positive_duration("soon"), Err(ParseDurationError::Malformed { .. })));
    }

    proptest! {
        #[test]
        fn a_printed_duration_parses_to_itself(milliseconds: u64) {
            for duration in [Duration::from_millis(milliseconds), Duration::from_secs(milliseconds / 1_000)] {
                prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
        }
    }
}
