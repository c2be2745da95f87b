//! Blocks that are queued or being written.

use std::collections::VecDeque;

use bytes::Bytes;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::{WriteBacklog, aligned::SECTOR};
use crate::page_cache::PageKey;

/// Blocks of one page, written as one piece.
#[derive(Debug)]
pub(super) struct QueuedWrite {
    pub(super) key: PageKey,
    pub(super) first_block: u32,
    pub(super) bytes: Bytes,
    ticket: u64,
}

#[derive(Clone, Copy, Debug)]
struct PendingWrite {
    ticket: u64,
    blocks: u64,
}

/// A FIFO queue with a limit in bytes. A write counts until it is finished, since its bytes are in memory until then.
#[derive(Debug)]
pub(super) struct WriteQueue {
    writes: VecDeque<QueuedWrite>,
    /// Writes that are neither finished nor cancelled.
    pending: HashMap<PageKey, SmallVec<[PendingWrite; 1]>>,
    bytes: u64,
    limit: u64,
    next_ticket: u64,
}

impl WriteQueue {
    pub(super) fn new(limit: u64) -> Self {
        Self { writes: VecDeque::new(), pending: HashMap::new(), bytes: 0, limit, next_ticket: 0 }
    }

    /// Returns a bitmask of the blocks of a page that are queued or being written.
    pub(super) fn mask(&self, key: &PageKey) -> u64 {
        self.pending.get(key).map_or(0, |pending| pending.iter().fold(0, |mask, write| mask | write.blocks))
    }

    /// Returns the number of pages with writes that are neither finished nor cancelled.
    pub(super) fn pages(&self) -> usize {
        self.pending.len()
    }

    /// Returns the keys of these pages.
    pub(super) fn keys(&self) -> impl Iterator<Item = PageKey> + '_ {
        self.pending.keys().copied()
    }

    pub(super) fn has_room_for(&self, len: u64) -> bool {
        self.bytes + len <= self.limit
    }

    pub(super) fn backlog(&self) -> WriteBacklog {
        match self.bytes {
            bytes if bytes <= self.limit / 4 => WriteBacklog::Short,
            bytes if bytes <= self.limit / 2 => WriteBacklog::Long,
            _ => WriteBacklog::Full,
        }
    }

    /// Returns whether no write is queued or in progress.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn push(&mut self, key: PageKey, first_block: u32, blocks: u64, bytes: Bytes) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.bytes += bytes.len() as u64;
        self.pending.entry(key).or_default().push(PendingWrite { ticket, blocks });
        self.writes.push_back(QueuedWrite { key, first_block, bytes, ticket });
    }

    /// Takes writes of about `max_bytes` on disk, padding included; at least one, unless the queue is empty. Each
    /// must be finished.
    pub(super) fn pop(&mut self, max_bytes: u64) -> Vec<QueuedWrite> {
        let mut popped = Vec::new();
        let mut bytes = 0;

        while bytes < max_bytes
            && let Some(write) = self.writes.pop_front()
        {
            if self.is_pending(&write) {
                bytes += write.bytes.len().next_multiple_of(SECTOR) as u64;
                popped.push(write);
            } else {
                self.bytes -= write.bytes.len() as u64;
            }
        }
        popped
    }

    /// Ends a write that was taken; returns whether it is still wanted, that is, not cancelled.
    pub(super) fn finish(&mut self, write: &QueuedWrite) -> bool {
        self.bytes -= write.bytes.len() as u64;
        let Some(pending) = self.pending.get_mut(&write.key) else { return false };

        let before = pending.len();
        pending.retain(|pending| pending.ticket != write.ticket);
        let is_wanted = pending.len() < before;
        if pending.is_empty() {
            self.pending.remove(&write.key);
        }
        is_wanted
    }

    /// Cancels the writes of a page, including those taken but not finished.
    pub(super) fn cancel(&mut self, key: &PageKey) {
        self.pending.remove(key);
    }

    fn is_pending(&self, write: &QueuedWrite) -> bool {
        let pending = self.pending.get(&write.key);
        pending.is_some_and(|pending| pending.iter().any(|pending| pending.ticket == write.ticket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectHash;

    const KEY: PageKey = PageKey { object: ObjectHash(1), page: 1 };

    #[test]
    fn a_cancelled_write_is_not_popped_and_leaves_room() {
        let mut queue = WriteQueue::new(100);
        queue.push(KEY, 0, 1, Bytes::from(vec![0; 60]));
        assert!(!queue.has_room_for(60));
        queue.cancel(&KEY);
        assert_eq!(queue.mask(&KEY), 0);
        assert!(queue.pop(100).is_empty() && queue.has_room_for(100));
    }

    #[test]
    fn a_write_cancelled_under_way_is_unwanted_but_the_next_one_of_its_page_is_wanted() {
        let mut queue = WriteQueue::new(100);
        queue.push(KEY, 0, 1, Bytes::from_static(b"old"));
        let old = queue.pop(100);
        queue.cancel(&KEY);
        queue.push(KEY, 0, 1, Bytes::from_static(b"new"));
        assert!(!queue.finish(&old[0]));
        assert_eq!(queue.mask(&KEY), 1);
        let new = queue.pop(100);
        assert!(queue.finish(&new[0]) && queue.has_room_for(100));
        assert_eq!(queue.mask(&KEY), 0);
    }
}
