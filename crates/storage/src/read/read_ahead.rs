//! Cross-request read-ahead: predicts the bytes that a reader will want next. The window grows while a reader is
//! sequential.
//!
//! A read that begins where an earlier one of the same object ended continues its stream; each such read doubles the
//! window, up to a limit. A read that begins elsewhere starts a new stream without a window, so random access costs
//! nothing. Bytes fetched ahead stay pinned until reads of the stream take them over, the stream is forgotten, no
//! read arrives for a while, or the stream is far past them.
//!
//! Readers of one object that drift apart come back for bytes that were fetched ahead and released. Such bytes are
//! fetched twice: the object then gets no read-ahead until far more bytes have been read without it.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    object::{ByteRange, ObjectHash},
    page_cache::{ReadAheadGuard, ReadAheadQuota},
    read::pin::PinnedRange,
};

const MAX_OBJECTS: usize = 1024;
const STREAMS_PER_OBJECT: usize = 16;
/// Maximum ranges per object that are remembered as released unread.
const MAX_RELEASED: usize = 128;

/// Bytes to read without read-ahead for each byte that was fetched twice because of it.
const READS_PER_REFETCH: u64 = 256;

/// Time after which an idle reader is presumed gone: its pins are released.
const IDLE: Duration = Duration::from_secs(5);
/// Interval of the search for idle readers while any pins are parked.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The positions of the readers of each object.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    block_size: u64,
    max_window: u64,
    quota: Arc<ReadAheadQuota>,
    state: Mutex<ReadAheadState>,
}

#[derive(Debug, Default)]
struct ReadAheadState {
    objects: HashMap<ObjectHash, ObjectReaders>,
    is_sweeping: bool,
}

/// The readers of one object.
#[derive(Debug, Default)]
struct ObjectReaders {
    streams: Vec<SequentialStream>,
    /// Ranges that were fetched ahead and released unread, newest at the back.
    released: VecDeque<Range<u64>>,
    /// Bytes to read before anything is fetched ahead again.
    debt: u64,
}

/// A reader, between two of its reads.
#[derive(Debug)]
struct SequentialStream {
    /// End of the reader's last read.
    next: u64,
    window: u64,
    /// End of the bytes that were fetched ahead or found in memory.
    fetched: u64,
    pins: VecDeque<ParkedPin>,
    counted: Option<ReadAheadGuard>,
    last_read: Instant,
}

#[derive(Debug)]
struct ParkedPin {
    pin: PinnedRange,
    /// Bytes that no read of the stream has taken over yet.
    unread: u64,
}

/// The state of the stream that a read belongs to.
#[derive(Debug, Default)]
pub(crate) struct ReadAheadPlan {
    /// Pins that were fetched ahead for this read.
    pub(crate) pins: Vec<PinnedRange>,
    /// Bytes after the read that should be fetched now.
    pub(crate) ahead: Option<ByteRange>,
    /// Read position of the stream.
    pub(crate) next: u64,
    /// Bytes of the read that were previously fetched ahead of a reader and released.
    pub(crate) released: u64,
}

impl ReadAhead {
    pub(crate) fn new(block_size: u64, max_window: u64, quota: Arc<ReadAheadQuota>) -> Arc<Self> {
        Arc::new(Self { block_size, max_window, quota, state: Mutex::default() })
    }

    /// Records a read of `range`. While more than half a window is still ahead of the reader, nothing more is
    /// fetched: a few large requests are better than many small ones.
    pub(crate) fn note(&self, object: ObjectHash, range: ByteRange) -> ReadAheadPlan {
        if self.max_window == 0 || range.is_empty() {
            return ReadAheadPlan::default();
        }

        let mut state = self.state.lock();
        let objects = &mut state.objects;
        if objects.len() >= MAX_OBJECTS && !objects.contains_key(&object) {
            objects.clear();
        }

        let limit = self.max_window.min(self.quota.share()) / self.block_size * self.block_size;
        objects.entry(object).or_default().note(range, self.block_size, limit)
    }

    /// Records that bytes were fetched a second time because they had been released.
    pub(crate) fn note_refetch(&self, object: ObjectHash, bytes: u64) {
        if let Some(readers) = self.state.lock().objects.get_mut(&object) {
            readers.debt = readers.debt.saturating_add(bytes.saturating_mul(READS_PER_REFETCH));
        }
    }

    /// Keeps the pins fetched ahead of a reader at `next`, up to `fetched`, until it returns.
    pub(crate) fn park(
        self: &Arc<Self>,
        object: ObjectHash,
        next: u64,
        fetched: u64,
        pins: Vec<PinnedRange>,
    ) {
        let mut state = self.state.lock();
        let Some(readers) = state.objects.get_mut(&object) else { return };
        let Some(stream) = readers.streams.iter_mut().find(|stream| stream.next == next) else { return };

        stream.fetched = stream.fetched.max(fetched);
        if pins.is_empty() {
            return;
        }

        stream.pins.extend(pins.into_iter().map(ParkedPin::new));
        stream.counted.get_or_insert_with(|| self.quota.enter());
        if !std::mem::replace(&mut state.is_sweeping, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Releases the pins of readers that have not returned. Returns whether any pins are left.
    fn release_idle(&self) -> bool {
        let mut released = VecDeque::new();
        let mut state = self.state.lock();
        let mut is_left = false;

        for readers in state.objects.values_mut() {
            for stream in &mut readers.streams {
                if stream.last_read.elapsed() >= IDLE {
                    released.append(&mut stream.pins);
                    stream.counted = None;
                    stream.window = 0;
                }
                is_left |= !stream.pins.is_empty();
            }
        }

        state.is_sweeping = is_left;
        is_left
    }
}

async fn sweep(readers: Weak<ReadAhead>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        match readers.upgrade() {
            Some(readers) if readers.release_idle() => {}
            _ => return,
        }
    }
}

impl ObjectReaders {
    fn note(&mut self, range: ByteRange, block_size: u64, limit: u64) -> ReadAheadPlan {
        let released = self.take_released(range);
        self.debt = self.debt.saturating_sub(range.len());

        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.includes(range, block_size)) {
            let (continuation, passed) = stream.go_on(range, block_size, limit);
            self.released.extend(passed);
            let surplus = self.released.len().saturating_sub(MAX_RELEASED);
            self.released.drain(..surplus);
            let ahead = continuation.ahead.filter(|_| self.debt == 0);
            return ReadAheadPlan { released, ahead, ..continuation };
        }

        let stream = SequentialStream {
            next: range.end(),
            window: 0,
            fetched: range.end(),
            pins: VecDeque::new(),
            counted: None,
            last_read: Instant::now(),
        };

        if self.streams.len() < STREAMS_PER_OBJECT {
            self.streams.push(stream);
        } else if let Some(idlest) = self.streams.iter_mut().min_by_key(|stream| stream.last_read) {
            *idlest = stream;
        }
        ReadAheadPlan { released, ..ReadAheadPlan::default() }
    }

    /// Removes the bytes of a range from the released ranges. Returns their number.
    fn take_released(&mut self, range: ByteRange) -> u64 {
        let mut taken = 0;
        let mut rest = VecDeque::new();

        for released in self.released.drain(..) {
            let overlap = released.start.max(range.start())..released.end.min(range.end());
            if overlap.is_empty() {
                rest.push_back(released);
                continue;
            }

            taken += overlap.end - overlap.start;
            let around = [released.start..overlap.start, overlap.end..released.end];
            rest.extend(around.into_iter().filter(|part| !part.is_empty()));
        }

        self.released = rest;
        taken
    }
}

impl SequentialStream {
    /// Returns whether a read belongs to this reader: it starts at the end of the last one, or among the bytes
    /// fetched ahead. Readers with several requests in flight send them in any order. A read that skips less than a
    /// block (padding, alignment) is still sequential.
    fn includes(&self, range: ByteRange, block_size: u64) -> bool {
        let limit = self.fetched.max(self.next.saturating_add(block_size));
        let goes_on = range.start() >= self.next && range.start() < limit;
        goes_on || self.pins.iter().any(|parked| parked.overlap(range) > 0)
    }

    /// Moves on to the end of `range`. Also returns the ranges whose pins were released before they were fully read.
    fn go_on(&mut self, range: ByteRange, block_size: u64, limit: u64) -> (ReadAheadPlan, Vec<Range<u64>>) {
        let mut pins = self.take_pins(range, block_size);
        let is_ahead_of_others = range.end() > self.next;
        self.next = self.next.max(range.end());
        self.last_read = Instant::now();
        self.fetched = self.fetched.max(self.next);

        let (passed_bytes, passed) = self.release_passed(limit / 2, &mut pins);
        if self.pins.is_empty() {
            self.counted = None;
        }

        if !is_ahead_of_others || self.fetched - self.next > self.window / 2 {
            return (ReadAheadPlan { pins, next: self.next, ..ReadAheadPlan::default() }, passed);
        }

        let limit = limit.saturating_sub(passed_bytes);
        self.window = (self.window * 2).max(range.len().next_multiple_of(block_size)).min(limit);
        let ahead = ByteRange::new(self.fetched, self.next.saturating_add(self.window));
        let ahead = ahead.filter(|ahead| !ahead.is_empty());
        (ReadAheadPlan { pins, ahead, next: self.next, released: 0 }, passed)
    }

    /// Takes the pins that a read needs. A pin with at least one block left to read also stays parked, and so do pins
    /// that the read skips: other requests of the same reader may be in flight.
    fn take_pins(&mut self, range: ByteRange, block_size: u64) -> Vec<PinnedRange> {
        let mut taken = Vec::new();
        let mut kept = VecDeque::new();
        for mut parked in self.pins.drain(..) {
            let overlap = parked.overlap(range);
            parked.unread = parked.unread.saturating_sub(overlap);
            if overlap == 0 {
                kept.push_back(parked);
            } else if parked.unread >= block_size {
                taken.push(parked.pin.share());
                kept.push_back(parked);
            } else {
                taken.push(parked.pin);
            }
        }

        self.pins = kept;
        taken
    }

    /// Moves pins that the stream has passed to `released`, oldest first, until the remaining ones hold at most
    /// `limit` bytes. Returns the bytes of the remaining ones, and the released ranges.
    fn release_passed(&mut self, limit: u64, released: &mut Vec<PinnedRange>) -> (u64, Vec<Range<u64>>) {
        let is_passed = |parked: &ParkedPin| parked.pin.end() <= self.next;
        let mut held = self.pins.iter().filter(|parked| is_passed(parked)).map(ParkedPin::len).sum::<u64>();
        let mut ranges = Vec::new();
        while held > limit {
            let Some(parked) = self.pins.pop_front_if(|parked| is_passed(parked)) else { break };
            held -= parked.len();
            ranges.push(parked.pin.start()..parked.pin.end());
            released.push(parked.pin);
        }
        (held, ranges)
    }
}

impl ParkedPin {
    fn new(pin: PinnedRange) -> Self {
        let unread = pin.end() - pin.start();
        Self { pin, unread }
    }

    fn len(&self) -> u64 {
        self.pin.end() - self.pin.start()
    }

    /// Returns the number of bytes of a range that the pin holds.
    fn overlap(&self, range: ByteRange) -> u64 {
        self.pin.end().min(range.end()).saturating_sub(self.pin.start().max(range.start()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        budget::{Budget, Holder},
        page_cache::PagePiece,
        size::ByteSize,
        versions::paths_in_use::PathInUse,
    };

    const OBJECT: ObjectHash = ObjectHash(1);

    fn read_ahead(max_window: u64) -> Arc<ReadAhead> {
        ReadAhead::new(10, max_window, ReadAheadQuota::new(1 << 20))
    }

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    fn note(readers: &Arc<ReadAhead>, object: ObjectHash, start: u64, end: u64) -> Option<(u64, u64)> {
        let ReadAheadPlan { ahead, next, .. } = readers.note(object, range(start, end));
        let ahead = ahead?;
        readers.park(object, next, ahead.end(), Vec::new());
        Some((ahead.start(), ahead.end()))
    }

    #[test]
    fn the_window_doubles_while_a_reader_goes_on() {
        let readers = read_ahead(60);
        let asked: Vec<_> = (0..14).filter_map(|i| note(&readers, OBJECT, i * 10, i * 10 + 10)).collect();
        assert_eq!(asked, [(20, 30), (30, 50), (50, 80), (80, 120), (120, 150), (150, 180)]);
    }

    #[test]
    fn reads_that_overtake_one_another_are_of_one_reader() {
        let readers = read_ahead(60);
        note(&readers, OBJECT, 0, 10);
        assert_eq!(note(&readers, OBJECT, 10, 20), Some((20, 30)));
        assert_eq!(note(&readers, OBJECT, 20, 30), Some((30, 50)));
        assert_eq!(note(&readers, OBJECT, 40, 50), Some((50, 90)), "after 30..40, which comes late");
        assert_eq!(note(&readers, OBJECT, 50, 60), None);
        assert_eq!(readers.state.lock().objects[&OBJECT].streams.len(), 1);
    }

    #[test]
    fn a_jump_starts_again_without_a_window() {
        let readers = read_ahead(60);
        note(&readers, OBJECT, 0, 10);
        assert_eq!(note(&readers, OBJECT, 10, 20), Some((20, 30)));
        assert_eq!(note(&readers, OBJECT, 500, 505), None);
        assert_eq!(note(&readers, OBJECT, 90, 95), None);
        assert_eq!(note(&readers, OBJECT, 20, 30), Some((30, 50)), "the first reader still goes on");
    }

    #[test]
    fn what_was_not_fetched_is_asked_for_again() {
        let readers = read_ahead(60);
        readers.note(OBJECT, range(0, 10));
        let asked = readers.note(OBJECT, range(10, 20)).ahead;
        assert_eq!(asked, Some(range(20, 30)));
        let asked = readers.note(OBJECT, range(20, 30)).ahead;
        assert_eq!(asked, Some(range(30, 50)));
    }

    fn pin(budget: &Budget, start: u64, end: u64) -> PinnedRange {
        let charge = budget.try_reserve(Holder::Pages, end - start).unwrap();
        let piece = PagePiece::new(0, vec![0; (end - start) as usize].into(), charge, PathInUse::sole());
        PinnedRange::of_piece(start, start, piece, None)
    }

    fn parked(readers: &Arc<ReadAhead>) -> Vec<(u64, u64)> {
        let state = readers.state.lock();
        let pins = state.objects[&OBJECT].streams.iter().flat_map(|stream| &stream.pins);
        pins.map(|parked| (parked.pin.start(), parked.pin.end())).collect()
    }

    #[tokio::test]
    async fn what_is_pinned_stays_until_reads_took_it_over() {
        let budget = Budget::new(ByteSize::bytes(1000));
        let readers = read_ahead(600);
        note(&readers, OBJECT, 0, 10);
        readers.park(OBJECT, 10, 100, vec![pin(&budget, 10, 60), pin(&budget, 60, 100)]);

        assert_eq!(
            readers.note(OBJECT, range(60, 70)).pins.len(),
            1,
            "two requests of one reader: the later one first"
        );
        assert_eq!(parked(&readers), [(10, 60), (60, 100)]);
        assert_eq!(readers.note(OBJECT, range(10, 55)).pins.len(), 1);
        assert_eq!(parked(&readers), [(60, 100)], "less than a block is left of the first");
        readers.note(OBJECT, range(70, 100));
        assert_eq!((parked(&readers), budget.used()), (vec![], 0));
    }

    #[tokio::test]
    async fn pins_behind_a_reader_are_released_and_known_if_they_are_fetched_again() {
        let budget = Budget::new(ByteSize::bytes(1000));
        let readers = read_ahead(100);
        note(&readers, OBJECT, 0, 10);
        readers.park(OBJECT, 10, 200, (1..20).map(|i| pin(&budget, i * 10, i * 10 + 10)).collect());

        assert_eq!(
            readers.note(OBJECT, range(190, 200)).pins.len(),
            14,
            "its own, and 130 bytes beyond 50 behind it"
        );
        assert_eq!((parked(&readers).len(), budget.used()), (5, 50));
        assert_eq!(readers.note(OBJECT, range(30, 60)).released, 30);
        assert_eq!(readers.note(OBJECT, range(30, 60)).released, 0, "they are fetched again only once");
    }

    #[test]
    fn a_refetch_stops_reading_ahead_until_much_more_was_read() {
        let readers = read_ahead(60);
        note(&readers, OBJECT, 0, 10);
        assert!(note(&readers, OBJECT, 10, 20).is_some());
        readers.note_refetch(OBJECT, 1);
        let last = (2..).find(|i| note(&readers, OBJECT, i * 10, i * 10 + 10).is_some()).unwrap();
        assert_eq!((last - 1) * 10, READS_PER_REFETCH.next_multiple_of(10), "bytes read");
    }

    #[test]
    fn the_window_shrinks_with_the_share_of_a_reader() {
        let quota = ReadAheadQuota::new(160);
        let readers = ReadAhead::new(10, 1000, quota.clone());
        let others: Vec<_> = (0..2).map(|_| quota.enter()).collect();
        for i in 0..10 {
            if let Some((start, end)) = note(&readers, OBJECT, i * 10, i * 10 + 10) {
                assert!(end - (i * 10 + 10) <= 20, "{start}..{end}");
            }
        }
        drop(others);
    }

    #[test]
    fn readers_of_other_objects_do_not_mix() {
        let readers = read_ahead(60);
        note(&readers, OBJECT, 0, 5);
        assert_eq!(note(&readers, ObjectHash(2), 5, 10), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let readers = read_ahead(60);
        for object in 0..5 * MAX_OBJECTS as u128 {
            for i in 0..20 {
                note(&readers, ObjectHash(object), i * 1000, i * 1000 + 1);
            }
        }
        let state = readers.state.lock();
        assert!(state.objects.len() <= MAX_OBJECTS);
        assert!(state.objects.values().all(|readers| readers.streams.len() <= STREAMS_PER_OBJECT));
    }
}
