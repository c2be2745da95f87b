//! Assembles the pieces of one request in order as their bytes arrive.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use bytes::Bytes;

use crate::{
    Error, PageCache, Reservation,
    page_cache::{PageKey, PagePiece},
    read::{
        byte_source::ByteSource,
        flight::{ExpectedFlight, PieceFlight, PieceFlights},
        paged::PagedObject,
        requests::to_peers::FetchRoute,
    },
    stats::ReadCounters,
};

/// A piece requested by a fetch, and the memory reserved for it.
#[derive(Debug)]
pub(crate) struct ExpectedPiece {
    pub(crate) page: u32,
    pub(crate) flight: ExpectedFlight,
    pub(crate) charge: Reservation,
}

impl ExpectedPiece {
    /// Returns the byte range of the piece in the object.
    pub(crate) fn range(&self, object: &PagedObject) -> Range<u64> {
        let page = object.offset(self.page);
        page + self.flight.start() as u64..page + self.flight.end() as u64
    }
}

/// Adjacent pieces requested together, and their sources.
#[derive(Debug)]
pub(crate) struct FetchRun {
    pub(crate) pieces: Vec<ExpectedPiece>,
    pub(crate) route: FetchRoute,
}

/// The adjacent pieces of one request. Complete ones are in the cache; dropping the assembler fails the others.
pub(crate) struct PageAssembler<'a> {
    cache: &'a PageCache,
    flights: &'a PieceFlights,
    counters: &'a ReadCounters,
    object: &'a PagedObject,
    expected: VecDeque<ExpectedPiece>,
    end: u64,
    /// True if complete pieces are written to disk: this node is their home.
    is_home: bool,
    /// True if the bytes come from a peer rather than the origin.
    is_from_peer: bool,
    /// The bytes that complete the last piece, held back until it is certain that no more follow. Empty unless all
    /// other bytes have arrived.
    held: Bytes,
}

impl<'a> PageAssembler<'a> {
    pub(crate) fn new(
        cache: &'a PageCache,
        flights: &'a PieceFlights,
        counters: &'a ReadCounters,
        object: &'a PagedObject,
        FetchRun { pieces: expected, route }: FetchRun,
    ) -> Self {
        let end = expected.last().map_or(0, |last| object.offset(last.page) + last.flight.end() as u64);
        for piece in &expected {
            cache.count_miss(piece.flight.len() as u64);
        }
        Self {
            cache,
            flights,
            counters,
            object,
            expected: expected.into(),
            end,
            is_home: route.is_home,
            is_from_peer: false,
            held: Bytes::new(),
        }
    }

    /// Returns the object being read.
    pub(crate) fn object(&self) -> &'a PagedObject {
        self.object
    }

    /// Sets whether the following bytes come from a peer rather than the origin.
    pub(crate) fn set_from_peer(&mut self, is_from_peer: bool) {
        self.is_from_peer = is_from_peer;
        let source = if is_from_peer { ByteSource::Peer } else { ByteSource::Origin };
        self.expected.iter().for_each(|piece| piece.flight.set_source(source));
    }

    /// Returns the offset in the object and the length of the next incomplete piece.
    pub(crate) fn next_piece(&self) -> Option<(u64, usize)> {
        let ExpectedPiece { page, flight, .. } = self.expected.front()?;
        Some((self.object.offset(*page) + flight.start() as u64, flight.len()))
    }

    /// Returns the offset of the next byte in the object.
    pub(crate) fn position(&self) -> u64 {
        match self.expected.front() {
            Some(ExpectedPiece { page, flight, .. }) => {
                let received = flight.start() + flight.received() + self.held.len();
                self.object.offset(*page) + received as u64
            }
            None => self.end,
        }
    }

    /// Returns the offset past the last expected byte in the object.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Adds the next bytes. The last piece is complete only once [`complete`](Self::complete) confirms that no more
    /// arrived.
    pub(crate) fn push(&mut self, mut chunk: Bytes) {
        while let Some(ExpectedPiece { flight, .. }) = self.expected.front()
            && !chunk.is_empty()
        {
            let missing = flight.len() - flight.received();
            if chunk.len() < missing {
                flight.push(chunk);
                return;
            }

            let last = chunk.split_to(missing);
            if self.expected.len() == 1 {
                self.held = last;
                return;
            }

            let bytes = self.whole(flight, last);
            self.land(bytes);
        }
    }

    /// Returns the bytes of a piece that `last` completes, in an allocation of exactly their length. Runs of blocks
    /// from a peer are such allocations; chunks from the origin may be parts of larger ones.
    fn whole(&self, flight: &PieceFlight, last: Bytes) -> Bytes {
        let is_alone = self.is_from_peer && last.len() == flight.len() && last.is_unique();
        if is_alone { last } else { flight.assemble(&last) }
    }

    /// Discards the held-back bytes, since the request failed after them.
    pub(crate) fn take_back(&mut self) {
        self.held = Bytes::new();
    }

    /// Ends the request: exactly the expected bytes arrived.
    pub(crate) fn complete(&mut self) {
        if let Some(ExpectedPiece { flight, .. }) = self.expected.front() {
            let flight = Arc::clone(flight);
            let last = std::mem::take(&mut self.held);
            let bytes = self.whole(&flight, last);
            self.land(bytes);
        }
    }

    /// Adds the whole next piece.
    pub(crate) fn push_piece(&mut self, bytes: Bytes) {
        self.land(bytes);
    }

    /// Inserts the piece into the cache, removes its flight from the table, and then wakes the waiters, so that a
    /// reader that has received a piece finds it in the cache.
    fn land(&mut self, bytes: Bytes) {
        let Some(ExpectedPiece { page, flight, charge }) = self.expected.pop_front() else { return };
        let key = self.object.key(page);
        let piece = PagePiece::new(flight.start(), bytes, charge, self.object.known.in_use.clone());

        if self.is_home {
            self.cache.insert(key, &piece);
        } else {
            self.cache.insert_of_peer(key, &piece);
        }
        self.remove_flight(&key, &flight);
        if !self.is_from_peer {
            self.counters.pages_fetched.add(1);
        }
        flight.finish(piece);
    }

    fn remove_flight(&self, key: &PageKey, flight: &Arc<PieceFlight>) {
        self.flights.land(key, flight);
        self.cache.count_landing(flight.len() as u64);
    }

    /// Fails the flights of the incomplete pieces.
    pub(crate) fn fail(&mut self, error: &Error) {
        while let Some(ExpectedPiece { page, flight, .. }) = self.expected.pop_front() {
            // Remove it from the table first, so that a caller that retries after this error starts a new fetch.
            self.remove_flight(&self.object.key(page), &flight);
            flight.fail(error.clone());
        }
    }
}

impl Drop for PageAssembler<'_> {
    fn drop(&mut self) {
        if !self.expected.is_empty() {
            let source = object_store::Error::Generic {
                store: "Stylobate",
                source: "the fetch of this page ended unexpectedly".into(),
            };
            self.fail(&Error::from_origin(self.object.known.path.as_ref(), source));
        }
    }
}
