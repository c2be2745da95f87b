//! The pages of one request, filling up in order as its bytes arrive.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

use crate::{
    Error, PageCache,
    flight::{Flight, Flights},
    paged::Paged,
    stats::Counters,
};

/// The pages of one request. Those that are whole are in the cache; when this is dropped, the others fail.
pub(crate) struct Arriving<'a> {
    pub(crate) cache: &'a PageCache,
    pub(crate) flights: &'a Flights,
    pub(crate) counters: &'a Counters,
    pub(crate) object: &'a Paged,
    run: Range<u32>,
    pages: Vec<Arc<Flight>>,
    /// How many pages are whole.
    whole: usize,
    /// The bytes that make the last page whole, until it is known that no more follow.
    held: Bytes,
}

impl<'a> Arriving<'a> {
    /// Expects the pages of `run`, one flight for each.
    pub(crate) fn new(
        cache: &'a PageCache,
        flights: &'a Flights,
        counters: &'a Counters,
        object: &'a Paged,
        run: Range<u32>,
        pages: Vec<Arc<Flight>>,
    ) -> Self {
        Self { cache, flights, counters, object, run, pages, whole: 0, held: Bytes::new() }
    }

    fn current(&self) -> Option<(u32, Arc<Flight>)> {
        let flight = self.pages.get(self.whole)?;
        Some((self.run.start + self.whole as u32, flight.clone()))
    }

    pub(crate) fn next_page(&self) -> Option<u32> {
        self.current().map(|(page, _)| page)
    }

    /// Offset in the object of the next byte.
    pub(crate) fn position(&self) -> u64 {
        match self.current() {
            Some((page, flight)) => {
                self.object.range(page).start + (flight.received() + self.held.len()) as u64
            }
            None => self.end(),
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.object.range(self.run.end - 1).end
    }

    /// Takes the next bytes. The last page is whole only once [`complete`](Self::complete) says that no more came.
    pub(crate) fn push(&mut self, mut chunk: Bytes) {
        while let Some((page, flight)) = self.current().filter(|_| !chunk.is_empty()) {
            let room = self.object.len(page) - flight.received();
            if chunk.len() < room {
                flight.push(chunk);
                return;
            }
            let last = chunk.split_to(room);
            if self.whole + 1 == self.pages.len() {
                self.held = last;
                return;
            }
            self.landed(page, &flight, flight.assemble(&last));
        }
    }

    /// Forgets the bytes that were held back: the request did not end well behind them.
    pub(crate) fn take_back(&mut self) {
        self.held = Bytes::new();
    }

    /// Ends the request: all its bytes came, and no others.
    pub(crate) fn complete(&mut self) {
        if let Some((page, flight)) = self.current() {
            let last = std::mem::take(&mut self.held);
            self.landed(page, &flight, flight.assemble(&last));
        }
    }

    /// Takes the next page at once.
    pub(crate) fn push_page(&mut self, bytes: Bytes) {
        if let Some((page, flight)) = self.current() {
            self.landed(page, &flight, bytes);
        }
    }

    /// The page is whole: first in the cache, then out of the table, and only then with those who wait, so that whoever
    /// has read a page finds it in the cache.
    fn landed(&mut self, page: u32, flight: &Arc<Flight>, bytes: Bytes) {
        let key = self.object.key(page);
        self.cache.insert(key, bytes.clone(), self.object.known.meta.size, !flight.is_awaited());
        self.flights.land(&key, flight);
        self.counters.pages_fetched.add(1);
        self.whole += 1;
        flight.finish(bytes);
    }

    /// Ends the flights of the pages that did not become whole.
    pub(crate) fn fail(&mut self, error: &Error) {
        while let Some((page, flight)) = self.current() {
            // First from the table, so that whoever asks again after this error starts a new fetch.
            self.flights.land(&self.object.key(page), &flight);
            flight.fail(error.clone());
            self.whole += 1;
        }
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        if self.next_page().is_some() {
            let source = object_store::Error::Generic {
                store: "Stylobate",
                source: "the fetch of this page ended unexpectedly".into(),
            };
            self.fail(&Error::from_origin(self.object.known.path.as_ref(), source));
        }
    }
}
