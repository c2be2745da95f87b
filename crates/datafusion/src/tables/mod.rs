//! Tables of DataFusion over scans and Arrow data.

pub(crate) mod arrow_table;
pub(crate) mod compaction;
#[cfg(feature = "ffi")]
pub(crate) mod ffi;
pub(crate) mod held_batches;
pub(crate) mod moving;
pub(crate) mod path_partitions;
pub(crate) mod provider;
pub(crate) mod scanned;
pub(crate) mod sequential;
pub(crate) mod source;
pub(crate) mod statistics;
