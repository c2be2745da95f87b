//! Which bytes a reader will want next: read-ahead across requests that grows while a reader goes on and stops when it
//! does not.
//!
//! A read that begins where an earlier one of the same object ended goes on; each such read doubles the window, up
//! to a limit. A read that begins elsewhere starts a stream of its own with no window at all, so random access
//! costs nothing. What was fetched ahead is pinned until a read of the stream takes it over, the stream is forgotten, or
//! no read came for a while.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    object::{ByteRange, ObjectHash},
    page_cache::{AheadQuota, AheadReader},
    pin::Pin,
};

const MAX_OBJECTS: usize = 1024;
const STREAMS_PER_OBJECT: usize = 16;

/// A reader that has not come back for this long is gone: its pins end.
const IDLE: Duration = Duration::from_secs(5);
/// How often idle readers are looked for while any pins are parked.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Remembers where the readers of each object are.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    block_size: u64,
    max_window: u64,
    quota: Arc<AheadQuota>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: HashMap<ObjectHash, Vec<Stream>>,
    is_sweeping: bool,
}

/// A reader, between two of its reads.
#[derive(Debug)]
struct Stream {
    /// Where the reader's last read ended.
    next: u64,
    window: u64,
    /// The end of what was fetched ahead, or found in memory.
    fetched: u64,
    pins: VecDeque<Pin>,
    counted: Option<AheadReader>,
    last_read: Instant,
}

/// What is known of the reader behind a read.
#[derive(Debug, Default)]
pub(crate) struct Continuation {
    /// What was fetched ahead for this read.
    pub(crate) pins: Vec<Pin>,
    /// Bytes after the read that should be fetched now.
    pub(crate) ahead: Option<ByteRange>,
    /// Where the reader is.
    pub(crate) next: u64,
}

impl ReadAhead {
    pub(crate) fn new(block_size: u64, max_window: u64, quota: Arc<AheadQuota>) -> Arc<Self> {
        Arc::new(Self { block_size, max_window, quota, state: Mutex::default() })
    }

    /// Notes a read of `range`. While more than half a window is still ahead of the reader, nothing more is fetched:
    /// few large requests instead of many small ones.
    pub(crate) fn note(&self, object: ObjectHash, range: ByteRange) -> Continuation {
        if self.max_window == 0 || range.is_empty() {
            return Continuation::default();
        }
        let mut state = self.state.lock();
        let objects = &mut state.objects;
        if objects.len() >= MAX_OBJECTS && !objects.contains_key(&object) {
            objects.clear();
        }
        let streams = objects.entry(object).or_default();
        if let Some(stream) = streams.iter_mut().find(|stream| stream.includes(range, self.block_size)) {
            let limit = self.max_window.min(self.quota.share()) / self.block_size * self.block_size;
            return stream.go_on(range, self.block_size, limit);
        }

        let stream = Stream {
            next: range.end(),
            window: 0,
            fetched: range.end(),
            pins: VecDeque::new(),
            counted: None,
            last_read: Instant::now(),
        };
        if streams.len() < STREAMS_PER_OBJECT {
            streams.push(stream);
        } else if let Some(idlest) = streams.iter_mut().min_by_key(|stream| stream.last_read) {
            *idlest = stream;
        }
        Continuation::default()
    }

    /// Keeps what was fetched ahead of a reader that is at `next`, up to `fetched`, until it comes back.
    pub(crate) fn park(self: &Arc<Self>, object: ObjectHash, next: u64, fetched: u64, pins: Vec<Pin>) {
        let mut state = self.state.lock();
        let streams = state.objects.get_mut(&object);
        let Some(stream) = streams.and_then(|streams| streams.iter_mut().find(|stream| stream.next == next))
        else {
            return;
        };
        stream.fetched = stream.fetched.max(fetched);
        if pins.is_empty() {
            return;
        }
        stream.pins.extend(pins);
        stream.counted.get_or_insert_with(|| self.quota.enter());
        if !std::mem::replace(&mut state.is_sweeping, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Ends the pins of readers that have not come back. Returns whether any pins are left.
    fn release_idle(&self) -> bool {
        let mut released = Vec::new();
        let mut state = self.state.lock();
        let mut is_left = false;
        for stream in state.objects.values_mut().flatten() {
            if stream.last_read.elapsed() >= IDLE {
                released.extend(stream.pins.drain(..));
                stream.counted = None;
                stream.window = 0;
            }
            is_left |= !stream.pins.is_empty();
        }
        state.is_sweeping = is_left;
        is_left
    }
}

async fn sweep(readers: Weak<ReadAhead>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        match readers.upgrade() {
            Some(readers) if readers.release_idle() => {}
            _ => return,
        }
    }
}

impl Stream {
    /// Whether a read belongs to this reader: it begins where the last one ended, or among what was fetched ahead. Readers
    /// that have several requests under way send them in any order. One that skips less than a block (padding,
    /// alignment) still goes on.
    fn includes(&self, range: ByteRange, block_size: u64) -> bool {
        let limit = self.fetched.max(self.next.saturating_add(block_size));
        let goes_on = range.start() >= self.next && range.start() < limit;
        goes_on || self.pins.iter().any(|pin| overlaps(pin, range))
    }

    fn go_on(&mut self, range: ByteRange, block_size: u64, limit: u64) -> Continuation {
        let pins = self.take_pins(range);
        let is_ahead_of_others = range.end() > self.next;
        self.next = self.next.max(range.end());
        self.last_read = Instant::now();
        self.fetched = self.fetched.max(self.next);
        if self.pins.is_empty() {
            self.counted = None;
        }
        if !is_ahead_of_others || self.fetched - self.next > self.window / 2 {
            return Continuation { pins, ahead: None, next: self.next };
        }
        self.window = (self.window * 2).max(range.len().next_multiple_of(block_size)).min(limit);
        let ahead = ByteRange::new(self.fetched, self.next.saturating_add(self.window));
        Continuation { pins, ahead: ahead.filter(|ahead| !ahead.is_empty()), next: self.next }
    }

    /// Takes the pins that a read needs. One that reaches beyond the read stays as well, and so do those that were skipped:
    /// a request of the same reader may be on its way.
    fn take_pins(&mut self, range: ByteRange) -> Vec<Pin> {
        let mut taken = Vec::new();
        let mut kept = VecDeque::new();
        for pin in self.pins.drain(..) {
            if !overlaps(&pin, range) {
                kept.push_back(pin);
            } else if pin.end() > range.end() {
                taken.push(pin.share());
                kept.push_back(pin);
            } else {
                taken.push(pin);
            }
        }
        self.pins = kept;
        taken
    }
}

fn overlaps(pin: &Pin, range: ByteRange) -> bool {
    pin.start() < range.end() && pin.end() > range.start()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: ObjectHash = ObjectHash(1);

    fn read_ahead(max_window: u64) -> Arc<ReadAhead> {
        ReadAhead::new(10, max_window, AheadQuota::new(1 << 20))
    }

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    fn note(readers: &Arc<ReadAhead>, object: ObjectHash, start: u64, end: u64) -> Option<(u64, u64)> {
        let Continuation { ahead, next, .. } = readers.note(object, range(start, end));
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
        assert_eq!(readers.state.lock().objects[&OBJECT].len(), 1);
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

    #[test]
    fn the_window_shrinks_with_the_share_of_a_reader() {
        let quota = AheadQuota::new(160);
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
        assert!(state.objects.values().all(|streams| streams.len() <= STREAMS_PER_OBJECT));
    }
}
