//! Error at one key of a description, before its file is known.

use crate::Error;

/// Key, and the reason why it is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InfoKeyError {
    pub(super) key: String,
    pub(super) reason: String,
}

impl InfoKeyError {
    pub(super) fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into() }
    }

    /// Prefixes the key with `at`, the key of the enclosing element.
    pub(super) fn within(self, at: &str) -> Self {
        Self { key: format!("{at}{}", self.key), ..self }
    }

    /// Returns the error of reading `file`.
    pub(super) fn in_file(self, file: &str) -> Error {
        Error::Info { file: file.to_owned(), key: self.key, reason: self.reason }
    }

    /// Returns the error of writing `of`.
    pub(super) fn unwritable(self, of: impl Into<String>) -> Error {
        Error::Unwritable { of: of.into(), reason: format!("{}: {}", self.key, self.reason) }
    }
}
