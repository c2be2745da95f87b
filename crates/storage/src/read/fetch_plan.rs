//! Plans fetches: joins flights or starts new ones. A block has at most one flight, shared by all its readers;
//! each fetch runs in its own task.
//!
//! Bytes of an object of unknown version are requested only while the process uses no other bytes of it.

use std::{ops::Range, sync::Arc, time::Instant};

use object_store::{GetOptions, GetRange, path::Path};

use crate::{
    ByteSize, Error, Reservation, Result,
    object::headers::CapturedHeaders,
    origin::trace::traced,
    page_cache::WriteBacklog,
    read::{
        fetcher::Fetcher,
        flight::{ExpectedFlight, PieceFlight, PieceFlightTable},
        page_assembler::{ExpectedPiece, FetchRun},
        paged::PagedObject,
        pin::PinnedRange,
        requests::coalesce,
    },
    versions::{ObjectInfo, paths_in_use::PathInUse},
};

/// Maximum bytes reserved to open an object. Its size may be unknown, and it must be possible to open many small
/// objects at once with little memory.
const MAX_OPEN_BYTES: ByteSize = ByteSize::kib(64);

/// Number of concurrent opens of objects of unknown size that share the memory budget. Each requests at most its
/// share.
const CONCURRENT_OPENS: u64 = 64;

/// Maximum bytes of a merged request.
const MAX_MERGED: u64 = 16 << 20;

/// The bytes that the first reader of an unknown object needs.
#[derive(Clone, Debug)]
pub(crate) enum FirstBytes {
    Range(Range<u64>),
    /// The end of the object.
    Tail {
        at_least: u64,
    },
    /// The end of a file, which the sender of a HEAD may read next.
    Footer,
}

/// Minimum bytes to fetch for a footer of unknown length.
const FOOTER_BYTES: u64 = 64 << 10;
/// Extensions of files that are read from their end.
const FOOTER_EXTENSIONS: [&str; 2] = ["parquet", "orc"];

impl FirstBytes {
    /// Returns [`Footer`](Self::Footer) if the file's metadata is at its end.
    pub(crate) fn of_footer(path: &Path) -> Option<Self> {
        let has_footer = FOOTER_EXTENSIONS.contains(&path.extension()?);
        has_footer.then_some(Self::Footer)
    }

    /// Returns the range, unless it depends on the size of the object.
    pub(crate) fn range(self) -> Option<Range<u64>> {
        match self {
            Self::Range(range) => Some(range),
            Self::Tail { .. } | Self::Footer => None,
        }
    }
}

/// The urgency of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchUrgency {
    /// A reader waits for the first byte. The remaining bytes are read-ahead.
    Now,
    /// A reader will reach the bytes later.
    Ahead,
}

/// The delayed requests for an object. Dropping it unsent, when the runtime shuts down, fails them.
struct PendingBatch(Option<(Arc<Fetcher>, PagedObject)>);

impl PendingBatch {
    fn send(mut self) {
        if let Some((fetcher, object)) = self.0.take() {
            fetcher.send_batch(&object);
        }
    }
}

impl Drop for PendingBatch {
    fn drop(&mut self) {
        if let Some((fetcher, object)) = self.0.take() {
            let failed = fetcher.batches.lock().remove(&object.hash);
            drop(failed);
        }
    }
}

impl Fetcher {
    /// Pins the bytes of a range from its start on, and starts to fetch those not in memory. The pins are adjacent;
    /// they end early if memory or the read-ahead quota is exhausted.
    pub(crate) fn pin_or_fetch(
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
        let expected = ExpectedPiece { page, flight: ExpectedFlight::new(flight.clone()), charge };
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
                self.max_fetch().min(waited_for + self.cache.ahead().free()).max(min)
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
            expected.push(ExpectedPiece { page, flight: ExpectedFlight::new(flight), charge });

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

        let is_first = {
            let mut batches = self.batches.lock();
            let batch = batches.entry(object.hash).or_default();
            batch.push(run);
            batch.len() == 1
        };
        if is_first {
            let pending = PendingBatch(Some((this, object)));
            tokio::spawn(traced(async move {
                tokio::time::sleep(wait).await;
                pending.send();
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
            run.pieces.push(ExpectedPiece { page, flight: ExpectedFlight::new(flight), charge });
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

    /// Pins several ranges ahead of their readers, merging nearby ones that are missing, until memory or the
    /// read-ahead quota is exhausted.
    pub(crate) fn pin_or_fetch_ranges(
        self: &Arc<Self>,
        object: &PagedObject,
        ranges: &[Range<u64>],
    ) -> Vec<PinnedRange> {
        let mut pins = Vec::new();
        for range in self.merge_missing(object, ranges) {
            pins.extend(self.pin_or_fetch(
                object,
                range.start..range.end.min(object.size()),
                FetchUrgency::Ahead,
            ));
        }
        pins
    }

    /// Returns the ranges in order. Nearby ones are merged if one request can bridge the gap, which is missing with
    /// the blocks around it.
    fn merge_missing(&self, object: &PagedObject, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let max_gap = self.requests.cost.max_gap();
        let flights = self.flights.lock();

        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in coalesce::merge(ranges, 0) {
            let is_bridged = |last: &Range<u64>| {
                let bridge = last.end - 1..range.start.saturating_add(1).min(object.size());
                range.start - last.end <= max_gap
                    && self.missing_end(object, &flights, bridge.clone()) == bridge.end
            };
            match merged.last_mut() {
                Some(last) if is_bridged(last) => last.end = range.end,
                _ => merged.push(range),
            }
        }
        merged
    }

    /// Describes the object by a GET for some of its bytes, so that a first read costs one request instead of two.
    /// When this returns, the bytes are in flight and pinned, unless they must not be cached or differ from those
    /// requested. Sends a HEAD instead if there is no memory, or if the GET fails with an error other than
    /// [`Error::NotFound`] or [`Error::Deadline`]. `in_use` must be the only use of the path when this is called.
    pub(crate) async fn open(
        self: Arc<Self>,
        path: Path,
        wanted: FirstBytes,
        in_use: Arc<PathInUse>,
    ) -> Result<(ObjectInfo, Vec<PinnedRange>)> {
        let layout = self.cache.layout();
        let head = async || Ok((self.requests.head(&path).await?, Vec::new()));
        let suffix = |at_least: u64| {
            // One block more than the bytes, since the last one may be short.
            let len = at_least.div_ceil(layout.block).saturating_add(1).saturating_mul(layout.block);
            let len = len.min(self.max_fetch().max(2 * layout.block));
            (GetRange::Suffix(len), len)
        };
        let (range, len) = match wanted {
            FirstBytes::Range(range) => {
                let range = self.opening_range(&path, range);
                (GetRange::Bounded(range.clone()), range.end - range.start)
            }
            FirstBytes::Tail { at_least } => suffix(at_least),
            FirstBytes::Footer => suffix(FOOTER_BYTES),
        };

        let Some(opening) = self.cache.reserve(len.min(MAX_OPEN_BYTES.as_u64())) else {
            return head().await;
        };

        let seen = CapturedHeaders::default();
        let mut options = GetOptions::new().with_extensions(seen.to_extensions());
        options.range = Some(range.clone());
        let asked = Instant::now();
        let get = self.requests.get(&path, &options);
        let answer = match self.requests.with_deadline(&path, &self.requests.retry_state(), get).await {
            Ok(answer) => answer,
            Err(error @ (Error::NotFound { .. } | Error::Deadline { .. })) => return Err(error),
            // The object ends before the range, the origin has no suffix ranges, or the failure is transient: send a
            // HEAD to find out.
            Err(_) => return head().await,
        };

        self.requests.cost.note_latency(asked.elapsed());
        let known = self.requests.object_info(&path, &answer, &seen, in_use);
        let Some(hash) = known.hash else { return Ok((known, Vec::new())) };

        if range.as_range(known.meta.size).ok().as_ref() != Some(&answer.range) {
            return Ok((known, Vec::new()));
        }

        drop(opening);
        let object = PagedObject { known: Arc::new(known.clone()), hash, layout, asked_as: None };
        // The end of an object may begin within a block.
        let first_block = answer.range.start.checked_next_multiple_of(layout.block);
        let Some(start) = first_block.filter(|start| *start < answer.range.end) else {
            return Ok((known, Vec::new()));
        };
        let whole_blocks = start..answer.range.end;
        let route = self.route(&object, start).without_peers();
        let (pieces, pins) = self.expect(&object, whole_blocks);
        if !pieces.is_empty() {
            tokio::spawn(traced(self.fetch(object, FetchRun { pieces, route }, Some(answer))));
        }

        Ok((known, pins))
    }

    /// Returns the blocks around a range to request of an object of unknown size.
    fn opening_range(&self, path: &Path, Range { start, end }: Range<u64>) -> Range<u64> {
        let layout = self.cache.layout();
        let stripe_end = self.cluster.as_ref().map_or(u64::MAX, |cluster| cluster.stripe(path, start).end);

        let start = start / layout.block * layout.block;
        // At most one page if the size is unknown, and less if memory is small: concurrent opens need memory too.
        let max_unknown =
            (self.cache.budget().capacity() / CONCURRENT_OPENS).clamp(layout.block, layout.page);
        let max = if end == u64::MAX { max_unknown } else { self.max_fetch() };
        let end = end.min(start.saturating_add(max)).min(stripe_end);
        start..end.div_ceil(layout.block).saturating_mul(layout.block)
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
            expected.push(ExpectedPiece { page, flight: ExpectedFlight::new(flight), charge });

            if len < part.len() {
                break;
            }
        }

        (expected, pins)
    }
}
