//! Pages of objects in memory and on disk.
//!
//! A page is `page_size` bytes of one version of one object, at an offset that is a multiple of `page_size`; the last
//! page of an object is shorter. It is kept in part, as blocks. Whatever a page cache returns was stored under that
//! version, page and block, and passed its checksum if it came from disk: anything else is a miss.
//!
//! ```text
//!   a fetched piece ──┬──▶ memory (policy by name, one budget for the process)
//!                     │        ▲ read again
//!                     └──▶ disk: queue ─▶ log of segments, blocks with checksums
//! ```

mod ahead;
mod disk;
mod long_reads;
mod memory;
mod options;
mod page;

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;

pub(crate) use ahead::{ReadAheadBytes, ReadAheadGuard, ReadAheadQuota};
pub(crate) use disk::WriteBacklog;
pub(crate) use long_reads::{LongRead, LongReads};
pub use options::CacheOptions;
pub(crate) use page::{BlockSet, ENTRY_OVERHEAD, PageKey, PageLayout, PagePiece};

use self::{
    disk::{DiskOpenError, DiskTier, DiskTierOptions},
    memory::MemoryTier,
};
use crate::{Budget, BudgetStats, ByteSize, Error, Holder, Reservation, Result, policy};

/// Pages in memory and on disk, shared by all buckets of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PageCache {
    inner: Arc<PageCacheInner>,
}

#[derive(Debug)]
struct PageCacheInner {
    options: CacheOptions,
    layout: PageLayout,
    budget: Budget,
    memory: Arc<MemoryTier>,
    disk: Option<BudgetedDiskTier>,
    ahead: Arc<ReadAheadQuota>,
    reads: Arc<LongReads>,
    counters: PageCacheCounters,
}

#[derive(Debug, Default)]
struct PageCacheCounters {
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
    misses: AtomicU64,
    inserts: AtomicU64,
    in_flight: AtomicU64,
}

/// What a page cache holds and did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheStats {
    /// Bytes of pages in memory that can be found.
    pub memory_used: u64,
    /// The memory budget, which pages share with everything else.
    pub memory_capacity: u64,
    /// Pages in memory, whole or in part.
    pub memory_pages: u64,
    /// Bytes that fetches under way will bring.
    pub in_flight_used: u64,
    /// Bytes held ahead of readers until these reach them.
    pub ahead_used: u64,
    /// Bytes that the disk tier may take; 0 without one.
    pub disk_capacity: u64,
    /// Bytes of pages on disk that can be found.
    pub disk_used: u64,
    /// Pages on disk, whole or in part.
    pub disk_pages: u64,
    /// Bytes written to the disk tier.
    pub disk_written: u64,
    /// Bytes of `disk_written` that were moved to reclaim space.
    pub disk_rewritten: u64,
    /// Bytes read from the disk tier.
    pub disk_read: u64,
    /// Reads answered from memory.
    pub memory_hits: u64,
    /// Reads answered from disk.
    pub disk_hits: u64,
    /// Pieces that had to be fetched.
    pub misses: u64,
    /// Pieces stored.
    pub inserts: u64,
    /// Pages that left memory to make room.
    pub evictions: u64,
    /// Pieces that did not reach the disk, for whatever reason.
    pub dropped_inserts: u64,
    /// Pieces that did not reach the disk because more were waiting to be written than the queue holds.
    pub dropped_queue_full: u64,
    /// Pieces that did not reach the disk because it was full or failed.
    pub dropped_disk_failed: u64,
    /// 1 while the disk tier takes no writes, since the disk is full or fails; it is tried again from time to time.
    pub disk_paused: u64,
    /// Pieces found on disk and not used, since they were damaged or unreadable.
    pub disk_rejected: u64,
}

impl PageCache {
    /// Opens the cache; with a disk tier, recovers what an earlier process left there.
    ///
    /// Fails with [`Error::CacheLocked`] if another process has the folder, with [`Error::CacheFolder`] if it cannot
    /// be created or written, with [`Error::Cache`] if the options contradict each other.
    #[boxed]
    pub async fn open(options: CacheOptions) -> Result<Self> {
        options.validate()?;
        let layout = PageLayout::of(options.page_size.as_u64());
        let budget = Budget::new(options.memory);
        let reads = LongReads::new(layout.page, budget.capacity());
        let memory = MemoryTier::new(layout, options.policy, budget.clone(), reads.clone());
        let disk = match &options.disk {
            Some(disk) => Some(BudgetedDiskTier::open(disk, &options, layout, &budget).await?),
            None => None,
        };
        let ahead = ReadAheadQuota::new(budget.capacity());
        let counters = PageCacheCounters::default();
        let inner = PageCacheInner { options, layout, budget, memory, disk, ahead, reads, counters };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Writes to disk what is waiting for it, and releases the folder. Later reads miss or answer from memory.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        if let Some(disk) = &self.inner.disk {
            disk.tier.close().await;
        }
        Ok(())
    }

    /// The options it was opened with.
    pub fn options(&self) -> &CacheOptions {
        &self.inner.options
    }

    /// The budget that pages share with whatever else the process caches.
    pub fn budget(&self) -> &Budget {
        &self.inner.budget
    }

    /// Bytes that uploads may hold together; `None` if the cache was opened without
    /// [`with_uploads`](CacheOptions::with_uploads).
    pub fn upload_share(&self) -> Option<ByteSize> {
        self.inner.options.upload_share()
    }

    /// Bytes that one upload may hold if it is the only one: the share of uploads, and a quarter of the memory besides.
    pub fn largest_upload(&self) -> Option<ByteSize> {
        let quarter = self.inner.budget.capacity() / 4;
        self.upload_share().map(|share| ByteSize::bytes(share.as_u64() + quarter))
    }

    /// Whether the disk tier may hold pages of an earlier process.
    pub(crate) fn is_recovered(&self) -> bool {
        self.inner.disk.as_ref().is_some_and(|disk| disk.tier.stats().is_recovered)
    }

    /// Size of a page in bytes.
    pub(crate) fn page_size(&self) -> u64 {
        self.inner.layout.page
    }

    pub(crate) fn layout(&self) -> PageLayout {
        self.inner.layout
    }

    /// What bounds the bytes held ahead of readers.
    pub(crate) fn ahead(&self) -> &Arc<ReadAheadQuota> {
        &self.inner.ahead
    }

    /// Long reads under way.
    pub(crate) fn reads(&self) -> &Arc<LongReads> {
        &self.inner.reads
    }

    /// Memory for a piece of this many bytes, if the budget has it or can make room.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reservation> {
        self.inner.budget.try_reserve(Holder::Pages, bytes + ENTRY_OVERHEAD)
    }

    /// Memory for a piece of this many bytes, whether it is free or not.
    pub(crate) fn hold(&self, bytes: u64) -> Reservation {
        self.inner.budget.hold(Holder::Pages, bytes + ENTRY_OVERHEAD)
    }

    /// Bytes of the page from `from` on, as many as one piece in memory has, `to` at most.
    pub(crate) fn read_memory(&self, key: &PageKey, from: usize, to: usize) -> Option<Bytes> {
        let bytes = self.inner.memory.read(key, from, to)?;
        self.inner.counters.memory_hits.fetch_add(1, Ordering::Relaxed);
        Some(bytes)
    }

    /// The piece in memory that holds the byte at `from`, for a reader that will read up to `to`.
    pub(crate) fn pin_memory(&self, key: &PageKey, from: usize, to: usize) -> Option<Arc<PagePiece>> {
        let piece = self.inner.memory.pin(key, from, to)?;
        self.inner.counters.memory_hits.fetch_add(1, Ordering::Relaxed);
        Some(piece)
    }

    /// The blocks of the page that are in memory.
    pub(crate) fn memory_blocks(&self, key: &PageKey) -> BlockSet {
        self.inner.memory.blocks(key)
    }

    /// The blocks of the page that are on disk.
    pub(crate) fn disk_blocks(&self, key: &PageKey) -> BlockSet {
        self.inner.disk.as_ref().map_or(BlockSet::NONE, |disk| BlockSet(disk.tier.blocks(key)))
    }

    /// Consecutive blocks of a page from disk, `None` unless all of them are there and whole.
    pub(crate) async fn read_disk(&self, key: &PageKey, blocks: Range<u32>, len: usize) -> Option<Bytes> {
        let disk = &self.inner.disk.as_ref()?.tier;
        let bytes = disk.read(key, blocks).await?.into_bytes();
        if bytes.len() != len {
            return None;
        }
        disk.touch(key);
        self.inner.counters.disk_hits.fetch_add(1, Ordering::Relaxed);
        Some(bytes)
    }

    /// How far the disk is behind what is fetched. Where it is, less should be fetched that no reader waits for.
    pub(crate) fn backlog(&self) -> WriteBacklog {
        self.inner.disk.as_ref().map_or(WriteBacklog::Short, |disk| disk.tier.backlog())
    }

    /// Stores a piece that was fetched.
    pub(crate) fn insert(&self, key: PageKey, piece: &Arc<PagePiece>) {
        self.inner.counters.inserts.fetch_add(1, Ordering::Relaxed);
        self.inner.memory.insert(key, piece.clone());
        if let Some(disk) = &self.inner.disk {
            disk.write(key, self.inner.layout.block_of(piece.start()), piece.whole());
        }
    }

    /// Stores a piece that was read from disk.
    pub(crate) fn insert_read(&self, key: PageKey, piece: &Arc<PagePiece>) {
        self.inner.memory.insert(key, piece.clone());
    }

    /// Drops a page from every tier. Returns whether any of it was there.
    pub(crate) fn remove(&self, key: &PageKey) -> bool {
        let in_memory = self.inner.memory.remove(key);
        let Some(disk) = &self.inner.disk else { return in_memory };
        let on_disk = disk.tier.blocks(key) != 0;
        disk.tier.remove(key);
        in_memory || on_disk
    }

    /// Notes that a piece of this many bytes has to be fetched.
    pub(crate) fn count_miss(&self, bytes: u64) {
        self.inner.counters.misses.fetch_add(1, Ordering::Relaxed);
        self.inner.counters.in_flight.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that the fetch of a piece ended.
    pub(crate) fn count_landing(&self, bytes: u64) {
        self.inner.counters.in_flight.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Who holds how much of the memory.
    pub fn budget_stats(&self) -> BudgetStats {
        self.inner.budget.stats()
    }

    /// What it holds and did.
    pub fn stats(&self) -> CacheStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let PageCacheInner { budget, memory, disk, ahead, counters, .. } = &*self.inner;
        let memory = memory.usage();
        let stats = CacheStats {
            memory_used: memory.bytes,
            memory_capacity: budget.capacity(),
            memory_pages: memory.pages,
            in_flight_used: count(&counters.in_flight),
            ahead_used: ahead.held(),
            memory_hits: count(&counters.memory_hits),
            disk_hits: count(&counters.disk_hits),
            misses: count(&counters.misses),
            inserts: count(&counters.inserts),
            evictions: memory.evictions,
            ..CacheStats::default()
        };
        let Some(disk) = disk.as_ref().map(|disk| disk.tier.stats()) else { return stats };
        let dropped = disk.dropped;
        CacheStats {
            disk_capacity: disk.capacity,
            disk_used: disk.used,
            disk_pages: disk.pages,
            disk_written: disk.written,
            disk_rewritten: disk.rewritten,
            disk_read: disk.read,
            dropped_inserts: dropped.queue_full + dropped.disk_failed + dropped.closed + dropped.too_large,
            dropped_queue_full: dropped.queue_full,
            dropped_disk_failed: dropped.disk_failed,
            disk_paused: u64::from(disk.is_paused),
            disk_rejected: disk.rejected,
            ..stats
        }
    }
}

/// The disk tier, and its index as a part of the memory budget.
#[derive(Debug)]
struct BudgetedDiskTier {
    tier: DiskTier,
    budget: Budget,
    index: Mutex<Reservation>,
    writes: AtomicU64,
}

/// The part of the budget that pages on their way to the disk may take: one in this many.
const QUEUE_DIVISOR: u64 = 2;
/// The index is measured once in this many writes.
const MEASURE_INDEX_EVERY: u64 = 64;

impl BudgetedDiskTier {
    async fn open(
        disk: &options::DiskCacheDir,
        options: &CacheOptions,
        layout: PageLayout,
        budget: &Budget,
    ) -> Result<Self> {
        let policy = options.policy;
        let options = DiskTierOptions {
            dir: disk.dir.clone(),
            capacity: disk.capacity.as_u64(),
            page_size: layout.page,
            block_size: layout.block,
            queue: (budget.capacity() / QUEUE_DIVISOR).max(layout.page),
            policy: Box::new(move |capacity| policy::new(policy, capacity)),
        };
        let dir = disk.dir.clone();
        let opened = tokio::task::spawn_blocking(move || DiskTier::open(options)).await;
        let opened = opened.map_err(|error| Error::Cache { reason: error.to_string() })?;
        let tier = opened.map_err(|error| match error {
            DiskOpenError::Locked { dir } => Error::CacheLocked { dir },
            DiskOpenError::Folder { source, .. } => Error::CacheFolder { dir, source: Arc::new(source) },
        })?;
        let index = budget.hold(Holder::Metadata, tier.stats().index_bytes);
        Ok(Self { tier, budget: budget.clone(), index: Mutex::new(index), writes: AtomicU64::new(0) })
    }

    /// Queues a piece to be written; if it cannot be, that is counted.
    fn write(&self, key: PageKey, first_block: u32, bytes: Bytes) {
        if let Err(reason) = self.tier.write(key, first_block, bytes) {
            tracing::trace!(?reason, "piece not written to disk");
        }
        if self.writes.fetch_add(1, Ordering::Relaxed).is_multiple_of(MEASURE_INDEX_EVERY) {
            let held = self.budget.hold(Holder::Metadata, self.tier.stats().index_bytes);
            *self.index.lock() = held;
        }
    }
}
