//! Encodes the values of a column: with a dictionary, as strings, or through the parquet crate.

pub(super) mod coded;
pub(super) mod fallback;
pub(super) mod intervals;
pub(super) mod strings;
