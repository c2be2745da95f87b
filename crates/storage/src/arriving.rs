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
        Self { cache, flights, counters, object, run, pages, whole: 0 }
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
            Some((page, flight)) => self.object.range(page).start + flight.received() as u64,
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
            flight.push(chunk.split_to(room.min(chunk.len())));
            if flight.received() == self.object.len(page) {
                if self.whole + 1 == self.pages.len() {
                    return;
                }
                self.finish_pushed(page, &flight);
            }
        }
    }

    /// Ends the request: all its bytes came, and no others.
    pub(crate) fn complete(&mut self) {
        if let Some((page, flight)) = self.current() {
            self.finish_pushed(page, &flight);
        }
    }

    fn finish_pushed(&mut self, page: u32, flight: &Arc<Flight>) {
        let bytes = flight.finish_pushed();
        self.landed(page, flight, bytes);
    }

    /// Takes the next page at once.
    pub(crate) fn push_page(&mut self, bytes: Bytes) {
        if let Some((page, flight)) = self.current() {
            flight.finish(bytes.clone());
            self.landed(page, &flight, bytes);
        }
    }

    fn landed(&mut self, page: u32, flight: &Arc<Flight>, bytes: Bytes) {
        let key = self.object.key(page);
        self.cache.insert(key, bytes, self.object.known.meta.size, !flight.is_awaited());
        self.flights.land(&key, flight);
        self.counters.pages_fetched.add(1);
        self.whole += 1;
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
