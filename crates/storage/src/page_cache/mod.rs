//! Pages of objects in memory and on disk.
//!
//! A page is `page_size` bytes of one version of one object, at an offset that is a multiple of `page_size`; the last
//! page of an object is shorter. It may be cached in part, as blocks. A page cache returns only bytes that were stored
//! under that version, page and block, and passed their checksum if they came from disk: anything else is a miss.
//!
//! ```text
//!   a fetched piece ──┬──▶ memory (policy by name, one budget for the process)
//!                     │        ▲ read again
//!                     └──▶ disk: queue ─▶ log of segments, blocks with checksums
//! ```

mod ahead;
pub(crate) mod checksum;
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
pub(crate) use disk::{WriteBacklog, header_survives_rewrite};
pub(crate) use long_reads::{LongRead, LongReads};
pub use options::CacheOptions;
pub(crate) use page::{BlockSet, ENTRY_OVERHEAD, PageKey, PageLayout, PagePiece};

use self::{
    disk::{DiskOpenError, DiskTier, DiskTierOptions},
    memory::MemoryTier,
};
use crate::{
    Budget, BudgetStats, ByteSize, Error, Holder, Reservation, Result, object::ObjectHash, policy,
    threads::blocking::run_blocking,
};

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

/// Usage of a page cache, and its counters since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheStats {
    /// Bytes of resident pages in memory.
    pub memory_used: u64,
    /// The memory budget in bytes, which pages share with everything else.
    pub memory_capacity: u64,
    /// Pages in memory, whole or in part.
    pub memory_pages: u64,
    /// Bytes that fetches in flight have reserved.
    pub in_flight_used: u64,
    /// Bytes held ahead of readers.
    pub ahead_used: u64,
    /// Capacity of the disk tier in bytes; 0 without one.
    pub disk_capacity: u64,
    /// Bytes of live pages on disk.
    pub disk_used: u64,
    /// Pages on disk, whole or in part.
    pub disk_pages: u64,
    /// Bytes written to the disk tier.
    pub disk_written: u64,
    /// Bytes of `disk_written` that were moved to reclaim space.
    pub disk_rewritten: u64,
    /// Bytes read from the disk tier.
    pub disk_read: u64,
    /// Reads served from memory.
    pub memory_hits: u64,
    /// Reads served from disk.
    pub disk_hits: u64,
    /// Pieces that had to be fetched.
    pub misses: u64,
    /// Pieces stored.
    pub inserts: u64,
    /// Pages evicted from memory.
    pub evictions: u64,
    /// Pieces that were not written to disk, for any reason.
    pub dropped_inserts: u64,
    /// Pieces that were not written to disk because the write queue was full.
    pub dropped_queue_full: u64,
    /// Pieces that were not written to disk because it was full or failed.
    pub dropped_disk_failed: u64,
    /// 1 while the disk tier refuses writes because the disk is full or failing; it retries from time to time.
    pub disk_paused: u64,
    /// Pieces on disk that were damaged or unreadable.
    pub disk_rejected: u64,
}

impl PageCache {
    /// Opens the cache. With a disk tier, recovers the pages of an earlier process.
    ///
    /// # Errors
    ///
    /// [`Error::CacheLocked`] if another process uses the folder, [`Error::CacheFolder`] if it cannot be created or
    /// written, and [`Error::Cache`] if the options contradict each other.
    #[tracing::instrument(
        name = "cache_open",
        level = "debug",
        skip_all,
        fields(
            memory = options.memory.as_u64(),
            disk = options.disk.as_ref().map(|disk| tracing::field::display(disk.dir.display())),
        )
    )]
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

    /// Writes queued pieces to disk, and releases the folder. Later reads miss or are served from memory.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        if let Some(disk) = &self.inner.disk {
            disk.tier.close().await;
        }
        Ok(())
    }

    /// Returns the options that the cache was opened with.
    pub fn options(&self) -> &CacheOptions {
        &self.inner.options
    }

    /// Returns the budget that pages share with the other caches of the process.
    pub fn budget(&self) -> &Budget {
        &self.inner.budget
    }

    /// Returns the bytes that all uploads may hold; `None` if the cache was opened without
    /// [`with_uploads`](CacheOptions::with_uploads).
    pub fn upload_share(&self) -> Option<ByteSize> {
        self.inner.options.upload_share()
    }

    /// Returns the bytes that a single upload may hold: the share of uploads plus a quarter of the memory.
    pub fn largest_upload(&self) -> Option<ByteSize> {
        let quarter = self.inner.budget.capacity() / 4;
        self.upload_share().map(|share| ByteSize::bytes(share.as_u64() + quarter))
    }

    /// Returns whether the disk tier may hold pages of an earlier process.
    pub(crate) fn is_recovered(&self) -> bool {
        self.inner.disk.as_ref().is_some_and(|disk| disk.tier.stats().is_recovered)
    }

    pub(crate) fn layout(&self) -> PageLayout {
        self.inner.layout
    }

    /// Returns the quota of bytes held ahead of readers.
    pub(crate) fn ahead(&self) -> &Arc<ReadAheadQuota> {
        &self.inner.ahead
    }

    /// Returns the long reads in progress.
    pub(crate) fn reads(&self) -> &Arc<LongReads> {
        &self.inner.reads
    }

    /// Reserves memory for a piece of `bytes`, if the budget has it or can make room.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reservation> {
        self.inner.budget.try_reserve(Holder::Pages, bytes + ENTRY_OVERHEAD)
    }

    /// Reserves memory for a piece of `bytes`, even if it is not free.
    pub(crate) fn hold(&self, bytes: u64) -> Reservation {
        self.inner.budget.hold(Holder::Pages, bytes + ENTRY_OVERHEAD)
    }

    /// Returns bytes of the page starting at `from`, up to `to` at most, from one piece in memory.
    pub(crate) fn read_memory(&self, key: &PageKey, from: usize, to: usize) -> Option<Bytes> {
        let bytes = self.inner.memory.read(key, from, to)?;
        self.inner.counters.memory_hits.fetch_add(1, Ordering::Relaxed);
        Some(bytes)
    }

    /// Returns the piece in memory that contains the byte at `from`, for a reader that will read up to `to`.
    pub(crate) fn pin_memory(&self, key: &PageKey, from: usize, to: usize) -> Option<Arc<PagePiece>> {
        let piece = self.inner.memory.pin(key, from, to)?;
        self.inner.counters.memory_hits.fetch_add(1, Ordering::Relaxed);
        Some(piece)
    }

    /// Returns the blocks of the page that are in memory.
    pub(crate) fn memory_blocks(&self, key: &PageKey) -> BlockSet {
        self.inner.memory.blocks(key)
    }

    /// Returns the blocks of the page that are on disk.
    pub(crate) fn disk_blocks(&self, key: &PageKey) -> BlockSet {
        self.inner.disk.as_ref().map_or(BlockSet::NONE, |disk| BlockSet(disk.tier.blocks(key)))
    }

    /// Reads consecutive blocks of a page from disk; `None` unless all of them are present and intact.
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

    /// Returns the fill level of the disk's write queue. Unless it is short, callers should fetch less ahead of
    /// readers.
    pub(crate) fn backlog(&self) -> WriteBacklog {
        self.inner.disk.as_ref().map_or(WriteBacklog::Short, |disk| disk.tier.backlog())
    }

    /// Stores a fetched piece in memory and on disk.
    pub(crate) fn insert(&self, key: PageKey, piece: &Arc<PagePiece>) {
        self.inner.counters.inserts.fetch_add(1, Ordering::Relaxed);
        self.inner.memory.insert(key, piece.clone());
        if let Some(disk) = &self.inner.disk {
            disk.write(key, self.inner.layout.block_of(piece.start()), piece.whole());
        }
    }

    /// Stores a piece whose home is another node: in memory only, within a small quota.
    pub(crate) fn insert_of_peer(&self, key: PageKey, piece: &Arc<PagePiece>) {
        self.inner.counters.inserts.fetch_add(1, Ordering::Relaxed);
        self.inner.memory.insert_of_peer(key, piece.clone());
    }

    /// Stores a piece that was read from disk in the memory tier.
    pub(crate) fn insert_read(&self, key: PageKey, piece: &Arc<PagePiece>) {
        self.inner.memory.insert(key, piece.clone());
    }

    /// Removes all pages of an object of `size` bytes. Returns whether any existed.
    pub(crate) fn remove_object(&self, object: ObjectHash, size: u64) -> bool {
        let disk = self.inner.disk.as_ref().map(|disk| &disk.tier);
        let resident = self.inner.memory.usage().pages + disk.map_or(0, |disk| disk.pages());
        let pages = size.div_ceil(self.inner.layout.page);

        let mut were_any = false;
        if pages <= resident {
            for page in 0..pages {
                were_any |= self.remove(&PageKey { object, page: page as u32 });
            }
        } else {
            let mut keys = self.inner.memory.pages_of(object);
            keys.extend(disk.map(|disk| disk.pages_of(object)).unwrap_or_default());
            for key in keys {
                were_any |= self.remove(&key);
            }
        }
        were_any
    }

    /// Removes a page from all tiers. Returns whether any part of it existed.
    fn remove(&self, key: &PageKey) -> bool {
        let in_memory = self.inner.memory.remove(key);
        let Some(disk) = &self.inner.disk else { return in_memory };
        let on_disk = disk.tier.blocks(key) != 0;
        disk.tier.remove(key);
        in_memory || on_disk
    }

    /// Counts a miss, and `bytes` as in flight.
    pub(crate) fn count_miss(&self, bytes: u64) {
        self.inner.counters.misses.fetch_add(1, Ordering::Relaxed);
        self.inner.counters.in_flight.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the end of the fetch of a piece.
    pub(crate) fn count_landing(&self, bytes: u64) {
        self.inner.counters.in_flight.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the memory usage by holder.
    pub fn budget_stats(&self) -> BudgetStats {
        self.inner.budget.stats()
    }

    /// Returns usage and counters.
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

/// The disk tier, with its index accounted for in the memory budget.
#[derive(Debug)]
struct BudgetedDiskTier {
    tier: DiskTier,
    index: Mutex<Reservation>,
    writes: AtomicU64,
}

/// Divisor of the budget that yields the maximum bytes queued for the disk.
const QUEUE_DIVISOR: u64 = 2;
/// Number of writes between two measurements of the index.
const WRITES_PER_INDEX_MEASUREMENT: u64 = 64;

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
        let opened = run_blocking(move || DiskTier::open(options)).await;
        let opened = opened.map_err(|error| Error::Cache { reason: error.to_string() })?;
        let tier = opened.map_err(|error| match error {
            DiskOpenError::Locked { dir } => Error::CacheLocked { dir },
            DiskOpenError::Folder { source, .. } => Error::CacheFolder { dir, source: Arc::new(source) },
        })?;
        let index = budget.hold(Holder::Metadata, tier.stats().index_bytes);
        Ok(Self { tier, index: Mutex::new(index), writes: AtomicU64::new(0) })
    }

    /// Queues a piece to be written, and counts refusals.
    fn write(&self, key: PageKey, first_block: u32, bytes: Bytes) {
        if let Err(reason) = self.tier.write(key, first_block, bytes) {
            tracing::trace!(?reason, "piece not written to disk");
        }
        if self.writes.fetch_add(1, Ordering::Relaxed).is_multiple_of(WRITES_PER_INDEX_MEASUREMENT) {
            let bytes = self.tier.stats().index_bytes;
            self.index.lock().resize(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::paths_in_use::PathInUse;

    #[tokio::test]
    async fn all_pages_of_an_object_are_removed_whatever_size_it_claims() {
        let dir = tempfile::tempdir().unwrap();
        let options = CacheOptions::new(ByteSize::mib(64)).with_disk(dir.path(), ByteSize::mib(256));
        let cache = PageCache::open(options).await.unwrap();
        for size in [9 << 20, u64::MAX] {
            for object in [1, 2].map(ObjectHash) {
                for page in [0, 8] {
                    let charge = cache.reserve(100).unwrap();
                    let piece = PagePiece::new(0, vec![7; 100].into(), charge, PathInUse::sole());
                    cache.insert(PageKey { object, page }, &piece);
                }
            }
            assert!(cache.remove_object(ObjectHash(1), size));
            assert!(!cache.remove_object(ObjectHash(1), size));
            assert!(cache.inner.memory.pages_of(ObjectHash(1)).is_empty());
            assert_eq!(cache.inner.memory.pages_of(ObjectHash(2)).len(), 2);
        }
        cache.close().await.unwrap();
    }
}
