//! Conversion of writer options from Python.

pub(super) mod file_write;
mod orc;
mod parquet;
pub(super) mod write;
