//! Which bytes a reader will want next: read-ahead that grows while a reader goes on and stops when it does not.
//!
//! A read that begins where an earlier one of the same object ended goes on; each such read doubles the window, up
//! to a limit. A read that begins elsewhere starts a stream of its own with no window at all, so random access
//! costs nothing.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::object::{ByteRange, ObjectHash};

const MOST_OBJECTS: usize = 1024;
const STREAMS_PER_OBJECT: usize = 8;

/// Remembers where the readers of each object are.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    page_size: u64,
    max_window: u64,
    objects: Mutex<HashMap<ObjectHash, Streams>>,
}

#[derive(Debug, Default)]
struct Streams {
    streams: Vec<Stream>,
    oldest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Where the reader's last read ended.
    next: u64,
    window: u64,
    /// How far was fetched ahead.
    fetched: u64,
}

impl ReadAhead {
    pub(crate) fn new(page_size: u64, max_window: u64) -> Self {
        Self { page_size, max_window, objects: Mutex::default() }
    }

    /// Notes a read of `range`, and says which bytes behind it to fetch now, if any. While more than half a window
    /// is still ahead of the reader, nothing is: few large requests instead of many small ones.
    pub(crate) fn note(&self, object: ObjectHash, range: ByteRange) -> Option<ByteRange> {
        if self.max_window == 0 || range.is_empty() {
            return None;
        }
        let mut objects = self.objects.lock();
        if objects.len() >= MOST_OBJECTS && !objects.contains_key(&object) {
            objects.clear();
        }
        let Streams { streams, oldest } = objects.entry(object).or_default();
        // A reader that skips less than a page (padding, alignment) still goes on.
        let goes_on = |stream: &&mut Stream| {
            range.start() >= stream.next && range.start() - stream.next < self.page_size
        };
        if let Some(stream) = streams.iter_mut().find(goes_on) {
            return stream.go_on(range.end(), self.page_size, self.max_window);
        }
        let stream = Stream { next: range.end(), window: 0, fetched: range.end() };
        if streams.len() < STREAMS_PER_OBJECT {
            streams.push(stream);
        } else if let Some(slot) = streams.get_mut(*oldest) {
            *slot = stream;
            *oldest = (*oldest + 1) % STREAMS_PER_OBJECT;
        }
        None
    }
}

impl Stream {
    fn go_on(&mut self, end: u64, page_size: u64, max_window: u64) -> Option<ByteRange> {
        self.next = end;
        self.fetched = self.fetched.max(end);
        if self.fetched - end > self.window / 2 {
            return None;
        }
        self.window = (self.window * 2).max(page_size).min(max_window);
        let ahead = ByteRange::new(self.fetched, end.saturating_add(self.window))?;
        self.fetched = ahead.end();
        Some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: ObjectHash = ObjectHash(1);

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    #[test]
    fn the_window_doubles_while_a_reader_goes_on() {
        let ahead = ReadAhead::new(10, 60);
        let asked: Vec<_> = (0..14)
            .filter_map(|i| ahead.note(OBJECT, range(i * 10, i * 10 + 10)))
            .map(|range| (range.start(), range.end()))
            .collect();
        assert_eq!(asked, [(20, 30), (30, 50), (50, 80), (80, 120), (120, 150), (150, 180)]);
    }

    #[test]
    fn a_jump_starts_again_without_a_window() {
        let ahead = ReadAhead::new(10, 60);
        ahead.note(OBJECT, range(0, 10));
        assert_eq!(ahead.note(OBJECT, range(10, 20)), Some(range(20, 30)));
        assert_eq!(ahead.note(OBJECT, range(500, 505)), None);
        assert_eq!(ahead.note(OBJECT, range(90, 95)), None);
        assert_eq!(ahead.note(OBJECT, range(20, 30)), Some(range(30, 50)), "the first reader still goes on");
    }

    #[test]
    fn readers_of_other_objects_do_not_mix() {
        let ahead = ReadAhead::new(10, 60);
        ahead.note(OBJECT, range(0, 5));
        assert_eq!(ahead.note(ObjectHash(2), range(5, 10)), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let ahead = ReadAhead::new(10, 60);
        for object in 0..5 * MOST_OBJECTS as u128 {
            for i in 0..20 {
                ahead.note(ObjectHash(object), range(i * 1000, i * 1000 + 1));
            }
        }
        let objects = ahead.objects.lock();
        assert!(objects.len() <= MOST_OBJECTS);
        assert!(objects.values().all(|streams| streams.streams.len() <= STREAMS_PER_OBJECT));
    }
}
