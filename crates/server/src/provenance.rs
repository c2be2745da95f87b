//! Provenance of a configuration value.

use std::{fmt, path::PathBuf, sync::Arc};

/// Source of a value. Layers are ordered: a flag overrides the environment, which overrides the file, which overrides
/// the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The default: no layer sets the value.
    Default,
    /// A line of the configuration file, counted from 1.
    File {
        /// The file as named by the user.
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
    /// Returns the precedence of the layer: a higher rank overrides a lower one.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Env(_) => 2,
            Self::Flag(_) => 3,
        }
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
