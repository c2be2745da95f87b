//! How far the streams of a column have been read: what was decoded from the middle of a stripe is believed only if it
//! ends where the next row group begins.

use crate::orc::{
    fault::OrcReadError,
    stream::{OrcStreamCursor, OrcStreamReader},
};

/// More values of a run than this never lie before a position: writers hold back no more of them.
const MOST_BEFORE: u64 = 1024;

/// How far one stream has been read. It is the same however it came there: a run that is known but not handed out is
/// read already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::orc) struct DecodedPosition {
    pub(super) place: OrcStreamCursor,
    /// Values of the run that were not handed out yet.
    pub(super) run: usize,
    /// Bits of the last byte that were not handed out yet.
    pub(super) bits: u32,
}

impl DecodedPosition {
    /// Of a stream that is bytes and nothing else.
    pub(super) fn of(stream: &OrcStreamReader) -> Self {
        Self { place: stream.place(), run: 0, bits: 0 }
    }

    /// Whether there is no value more; bits that fill up the last byte are none.
    pub(in crate::orc) fn is_end(&self) -> bool {
        self.place.is_end && self.run == 0
    }
}

/// How many values are to be read before the first that is wanted.
pub(super) fn skippable(before: u64) -> Result<usize, OrcReadError> {
    match usize::try_from(before) {
        Ok(values) if before <= MOST_BEFORE => Ok(values),
        _ => Err(OrcReadError::corrupt(format!("a position {before} values behind the beginning of a run"))),
    }
}
