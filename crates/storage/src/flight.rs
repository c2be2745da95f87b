//! Pages on their way: the bytes of each as they arrive, for everyone who waits for it.

use std::{collections::HashMap, sync::Arc};

use bytes::{Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::{Error, Result, page_cache::PageKey};

/// The flight of each page on its way.
pub(crate) type Table = HashMap<PageKey, Arc<Flight>>;

/// All pages on their way.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    table: Mutex<Table>,
}

impl Flights {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Takes the flight from the table, unless another has taken its place meanwhile.
    pub(crate) fn land(&self, key: &PageKey, flight: &Arc<Flight>) {
        let mut table = self.table.lock();
        if table.get(key).is_some_and(|other| Arc::ptr_eq(other, flight)) {
            table.remove(key);
        }
    }
}

/// A page that is being fetched. Readers may join at any time and take what has arrived so far.
#[derive(Debug)]
pub(crate) struct Flight {
    progress: watch::Sender<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    chunks: Vec<Bytes>,
    received: usize,
    outcome: Option<Outcome>,
}

#[derive(Clone, Debug)]
enum Outcome {
    Whole(Bytes),
    Failed(Error),
    Declined,
}

/// What a reader gets next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Bytes of the page, in order.
    Bytes(Vec<Bytes>),
    /// There was no memory to fetch the page into: read past the cache.
    Declined,
}

impl Flight {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { progress: watch::Sender::new(Progress::default()) })
    }

    /// Adds the next bytes of the page.
    pub(crate) fn push(&self, chunk: Bytes) {
        self.progress.send_modify(|progress| {
            progress.received += chunk.len();
            progress.chunks.push(chunk);
        });
    }

    /// Bytes that have arrived.
    pub(crate) fn received(&self) -> usize {
        self.progress.borrow().received
    }

    /// Whether anybody waits for bytes of it now.
    pub(crate) fn is_awaited(&self) -> bool {
        self.progress.receiver_count() > 0
    }

    /// All bytes that were pushed and `last` behind them, as one piece of memory that holds nothing else.
    pub(crate) fn assemble(&self, last: &Bytes) -> Bytes {
        let progress = self.progress.borrow();
        let mut page = BytesMut::with_capacity(progress.received + last.len());
        progress.chunks.iter().for_each(|chunk| page.extend_from_slice(chunk));
        page.extend_from_slice(last);
        page.freeze()
    }

    /// Ends with the whole page.
    pub(crate) fn finish(&self, page: Bytes) {
        self.end(Outcome::Whole(page));
    }

    /// Ends with an error, which everyone who waits gets.
    pub(crate) fn fail(&self, error: Error) {
        self.end(Outcome::Failed(error));
    }

    /// Ends without the page, for want of memory.
    pub(crate) fn decline(&self) {
        self.end(Outcome::Declined);
    }

    fn end(&self, outcome: Outcome) {
        self.progress.send_modify(|progress| {
            if progress.outcome.is_none() {
                progress.chunks = Vec::new();
                progress.outcome = Some(outcome);
            }
        });
    }

    /// Waits for bytes of the page from `start` (within the page) on, up to `end` at most.
    pub(crate) async fn read(&self, start: usize, end: usize) -> Result<Next> {
        let mut watch = self.progress.subscribe();
        let there = |progress: &Progress| progress.outcome.is_some() || progress.received > start;
        let progress = match watch.wait_for(there).await {
            Ok(progress) => progress,
            // The sender is `self`: it cannot be gone.
            Err(_) => return Ok(Next::Declined),
        };
        match &progress.outcome {
            Some(Outcome::Whole(page)) => Ok(Next::Bytes(vec![page.slice(start..end.min(page.len()))])),
            Some(Outcome::Failed(error)) => Err(error.clone()),
            Some(Outcome::Declined) => Ok(Next::Declined),
            None => Ok(Next::Bytes(slices(&progress.chunks, start, end))),
        }
    }
}

/// The parts of `chunks`, taken together, that lie in `start..end`.
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

    fn bytes(next: Result<Next>) -> Vec<u8> {
        match next.unwrap() {
            Next::Bytes(chunks) => chunks.concat(),
            Next::Declined => panic!("declined"),
        }
    }

    #[tokio::test]
    async fn a_reader_takes_what_is_there_before_the_page_is_whole() {
        let flight = Flight::new();
        flight.push(Bytes::from_static(b"abc"));
        flight.push(Bytes::from_static(b"def"));
        assert_eq!(bytes(flight.read(2, 10).await), b"cdef");
        assert_eq!(bytes(flight.read(1, 5).await), b"bcde");
        let page = flight.assemble(&Bytes::from_static(b"ghi"));
        assert_eq!(page, "abcdefghi");
        flight.finish(page);
        assert_eq!(bytes(flight.read(6, 9).await), b"ghi");
    }

    #[tokio::test]
    async fn an_error_reaches_everyone_who_waits() {
        let flight = Flight::new();
        flight.push(Bytes::from_static(b"abc"));
        let waiting: Vec<_> = (0..5)
            .map(|_| {
                let flight = flight.clone();
                tokio::spawn(async move { flight.read(3, 9).await })
            })
            .collect();
        tokio::task::yield_now().await;
        flight.fail(Error::Changed { path: "p".to_owned() });
        for reader in waiting {
            assert!(matches!(reader.await.unwrap(), Err(Error::Changed { .. })));
        }
    }

    #[tokio::test]
    async fn the_first_outcome_stands() {
        let flight = Flight::new();
        flight.finish(Bytes::from_static(b"page"));
        flight.fail(Error::Changed { path: "p".to_owned() });
        assert_eq!(bytes(flight.read(0, 4).await), b"page");
    }
}
