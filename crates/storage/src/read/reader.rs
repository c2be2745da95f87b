//! Reads a range of one object page by page: resident bytes at once, the rest as it arrives.

use std::{collections::VecDeque, ops::Range, sync::Arc, time::Instant};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};

use crate::{
    ByteRange, ByteSize, Error, Result,
    page_cache::{LongRead, PagePiece, ReadAheadGuard},
    peers::PeerSource,
    read::{
        byte_source::{ByteSource, BytesBySource},
        fetch_plan::FetchUrgency,
        fetcher::Fetcher,
        paged::PagedObject,
        pin::PinnedRange,
        requests::{to_origin::body, to_peers::FetchRoute},
    },
};

/// A reader of a range. It pins the bytes that it will reach next: they stay in the cache until they are read or the
/// reader is dropped.
pub(crate) struct RangeReader {
    fetcher: Arc<Fetcher>,
    object: PagedObject,
    position: u64,
    end: u64,
    /// Bytes taken from the cache or a fetch, but not returned yet.
    ready: VecDeque<Bytes>,
    /// Ordered and disjoint.
    pins: VecDeque<PinnedRange>,
    ahead: ReadAheadWindow,
    bypass: Option<BypassRead>,
    /// Length of the next read that bypasses the cache: doubles each time, up to [`MAX_BYPASS`].
    bypass_len: u64,
    /// Number of times that a read which bypasses the cache may still be continued after it broke off.
    resumes_left: u32,
    /// Records the reader's position if its range is long.
    long_read: Option<LongRead>,
    /// Counts the bytes by source if the caller asked for it.
    by_source: Option<Arc<BytesBySource>>,
}

/// Maximum bytes of one read that bypasses the cache: the store of a caller may limit the time of a whole response.
const MAX_BYPASS: u64 = 64 << 20;

/// Minimum number of pages in a long read.
const LONG_READ_PAGES: u64 = 4;

/// The read-ahead of a reader. It never starts for a range that is in memory.
struct ReadAheadWindow {
    /// Counts the reader, starting at its first miss.
    counted: Option<ReadAheadGuard>,
    /// Number of bytes to hold ahead; doubles with each request.
    window: u64,
    max_window: u64,
}

/// A read that bypasses the cache.
struct BypassRead {
    stream: BoxStream<'static, Result<Bytes>>,
    end: u64,
    source: ByteSource,
}

impl RangeReader {
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        object: PagedObject,
        range: ByteRange,
        read_ahead: ByteSize,
    ) -> Self {
        let window = fetcher.max_fetch();
        let is_long = range.len() > LONG_READ_PAGES * object.layout.page;
        let reads = fetcher.cache.reads();
        let long_read = is_long.then(|| reads.begin(object.hash, range.into()));

        let ahead = ReadAheadWindow { counted: None, window, max_window: read_ahead.as_u64().max(window) };
        Self {
            object,
            position: range.start(),
            end: range.end(),
            ready: VecDeque::new(),
            pins: VecDeque::new(),
            ahead,
            bypass: None,
            bypass_len: window,
            resumes_left: fetcher.requests.options.attempts.max(1) - 1,
            long_read,
            by_source: None,
            fetcher,
        }
    }

    /// Also counts the bytes in `by_source`.
    pub(crate) fn counted_in(mut self, by_source: Option<Arc<BytesBySource>>) -> Self {
        self.by_source = by_source;
        self
    }

    /// Returns whether the reader will reach any byte of the pin.
    pub(crate) fn needs(&self, pin: &PinnedRange) -> bool {
        pin.end() > self.position && pin.start() < self.end
    }

    /// Adopts pins that were made for this range and come after its own; releases the others.
    pub(crate) fn adopt(&mut self, pins: impl IntoIterator<Item = PinnedRange>) {
        let mut pins: Vec<PinnedRange> = pins.into_iter().filter(|pin| self.needs(pin)).collect();
        pins.sort_by_key(PinnedRange::start);
        self.pins.extend(pins);
    }

    /// Starts to fetch missing bytes without waiting for them.
    pub(crate) fn start(&mut self) {
        if self.position < self.end && self.ready.is_empty() && self.pins.is_empty() {
            match self.read_memory() {
                Some(bytes) => self.ready.push_back(bytes),
                None => self.demand(),
            }
        }
    }

    /// Returns whether any bytes were not in memory when the reader reached them.
    pub(crate) fn has_missed(&self) -> bool {
        self.ahead.counted.is_some()
    }

    /// Returns whether any bytes of the range were not in memory when the reader reached them, or were fetched ahead
    /// for it.
    pub(crate) fn is_fetching(&self) -> bool {
        self.has_missed() || !self.pins.is_empty()
    }

    /// Returns the next bytes, or `None` at the end of the range.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                self.position += bytes.len() as u64;
                return Ok(Some(bytes));
            }
            if self.position >= self.end {
                return Ok(None);
            }
            self.advance().await?;
        }
    }

    /// Takes the bytes at the position from memory, a fetch in flight or the origin.
    async fn advance(&mut self) -> Result<()> {
        if self.advance_bypass().await? {
            return Ok(());
        }

        self.release_passed();
        if self.pin_here().is_none() {
            if let Some(bytes) = self.read_memory() {
                self.ready.push_back(bytes);
                return Ok(());
            }
            self.demand();
        }

        self.top_up();
        let Some(pin) = self.pin_here() else { return self.start_bypass().await };

        let chunks = pin.read(self.position, self.end).await?;
        let source = pin.byte_source();
        if source == ByteSource::Memory || self.by_source.is_some() {
            self.count(source, chunks.iter().map(Bytes::len).sum());
        }

        self.ready.extend(chunks);
        Ok(())
    }

    /// Counts bytes taken by the reader.
    fn count(&self, source: ByteSource, bytes: usize) {
        if source == ByteSource::Memory {
            self.fetcher.counters.bytes_memory.add(bytes as u64);
        }
        if let Some(by_source) = &self.by_source {
            by_source.add(source, bytes as u64);
        }
    }

    /// Returns the pin that contains the byte at the position.
    fn pin_here(&self) -> Option<&PinnedRange> {
        self.pins.front().filter(|pin| pin.start() <= self.position)
    }

    /// Drops the pins that the reader has passed, and those that failed before it reached them.
    fn release_passed(&mut self) {
        if let Some(long_read) = &self.long_read {
            long_read.advance(self.position);
        }
        let is_over = |pin: &PinnedRange| pin.end() <= self.position || pin.has_failed_ahead();
        while self.pins.front().is_some_and(is_over) {
            self.pins.pop_front();
        }
    }

    fn read_memory(&self) -> Option<Bytes> {
        let (page, part) = self.object.parts(self.position..self.end).next()?;
        let bytes = self.fetcher.cache.read_memory(&self.object.key(page), part.start, part.end)?;
        self.count(ByteSource::Memory, bytes.len());
        Some(bytes)
    }

    /// Returns the piece in memory at the position and the bytes of the range in it, and advances past them. `None`
    /// if the next bytes are not in memory, or were already taken or requested: [`next`](Self::next) returns them.
    pub(crate) fn next_resident(&mut self) -> Option<(Arc<PagePiece>, Bytes)> {
        if !self.ready.is_empty() || !self.pins.is_empty() || self.bypass.is_some() {
            return None;
        }
        if let Some(long_read) = &self.long_read {
            long_read.advance(self.position);
        }
        let resident = self.fetcher.resident(&self.object, self.position..self.end)?;
        self.position += resident.1.len() as u64;
        Some(resident)
    }

    /// Returns the end of the unpinned bytes from the position on.
    fn unpinned_end(&self) -> u64 {
        self.pins.front().map_or(self.end, |pin| pin.start().min(self.end))
    }

    /// Pins the bytes at the position, and the following ones that the same request fetches.
    fn demand(&mut self) {
        let quota = self.fetcher.cache.ahead();
        self.ahead.counted.get_or_insert_with(|| quota.enter());

        let window = self.ahead.window.min(quota.share());
        let end = self.unpinned_end().min(self.request_end(self.position, window));
        let pins = self.fetcher.pin_or_fetch(&self.object, self.position..end, FetchUrgency::Now);
        for pin in pins.into_iter().rev() {
            self.pins.push_front(pin);
        }
    }

    /// Returns the end of a request that starts at `start` and has up to `len` bytes. It is a multiple of the request
    /// size, so that readers of the same object request the same ranges, wherever they started.
    fn request_end(&self, start: u64, len: u64) -> u64 {
        let len = len.clamp(self.object.layout.block, self.fetcher.max_fetch());
        let size = 1 << len.ilog2();
        (start.saturating_add(size)) / size * size
    }

    /// Fetches ahead up to the window, in requests of equal size: a few large requests are better than many small
    /// ones.
    fn top_up(&mut self) {
        let Some(last) = self.pins.back().filter(|_| self.ahead.counted.is_some()) else { return };
        let mut covered = last.end();
        let share = self.fetcher.cache.ahead().share();

        while covered < self.end {
            let until = self.end.min(self.request_end(covered, share / 2));
            let window = (self.ahead.window * 2).min(self.ahead.max_window).min(share);
            if until > self.position.saturating_add(window) {
                return;
            }

            let pins = self.fetcher.pin_or_fetch(&self.object, covered..until, FetchUrgency::Ahead);
            let Some(last) = pins.last() else { return };
            covered = last.end();
            self.ahead.window = window;
            self.pins.extend(pins);
        }
    }

    /// Starts a read that bypasses the cache, for the bytes from the position on that this node does not have. It
    /// still reads only this version.
    async fn start_bypass(&mut self) -> Result<()> {
        let until = self.unpinned_end().min(self.position.saturating_add(self.bypass_len));
        let range = self.fetcher.absent(&self.object, self.position..until);
        if range.is_empty() {
            // They have arrived in the meantime, or are in flight.
            tokio::task::yield_now().await;
            return Ok(());
        }

        let Range { start, mut end } = range;
        self.bypass_len = self.bypass_len.saturating_mul(2).min(MAX_BYPASS.max(self.bypass_len));
        self.fetcher.counters.reads_passed_through.add(1);

        if let Some(cluster) = &self.fetcher.cluster {
            let FetchRoute { end: stripe_end, peers, .. } = cluster.route(&self.object, start);
            end = end.min(stripe_end);
            self.bypass = open_at_peers(&self.fetcher, &self.object, peers, start..end).await?;
            if self.bypass.is_some() {
                return Ok(());
            }
        }

        let requests = &self.fetcher.requests;
        let mut retry_state = requests.retry_state();
        let answer = loop {
            let asked = Instant::now();
            let get = requests.get_version(&self.object.known, start..end);
            match requests.with_deadline(&self.object.known.path, &retry_state, get).await {
                Ok(answer) => {
                    requests.cost.note_latency(asked.elapsed());
                    break answer;
                }
                Err(error) => requests.before_retry(&mut retry_state, error).await?,
            }
        };

        let known = self.object.known.clone();
        let stream = body(answer.payload, &known.path, &known.meta, start..end)
            .map_err(|error| requests.if_changed(&known, error))?;
        let fetcher = self.fetcher.clone();
        let stream = stream.map(move |bytes| match bytes {
            Ok(bytes) => {
                fetcher.counters.bytes_passed_through.add(bytes.len() as u64);
                Ok(bytes)
            }
            Err(error) => Err(fetcher.requests.if_changed(&known, error)),
        });
        self.bypass = Some(BypassRead { stream: stream.boxed(), end, source: ByteSource::Origin });
        Ok(())
    }

    /// Takes the next bytes of a read that bypasses the cache. Returns `false` if there is no such read.
    async fn advance_bypass(&mut self) -> Result<bool> {
        let Some(BypassRead { stream, end, source }) = &mut self.bypass else { return Ok(false) };
        if self.position >= *end {
            self.bypass = None;
            return Ok(false);
        }

        let source = *source;
        let requests = &self.fetcher.requests;
        let next = async { stream.next().await.transpose() };
        let next = match source {
            // Answers of peers have a limit of their own, after which another source continues.
            ByteSource::Peer => next.await,
            _ => requests.with_deadline(&self.object.known.path, &requests.retry_state(), next).await,
        };
        match next {
            Ok(Some(bytes)) => {
                self.count(source, bytes.len());
                self.ready.push_back(bytes);
                Ok(true)
            }
            // If a peer's answer breaks off, another source continues it.
            Ok(None) if source == ByteSource::Peer => {
                self.bypass = None;
                Ok(false)
            }
            Ok(None) => Err(self.ended_early()),
            // The version is fixed, so another request may continue at the position.
            Err(error) if source == ByteSource::Origin && error.is_retryable() && self.resumes_left > 0 => {
                tracing::debug!(%error, "a read past the cache broke off: it is continued");
                self.resumes_left -= 1;
                self.bypass = None;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn ended_early(&self) -> Error {
        Error::Truncated {
            path: self.object.known.path.to_string(),
            start: self.position,
            end: self.end,
            expected: self.end - self.position,
            received: 0,
        }
    }

    /// Returns the rest of the range as a stream, starting with bytes that were already read.
    pub(crate) fn into_stream(self, read: Option<Bytes>) -> BoxStream<'static, Result<Bytes>> {
        let first = futures::stream::iter(read.map(Ok));
        let rest = futures::stream::try_unfold(self, |mut reader| async move {
            Ok(reader.next().await?.map(|bytes| (bytes, reader)))
        });
        first.chain(rest).boxed()
    }
}

/// Begins to read a range from peers, bypassing the cache; `None` if no peer answers.
async fn open_at_peers(
    fetcher: &Arc<Fetcher>,
    object: &PagedObject,
    mut peers: Vec<PeerSource>,
    range: Range<u64>,
) -> Result<Option<BypassRead>> {
    let Some(cluster) = &fetcher.cluster else { return Ok(None) };
    let end = range.end;
    let origin_latency = fetcher.requests.cost.latency();
    let opened = cluster.open(object, &mut peers, object.align(range.clone()), origin_latency).await;
    let Some(runs) = opened.map_err(|_| fetcher.requests.changed(&object.known))? else {
        return Ok(None);
    };

    let fetcher = fetcher.clone();
    let known = object.known.clone();
    let stream = runs.into_bytes(range).map(move |bytes| match bytes {
        Ok(bytes) => {
            fetcher.counters.bytes_passed_through.add(bytes.len() as u64);
            Ok(bytes)
        }
        Err(_) => Err(fetcher.requests.changed(&known)),
    });
    Ok(Some(BypassRead { stream: stream.boxed(), end, source: ByteSource::Peer }))
}
