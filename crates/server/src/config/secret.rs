//! Secrets that are never printed, and redaction of URLs and options.

use std::fmt;

use serde::{Serialize, Serializer};
use subtle::ConstantTimeEq;

/// Placeholder for a secret.
pub(crate) const HIDDEN: &str = "***";

/// A secret. `Debug`, `Display` and `Serialize` all print `***`; only [`expose`](Self::expose) gives the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself: for checking a signature, never for printing.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns true if `candidate` equals this secret, in time that depends on their lengths only.
    pub fn matches(&self, candidate: &str) -> bool {
        self.0.as_bytes().ct_eq(candidate.as_bytes()).into()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}

/// Returns true if the value of an origin's option must not be printed.
pub(crate) fn is_secret_option(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["secret", "token", "password", "key", "credential", "sas", "signature"]
        .iter()
        .any(|part| key.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{secret} {secret:?} {}", serde_json::to_string(&secret).unwrap()),
            "*** *** \"***\""
        );
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn a_secret_matches_only_itself() {
        let secret = Secret::new("hunter2");
        assert!(secret.matches("hunter2"));
        for other in ["", "hunter", "hunter3", "hunter22"] {
            assert!(!secret.matches(other), "{other}");
        }
    }

    #[test]
    fn options_that_may_hold_credentials_are_told_by_their_name() {
        for key in ["access_key_id", "AWS_SECRET_ACCESS_KEY", "session_token", "password", "sas_key"] {
            assert!(is_secret_option(key), "{key}");
        }
        for key in ["endpoint", "region", "allow_http"] {
            assert!(!is_secret_option(key), "{key}");
        }
    }
}
