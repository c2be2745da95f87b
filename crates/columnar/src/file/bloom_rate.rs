//! Checks the false positive rate of bloom filters that options state.

use crate::{Error, Result};

/// Checks that a rate lies between 0 and 1.
pub(crate) fn check(column: Option<&str>, rate: Option<f64>) -> Result<()> {
    match rate {
        Some(rate) if !(rate > 0.0 && rate < 1.0) => Err(Error::Option {
            column: column.map(str::to_owned),
            reason: format!(
                "a bloom filter that is wrong {rate} of the time: a share between 0 and 1 is needed"
            ),
        }),
        _ => Ok(()),
    }
}
