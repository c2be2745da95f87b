//! Entry points for fuzzing outside this crate.

use crate::store;

/// Returns whether a record of the log is unchanged by writing and reading it again; `None` if the bytes are no record
/// of this version.
pub fn record_survives_rewrite(bytes: &[u8], version: u64) -> Option<bool> {
    store::record_survives_rewrite(bytes, version)
}
