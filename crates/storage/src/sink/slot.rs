//! Buffers on their way to a file: each is in one pair of hands at a time, the sink's, the ring's or the pool's.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// What direct writes are multiples of: offsets, lengths and addresses.
pub(super) const BLOCK: usize = 4096;

/// Slots that were ever made in this process.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A buffer that begins at a multiple of [`BLOCK`].
#[derive(Debug)]
pub(super) struct WriteSlot {
    /// Never grown, so that it stays where it is.
    memory: Vec<u8>,
    start: usize,
    capacity: usize,
    used: usize,
    index: u16,
    /// Unlike its index and address, no other slot ever has it.
    id: u64,
}

impl WriteSlot {
    /// An empty one of so many bytes, a multiple of [`BLOCK`]. No other slot of the pool has this index.
    fn new(index: u16, capacity: usize) -> Self {
        let memory = vec![0; capacity + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
        let id = MADE.fetch_add(1, Ordering::Relaxed);
        Self { memory, start, capacity, used: 0, index, id }
    }

    /// An empty one with its number.
    pub(super) fn replacement(&self) -> Self {
        Self::new(self.index, self.capacity)
    }

    /// Its number within the pool.
    pub(super) fn index(&self) -> u16 {
        self.index
    }

    /// What tells it from a slot that had its index, and perhaps its address, before.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// What was appended.
    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.get(self.start..self.start + self.used).unwrap_or_default()
    }

    /// All of it, used or not.
    pub(super) fn whole(&self) -> &[u8] {
        self.memory.get(self.start..self.start + self.capacity).unwrap_or_default()
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == self.capacity
    }

    /// Takes as much of `bytes` as there is room for, and returns the rest.
    pub(super) fn append<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (taken, rest) = bytes.split_at(bytes.len().min(self.capacity - self.used));
        let from = self.start + self.used;
        if let Some(to) = self.memory.get_mut(from..from + taken.len()) {
            to.copy_from_slice(taken);
        }
        self.used += taken.len();
        rest
    }

    /// Adds zeros up to a multiple of [`BLOCK`].
    pub(super) fn pad(&mut self) {
        let padded = self.used.next_multiple_of(BLOCK).min(self.capacity);
        let range = self.start + self.used..self.start + padded;
        self.memory.get_mut(range).unwrap_or_default().fill(0);
        self.used = padded;
    }
}

/// The slots of a group of sinks: one for each sink to fill, and some more that are being written.
///
/// So nobody who fills one waits for another who fills one, however many files one task writes in turns.
#[derive(Clone, Debug)]
pub(super) struct SlotPool {
    inner: Arc<SlotPoolInner>,
}

#[derive(Debug)]
struct SlotPoolInner {
    free: Mutex<FreeSlots>,
    permits: Semaphore,
    capacity: usize,
}

#[derive(Debug, Default)]
struct FreeSlots {
    slots: Vec<WriteSlot>,
    /// Indices that slots had which are gone.
    indices: Vec<u16>,
    made: u16,
    /// Slots that are one too many as soon as they come back.
    surplus: usize,
}

impl FreeSlots {
    fn remove(&mut self, slot: Option<WriteSlot>) {
        self.indices.extend(slot.map(|slot| slot.index));
    }
}

impl SlotPool {
    /// With `extra` slots of `capacity` bytes beside those of the sinks.
    pub(super) fn new(extra: usize, capacity: usize) -> Self {
        let capacity = capacity.max(1).next_multiple_of(BLOCK);
        let (free, permits) = (Mutex::default(), Semaphore::new(extra.max(1)));
        Self { inner: Arc::new(SlotPoolInner { free, permits, capacity }) }
    }

    /// One more sink, which may hold one slot as long as this lives.
    pub(super) fn join(&self) -> SlotPoolMember {
        self.inner.permits.add_permits(1);
        SlotPoolMember { pool: self.clone() }
    }

    /// An empty slot, as soon as one is free.
    async fn take(&self) -> WriteSlot {
        // The semaphore is never closed.
        if let Ok(permit) = self.inner.permits.acquire().await {
            permit.forget();
        }
        let mut free = self.inner.free.lock();
        if let Some(slot) = free.slots.pop() {
            return slot;
        }
        let index = free.indices.pop().unwrap_or(free.made);
        free.made = free.made.max(index.saturating_add(1));
        WriteSlot::new(index, self.inner.capacity)
    }

    /// Takes a slot back, whatever is in it.
    pub(super) fn give(&self, mut slot: WriteSlot) {
        slot.used = 0;
        let mut free = self.inner.free.lock();
        if free.surplus > 0 {
            free.surplus -= 1;
            free.remove(Some(slot));
        } else {
            free.slots.push(slot);
            self.inner.permits.add_permits(1);
        }
    }

    #[cfg(test)]
    pub(super) fn made(&self) -> usize {
        usize::from(self.inner.free.lock().made)
    }
}

/// A sink's place in the pool.
#[derive(Debug)]
pub(super) struct SlotPoolMember {
    pool: SlotPool,
}

impl SlotPoolMember {
    pub(super) async fn take(&self) -> WriteSlot {
        self.pool.take().await
    }

    pub(super) fn give(&self, slot: WriteSlot) {
        self.pool.give(slot);
    }
}

impl Drop for SlotPoolMember {
    fn drop(&mut self) {
        let mut free = self.pool.inner.free.lock();
        match self.pool.inner.permits.forget_permits(1) {
            0 => free.surplus += 1,
            _ => {
                let slot = free.slots.pop();
                free.remove(slot);
            }
        }
    }
}
