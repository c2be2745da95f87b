//! What is wrong with one key of a description, before it is known in which file the key stands.

use crate::Error;

/// A key and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InfoKeyError {
    pub(super) key: String,
    pub(super) reason: String,
}

impl InfoKeyError {
    pub(super) fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into() }
    }

    /// The same flaw, seen from whoever holds what it was found in: `at` comes before the key.
    pub(super) fn within(self, at: &str) -> Self {
        Self { key: format!("{at}{}", self.key), ..self }
    }

    /// The error of who reads `file`.
    pub(super) fn in_file(self, file: &str) -> Error {
        Error::Info { file: file.to_owned(), key: self.key, reason: self.reason }
    }

    /// The error of who wants to write `of`.
    pub(super) fn unwritable(self, of: impl Into<String>) -> Error {
        Error::Unwritable { of: of.into(), reason: format!("{}: {}", self.key, self.reason) }
    }
}
