//! Where a value of the configuration came from.

use std::{fmt, path::PathBuf, sync::Arc};

use crate::{Result, ServerError};

/// Where a value came from. Layers are ordered: a flag overrides the environment, which overrides the file, which
/// overrides the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Nobody said anything: the default.
    Default,
    /// A line of the configuration file, counted from 1.
    File {
        /// The file as it was named.
        path: Arc<PathBuf>,
        /// The line.
        line: usize,
    },
    /// An environment variable.
    Env(String),
    /// A flag of the command line, dashes included.
    Flag(String),
}

impl Provenance {
    /// How strong the layer is: a higher rank overrides a lower one.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Env(_) => 2,
            Self::Flag(_) => 3,
        }
    }

    /// The error that something which came from here is wrong.
    pub(crate) fn error<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(ServerError::Config { at: self.clone(), what: what.into() })
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => write!(f, "env {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
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
