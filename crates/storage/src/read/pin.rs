//! Bytes that a reader will reach, held in the cache until it does.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use crate::{
    Result,
    page_cache::{PagePiece, ReadAheadBytes},
    read::{byte_source::ByteSource, flight::PieceFlight},
};

/// Consecutive bytes of one page of an object, in memory or in flight. They stay in the cache until this is dropped.
#[derive(Debug)]
pub(crate) struct PinnedRange {
    /// Range of offsets in the object.
    range: Range<u64>,
    /// Offset of the page in the object.
    page_start: u64,
    source: PinSource,
    is_ahead: bool,
    /// Counts the bytes as held ahead of a reader.
    _counted: Option<ReadAheadBytes>,
}

#[derive(Clone, Debug)]
enum PinSource {
    Piece(Arc<PagePiece>),
    Flight(Arc<PieceFlight>),
}

impl PinnedRange {
    /// Pins a piece in memory of the page at `page_start`, for a read starting at `start`.
    pub(crate) fn of_piece(
        page_start: u64,
        start: u64,
        piece: Arc<PagePiece>,
        ahead: Option<ReadAheadBytes>,
    ) -> Self {
        let range = start..page_start + piece.end() as u64;
        Self {
            range,
            page_start,
            source: PinSource::Piece(piece),
            is_ahead: ahead.is_some(),
            _counted: ahead,
        }
    }

    /// Pins a piece in flight of the page at `page_start`, for a read starting at `start`.
    pub(crate) fn of_flight(
        page_start: u64,
        start: u64,
        flight: Arc<PieceFlight>,
        ahead: Option<ReadAheadBytes>,
    ) -> Self {
        let range = start..page_start + flight.end() as u64;
        Self {
            range,
            page_start,
            source: PinSource::Flight(flight),
            is_ahead: ahead.is_some(),
            _counted: ahead,
        }
    }

    /// Returns the offset of the first byte in the object.
    pub(crate) fn start(&self) -> u64 {
        self.range.start
    }

    /// Returns the offset past the last byte in the object.
    pub(crate) fn end(&self) -> u64 {
        self.range.end
    }

    /// Returns the source of the bytes: memory, if they were resident when they were pinned.
    pub(crate) fn byte_source(&self) -> ByteSource {
        match &self.source {
            PinSource::Piece(_) => ByteSource::Memory,
            PinSource::Flight(flight) => flight.source(),
        }
    }

    /// Returns whether the bytes were requested before a reader needed them, and the request failed. A reader that
    /// needs them now requests them again.
    pub(crate) fn has_failed_ahead(&self) -> bool {
        self.is_ahead && matches!(&self.source, PinSource::Flight(flight) if flight.has_failed())
    }

    /// Pins the same bytes for another reader; they count once.
    pub(crate) fn share(&self) -> Self {
        Self {
            range: self.range.clone(),
            page_start: self.page_start,
            source: self.source.clone(),
            is_ahead: self.is_ahead,
            _counted: None,
        }
    }

    /// Reads bytes from an offset in the object, as many as have arrived, up to `to`. The offset must lie in the pin.
    pub(crate) async fn read(&self, from: u64, to: u64) -> Result<Vec<Bytes>> {
        let from = (from - self.page_start) as usize;
        let to = (to.min(self.range.end) - self.page_start) as usize;
        match &self.source {
            PinSource::Piece(piece) => Ok(vec![piece.slice(from, to)]),
            PinSource::Flight(flight) => flight.read(from, to).await,
        }
    }
}
