//! The sources of a configuration: file, environment and command line, laid over one another.

pub(super) mod file;
pub(super) mod layer;
