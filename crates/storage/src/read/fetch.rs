//! Fetches missing bytes: one fetch per block for any number of readers, in a task of its own.
//!
//! Invariant: a block that a task is fetching is in `flights` or already in the cache. A piece is inserted into the
//! cache before its flight is removed from `flights`; a caller that holds the lock of `flights` and finds a block in
//! neither fetches it. Bytes of an object of unknown version are requested only while the process uses no other bytes
//! of it.

use std::{collections::HashMap, ops::Range, os::unix::fs::FileExt, sync::Arc, time::Instant};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use object_store::{GetOptions, GetResult, GetResultPayload, path::Path};
use parking_lot::Mutex;

use super::requests::coalesce;
use crate::{
    ByteSize, Error, PageCache, Reservation, Result,
    object::{ObjectHash, headers::CapturedHeaders},
    origin::trace::traced,
    page_cache::{PagePiece, WriteBacklog},
    peers::PeerSource,
    read::{
        byte_source::ByteSource,
        flight::{PieceFlight, PieceFlightGuard, PieceFlightTable, PieceFlights},
        page_assembler::{ExpectedPiece, FetchRun, PageAssembler},
        paged::PagedObject,
        pin::PinnedRange,
        requests::{
            to_origin::{RequestSender, RetryState},
            to_peers::{FetchRoute, PeerMiss, PeerRequests},
        },
    },
    stats::ReadCounters,
    threads::blocking::run_blocking,
    versions::{ObjectInfo, paths_in_use::PathInUse},
};

/// Maximum bytes reserved to open an object. Its size may be unknown, and it must be possible to open many small
/// objects at once with little memory.
const OPENING: ByteSize = ByteSize::kib(64);

/// Number of concurrent opens of objects of unknown size that share the memory budget. Each requests at most its
/// share.
const OPENS_AT_ONCE: u64 = 64;

/// Maximum bytes of a merged request.
const MAX_MERGED: u64 = 16 << 20;

/// The urgency of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchUrgency {
    /// A reader waits for the first byte. The remaining bytes are read-ahead.
    Now,
    /// A reader will reach the bytes later.
    Ahead,
}

/// Fetches pieces of one origin's objects.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) requests: RequestSender,
    pub(crate) cache: PageCache,
    pub(crate) counters: Arc<ReadCounters>,
    /// `None` if the node is not in a cluster.
    pub(crate) cluster: Option<PeerRequests>,
    flights: PieceFlights,
    max_fetch: u64,
    batches: Mutex<PendingFetches>,
}

/// Requests delayed so that they can be merged with nearby ones, by object.
type PendingFetches = HashMap<ObjectHash, Vec<FetchRun>>;

impl Fetcher {
    pub(crate) fn new(
        requests: RequestSender,
        cache: PageCache,
        max_fetch: ByteSize,
        cluster: Option<PeerRequests>,
    ) -> Self {
        let counters = requests.counters.clone();
        let max_fetch = max_fetch.as_u64().max(cache.layout().block);
        Self {
            requests,
            cache,
            counters,
            cluster,
            flights: PieceFlights::default(),
            max_fetch,
            batches: Mutex::default(),
        }
    }

    /// Returns the number of pages in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.flights.lock().len() as u64
    }

    /// Returns the maximum bytes of one request.
    pub(crate) fn max_fetch(&self) -> u64 {
        self.max_fetch
    }

    /// Pins the bytes of a range from its start on, and starts to fetch those not in memory. The pins are adjacent;
    /// they end early if memory or the read-ahead quota is exhausted.
    pub(crate) fn obtain(
        self: &Arc<Self>,
        object: &PagedObject,
        range: Range<u64>,
        urgency: FetchUrgency,
    ) -> Vec<PinnedRange> {
        let mut flights = self.flights.lock();
        let mut pins: Vec<PinnedRange> = Vec::new();
        let mut position = range.start;
        while position < range.end {
            let is_ahead = urgency == FetchUrgency::Ahead || position > range.start;
            if is_ahead && self.cache.ahead().free() == 0 {
                break;
            }

            let before = pins.len();
            self.pin_next(object, &mut flights, position..range.end, is_ahead, &mut pins);
            match pins.last().filter(|_| pins.len() > before) {
                Some(pin) => position = pin.end(),
                None => break,
            }
        }

        pins
    }

    /// Pins the start of a range: one flight or piece of one page, or all pieces of one new request. Adds nothing to
    /// `pins` if there is no memory for it, or if the reader may not join the flight that covers it.
    fn pin_next(
        self: &Arc<Self>,
        object: &PagedObject,
        flights: &mut PieceFlightTable,
        range: Range<u64>,
        is_ahead: bool,
        pins: &mut Vec<PinnedRange>,
    ) {
        let Some((page, part)) = object.parts(range.clone()).next() else { return };
        let key = object.key(page);
        let hold_ahead = |bytes: usize| is_ahead.then(|| self.cache.ahead().hold(bytes as u64));

        if let Some(flight) = flights.covering(&key, part.start) {
            if !object.may_join(flight) {
                return;
            }
            self.counters.waits_merged.add(1);
            let ahead = hold_ahead(flight.end() - part.start);
            pins.push(PinnedRange::of_flight(object.offset(page), range.start, flight.clone(), ahead));
        } else if let Some(piece) = self.cache.pin_memory(&key, part.start, part.end) {
            let ahead = hold_ahead(piece.end() - part.start);
            pins.push(PinnedRange::of_piece(object.offset(page), range.start, piece, ahead));
        } else if self.cache.disk_blocks(&key).has(object.layout.block_of(part.start)) {
            let flight = self.start_load(object, flights, page, part.clone());
            pins.extend(flight.map(|flight| {
                let ahead = hold_ahead(flight.end() - part.start);
                PinnedRange::of_flight(object.offset(page), range.start, flight, ahead)
            }));
        } else if !is_ahead || self.cache.backlog() == WriteBacklog::Short {
            self.start_fetch(object, flights, range, is_ahead, pins);
        }
    }

    /// Starts to read the blocks at the start of `part` from disk, up to the first one that is not on disk, or that
    /// is in memory or in flight.
    fn start_load(
        self: &Arc<Self>,
        object: &PagedObject,
        flights: &mut PieceFlightTable,
        page: u32,
        part: Range<usize>,
    ) -> Option<Arc<PieceFlight>> {
        let key = object.key(page);
        let layout = object.layout;
        let block = layout.block as usize;

        let first_block = layout.block_of(part.start);
        let after_part = layout.block_of(part.end - 1) + 1;
        let mut end_block = self.cache.disk_blocks(&key).run_end(first_block).min(after_part);
        if let Some(resident) = self.cache.memory_blocks(&key).first_from(first_block) {
            end_block = end_block.min(resident);
        }

        let start = first_block as usize * block;
        let mut end = (end_block as usize * block).min(object.len(page));
        if let Some(next) = flights.next_after(&key, start) {
            end = end.min(next);
        }
        if start >= end {
            return None;
        }

        let reserved = self.reserve_some(start..end, block);
        // Exceed the budget by one block if necessary: bytes on disk must not be requested from the origin.
        let (charge, len) = reserved.unwrap_or_else(|| {
            let len = block.min(end - start);
            (self.cache.hold(len as u64), len)
        });

        let flight = PieceFlight::new(start, start + len);
        flights.insert(key, flight.clone());
        let expected = ExpectedPiece { page, flight: flight.clone(), charge };
        let this = self.clone();
        let object = object.clone();
        tokio::spawn(traced(async move { this.load(object, expected).await }));

        Some(flight)
    }

    /// Reserves memory for a range of bytes, halving the length until it fits, but to no less than a block. Returns
    /// the reservation and its length, counted from the start of the range.
    fn reserve_some(&self, range: Range<usize>, block: usize) -> Option<(Reservation, usize)> {
        let mut len = range.len();
        loop {
            if let Some(charge) = self.cache.reserve(len as u64) {
                return Some((charge, len));
            }
            if len <= block {
                return None;
            }
            len = (len / 2).next_multiple_of(block);
        }
    }

    /// Starts and pins one request for the bytes from the start of a range that are neither cached nor in flight, as
    /// far as memory allows.
    fn start_fetch(
        self: &Arc<Self>,
        object: &PagedObject,
        flights: &mut PieceFlightTable,
        range: Range<u64>,
        is_ahead: bool,
        pins: &mut Vec<PinnedRange>,
    ) {
        let block = object.layout.block;
        // The block that a reader waits for does not count as read-ahead.
        let waited_for = if is_ahead { 0 } else { block };
        let limit = match self.cache.backlog() {
            // A waiting reader gets a page if there is memory, regardless of the read-ahead of other readers.
            WriteBacklog::Short => {
                let min = if is_ahead { block } else { object.layout.page };
                self.max_fetch.min(waited_for + self.cache.ahead().free()).max(min)
            }
            WriteBacklog::Long => object.layout.page,
            WriteBacklog::Full => block,
        };

        // A request does not cross the end of its stripe: the next stripe has another home.
        let route = self.route(object, range.start);
        let end = range.end.min(range.start.saturating_add(limit)).min(route.end);
        let wanted = object.align(range.start..end);
        let run = wanted.start..self.missing_end(object, flights, wanted);

        let mut expected = Vec::new();
        for (page, part) in object.parts(run) {
            let is_first = expected.is_empty();
            let reserved = if is_first && !is_ahead {
                self.reserve_some(part.clone(), block as usize)
            } else {
                self.cache.reserve(part.len() as u64).map(|charge| (charge, part.len()))
            };
            let Some((charge, len)) = reserved else { break };

            let flight = PieceFlight::reaching(part.start, part.start + len, route.reach());
            flights.insert(object.key(page), flight.clone());
            let start = range.start.max(object.offset(page) + part.start as u64);
            let is_ahead = is_ahead || !is_first;
            let ahead = is_ahead.then(|| self.cache.ahead().hold(len as u64));
            pins.push(PinnedRange::of_flight(object.offset(page), start, flight.clone(), ahead));
            expected.push(ExpectedPiece { page, flight, charge });

            if len < part.len() {
                break;
            }
        }

        if expected.is_empty() {
            return;
        }
        if is_ahead {
            self.counters.prefetched_pages.add(expected.len() as u64);
        }
        self.send(object, FetchRun { pieces: expected, route });
    }

    /// Returns the sources for the bytes from `offset` on.
    fn route(&self, object: &PagedObject, offset: u64) -> FetchRoute {
        self.cluster.as_ref().map_or_else(FetchRoute::to_origin, |cluster| cluster.route(object, offset))
    }

    /// Returns whether this node fetches the byte at `offset` from the origin on a miss: it is the stripe's home, and
    /// has no peer to ask first.
    pub(crate) fn fills_from_origin(&self, path: &Path, offset: u64) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| {
            let sources = cluster.stripe(path, offset);
            sources.is_home && sources.peers.is_empty()
        })
    }

    /// Sends a request. A request to an origin of high latency is delayed by a fraction of that latency, so that it
    /// can be merged with nearby ones; a request to a peer is sent at once.
    fn send(self: &Arc<Self>, object: &PagedObject, run: FetchRun) {
        let this = self.clone();
        let object = object.clone();
        let wait = if run.route.peers.is_empty() { self.requests.cost.merge_wait() } else { None };
        let Some(wait) = wait else {
            tokio::spawn(traced(async move { this.fetch(object, run, None).await }));
            return;
        };

        let mut batches = self.batches.lock();
        let batch = batches.entry(object.hash).or_default();
        batch.push(run);
        if batch.len() == 1 {
            tokio::spawn(traced(async move {
                tokio::time::sleep(wait).await;
                this.send_batch(&object);
            }));
        }
    }

    /// Sends the delayed requests for an object, merging nearby ones.
    fn send_batch(self: &Arc<Self>, object: &PagedObject) {
        let mut batch = self.batches.lock().remove(&object.hash).unwrap_or_default();
        batch.sort_by_key(|run| run.pieces.first().map(|first| first.range(object).start));

        let mut merged: Vec<FetchRun> = Vec::new();
        for run in batch {
            let is_bridged = merged.last_mut().is_some_and(|last| self.bridge(object, last, &run));
            match merged.last_mut().filter(|_| is_bridged) {
                Some(last) => last.pieces.extend(run.pieces),
                None => merged.push(run),
            }
        }

        for run in merged {
            let this = self.clone();
            let object = object.clone();
            tokio::spawn(traced(async move { this.fetch(object, run, None).await }));
        }
    }

    /// Extends `run` by the gap before `next` if the gap is small, none of it is cached or in flight, and there is
    /// memory for it. Returns whether the two runs are then adjacent.
    fn bridge(self: &Arc<Self>, object: &PagedObject, run: &mut FetchRun, next: &FetchRun) -> bool {
        let (Some(first), Some(last), Some(next_first), Some(next_last)) =
            (run.pieces.first(), run.pieces.last(), next.pieces.first(), next.pieces.last())
        else {
            return false;
        };

        let gap = last.range(object).end..next_first.range(object).start;
        let is_small = next_last.range(object).end - first.range(object).start <= MAX_MERGED;
        let is_one_stripe = run.route.end == next.route.end;
        if !is_small
            || !is_one_stripe
            || gap.end < gap.start
            || gap.end - gap.start > self.requests.cost.max_gap()
        {
            return false;
        }
        if gap.is_empty() {
            return true;
        }

        let mut flights = self.flights.lock();
        if self.missing_end(object, &flights, gap.clone()) < gap.end {
            return false;
        }

        let parts: Vec<_> = object.parts(gap).collect();
        let charges: Option<Vec<_>> =
            parts.iter().map(|(_, part)| self.cache.reserve(part.len() as u64)).collect();
        let Some(charges) = charges else { return false };

        for ((page, part), charge) in parts.into_iter().zip(charges) {
            let flight = PieceFlight::new(part.start, part.end);
            flights.insert(object.key(page), flight.clone());
            run.pieces.push(ExpectedPiece { page, flight, charge });
        }

        true
    }

    /// Returns the end of the bytes at the start of `range` that are neither cached nor in flight.
    fn missing_end(&self, object: &PagedObject, flights: &PieceFlightTable, range: Range<u64>) -> u64 {
        let end = range.end;
        for (page, part) in object.parts(range) {
            let key = object.key(page);
            let cached = self.cache.memory_blocks(&key).union(self.cache.disk_blocks(&key));
            let cached = cached.first_from(object.layout.block_of(part.start));
            let cached = cached.map(|block| block as usize * object.layout.block as usize);

            let in_flight = flights.next_after(&key, part.start);
            let found = [cached, in_flight].into_iter().flatten().min();
            if let Some(found) = found.filter(|found| *found < part.end) {
                return object.offset(page) + found.max(part.start) as u64;
            }
        }

        end
    }

    /// Returns the bytes from the start of a range that this node does not have; empty if the first one is cached or
    /// in flight. Bytes in a flight that the reader may not join count as absent.
    pub(crate) fn absent(&self, object: &PagedObject, range: Range<u64>) -> Range<u64> {
        let flights = self.flights.lock();

        let mut end = range.start;
        while end < range.end
            && let Some((page, part)) = object.parts(end..range.end).next()
            && let Some(flight) = flights.covering(&object.key(page), part.start)
            && !object.may_join(flight)
        {
            end = object.offset(page) + flight.end() as u64;
        }
        if end > range.start {
            return range.start..end.min(range.end);
        }

        range.start..self.missing_end(object, &flights, range)
    }

    /// Returns the piece in memory that contains the first byte of a range, and the piece's bytes within the range.
    /// Counts a hit.
    pub(crate) fn resident(
        &self,
        object: &PagedObject,
        range: Range<u64>,
    ) -> Option<(Arc<PagePiece>, Bytes)> {
        let (page, part) = object.parts(range).next()?;
        let piece = self.cache.pin_memory(&object.key(page), part.start, part.end)?;
        let bytes = piece.slice(part.start, part.end);
        self.counters.bytes_memory.add(bytes.len() as u64);
        Some((piece, bytes))
    }

    /// Returns the offset of the first byte of a range that is not in memory.
    pub(crate) fn first_not_in_memory(&self, object: &PagedObject, range: Range<u64>) -> Option<u64> {
        let Range { start, .. } = range;
        for (page, part) in object.parts(range) {
            let resident = self.cache.memory_blocks(&object.key(page));
            let first = object.layout.block_of(part.start);
            let missing = u64::from(resident.run_end(first)) * object.layout.block;
            if missing < part.end as u64 {
                return Some((object.offset(page) + missing).max(start));
            }
        }

        None
    }

    /// Pins several ranges ahead of their readers, merging nearby ones, until memory or the read-ahead quota is
    /// exhausted.
    pub(crate) fn obtain_ranges(
        self: &Arc<Self>,
        object: &PagedObject,
        ranges: &[Range<u64>],
    ) -> Vec<PinnedRange> {
        let merged = coalesce::merge(ranges, self.requests.cost.max_gap());
        let mut pins = Vec::new();
        for range in merged {
            pins.extend(self.obtain(object, range.start..range.end.min(object.size()), FetchUrgency::Ahead));
        }
        pins
    }

    /// Describes the object by a GET for its bytes from `start` on, up to `end` at most, so that a first read costs
    /// one request instead of two. When this returns, the bytes are in flight and pinned, unless they must not be
    /// cached or differ from those requested. Sends a HEAD instead if there is no memory, or if the GET fails with an
    /// error other than [`Error::NotFound`] or [`Error::Deadline`]. `in_use` must be the only use of the path when
    /// this is called.
    pub(crate) async fn open(
        self: Arc<Self>,
        path: Path,
        Range { start, end }: Range<u64>,
        in_use: Arc<PathInUse>,
    ) -> Result<(ObjectInfo, Vec<PinnedRange>)> {
        let layout = self.cache.layout();
        let stripe_end = self.cluster.as_ref().map_or(u64::MAX, |cluster| cluster.stripe(&path, start).end);
        let head = async || Ok((self.requests.head(&path).await?, Vec::new()));

        let start = start / layout.block * layout.block;
        // At most one page if the size is unknown, and less if memory is small: concurrent opens need memory too.
        let max_unknown = (self.cache.budget().capacity() / OPENS_AT_ONCE).clamp(layout.block, layout.page);
        let max = if end == u64::MAX { max_unknown } else { self.max_fetch };
        let end = end.min(start.saturating_add(max)).min(stripe_end);
        let end = end.div_ceil(layout.block).saturating_mul(layout.block);

        let Some(opening) = self.cache.reserve((end - start).min(OPENING.as_u64())) else {
            return head().await;
        };

        let seen = CapturedHeaders::default();
        let options = GetOptions::new().with_range(Some(start..end)).with_extensions(seen.to_extensions());
        let asked = Instant::now();
        let get = self.requests.get(&path, &options);
        let answer = match self.requests.with_deadline(&path, &self.requests.retry_state(), get).await {
            Ok(answer) => answer,
            Err(error @ (Error::NotFound { .. } | Error::Deadline { .. })) => return Err(error),
            // Either the object ends before `start`, or the failure is transient: send a HEAD to find out.
            Err(_) => return head().await,
        };

        self.requests.cost.note_latency(asked.elapsed());
        let known = self.requests.known(&path, &answer, &seen, in_use);
        let Some(hash) = known.hash else { return Ok((known, Vec::new())) };

        let as_asked = answer.range.start == start && answer.range.end == end.min(known.meta.size);
        if !as_asked || answer.range.is_empty() {
            return Ok((known, Vec::new()));
        }

        drop(opening);
        let object = PagedObject { known: Arc::new(known.clone()), hash, layout, asked_as: None };
        let route = self.route(&object, start).without_peers();
        let (pieces, pins) = self.expect(&object, answer.range.clone());
        if !pieces.is_empty() {
            tokio::spawn(traced(self.fetch(object, FetchRun { pieces, route }, Some(answer))));
        }

        Ok((known, pins))
    }

    /// Adds flights for the bytes from the start of a response's range that are neither cached nor in flight, as far
    /// as memory allows, and pins them.
    fn expect(&self, object: &PagedObject, range: Range<u64>) -> (Vec<ExpectedPiece>, Vec<PinnedRange>) {
        let mut flights = self.flights.lock();
        let range = range.start..self.missing_end(object, &flights, range);

        let mut expected = Vec::new();
        let mut pins = Vec::new();
        for (page, part) in object.parts(range) {
            let reserved = self.reserve_some(part.clone(), object.layout.block as usize);
            let Some((charge, len)) = reserved else { break };

            let flight = PieceFlight::new(part.start, part.start + len);
            flights.insert(object.key(page), flight.clone());
            let start = object.offset(page) + part.start as u64;
            pins.push(PinnedRange::of_flight(object.offset(page), start, flight.clone(), None));
            expected.push(ExpectedPiece { page, flight, charge });

            if len < part.len() {
                break;
            }
        }

        (expected, pins)
    }

    /// Reads blocks from disk, or fetches them from the origin if the copy on disk is damaged.
    async fn load(self: Arc<Self>, object: PagedObject, expected: ExpectedPiece) {
        let key = object.key(expected.page);
        let flight = expected.flight.clone();
        let landing = PieceFlightGuard::new(&self.flights, key, &flight);
        let blocks = object.layout.block_of(flight.start())..object.layout.block_of(flight.end() - 1) + 1;
        let Some(bytes) = self.cache.read_disk(&key, blocks, flight.len()).await else {
            // The fetch completes the flight or reports the failure.
            std::mem::forget(landing);
            // Fetch from the origin, not from peers: requests from peers may have joined this flight, since it was
            // started as one that asks no peer.
            let route = self.route(&object, object.offset(expected.page)).without_peers();
            return self.fetch(object, FetchRun { pieces: vec![expected], route }, None).await;
        };

        self.counters.bytes_disk.add(bytes.len() as u64);
        flight.set_source(ByteSource::Disk);
        let piece = PagePiece::new(flight.start(), bytes, expected.charge, object.known.in_use.clone());
        self.cache.insert_read(key, &piece);
        self.flights.land(&key, &flight);
        flight.finish(piece);
    }

    /// Fetches the pieces of a run, from `answer` if a response has already begun. Reports failures to their waiters.
    async fn fetch(self: Arc<Self>, object: PagedObject, mut run: FetchRun, answer: Option<GetResult>) {
        let peers = std::mem::take(&mut run.route.peers);
        let mut pieces = PageAssembler::new(&self.cache, &self.flights, &self.counters, &object, run);
        if let Err(error) = self.receive(&mut pieces, peers, answer).await {
            pieces.fail(&error);
        }
    }

    /// Receives the pieces from `answer`, or requests them from peers and then from the origin. After a partial
    /// failure, requests only the rest.
    async fn receive(
        &self,
        pieces: &mut PageAssembler<'_>,
        peers: Vec<PeerSource>,
        mut answer: Option<GetResult>,
    ) -> Result<()> {
        if !peers.is_empty() && self.receive_from_peers(pieces, peers).await? {
            return Ok(());
        }

        let mut retry_state = self.requests.retry_state();
        loop {
            match self.receive_from_origin(pieces, &mut retry_state, answer.take()).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    pieces.take_back();
                    self.requests.before_retry(&mut retry_state, error).await?;
                }
            }
        }
    }

    /// Receives the pieces from one peer after another. Returns `false` if the rest must come from the origin.
    async fn receive_from_peers(
        &self,
        pieces: &mut PageAssembler<'_>,
        mut peers: Vec<PeerSource>,
    ) -> Result<bool> {
        let Some(cluster) = &self.cluster else { return Ok(false) };
        let object = pieces.object();
        let end = pieces.end();
        pieces.set_from_peer(true);

        loop {
            let origin_latency = self.requests.cost.latency();
            let opened = cluster.open(object, &mut peers, pieces.position()..end, origin_latency).await;
            let opened = opened.map_err(|_| self.requests.changed(&object.known))?;
            let Some(mut stream) = opened else { break };

            while pieces.position() < end {
                match stream.next().await {
                    Ok(run) => {
                        self.counters.bytes_peer.add(run.len() as u64);
                        pieces.push(run);
                    }
                    Err(PeerMiss::Unavailable) => break,
                    Err(PeerMiss::Changed) => return Err(self.requests.changed(&object.known)),
                }
            }

            if pieces.position() == end {
                pieces.complete();
                return Ok(true);
            }
            peers.retain(|source| source.peer != stream.peer);
        }

        pieces.set_from_peer(false);
        Ok(false)
    }

    /// Makes one attempt to receive the remaining pieces from the origin: from `answer`, or from a new request.
    async fn receive_from_origin(
        &self,
        pieces: &mut PageAssembler<'_>,
        retry_state: &mut RetryState,
        answer: Option<GetResult>,
    ) -> Result<()> {
        let start = pieces.position();
        let end = pieces.end();
        let known = &pieces.object().known;
        let path = &known.path;
        let answer = match answer {
            Some(answer) => answer,
            None => {
                let asked = Instant::now();
                let get = self.requests.get_version(known, start..end);
                let answer = self.requests.with_deadline(path, retry_state, get).await?;
                self.requests.cost.note_latency(asked.elapsed());
                answer
            }
        };

        // The response to a request that was sent before the size was known may contain more bytes than there was
        // memory for.
        let brings_more = answer.range.end > end;
        let mut chunks = match answer.payload {
            GetResultPayload::File(file, _) => return self.read_file(pieces, file).await,
            GetResultPayload::Stream(chunks) => chunks,
        };

        let answered = Instant::now();
        let truncated = |received: u64| Error::Truncated {
            path: path.to_string(),
            start,
            end,
            expected: end - start,
            received,
        };

        while let Some(mut chunk) = self.next_chunk(path, retry_state, &mut chunks).await? {
            let missing = (end - pieces.position()) as usize;
            if brings_more {
                chunk.truncate(missing);
            }
            if chunk.len() > missing {
                return Err(truncated(pieces.position() - start + chunk.len() as u64));
            }

            self.counters.bytes_origin.add(chunk.len() as u64);
            pieces.push(chunk);
            self.requests.progress(retry_state);

            if brings_more && pieces.position() == end {
                break;
            }
        }

        let received = pieces.position() - start;
        if received < end - start {
            return Err(truncated(received));
        }

        self.requests.cost.note_transfer(received, answered.elapsed());
        pieces.complete();
        Ok(())
    }

    /// Returns the next chunk of a response; `None` at its end. Fails at the deadline of `retry_state`.
    async fn next_chunk(
        &self,
        path: &Path,
        retry_state: &RetryState,
        chunks: &mut BoxStream<'static, object_store::Result<Bytes>>,
    ) -> Result<Option<Bytes>> {
        let next = async {
            let chunk = chunks.next().await.transpose();
            chunk.map_err(|error| Error::from_origin(path.as_ref(), error))
        };
        self.requests.with_deadline(path, retry_state, next).await
    }

    /// Reads whole pieces of a local file, off the async threads. A file can be written in place while it is read, so
    /// a piece counts only if the file is unchanged after reading it.
    async fn read_file(&self, pieces: &mut PageAssembler<'_>, file: std::fs::File) -> Result<()> {
        let file = Arc::new(file);
        let known = &pieces.object().known;
        let path = known.path.to_string();

        let failed = |error: std::io::Error| {
            let source = object_store::Error::Generic { store: "folder", source: error.into() };
            Error::from_origin(&path, source)
        };
        let stamp =
            |file: &std::fs::File| file.metadata().and_then(|meta| Ok((meta.modified()?, meta.len())));

        let opened = stamp(&file).map_err(failed)?;
        let modified: chrono::DateTime<chrono::Utc> = opened.0.into();
        if modified != known.meta.last_modified || opened.1 != known.meta.size {
            return Err(self.requests.changed(known));
        }

        while let Some((start, len)) = pieces.next_piece() {
            let file = file.clone();
            // Allocate on this thread: buffers that are allocated by blocking threads and freed by others would stay
            // in the heaps of the blocking threads.
            let mut bytes = vec![0; len];
            let read = run_blocking(move || {
                file.read_exact_at(&mut bytes, start)?;
                stamp(&file).map(|stamp| (Bytes::from(bytes), stamp))
            });
            let read = read.await.map_err(|error| Error::from_origin(&path, error.into()))?;

            match read {
                Ok((bytes, stamp)) if stamp == opened => {
                    self.counters.bytes_origin.add(bytes.len() as u64);
                    pieces.push_piece(bytes);
                }
                Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => return Err(failed(error)),
                _ => return Err(self.requests.changed(known)),
            }
        }

        Ok(())
    }
}
