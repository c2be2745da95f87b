//! Bytes that a reader will reach, held until it does.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use crate::{
    Result,
    page_cache::{PagePiece, ReadAheadBytes},
    read::flight::PieceFlight,
};

/// Consecutive bytes of one page of an object, in memory or on their way. They stay in the cache as long as this lives.
#[derive(Debug)]
pub(crate) struct PinnedRange {
    /// Offsets in the object.
    range: Range<u64>,
    /// Offset in the object of the page.
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
    /// Holds a piece of the page at `page_start`, in memory, for a read from `start` on.
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

    /// Holds a piece of the page at `page_start`, on its way, for a read from `start` on.
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

    /// Offset in the object of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.range.start
    }

    /// Offset in the object of the byte after the last.
    pub(crate) fn end(&self) -> u64 {
        self.range.end
    }

    /// Whether the bytes were in memory when they were pinned.
    pub(crate) fn was_in_memory(&self) -> bool {
        matches!(self.source, PinSource::Piece(_))
    }

    /// Whether the bytes were asked for before a reader needed them, and did not come. A reader that needs them now
    /// asks again.
    pub(crate) fn has_failed_ahead(&self) -> bool {
        self.is_ahead && matches!(&self.source, PinSource::Flight(flight) if flight.has_failed())
    }

    /// Holds the same bytes for another reader; they count once.
    pub(crate) fn share(&self) -> Self {
        Self {
            range: self.range.clone(),
            page_start: self.page_start,
            source: self.source.clone(),
            is_ahead: self.is_ahead,
            _counted: None,
        }
    }

    /// Bytes from an offset in the object on, as many as have arrived, `to` at most. The offset lies in the pin.
    pub(crate) async fn read(&self, from: u64, to: u64) -> Result<Vec<Bytes>> {
        let from = (from - self.page_start) as usize;
        let to = (to.min(self.range.end) - self.page_start) as usize;
        match &self.source {
            PinSource::Piece(piece) => Ok(vec![piece.slice(from, to)]),
            PinSource::Flight(flight) => flight.read(from, to).await,
        }
    }
}
