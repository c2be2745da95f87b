//! Decides by a file's writer which of its statistics are trusted.
//!
//! Some versions of common writers compute statistics that would prune rows that pass:
//!
//! - parquet-cpp, and Arrow C++ before 6: a null count of 0 for every dictionary column;
//! - parquet-cpp, and Arrow C++ before 12: bounds of a dictionary column that cover only its first values, if it was
//!   written in several pieces;
//! - parquet-cpp, and Arrow C++ before 4: bounds of decimals stored as bytes, compared by signed bytes;
//! - arrow-rs: bounds of decimals stored as BYTE_ARRAY, compared by unsigned bytes;
//! - Polars: bounds of pages of decimals stored as bytes, merged by unsigned bytes.

use parquet::basic::Type as PhysicalType;

use crate::parquet::WRITER;

/// The statistics of a file that are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriterTrust {
    /// Null counts are trusted.
    pub(crate) nulls: bool,
    /// Bounds of columns that were written from dictionaries are trusted.
    pub(crate) dictionary_bounds: bool,
    byte_decimals: TrustedByteDecimals,
}

/// The physical types of decimals stored as bytes whose bounds are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrustedByteDecimals {
    None,
    FixedLength,
    All,
}

impl WriterTrust {
    /// Parses the writer of a footer.
    pub(crate) fn of(created_by: Option<&str>) -> Self {
        let writer = created_by.unwrap_or_default();
        let (name, version) = writer.split_once(" version ").unwrap_or((writer, ""));
        let is_since = |first: u32| major(version).is_some_and(|major| major >= first);
        let with_decimals = |byte_decimals| Self { nulls: true, dictionary_bounds: true, byte_decimals };

        match name {
            "parquet-cpp" => {
                Self { nulls: false, dictionary_bounds: false, byte_decimals: TrustedByteDecimals::None }
            }
            "parquet-cpp-arrow" => Self {
                nulls: is_since(6),
                dictionary_bounds: is_since(12),
                byte_decimals: if is_since(4) { TrustedByteDecimals::All } else { TrustedByteDecimals::None },
            },
            "parquet-rs" | "datafusion" => with_decimals(TrustedByteDecimals::FixedLength),
            "DuckDB" => with_decimals(TrustedByteDecimals::All),
            name if name.starts_with("parquet-mr") || writer.starts_with(WRITER) => {
                with_decimals(TrustedByteDecimals::All)
            }
            _ => with_decimals(TrustedByteDecimals::None),
        }
    }

    /// Returns whether the bounds of decimals of a physical type are trusted.
    pub(crate) fn decimal_bounds(self, stored: PhysicalType) -> bool {
        match stored {
            PhysicalType::BYTE_ARRAY => self.byte_decimals == TrustedByteDecimals::All,
            PhysicalType::FIXED_LEN_BYTE_ARRAY => self.byte_decimals != TrustedByteDecimals::None,
            _ => true,
        }
    }
}

/// Parses the first number of a version.
fn major(version: &str) -> Option<u32> {
    let digits = version.trim_start_matches('v');
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_writers_with_known_bugs_are_not_trusted() {
        let trust = |writer: &str| {
            let trust = WriterTrust::of(Some(writer));
            (trust.nulls, trust.dictionary_bounds)
        };
        assert_eq!(trust("parquet-cpp version 1.5.1-SNAPSHOT"), (false, false));
        assert_eq!(trust("parquet-cpp-arrow version 5.0.0"), (false, false));
        assert_eq!(trust("parquet-cpp-arrow version 6.0.1-SNAPSHOT"), (true, false));
        assert_eq!(trust("parquet-cpp-arrow version 11.0.0"), (true, false));
        assert_eq!(trust("parquet-cpp-arrow version 12.0.0"), (true, true));
        assert_eq!(trust("parquet-cpp-arrow"), (false, false), "a version that is not stated may be any");
        assert_eq!(trust("parquet-mr version 1.8.1 (build 4aba4da)"), (true, true));
        assert_eq!(WriterTrust::of(None), WriterTrust::of(Some("another writer")));
    }

    #[test]
    fn bounds_of_decimals_in_bytes_are_trusted_only_of_writers_that_compare_numbers() {
        let trust = |writer: &str| {
            let trust = WriterTrust::of(Some(writer));
            assert!(trust.decimal_bounds(PhysicalType::INT64), "{writer}");
            let stored = [PhysicalType::FIXED_LEN_BYTE_ARRAY, PhysicalType::BYTE_ARRAY];
            stored.map(|stored| trust.decimal_bounds(stored))
        };
        assert_eq!(trust("stylobate version 0.1.0"), [true, true]);
        assert_eq!(trust("parquet-mr version 1.13.1 (build db4183109d)"), [true, true]);
        assert_eq!(trust("DuckDB version v1.3.0 (build 71c5c07cdd)"), [true, true]);
        assert_eq!(trust("parquet-cpp-arrow version 3.0.0"), [false, false]);
        assert_eq!(trust("parquet-cpp-arrow version 21.0.0"), [true, true]);
        assert_eq!(trust("parquet-rs version 59.3.2"), [true, false]);
        assert_eq!(trust("Polars"), [false, false]);
        assert_eq!(trust(""), [false, false]);
    }
}
