//! The sources of a configuration: file, environment and command line.

pub(super) mod file;
pub(super) mod layer;
