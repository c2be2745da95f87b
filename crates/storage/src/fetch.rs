//! Brings missing pages: one fetch per page however many ask, in a task of its own.
//!
//! Invariant: a page is either in the cache, or in `flights`, or nobody is fetching it. A page is put into the cache
//! before it leaves `flights`, and whoever finds it in neither while holding the lock of `flights` starts the fetch.

use std::{collections::BTreeSet, ops::Range, os::unix::fs::FileExt, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use object_store::{GetOptions, GetResult, GetResultPayload, path::Path};

use crate::{
    ByteSize, Error, PageCache, Reservation, Result,
    arriving::Arriving,
    coalesce::{self, Limits},
    flight::{Flight, Flights, Table},
    paged::Paged,
    request::{Patience, Requests},
    stats::Counters,
    versions::Known,
};

/// Pages nobody asked for that one request may bring along between two that somebody did.
const MERGE_GAP: ByteSize = ByteSize::kib(512);

/// Taken for an object whose size nobody knows yet, until it is known: many small ones are opened at a time in little
/// memory.
const OPENING: ByteSize = ByteSize::kib(64);

/// How a page that was not in memory can be read.
#[derive(Debug)]
pub(crate) enum Demand {
    /// It came into memory meanwhile.
    Ready(Bytes),
    /// It is on its way.
    Flight(Arc<Flight>),
    /// There is no memory to fetch it into: read past the cache.
    Declined,
}

/// Fetches pages of one origin's objects.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) requests: Requests,
    pub(crate) cache: PageCache,
    pub(crate) counters: Arc<Counters>,
    flights: Flights,
    limits: Limits,
}

impl Fetcher {
    pub(crate) fn new(requests: Requests, cache: PageCache, max_fetch: ByteSize) -> Self {
        let pages = |size: ByteSize| (size.as_u64() / cache.page_size()) as u32;
        let limits = Limits { max_pages: pages(max_fetch).max(1), max_gap: pages(MERGE_GAP) };
        let counters = requests.counters.clone();
        Self { requests, cache, counters, flights: Flights::default(), limits }
    }

    /// Pages on their way.
    pub(crate) fn in_flight(&self) -> u64 {
        self.flights.lock().len() as u64
    }

    /// The page `wanted`, and, started but not waited for, those of `ahead` (which lie behind it) that are not in the
    /// cache.
    pub(crate) fn demand(self: &Arc<Self>, object: &Paged, wanted: u32, ahead: Range<u32>) -> Demand {
        let key = object.key(wanted);
        let mut flights = self.flights.lock();
        let mut missing: Vec<u32> = ahead.filter(|page| self.is_missing(object, &flights, *page)).collect();
        if let Some(flight) = flights.get(&key).cloned() {
            self.counters.waits_merged.add(1);
            self.start(object, &mut flights, &missing);
            return Demand::Flight(flight);
        }
        if let Some(page) = self.cache.get_memory(&key) {
            return Demand::Ready(page);
        }
        if self.cache.may_contain(&key) {
            let flight = Flight::new();
            flights.insert(key, flight.clone());
            self.start(object, &mut flights, &missing);
            let (this, object, landing) = (self.clone(), object.clone(), flight.clone());
            tokio::spawn(async move { this.load(object, wanted, landing).await });
            return Demand::Flight(flight);
        }
        missing.insert(0, wanted);
        self.start(object, &mut flights, &missing);
        if !flights.contains_key(&key) {
            // No memory for the whole run: there may be some for the one page.
            self.start_run(object, &mut flights, wanted..wanted + 1);
        }
        flights.get(&key).map_or(Demand::Declined, |flight| Demand::Flight(flight.clone()))
    }

    /// Starts whatever of `pages` is neither cached nor on its way, without waiting for it.
    pub(crate) fn prefetch(self: &Arc<Self>, object: &Paged, pages: Range<u32>) {
        let mut flights = self.flights.lock();
        let missing: Vec<u32> = pages.filter(|page| self.is_missing(object, &flights, *page)).collect();
        self.counters.prefetched_pages.add(missing.len() as u64);
        self.start(object, &mut flights, &missing);
    }

    /// Starts the pages that any of the ranges touches, near ones together.
    pub(crate) fn prefetch_ranges(self: &Arc<Self>, object: &Paged, ranges: &[Range<u64>]) {
        let size = object.known.meta.size;
        let within = ranges.iter().filter(|range| range.start < range.end.min(size));
        let pages: BTreeSet<u32> = within
            .flat_map(|range| object.page_of(range.start)..=object.page_of(range.end.min(size) - 1))
            .collect();
        let mut flights = self.flights.lock();
        let missing: Vec<u32> =
            pages.into_iter().filter(|page| self.is_missing(object, &flights, *page)).collect();
        self.start(object, &mut flights, &missing);
    }

    fn is_missing(&self, object: &Paged, flights: &Table, page: u32) -> bool {
        let key = object.key(page);
        !flights.contains_key(&key) && !self.cache.may_contain(&key)
    }

    fn start(self: &Arc<Self>, object: &Paged, flights: &mut Table, missing: &[u32]) {
        let runs = coalesce::runs(missing, self.limits, |page| self.is_missing(object, flights, page));
        for run in runs {
            self.start_run(object, flights, run);
        }
    }

    /// Asks what the object is by asking for its bytes from `start` on, up to `end` at most, so that a first read costs
    /// one request and not two. The pages are on their way when this returns; where they cannot be, it is a HEAD.
    pub(crate) async fn open(self: Arc<Self>, path: Path, start: u64, end: u64) -> Result<Known> {
        let page_size = self.cache.page_size();
        let start = start / page_size * page_size;
        // Of an object of unknown size, no more than its first page: others wait for the memory too.
        let most_pages = if end == u64::MAX { 1 } else { self.limits.max_pages };
        let end = end.min(start.saturating_add(u64::from(most_pages) * page_size));
        let end = end.div_ceil(page_size).saturating_mul(page_size);
        let reserved = end.saturating_sub(start).min(OPENING.as_u64());
        let Some(mut reservation) = self.cache.in_flight().try_reserve(reserved) else {
            return self.requests.head(&path).await;
        };
        let options = GetOptions::new().with_range(Some(start..end));
        let get = self.requests.get(&path, &options);
        let answer = match self.requests.in_time(&path, &self.requests.patience(), get).await {
            Ok(answer) => answer,
            Err(error @ Error::NotFound { .. }) => return Err(error),
            // An object that ends before `start`, or a failure that may pass: a HEAD tells.
            Err(_) => return self.requests.head(&path).await,
        };
        let known = self.requests.known(&path, answer.meta.clone(), answer.attributes.clone());
        let Some(hash) = known.hash else { return Ok(known) };
        let as_asked = answer.range.start == start && answer.range.end == end.min(known.meta.size);
        if !as_asked || answer.range.is_empty() || !reservation.try_resize(answer.range.end - start) {
            return Ok(known);
        }
        let object = Paged { known: Arc::new(known.clone()), hash, page_size };
        let run = object.page_of(start)..object.page_of(answer.range.end - 1) + 1;
        let pages: Vec<Arc<Flight>> = run.clone().map(|_| Flight::new()).collect();
        {
            let mut flights = self.flights.lock();
            if !run.clone().all(|page| self.is_missing(&object, &flights, page)) {
                return Ok(known);
            }
            flights.extend(run.clone().map(|page| object.key(page)).zip(pages.iter().cloned()));
        }
        tokio::spawn(self.fetch(object, run, pages, reservation, Some(answer)));
        Ok(known)
    }

    /// Starts one request if there is memory for its pages; says whether it did.
    fn start_run(self: &Arc<Self>, object: &Paged, flights: &mut Table, run: Range<u32>) -> bool {
        let bytes = run.clone().map(|page| object.len(page) as u64).sum();
        let Some(reservation) = self.cache.in_flight().try_reserve(bytes) else {
            return false;
        };
        let pages: Vec<Arc<Flight>> = run.clone().map(|_| Flight::new()).collect();
        for (page, flight) in run.clone().zip(&pages) {
            flights.insert(object.key(page), flight.clone());
        }
        let (this, object) = (self.clone(), object.clone());
        tokio::spawn(async move { this.fetch(object, run, pages, reservation, None).await });
        true
    }

    /// Brings a page from disk, or, if it is not whole there, from the origin.
    async fn load(self: Arc<Self>, object: Paged, page: u32, flight: Arc<Flight>) {
        let key = object.key(page);
        if let Some(bytes) = self.cache.get_disk(&key, object.len(page)).await {
            self.counters.bytes_disk.add(bytes.len() as u64);
            flight.finish(bytes);
            self.flights.land(&key, &flight);
            return;
        }
        match self.cache.in_flight().try_reserve(object.len(page) as u64) {
            Some(reservation) => self.fetch(object, page..page + 1, vec![flight], reservation, None).await,
            None => {
                self.flights.land(&key, &flight);
                flight.decline();
            }
        }
    }

    async fn fetch(
        self: Arc<Self>,
        object: Paged,
        run: Range<u32>,
        pages: Vec<Arc<Flight>>,
        _reservation: Reservation,
        answer: Option<GetResult>,
    ) {
        pages.iter().for_each(|_| self.cache.count_miss());
        let mut arriving = Arriving::new(&self.cache, &self.flights, &self.counters, &object, run, pages);
        if let Err(error) = self.bring(&mut arriving, answer).await {
            arriving.fail(&error);
        }
    }

    /// Takes the run from the answer, or requests it; and, after a failure half-way, the rest of it.
    async fn bring(&self, arriving: &mut Arriving<'_>, mut answer: Option<GetResult>) -> Result<()> {
        let mut patience = self.requests.patience();
        loop {
            match self.bring_once(arriving, &mut patience, answer.take()).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    arriving.take_back();
                    self.requests.before_retry(&mut patience, error).await?;
                }
            }
        }
    }

    async fn bring_once(
        &self,
        arriving: &mut Arriving<'_>,
        patience: &mut Patience,
        answer: Option<GetResult>,
    ) -> Result<()> {
        let (start, end) = (arriving.position(), arriving.end());
        let known = &arriving.object.known;
        let path = &known.path;
        let answer = match answer {
            Some(answer) => answer,
            None => {
                self.requests.in_time(path, patience, self.requests.get_version(known, start..end)).await?
            }
        };
        let mut chunks = match answer.payload {
            GetResultPayload::File(file, _) => return self.read_file(arriving, file).await,
            GetResultPayload::Stream(chunks) => chunks,
        };
        while let Some(chunk) = self.next_chunk(path, patience, &mut chunks).await? {
            let room = (end - arriving.position()) as usize;
            if chunk.len() > room {
                let received = arriving.position() - start + chunk.len() as u64;
                return Err(Error::Truncated {
                    path: path.to_string(),
                    start,
                    end,
                    expected: end - start,
                    received,
                });
            }
            self.counters.bytes_origin.add(chunk.len() as u64);
            arriving.push(chunk);
            self.requests.progress(patience);
        }
        let received = arriving.position() - start;
        if received < end - start {
            return Err(Error::Truncated {
                path: path.to_string(),
                start,
                end,
                expected: end - start,
                received,
            });
        }
        arriving.complete();
        Ok(())
    }

    async fn next_chunk(
        &self,
        path: &Path,
        patience: &Patience,
        chunks: &mut BoxStream<'static, object_store::Result<Bytes>>,
    ) -> Result<Option<Bytes>> {
        let next = async {
            let chunk = chunks.next().await.transpose();
            chunk.map_err(|error| Error::from_origin(path.as_ref(), error))
        };
        self.requests.in_time(path, patience, next).await
    }

    /// Reads whole pages of a local file, off the async threads. A file can be written in place while it is read, so
    /// a page counts only if the file is still the one it was after the page was read.
    async fn read_file(&self, arriving: &mut Arriving<'_>, file: std::fs::File) -> Result<()> {
        let file = Arc::new(file);
        let path = arriving.object.known.path.to_string();
        let failed = |error: std::io::Error| {
            let source = object_store::Error::Generic { store: "folder", source: error.into() };
            Error::from_origin(&path, source)
        };
        let stamp =
            |file: &std::fs::File| file.metadata().and_then(|meta| Ok((meta.modified()?, meta.len())));
        let opened = stamp(&file).map_err(failed)?;
        let expected = &arriving.object.known.meta;
        let modified: chrono::DateTime<chrono::Utc> = opened.0.into();
        if modified != expected.last_modified || opened.1 != expected.size {
            return Err(self.requests.changed(&arriving.object.known));
        }
        while let Some(page) = arriving.next_page() {
            let Range { start, .. } = arriving.object.range(page);
            let len = arriving.object.len(page);
            let file = file.clone();
            let read = tokio::task::spawn_blocking(move || {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, start)?;
                stamp(&file).map(|stamp| (Bytes::from(bytes), stamp))
            });
            let read = read.await.map_err(|error| Error::from_origin(&path, error.into()))?;
            match read {
                Ok((bytes, stamp)) if stamp == opened => {
                    self.counters.bytes_origin.add(bytes.len() as u64);
                    arriving.push_page(bytes);
                }
                Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(failed(error)),
                _ => return Err(self.requests.changed(&arriving.object.known)),
            }
        }
        Ok(())
    }
}
