//! Positions reached in the streams of a column: rows decoded from the middle of a stripe are trusted only if they end
//! where the next row group begins.

use crate::orc::{
    fault::OrcReadError,
    stream::{OrcStreamCursor, OrcStreamReader},
};

/// Maximum values of a run before a position: writers do not buffer more.
const MAX_BEFORE: u64 = 1024;

/// Position reached in a stream. It does not depend on how it was reached: a run that is decoded but not returned
/// counts as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::orc) struct DecodedPosition {
    pub(super) cursor: OrcStreamCursor,
    /// Values of the run that were not returned yet.
    pub(super) run: usize,
    /// Bits of the last byte that were not returned yet.
    pub(super) bits: u32,
}

impl DecodedPosition {
    /// Returns the position in a stream of plain bytes.
    pub(super) fn of(stream: &OrcStreamReader) -> Self {
        Self { cursor: stream.cursor(), run: 0, bits: 0 }
    }

    /// Returns whether no value is left; padding bits of the last byte do not count.
    pub(in crate::orc) fn is_end(&self) -> bool {
        self.cursor.is_end && self.run == 0
    }
}

/// Checks the number of values to skip before the first requested one.
pub(super) fn skippable(before: u64) -> Result<usize, OrcReadError> {
    match usize::try_from(before) {
        Ok(values) if before <= MAX_BEFORE => Ok(values),
        _ => Err(OrcReadError::corrupt(format!("a position {before} values behind the beginning of a run"))),
    }
}
