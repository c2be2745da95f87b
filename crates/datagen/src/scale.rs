//! The scale factor of a benchmark, which determines the size of its tables.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Minimum scale: below this, tables of both TPC benchmarks have no rows.
const MIN: f64 = 0.001;
/// Maximum scale defined by both TPC benchmarks.
const MAX: f64 = 100_000.0;

/// A scale factor. At scale 1, the text of the TPC tables is about 1 GB, that of the social network about 45 MB.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Scale(f64);

impl Scale {
    /// Creates a scale from 0.001 to 100,000.
    ///
    /// # Errors
    ///
    /// [`Error::Scale`] if the factor is out of range.
    pub fn new(factor: f64) -> Result<Self> {
        if (MIN..=MAX).contains(&factor) { Ok(Self(factor)) } else { Err(wrong(&factor.to_string())) }
    }

    /// Returns the factor.
    pub fn factor(self) -> f64 {
        self.0
    }
}

fn wrong(given: &str) -> Error {
    Error::Scale { given: given.to_owned(), reason: "a number from 0.001 to 100000 is needed".to_owned() }
}

impl FromStr for Scale {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let factor: f64 = text.trim().parse().map_err(|_| wrong(text))?;
        Self::new(factor).map_err(|_| wrong(text))
    }
}

impl TryFrom<f64> for Scale {
    type Error = Error;

    fn try_from(factor: f64) -> Result<Self> {
        Self::new(factor)
    }
}

impl From<Scale> for f64 {
    fn from(scale: Scale) -> Self {
        scale.0
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_a_positive_number_and_may_be_a_fraction() {
        assert_eq!("0.01".parse::<Scale>().unwrap().factor(), 0.01);
        assert_eq!("10".parse::<Scale>().unwrap().to_string(), "10");
        for text in ["0", "-1", "NaN", "inf", "ten", "", "0.0001", "1e9"] {
            let error = text.parse::<Scale>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("0.001"), "{error}");
        }
    }
}
