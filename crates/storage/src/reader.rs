//! The bytes of a range of one object, page after page: what is in memory at once, the rest as it arrives.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};

use crate::{
    ByteRange, ByteSize, Error, Result,
    fetch::{Demand, Fetcher},
    flight::{Flight, Next},
    paged::Paged,
    request::whole,
};

/// Reads a range. It holds one page at most: pages that were fetched ahead wait in the cache, not here.
pub(crate) struct Reader {
    fetcher: Arc<Fetcher>,
    object: Paged,
    position: u64,
    end: u64,
    /// Bytes of the current page that were taken but not handed out yet.
    taken: VecDeque<Bytes>,
    source: Source,
    ahead: Ahead,
}

/// How far pages are fetched ahead of the current one. A range whose pages are all in memory never begins to.
struct Ahead {
    /// Whether a page had to be waited for yet.
    cold: bool,
    /// Pages of one request.
    unit: u32,
    /// Pages ahead; it doubles with each request.
    window: u32,
    max_window: u32,
    /// First page that was not asked for yet.
    next: u32,
    /// One past the last page of the range.
    end: u32,
}

impl Ahead {
    /// Whether `page` is among those that were fetched for this range.
    fn asked_for(&self, page: u32) -> bool {
        self.cold && page < self.next
    }

    /// The pages to fetch beside `page`, which has to be fetched itself.
    fn on_miss(&mut self, page: u32) -> Range<u32> {
        self.cold = true;
        let until = page.saturating_add(self.unit).min(self.end);
        self.next = self.next.max(until);
        page + 1..until
    }

    /// The pages to fetch next while `page` is read.
    fn on_page(&mut self, page: u32) -> Option<Range<u32>> {
        if !self.cold || self.next >= self.end {
            return None;
        }
        let window = (self.window * 2).min(self.max_window);
        let until = self.next.saturating_add(self.unit).min(self.end);
        if until > page.saturating_add(window) {
            return None;
        }
        self.window = window;
        Some(std::mem::replace(&mut self.next, until)..until)
    }
}

enum Source {
    NextPage,
    Flight(Arc<Flight>),
    PastCache(BoxStream<'static, Result<Bytes>>),
}

impl Reader {
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        object: Paged,
        range: ByteRange,
        max_fetch: ByteSize,
        read_ahead: ByteSize,
    ) -> Self {
        let pages = |size: ByteSize| (size.as_u64() / object.page_size).clamp(1, u64::from(u32::MAX)) as u32;
        let unit = pages(max_fetch);
        let ahead = Ahead {
            cold: false,
            unit,
            window: unit,
            max_window: pages(read_ahead).max(unit),
            next: object.page_of(range.start()),
            end: object.page_of(range.end().saturating_sub(1)) + 1,
        };
        Self {
            fetcher,
            object,
            position: range.start(),
            end: range.end(),
            taken: VecDeque::new(),
            source: Source::NextPage,
            ahead,
        }
    }

    /// The next bytes, or `None` at the end of the range.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.taken.pop_front() {
                self.position += bytes.len() as u64;
                return Ok(Some(bytes));
            }
            if self.position >= self.end {
                return Ok(None);
            }
            self.take().await?;
        }
    }

    async fn take(&mut self) -> Result<()> {
        let page = self.object.page_of(self.position);
        let page_range = self.object.range(page);
        let within = |offset: u64| (offset - page_range.start) as usize;
        let (from, to) = (within(self.position), within(self.end.min(page_range.end)));
        match &mut self.source {
            Source::PastCache(stream) => match stream.next().await {
                Some(bytes) => self.taken.push_back(bytes?),
                None => return Err(self.ended_early()),
            },
            Source::Flight(flight) => match flight.clone().read(from, to).await? {
                Next::Bytes(chunks) => {
                    let received: usize = chunks.iter().map(Bytes::len).sum();
                    self.taken.extend(chunks);
                    if from + received == to {
                        self.source = Source::NextPage;
                    }
                }
                Next::Declined => self.go_past_cache().await?,
            },
            Source::NextPage => {
                if let Some(bytes) = self.fetcher.cache.get_memory(&self.object.key(page)) {
                    self.take_ready(page, bytes.slice(from..to));
                } else {
                    let beside = self.ahead.on_miss(page);
                    match self.fetcher.demand(&self.object, page, beside) {
                        Demand::Ready(bytes) => self.take_ready(page, bytes.slice(from..to)),
                        Demand::Flight(flight) => self.source = Source::Flight(flight),
                        Demand::Declined => return self.go_past_cache().await,
                    }
                }
                while let Some(pages) = self.ahead.on_page(page) {
                    self.fetcher.prefetch(&self.object, pages);
                }
            }
        }
        Ok(())
    }

    fn take_ready(&mut self, page: u32, bytes: Bytes) {
        // What this very read had fetched ahead of itself is no hit.
        if !self.ahead.asked_for(page) {
            self.fetcher.counters.bytes_memory.add(bytes.len() as u64);
        }
        self.taken.push_back(bytes);
    }

    /// Reads the rest of the range straight from the origin, still of this version only.
    async fn go_past_cache(&mut self) -> Result<()> {
        let (start, end) = (self.position, self.end);
        let requests = &self.fetcher.requests;
        let mut patience = requests.patience();
        let answer = loop {
            let get = requests.get_version(&self.object.known, start..end);
            match requests.in_time(&self.object.known.path, &patience, get).await {
                Ok(answer) => break answer,
                Err(error) => requests.before_retry(&mut patience, error).await?,
            }
        };
        let counters = self.fetcher.counters.clone();
        let stream = whole(answer.into_stream(), &self.object.known.path, start..end)
            .inspect_ok(move |bytes| counters.bytes_passed_through.add(bytes.len() as u64));
        self.source = Source::PastCache(stream.boxed());
        Ok(())
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

    /// The rest of the range as a stream, after bytes that were read already.
    pub(crate) fn into_stream(self, read: Option<Bytes>) -> BoxStream<'static, Result<Bytes>> {
        let first = futures::stream::iter(read.map(Ok));
        let rest = futures::stream::try_unfold(self, |mut reader| async move {
            Ok(reader.next().await?.map(|bytes| (bytes, reader)))
        });
        first.chain(rest).boxed()
    }
}
