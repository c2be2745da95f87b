//! Options of writers, as Python says them.

pub(super) mod orc;
pub(super) mod parquet;
pub(super) mod write;
