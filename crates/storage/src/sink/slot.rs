//! Buffers for writes to a file, each owned by the sink, the ring or the pool at any time.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Alignment of offsets, lengths and addresses of direct writes.
pub(super) const BLOCK: usize = 4096;

/// Identifier of the next slot of this process.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// A buffer aligned to [`BLOCK`].
#[derive(Debug)]
pub(super) struct WriteSlot {
    /// Never grown, so that its address is stable.
    memory: Vec<u8>,
    start: usize,
    capacity: usize,
    used: usize,
    index: u16,
    /// Unique among all slots, unlike the index and the address.
    id: u64,
}

impl WriteSlot {
    /// Creates an empty slot of `capacity` bytes, a multiple of [`BLOCK`]. The index must be unique within the pool.
    fn new(index: u16, capacity: usize) -> Self {
        let memory = vec![0; capacity + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self { memory, start, capacity, used: 0, index, id }
    }

    /// Creates an empty slot with the same index.
    pub(super) fn replacement(&self) -> Self {
        Self::new(self.index, self.capacity)
    }

    /// Returns the index within the pool.
    pub(super) fn index(&self) -> u16 {
        self.index
    }

    /// Returns the id, which distinguishes the slot from earlier ones with the same index or address.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the appended bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.get(self.start..self.start + self.used).unwrap_or_default()
    }

    /// Returns the whole memory, used or not.
    pub(super) fn whole(&self) -> &[u8] {
        self.memory.get(self.start..self.start + self.capacity).unwrap_or_default()
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == self.capacity
    }

    /// Appends as many of `bytes` as fit, and returns the rest.
    pub(super) fn append<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let (taken, rest) = bytes.split_at(bytes.len().min(self.capacity - self.used));
        let from = self.start + self.used;
        if let Some(to) = self.memory.get_mut(from..from + taken.len()) {
            to.copy_from_slice(taken);
        }
        self.used += taken.len();
        rest
    }

    /// Appends zeros up to a multiple of [`BLOCK`].
    pub(super) fn pad(&mut self) {
        let padded = self.used.next_multiple_of(BLOCK).min(self.capacity);
        let range = self.start + self.used..self.start + padded;
        self.memory.get_mut(range).unwrap_or_default().fill(0);
        self.used = padded;
    }
}

/// The slots of a group of sinks: one for each sink to fill, and some extra ones that are being written.
///
/// A sink therefore never waits for a slot that another sink is still filling, no matter how many files one task
/// interleaves.
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
    /// Indices of freed slots.
    indices: Vec<u16>,
    made: u16,
    /// Number of slots to free when they are returned.
    surplus: usize,
}

impl FreeSlots {
    fn remove(&mut self, slot: Option<WriteSlot>) {
        self.indices.extend(slot.map(|slot| slot.index));
    }
}

impl SlotPool {
    /// Creates a pool with `extra` slots of `capacity` bytes in addition to one per sink.
    pub(super) fn new(extra: usize, capacity: usize) -> Self {
        let capacity = capacity.max(1).next_multiple_of(BLOCK);
        let free = Mutex::default();
        let permits = Semaphore::new(extra.max(1));
        Self { inner: Arc::new(SlotPoolInner { free, permits, capacity }) }
    }

    /// Adds a sink, which may hold one slot while the result lives.
    pub(super) fn join(&self) -> SlotPoolMember {
        self.inner.permits.add_permits(1);
        SlotPoolMember { pool: self.clone() }
    }

    /// Returns an empty slot once one is free.
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

    /// Returns a slot to the pool and clears it.
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

/// A sink's membership in the pool.
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
