//! Pieces of pages in flight: buffers the bytes of each as they arrive, for all its waiters.

use std::{collections::HashMap, ops::Deref, sync::Arc};

use bytes::{Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::sync::watch;

use crate::{
    Error, Result,
    page_cache::{PageKey, PagePiece},
    peers::PeerRole,
    read::byte_source::ByteSource,
};

/// All pieces in flight. Flights of the same page never overlap.
#[derive(Debug, Default)]
pub(crate) struct PieceFlights {
    table: Mutex<PieceFlightTable>,
}

/// The flights of each page. A failed one that is still in the table counts as absent.
#[derive(Debug, Default)]
pub(crate) struct PieceFlightTable {
    pages: HashMap<PageKey, SmallVec<[Arc<PieceFlight>; 1]>>,
}

impl PieceFlightTable {
    /// Returns the flight that covers the byte at this offset of the page.
    pub(crate) fn covering(&self, key: &PageKey, offset: usize) -> Option<&Arc<PieceFlight>> {
        let mut flights = self.pages.get(key)?.iter();
        flights.find(|flight| (flight.start..flight.end).contains(&offset) && !flight.has_failed())
    }

    /// Returns the first byte of the page at or after `offset` that a flight covers.
    pub(crate) fn next_after(&self, key: &PageKey, offset: usize) -> Option<usize> {
        let flights = self.pages.get(key)?.iter();
        let flights = flights.filter(|flight| flight.end > offset && !flight.has_failed());
        flights.map(|flight| flight.start.max(offset)).min()
    }

    pub(crate) fn insert(&mut self, key: PageKey, flight: Arc<PieceFlight>) {
        let flights = self.pages.entry(key).or_default();
        flights.retain(|flight| !flight.has_failed());
        flights.push(flight);
    }

    /// Returns the number of pages with flights.
    pub(crate) fn len(&self) -> usize {
        self.pages.values().filter(|flights| flights.iter().any(|flight| !flight.has_failed())).count()
    }
}

impl PieceFlights {
    pub(crate) fn lock(&self) -> MutexGuard<'_, PieceFlightTable> {
        self.table.lock()
    }

    /// Removes the flight from the table.
    pub(crate) fn land(&self, key: &PageKey, flight: &Arc<PieceFlight>) {
        let mut table = self.table.lock();
        let Some(flights) = table.pages.get_mut(key) else { return };
        flights.retain(|other| !Arc::ptr_eq(other, flight));
        if flights.is_empty() {
            table.pages.remove(key);
        }
    }
}

/// A fetch of one piece: the bytes `start..end` of a page. Readers may join at any time and take the bytes that have
/// arrived so far.
#[derive(Debug)]
pub(crate) struct PieceFlight {
    start: usize,
    end: usize,
    reach: Option<PeerRole>,
    progress: watch::Sender<PieceFlightProgress>,
}

#[derive(Debug, Default)]
struct PieceFlightProgress {
    chunks: Vec<Bytes>,
    received: usize,
    source: ByteSource,
    outcome: Option<PieceFlightOutcome>,
}

#[derive(Clone, Debug)]
enum PieceFlightOutcome {
    /// The piece, which references to the flight keep alive.
    Landed(Arc<PagePiece>),
    Failed(Error),
}

impl PieceFlight {
    /// Creates a flight for the bytes `start..end` of a page from disk or the origin.
    pub(crate) fn new(start: usize, end: usize) -> Arc<Self> {
        Self::reaching(start, end, None)
    }

    /// Creates a flight for the bytes `start..end` of a page that may ask peers in roles up to `reach`.
    pub(crate) fn reaching(start: usize, end: usize, reach: Option<PeerRole>) -> Arc<Self> {
        Arc::new(Self { start, end, reach, progress: watch::Sender::new(PieceFlightProgress::default()) })
    }

    /// Returns the highest role in which the flight may ask a peer.
    pub(crate) fn reach(&self) -> Option<PeerRole> {
        self.reach
    }

    /// Returns the offset of the first byte within the page.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Returns the offset past the last byte, within the page.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Sets the source of the bytes. Default: the origin.
    pub(crate) fn set_source(&self, source: ByteSource) {
        self.progress.send_if_modified(|progress| {
            progress.source = source;
            false
        });
    }

    /// Returns the source of the bytes.
    pub(crate) fn source(&self) -> ByteSource {
        self.progress.borrow().source
    }

    /// Adds the next bytes.
    pub(crate) fn push(&self, chunk: Bytes) {
        self.progress.send_modify(|progress| {
            progress.received += chunk.len();
            progress.chunks.push(chunk);
        });
    }

    /// Returns the number of bytes that have arrived.
    pub(crate) fn received(&self) -> usize {
        self.progress.borrow().received
    }

    /// Returns all pushed bytes followed by `last`, in an allocation of exactly their length.
    pub(crate) fn assemble(&self, last: &Bytes) -> Bytes {
        let progress = self.progress.borrow();
        let mut bytes = BytesMut::with_capacity(progress.received + last.len());
        progress.chunks.iter().for_each(|chunk| bytes.extend_from_slice(chunk));
        bytes.extend_from_slice(last);
        bytes.freeze()
    }

    /// Completes the flight with the whole piece.
    pub(crate) fn finish(&self, piece: Arc<PagePiece>) {
        self.end_with(PieceFlightOutcome::Landed(piece));
    }

    /// Ends the flight with an error, which all waiters receive.
    pub(crate) fn fail(&self, error: Error) {
        self.end_with(PieceFlightOutcome::Failed(error));
    }

    fn has_ended(&self) -> bool {
        self.progress.borrow().outcome.is_some()
    }

    /// Returns whether the flight ended with an error.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.progress.borrow().outcome, Some(PieceFlightOutcome::Failed(_)))
    }

    fn end_with(&self, outcome: PieceFlightOutcome) {
        self.progress.send_modify(|progress| {
            if progress.outcome.is_none() {
                progress.chunks = Vec::new();
                progress.outcome = Some(outcome);
            }
        });
    }

    /// Waits for bytes of the page starting at `from`, up to `to` at most. The byte at `from` must be in the piece.
    pub(crate) async fn read(&self, from: usize, to: usize) -> Result<Vec<Bytes>> {
        let mut watch = self.progress.subscribe();
        let wanted = from - self.start;
        let is_ready =
            |progress: &PieceFlightProgress| progress.outcome.is_some() || progress.received > wanted;
        let Ok(progress) = watch.wait_for(is_ready).await else {
            // `self` owns the sender, so this is unreachable.
            return Err(Error::Cache { reason: "a fetch ended without an outcome".to_owned() });
        };
        match &progress.outcome {
            Some(PieceFlightOutcome::Landed(piece)) => Ok(vec![piece.slice(from, to)]),
            Some(PieceFlightOutcome::Failed(error)) => Err(error.clone()),
            None => Ok(slices(&progress.chunks, wanted, to - self.start)),
        }
    }
}

/// A flight that a task will read or fetch. If the task ends without an outcome (by a panic in a callee), or never runs
/// since its runtime has shut down, dropping this fails the flight: waiters get an error, and the next reader starts a new
/// fetch. Takes no lock of the table: a task may be dropped where it is spawned.
#[derive(Debug)]
pub(crate) struct ExpectedFlight(Arc<PieceFlight>);

impl ExpectedFlight {
    pub(crate) fn new(flight: Arc<PieceFlight>) -> Self {
        Self(flight)
    }
}

impl Deref for ExpectedFlight {
    type Target = Arc<PieceFlight>;

    fn deref(&self) -> &Arc<PieceFlight> {
        &self.0
    }
}

impl Drop for ExpectedFlight {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            self.0.fail(Error::Cache { reason: "the fetch of a piece ended unexpectedly".to_owned() });
        }
    }
}

/// Returns the parts of the concatenated `chunks` that lie in `start..end`.
fn slices(chunks: &[Bytes], start: usize, end: usize) -> Vec<Bytes> {
    let mut found = Vec::new();
    let mut offset = 0;
    for chunk in chunks {
        let from = start.clamp(offset, offset + chunk.len()) - offset;
        let to = end.clamp(offset, offset + chunk.len()) - offset;
        if from < to {
            found.push(chunk.slice(from..to));
        }
        offset += chunk.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, ByteSize, Holder, object::ObjectHash, versions::paths_in_use::PathInUse};

    const KEY: PageKey = PageKey { object: ObjectHash(1), page: 0 };

    fn piece(start: usize, bytes: Bytes) -> Arc<PagePiece> {
        let charge = Budget::new(ByteSize::mib(1)).try_reserve(Holder::Pages, bytes.len() as u64);
        PagePiece::new(start, bytes, charge.unwrap(), PathInUse::sole())
    }

    fn bytes(chunks: Result<Vec<Bytes>>) -> Vec<u8> {
        chunks.unwrap().concat()
    }

    #[tokio::test]
    async fn a_flight_whose_task_never_runs_fails_and_counts_as_absent() {
        let flights = PieceFlights::default();
        let flight = PieceFlight::new(0, 10);
        flights.lock().insert(KEY, flight.clone());
        {
            // A task is dropped where it is spawned if its runtime has shut down.
            let table = flights.lock();
            drop(ExpectedFlight::new(flight.clone()));
            assert!(table.covering(&KEY, 5).is_none() && table.next_after(&KEY, 0).is_none());
            assert_eq!(table.len(), 0);
        }
        assert!(flight.read(0, 10).await.is_err());
        flights.lock().insert(KEY, PieceFlight::new(5, 10));
        assert_eq!(flights.lock().next_after(&KEY, 0), Some(5));
    }

    #[tokio::test]
    async fn a_reader_takes_what_is_there_before_the_piece_is_whole() {
        let flight = PieceFlight::new(100, 109);
        flight.push(Bytes::from_static(b"abc"));
        flight.push(Bytes::from_static(b"def"));
        assert_eq!(bytes(flight.read(102, 110).await), b"cdef");
        assert_eq!(bytes(flight.read(101, 105).await), b"bcde");
        let assembled = flight.assemble(&Bytes::from_static(b"ghi"));
        assert_eq!(assembled, "abcdefghi");
        flight.finish(piece(100, assembled));
        assert_eq!(bytes(flight.read(106, 200).await), b"ghi");
    }

    #[tokio::test]
    async fn a_flight_that_nobody_brings_any_more_is_over() {
        let flights = PieceFlights::default();
        let flight = PieceFlight::new(0, 9);
        flights.lock().insert(KEY, flight.clone());
        drop(ExpectedFlight::new(flight.clone()));
        assert!(flight.read(0, 9).await.is_err());
        assert_eq!(flights.lock().len(), 0);

        let landed = PieceFlight::new(0, 3);
        landed.finish(piece(0, Bytes::from_static(b"abc")));
        drop(ExpectedFlight::new(landed.clone()));
        assert_eq!(bytes(landed.read(0, 3).await), b"abc");
    }

    #[tokio::test]
    async fn an_error_reaches_everyone_who_waits() {
        let flight = PieceFlight::new(0, 9);
        flight.push(Bytes::from_static(b"abc"));
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let flight = flight.clone();
                tokio::spawn(async move { flight.read(3, 9).await })
            })
            .collect();
        tokio::task::yield_now().await;
        flight.fail(Error::Changed { path: "p".to_owned() });
        assert!(flight.has_failed());
        for reader in waiting {
            assert!(matches!(reader.await.unwrap(), Err(Error::Changed { .. })));
        }
    }

    #[tokio::test]
    async fn the_first_outcome_stands() {
        let flight = PieceFlight::new(0, 4);
        flight.finish(piece(0, Bytes::from_static(b"page")));
        flight.fail(Error::Changed { path: "p".to_owned() });
        assert_eq!(bytes(flight.read(0, 4).await), b"page");
    }

    #[test]
    fn flights_of_a_page_are_found_by_offset() {
        let flights = PieceFlights::default();
        let first = PieceFlight::new(0, 10);
        let second = PieceFlight::new(30, 40);
        {
            let mut table = flights.lock();
            table.insert(KEY, first.clone());
            table.insert(KEY, second.clone());
            assert!(Arc::ptr_eq(table.covering(&KEY, 39).unwrap(), &second));
            assert!(table.covering(&KEY, 10).is_none() && table.covering(&KEY, 40).is_none());
            let next = [0, 5, 10, 35, 40].map(|offset| table.next_after(&KEY, offset));
            assert_eq!(next, [Some(0), Some(5), Some(30), Some(35), None]);
        }
        flights.land(&KEY, &first);
        assert!(flights.lock().covering(&KEY, 0).is_none());
        flights.land(&KEY, &second);
        assert_eq!(flights.lock().len(), 0);
    }
}
