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
//!
//! Readers of files in a columnar format skip most bytes: [`column_reads`](super::column_reads) predicts their reads.

use std::{
    collections::{HashMap, VecDeque},
    mem::take,
    ops::Range,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    object::{ByteRange, ObjectHash},
    page_cache::{ReadAheadGuard, ReadAheadQuota},
    read::{column_reads::ColumnReads, pin::PinnedRange},
};

const MAX_OBJECTS: usize = 1024;
const STREAMS_PER_OBJECT: usize = 16;
/// Maximum files whose column chunks are known.
const MAX_FILES: usize = 32;
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
    /// True while a task releases the pins of idle readers.
    is_sweeping: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct ReadAheadState {
    objects: HashMap<ObjectHash, ObjectReaders>,
}

/// The readers of one object.
#[derive(Debug, Default)]
struct ObjectReaders {
    streams: Vec<SequentialStream>,
    /// `None` if the object is not read as a file in a columnar format.
    chunks: Option<ChunksAhead>,
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
    pins: ParkedPins,
    last_read: Instant,
}

/// Column chunks that were fetched ahead of the readers of a file.
#[derive(Debug)]
struct ChunksAhead {
    reads: ColumnReads,
    pins: ParkedPins,
    last_read: Instant,
}

/// Pins that wait for the reads that they were made for. While there are any, they count as a reader.
#[derive(Debug, Default)]
struct ParkedPins {
    pins: VecDeque<ParkedPin>,
    counted: Option<ReadAheadGuard>,
}

#[derive(Debug)]
struct ParkedPin {
    pin: PinnedRange,
    /// Bytes that no read has taken over yet.
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
    /// Column chunks of the row group that the read begins, to be fetched with the read.
    pub(crate) chunks: Vec<Range<u64>>,
    /// Column chunks of the row groups after it, to be fetched ahead.
    pub(crate) following: Vec<Range<u64>>,
    /// True if the caller should look for the footer, and then call [`ReadAhead::find_chunks`].
    pub(crate) wants_footer: bool,
}

impl ReadAhead {
    pub(crate) fn new(block_size: u64, max_window: u64, quota: Arc<ReadAheadQuota>) -> Arc<Self> {
        Arc::new(Self { block_size, max_window, quota, state: Mutex::default(), is_sweeping: Arc::default() })
    }

    /// Records a read of `range`. While more than half a window is still ahead of the reader, nothing more is
    /// fetched: a few large requests are better than many small ones.
    /// `is_columnar`: the object may be a file whose column chunks can be found.
    pub(crate) fn note(&self, object: ObjectHash, range: ByteRange, is_columnar: bool) -> ReadAheadPlan {
        if self.max_window == 0 || range.is_empty() {
            return ReadAheadPlan::default();
        }

        let mut state = self.state.lock();
        let objects = &mut state.objects;
        if objects.len() >= MAX_OBJECTS && !objects.contains_key(&object) {
            objects.clear();
        }

        let limit = self.limit();
        let readers = objects.entry(object).or_default();
        let plan = readers.note(range, self.block_size, limit);
        if is_columnar { readers.note_chunks(range, self.block_size, limit, plan) } else { plan }
    }

    /// Returns the maximum bytes to hold ahead of a reader: a multiple of a block.
    fn limit(&self) -> u64 {
        self.max_window.min(self.quota.share()) / self.block_size * self.block_size
    }

    /// Sets the byte ranges of the column chunks of each row group of a file; `None` if there are none. Returns those
    /// that should be fetched ahead of the reads so far.
    pub(crate) fn find_chunks(
        &self,
        object: ObjectHash,
        groups: Option<Vec<Vec<Range<u64>>>>,
    ) -> Vec<Range<u64>> {
        let mut state = self.state.lock();
        let Some(readers) = state.objects.get_mut(&object) else { return Vec::new() };
        let Some(chunks) = &mut readers.chunks else { return Vec::new() };
        chunks.reads.find(groups);
        let following = if readers.debt == 0 { chunks.following(self.limit()) } else { Vec::new() };
        let forgotten = state.forget_idlest_file();
        drop(state);
        drop(forgotten);
        following
    }

    /// Ends an unsuccessful search for the footer of a file: it is not in memory.
    pub(crate) fn miss_footer(&self, object: ObjectHash) {
        if let Some(chunks) = self.state.lock().chunks_of(object) {
            chunks.reads.end_search();
        }
    }

    /// Keeps the pins of column chunks until they are read.
    pub(crate) fn park_chunks(self: &Arc<Self>, object: ObjectHash, pins: Vec<PinnedRange>) {
        let mut state = self.state.lock();
        let Some(chunks) = state.chunks_of(object) else { return };
        chunks.pins.add(pins, &self.quota);
        drop(state);
        self.start_sweep();
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

        stream.pins.add(pins, &self.quota);
        drop(state);
        self.start_sweep();
    }

    fn start_sweep(self: &Arc<Self>) {
        if !self.is_sweeping.swap(true, Ordering::AcqRel) {
            let sweeping = SweepGuard(self.is_sweeping.clone());
            tokio::spawn(sweep(Arc::downgrade(self), sweeping));
        }
    }

    /// Releases the pins of readers that have not returned. Returns whether any pins are left; if not, the next pins
    /// start another sweep.
    fn release_idle(&self) -> bool {
        let mut released = Vec::new();
        let mut state = self.state.lock();
        let mut is_left = false;

        for readers in state.objects.values_mut() {
            for stream in &mut readers.streams {
                if stream.last_read.elapsed() >= IDLE {
                    released.push(take(&mut stream.pins));
                    stream.window = 0;
                }
                is_left |= !stream.pins.is_empty();
            }
            if let Some(chunks) = &mut readers.chunks {
                if chunks.last_read.elapsed() >= IDLE {
                    released.push(take(&mut chunks.pins));
                }
                is_left |= !chunks.pins.is_empty();
            }
        }

        self.is_sweeping.store(is_left, Ordering::Release);
        is_left
    }
}

impl ReadAheadState {
    fn chunks_of(&mut self, object: ObjectHash) -> Option<&mut ChunksAhead> {
        self.objects.get_mut(&object)?.chunks.as_mut()
    }

    /// Forgets the chunks of the file that was not read for the longest time, if more than [`MAX_FILES`] are known.
    fn forget_idlest_file(&mut self) -> Option<ChunksAhead> {
        let known = self.objects.values_mut().filter_map(|readers| {
            let last_read = readers.chunks.as_ref().filter(|chunks| chunks.reads.is_known())?.last_read;
            Some((last_read, &mut readers.chunks))
        });
        let known: Vec<_> = known.collect();
        let is_full = known.len() > MAX_FILES;
        let (_, idlest) = known.into_iter().min_by_key(|(last_read, _)| *last_read).filter(|_| is_full)?;
        idlest.take()
    }
}

/// Ends a sweep, also if its runtime shuts down: the next pins start another one.
struct SweepGuard(Arc<AtomicBool>);

impl Drop for SweepGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

async fn sweep(readers: Weak<ReadAhead>, _sweeping: SweepGuard) {
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
            remember_released(&mut self.released, passed);
            let ahead = continuation.ahead.filter(|_| self.debt == 0);
            return ReadAheadPlan { released, ahead, ..continuation };
        }

        let stream = SequentialStream {
            next: range.end(),
            window: 0,
            fetched: range.end(),
            pins: ParkedPins::default(),
            last_read: Instant::now(),
        };

        if self.streams.len() < STREAMS_PER_OBJECT {
            self.streams.push(stream);
        } else if let Some(idlest) = self.streams.iter_mut().min_by_key(|stream| stream.last_read) {
            *idlest = stream;
        }
        ReadAheadPlan { released, ..ReadAheadPlan::default() }
    }

    /// Adds the column chunks to the plan of a read.
    fn note_chunks(
        &mut self,
        range: ByteRange,
        block_size: u64,
        limit: u64,
        mut plan: ReadAheadPlan,
    ) -> ReadAheadPlan {
        let chunks = self.chunks.get_or_insert_with(ChunksAhead::new);
        chunks.last_read = Instant::now();
        plan.pins.extend(chunks.pins.take(range, block_size));
        plan.wants_footer = chunks.reads.begin_search();
        if chunks.reads.begins_chunk(range.start()) {
            // A reader of column chunks does not continue to the adjacent column.
            plan.ahead = None;
        }
        let Some(mut predicted) = chunks.reads.note(&range.into()).filter(|_| self.debt == 0) else {
            return plan;
        };

        predicted.retain(|chunk| !chunks.pins.overlap(chunk));
        if !predicted.is_empty() {
            // Make room by releasing predicted chunks that were never read.
            let (released, ranges) = chunks.pins.release_oldest(limit / 2);
            plan.pins.extend(released);
            remember_released(&mut self.released, ranges);
        }

        let mut room = limit.saturating_sub(chunks.pins.bytes());
        predicted.retain(|chunk| {
            let len = chunk.end - chunk.start;
            let fits = len <= room;
            room = if fits { room - len } else { 0 };
            fits
        });
        plan.chunks = predicted;
        plan.following = chunks.following(room);
        plan
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

/// Adds ranges that were released unread, and forgets the oldest beyond [`MAX_RELEASED`].
fn remember_released(released: &mut VecDeque<Range<u64>>, ranges: Vec<Range<u64>>) {
    released.extend(ranges);
    let surplus = released.len().saturating_sub(MAX_RELEASED);
    released.drain(..surplus);
}

impl SequentialStream {
    /// Returns whether a read belongs to this reader: it starts at the end of the last one, or among the bytes
    /// fetched ahead. Readers with several requests in flight send them in any order. A read that skips less than a
    /// block (padding, alignment) is still sequential.
    fn includes(&self, range: ByteRange, block_size: u64) -> bool {
        let limit = self.fetched.max(self.next.saturating_add(block_size));
        let goes_on = range.start() >= self.next && range.start() < limit;
        goes_on || self.pins.overlap(&range.into())
    }

    /// Moves on to the end of `range`. Also returns the ranges whose pins were released before they were fully read.
    fn go_on(&mut self, range: ByteRange, block_size: u64, limit: u64) -> (ReadAheadPlan, Vec<Range<u64>>) {
        let mut pins = self.pins.take(range, block_size);
        let is_ahead_of_others = range.end() > self.next;
        self.next = self.next.max(range.end());
        self.last_read = Instant::now();
        self.fetched = self.fetched.max(self.next);

        let (passed_bytes, passed) = self.pins.release_passed(self.next, limit / 2, &mut pins);

        if !is_ahead_of_others || self.fetched - self.next > self.window / 2 {
            return (ReadAheadPlan { pins, next: self.next, ..ReadAheadPlan::default() }, passed);
        }

        let limit = limit.saturating_sub(passed_bytes);
        self.window = (self.window * 2).max(range.len().next_multiple_of(block_size)).min(limit);
        let ahead = ByteRange::new(self.fetched, self.next.saturating_add(self.window));
        let ahead = ahead.filter(|ahead| !ahead.is_empty());
        (ReadAheadPlan { pins, ahead, next: self.next, ..ReadAheadPlan::default() }, passed)
    }
}

impl ChunksAhead {
    fn new() -> Self {
        Self { reads: ColumnReads::default(), pins: ParkedPins::default(), last_read: Instant::now() }
    }

    /// Returns the chunks that are likely to be read next and are not pinned yet, for as many row groups as fit in
    /// `room` bytes.
    fn following(&self, mut room: u64) -> Vec<Range<u64>> {
        let mut following = Vec::new();
        for mut group in self.reads.following() {
            group.retain(|chunk| !self.pins.overlap(chunk));
            let len = group.iter().fold(0, |sum: u64, chunk| sum.saturating_add(chunk.end - chunk.start));
            if len > room {
                break;
            }
            room -= len;
            following.extend(group);
        }
        following
    }
}

impl ParkedPins {
    fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    fn overlap(&self, range: &Range<u64>) -> bool {
        self.pins.iter().any(|parked| parked.overlap(range) > 0)
    }

    fn bytes(&self) -> u64 {
        self.pins.iter().map(ParkedPin::len).sum()
    }

    fn add(&mut self, pins: Vec<PinnedRange>, quota: &Arc<ReadAheadQuota>) {
        if !pins.is_empty() {
            self.pins.extend(pins.into_iter().map(ParkedPin::new));
            self.counted.get_or_insert_with(|| quota.enter());
        }
    }

    /// Takes the pins that a read needs. A pin with at least one block left to read also stays parked, and so do pins
    /// that the read skips: other requests of the same reader may be in flight.
    fn take(&mut self, range: ByteRange, block_size: u64) -> Vec<PinnedRange> {
        let mut taken = Vec::new();
        let mut kept = VecDeque::new();
        for mut parked in self.pins.drain(..) {
            let overlap = parked.overlap(&range.into());
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
        self.end_if_empty();
        taken
    }

    /// Moves pins before `position` to `released`, oldest first, until the remaining ones hold at most `limit` bytes.
    /// Returns the bytes of the remaining ones, and the released ranges.
    fn release_passed(
        &mut self,
        position: u64,
        limit: u64,
        released: &mut Vec<PinnedRange>,
    ) -> (u64, Vec<Range<u64>>) {
        let is_passed = |parked: &ParkedPin| parked.pin.end() <= position;
        let mut held = self.pins.iter().filter(|parked| is_passed(parked)).map(ParkedPin::len).sum::<u64>();
        let mut ranges = Vec::new();
        while held > limit {
            let Some(parked) = self.pins.pop_front_if(|parked| is_passed(parked)) else { break };
            held -= parked.len();
            ranges.push(parked.pin.start()..parked.pin.end());
            released.push(parked.pin);
        }
        self.end_if_empty();
        (held, ranges)
    }

    /// Removes all pins, oldest first, beyond `limit` bytes. Returns them and their ranges.
    fn release_oldest(&mut self, limit: u64) -> (Vec<PinnedRange>, Vec<Range<u64>>) {
        let mut released = Vec::new();
        let (_, ranges) = self.release_passed(u64::MAX, limit, &mut released);
        (released, ranges)
    }

    fn end_if_empty(&mut self) {
        if self.pins.is_empty() {
            self.counted = None;
        }
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
    fn overlap(&self, range: &Range<u64>) -> u64 {
        self.pin.end().min(range.end).saturating_sub(self.pin.start().max(range.start))
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
        let ReadAheadPlan { ahead, next, .. } = readers.note(object, range(start, end), false);
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
        readers.note(OBJECT, range(0, 10), false);
        let asked = readers.note(OBJECT, range(10, 20), false).ahead;
        assert_eq!(asked, Some(range(20, 30)));
        let asked = readers.note(OBJECT, range(20, 30), false).ahead;
        assert_eq!(asked, Some(range(30, 50)));
    }

    fn pin(budget: &Budget, start: u64, end: u64) -> PinnedRange {
        let charge = budget.try_reserve(Holder::Pages, end - start).unwrap();
        let piece = PagePiece::new(0, vec![0; (end - start) as usize].into(), charge, PathInUse::sole());
        PinnedRange::of_piece(start, start, piece, None)
    }

    fn parked(readers: &Arc<ReadAhead>) -> Vec<(u64, u64)> {
        let state = readers.state.lock();
        let pins = state.objects[&OBJECT].streams.iter().flat_map(|stream| &stream.pins.pins);
        pins.map(|parked| (parked.pin.start(), parked.pin.end())).collect()
    }

    #[tokio::test]
    async fn what_is_pinned_stays_until_reads_took_it_over() {
        let budget = Budget::new(ByteSize::bytes(1000));
        let readers = read_ahead(600);
        note(&readers, OBJECT, 0, 10);
        readers.park(OBJECT, 10, 100, vec![pin(&budget, 10, 60), pin(&budget, 60, 100)]);

        assert_eq!(
            readers.note(OBJECT, range(60, 70), false).pins.len(),
            1,
            "two requests of one reader: the later one first"
        );
        assert_eq!(parked(&readers), [(10, 60), (60, 100)]);
        assert_eq!(readers.note(OBJECT, range(10, 55), false).pins.len(), 1);
        assert_eq!(parked(&readers), [(60, 100)], "less than a block is left of the first");
        readers.note(OBJECT, range(70, 100), false);
        assert_eq!((parked(&readers), budget.used()), (vec![], 0));
    }

    #[tokio::test]
    async fn pins_behind_a_reader_are_released_and_known_if_they_are_fetched_again() {
        let budget = Budget::new(ByteSize::bytes(1000));
        let readers = read_ahead(100);
        note(&readers, OBJECT, 0, 10);
        readers.park(OBJECT, 10, 200, (1..20).map(|i| pin(&budget, i * 10, i * 10 + 10)).collect());

        assert_eq!(
            readers.note(OBJECT, range(190, 200), false).pins.len(),
            14,
            "its own, and 130 bytes beyond 50 behind it"
        );
        assert_eq!((parked(&readers).len(), budget.used()), (5, 50));
        assert_eq!(readers.note(OBJECT, range(30, 60), false).released, 30);
        assert_eq!(
            readers.note(OBJECT, range(30, 60), false).released,
            0,
            "they are fetched again only once"
        );
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
