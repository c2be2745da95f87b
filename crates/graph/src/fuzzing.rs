//! Entry points for fuzzing outside this crate.

use crate::store;

/// Returns whether decoding and encoding a log record again yields the same record; `None` if the bytes are not a
/// record of this version.
pub fn record_survives_rewrite(bytes: &[u8], version: u64) -> Option<bool> {
    store::record_survives_rewrite(bytes, version)
}
