//! Positions of long reads in progress: pages that one of them will soon reach are evicted last.
//!
//! Several readers of one object drift apart. To a policy, pages that the first reader has passed look new, so it
//! would evict them before the others arrive.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::page::PageKey;
use crate::object::ObjectHash;

/// Long reads of all objects.
#[derive(Debug)]
pub(crate) struct LongReads {
    page_size: u64,
    /// Total bytes ahead of readers that are evicted last, for all objects.
    reach: u64,
    objects: Mutex<HashMap<ObjectHash, SmallVec<[Arc<LongReadPosition>; 2]>>>,
}

#[derive(Debug)]
struct LongReadPosition {
    at: AtomicU64,
    end: u64,
}

/// A long read, registered until this is dropped.
#[derive(Debug)]
pub(crate) struct LongRead {
    reads: Arc<LongReads>,
    object: ObjectHash,
    position: Arc<LongReadPosition>,
}

impl LongReads {
    /// Creates the registry for a budget of `budget` bytes; at most half of it is protected for long reads.
    pub(crate) fn new(page_size: u64, budget: u64) -> Arc<Self> {
        Arc::new(Self { page_size, reach: budget / 2, objects: Mutex::default() })
    }

    /// Registers a read of a range of bytes.
    pub(crate) fn begin(self: &Arc<Self>, object: ObjectHash, range: Range<u64>) -> LongRead {
        let position = Arc::new(LongReadPosition { at: AtomicU64::new(range.start), end: range.end });
        self.objects.lock().entry(object).or_default().push(position.clone());
        LongRead { reads: self.clone(), object, position }
    }

    /// Returns whether a read will reach the page soon.
    pub(crate) fn will_reach(&self, key: &PageKey) -> bool {
        let objects = self.objects.lock();
        let Some(positions) = objects.get(&key.object) else { return false };
        let reach = self.reach / objects.len() as u64;
        let page = u64::from(key.page) * self.page_size;
        positions.iter().any(|position| {
            let at = position.at.load(Ordering::Relaxed);
            // The page that contains the position counts.
            page + self.page_size > at && page < position.end.min(at.saturating_add(reach))
        })
    }
}

impl LongRead {
    /// Records the position of the read.
    pub(crate) fn advance(&self, to: u64) {
        self.position.at.store(to, Ordering::Relaxed);
    }
}

impl Drop for LongRead {
    fn drop(&mut self) {
        let mut objects = self.reads.objects.lock();
        let Some(positions) = objects.get_mut(&self.object) else { return };
        positions.retain(|position| !Arc::ptr_eq(position, &self.position));
        if positions.is_empty() {
            objects.remove(&self.object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_ahead_of_a_read_are_reached_and_those_behind_it_are_not() {
        let reads = LongReads::new(10, 80);
        let object = ObjectHash(1);
        let other = ObjectHash(2);
        let reached = |object| {
            let will_reach = |page: &u32| reads.will_reach(&PageKey { object, page: *page });
            (0..20).filter(will_reach).collect::<Vec<_>>()
        };
        let read = reads.begin(object, 25..100);
        assert_eq!(reached(object), [2, 3, 4, 5, 6]);
        read.advance(85);
        assert_eq!(reached(object), [8, 9]);

        let second = reads.begin(object, 0..30);
        let third = reads.begin(other, 0..1000);
        assert_eq!((reached(object), reached(other)), (vec![0, 1, 8, 9], vec![0, 1]));
        drop((read, second, third));
        assert!(reached(object).is_empty() && reads.objects.lock().is_empty());
    }
}
