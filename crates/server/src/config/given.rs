//! Values with their provenance, and errors that name the provenance.

use std::fmt;

use crate::{Result, ServerError, provenance::Provenance};

impl Provenance {
    /// Returns an error that names the provenance of this value.
    pub(crate) fn error<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(ServerError::Config { at: self.clone(), what: what.into() })
    }
}

/// A value with its provenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Provenance of the value.
    pub from: Provenance,
}

impl<T> Sourced<T> {
    /// Creates a value that came from `from`.
    pub fn new(value: impl Into<T>, from: Provenance) -> Self {
        Self { value: value.into(), from }
    }
}

/// A value as written, before parsing.
pub type Given = Sourced<String>;

impl Given {
    /// Parses the text; an error names the flag or the variable, or the line of the file and `key`.
    pub(crate) fn parse<T, E: fmt::Display>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Sourced<T>> {
        match parse(&self.value) {
            Ok(value) => Ok(Sourced { value, from: self.from.clone() }),
            Err(reason) => Err(ServerError::invalid_setting(self.from.clone(), key, reason)),
        }
    }
}
