//! Values with the place that they came from, and the errors that name it.

use std::fmt;

use crate::{Result, ServerError, provenance::Provenance};

impl Provenance {
    /// The error that something which came from here is wrong.
    pub(crate) fn error<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(ServerError::Config { at: self.clone(), what: what.into() })
    }
}

/// A value and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub from: Provenance,
}

impl<T> Sourced<T> {
    /// A value that came from `from`.
    pub fn new(value: impl Into<T>, from: Provenance) -> Self {
        Self { value: value.into(), from }
    }
}

/// A value as it was written, before it is understood.
pub type Given = Sourced<String>;

impl Given {
    /// What the text says, or an error that names the place and `key`.
    pub(crate) fn parse<T, E: fmt::Display>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Sourced<T>> {
        match parse(&self.value) {
            Ok(value) => Ok(Sourced { value, from: self.from.clone() }),
            Err(reason) => self.from.error(format!("{key}: {reason}")),
        }
    }
}
