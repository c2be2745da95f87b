//! Conversion of writer options from Python.

pub(super) mod orc;
pub(super) mod parquet;
pub(super) mod write;
