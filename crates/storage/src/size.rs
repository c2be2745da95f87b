//! A number of bytes that parses and prints in common notation: `4GiB`, `512MB`, `65536`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes.
///
/// Parses a whole or decimal number with an optional unit: `B`, `KB`, `MB`, `GB`, `TB` (powers of 1000) or
/// `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024), in any case; a lone `K`, `M`, `G` or `T` counts in powers of
/// 1024. Prints in the largest binary unit that loses nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// Creates a size of `bytes` bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Creates a size of `kib` times 1024 bytes.
    pub const fn kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// Creates a size of `mib` times 1024² bytes.
    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// Creates a size of `gib` times 1024³ bytes.
    pub const fn gib(gib: u64) -> Self {
        Self(gib << 30)
    }

    /// Returns the number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the number of bytes, clamped to `usize::MAX`.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// The error for a text that is not a [`ByteSize`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a size in bytes: write a number with an optional unit, such as 512MiB or 4GiB")]
pub struct ParseByteSizeError {
    text: String,
}

impl FromStr for ByteSize {
    type Err = ParseByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseByteSizeError { text: text.to_owned() };
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(digits);

        let multiplier: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            _ => return Err(error()),
        };

        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(multiplier).map(Self).ok_or_else(error);
        }
        let decimal: f64 = number.parse().map_err(|_| error())?;

        let bytes = decimal * multiplier as f64;
        if bytes < 0.0 || bytes >= u64::MAX as f64 { Err(error()) } else { Ok(Self(bytes as u64)) }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let exact = units.iter().find(|(_, shift)| self.0 != 0 && self.0.is_multiple_of(1 << shift));
        match exact {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByteSizeVisitor;
        impl de::Visitor<'_> for ByteSizeVisitor {
            type Value = ByteSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"4GiB\" or a number of bytes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
                u64::try_from(bytes).map(ByteSize).map_err(|_| E::custom("a size cannot be negative"))
            }
        }

        deserializer.deserialize_any(ByteSizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_size_prints_as_it_is_written() {
        for text in ["0B", "1B", "1023B", "1KiB", "1536KiB", "64MiB", "3GiB", "2TiB"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn units_count_in_thousands_or_in_1024s() {
        assert_eq!("1kb".parse(), Ok(ByteSize::bytes(1000)));
        assert_eq!("1 KiB".parse(), Ok(ByteSize::kib(1)));
        assert_eq!("2G".parse(), Ok(ByteSize::gib(2)));
        assert_eq!("1.5MiB".parse(), Ok(ByteSize::kib(1536)));
        assert_eq!("65536".parse(), Ok(ByteSize::kib(64)));
    }

    #[test]
    fn what_is_not_a_size_is_an_error_that_shows_the_text() {
        for text in ["", "GiB", "-1", "1XB", "1..2", "99999999TiB", "NaN"] {
            let error = text.parse::<ByteSize>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_size_parses_to_itself(bytes: u64, shift in 0_u32..64) {
            for size in [bytes, bytes >> shift, bytes << shift].map(ByteSize::bytes) {
                prop_assert_eq!(size.to_string().parse(), Ok(size));
            }
        }
    }
}
