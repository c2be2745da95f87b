//! Secret arguments of a command.

use std::{convert::Infallible, fmt, str::FromStr};

/// A string that `Debug` does not reveal.
#[derive(Clone)]
pub(crate) struct RedactedString(pub(crate) String);

impl fmt::Debug for RedactedString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl FromStr for RedactedString {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_in_debug() {
        let secret: RedactedString = "hunter2".parse().unwrap();
        assert_eq!(format!("{secret:?}"), "***");
    }
}
