//! Pages of objects in memory and on disk.
//!
//! A page is `page_size` bytes of one version of one object, at an offset that is a multiple of `page_size`; the
//! last page of an object is shorter. Whatever a page cache returns was stored under that version and number, has
//! the length it was stored with and passed its checksum: anything else is a miss.
//!
//! ```text
//!            insert ────────────┬──────────────────────┐
//!                               ▼                      ▼
//!   small objects ──▶ memory (policy by name)   disk (blocks, evicted in order of arrival)
//!   large objects ─▶ if there is room ─────────▶       │
//!                         ▲──── when read again ───────┘
//! ```

mod disk;
mod options;
mod page;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use foyer::{EventListener, HybridCache, HybridCacheProperties, Load, Location};
pub use options::CacheOptions;
use page::Page;
pub(crate) use page::PageKey;
use parking_lot::Mutex;
use serde::Serialize;

use self::disk::{DiskMetrics, DiskTier};
use crate::{Budget, ByteSize, Error, Result};

type Pages = HybridCache<PageKey, Page>;

/// Pages in memory and on disk, shared by all buckets of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PageCache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: CacheOptions,
    /// `None` where the budget is too small to hold anything: every read then passes through.
    tiers: Option<Tiers>,
    in_flight: Budget,
    /// Pages that were fetched ahead to disk only: the first read of one is not a second.
    unread: Mutex<HashSet<PageKey>>,
    counters: Counters,
}

/// Most pages remembered as unread.
const MOST_UNREAD: usize = 65_536;

#[derive(Debug)]
struct Tiers {
    pages: Pages,
    evictions: Arc<Evictions>,
    disk: Option<DiskTier>,
}

#[derive(Debug, Default)]
struct Counters {
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
    misses: AtomicU64,
    inserts: AtomicU64,
    disk_rejected: AtomicU64,
}

#[derive(Debug, Default)]
struct Evictions {
    count: AtomicU64,
}

impl EventListener for Evictions {
    type Key = PageKey;
    type Value = Page;

    fn on_leave(&self, reason: foyer::Event, _: &PageKey, _: &Page) {
        if reason == foyer::Event::Evict {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What a page cache holds and did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheStats {
    /// Bytes of pages in memory.
    pub memory_used: u64,
    /// Bytes that pages in memory may take.
    pub memory_capacity: u64,
    /// Pages in memory.
    pub memory_pages: u64,
    /// Bytes reserved by fetches under way.
    pub in_flight_used: u64,
    /// Bytes that fetches under way may take.
    pub in_flight_capacity: u64,
    /// Bytes that the disk tier may take; 0 without one.
    pub disk_capacity: u64,
    /// Bytes written to the disk tier.
    pub disk_written: u64,
    /// Bytes read from the disk tier.
    pub disk_read: u64,
    /// Pages answered from memory.
    pub memory_hits: u64,
    /// Pages answered from disk.
    pub disk_hits: u64,
    /// Pages that were in neither.
    pub misses: u64,
    /// Pages stored.
    pub inserts: u64,
    /// Pages that left memory to make room.
    pub evictions: u64,
    /// Pages that did not reach the disk, since it was slower than what was to be written.
    pub dropped_inserts: u64,
    /// Pages found on disk and not used: overwritten meanwhile, damaged, or unreadable.
    pub disk_rejected: u64,
}

impl PageCache {
    /// Opens the cache; with a disk tier, recovers what an earlier process left there.
    ///
    /// Fails with [`Error::CacheLocked`] where another process has the folder, with [`Error::CacheFolder`] where it
    /// cannot be created or written, with [`Error::Cache`] where the options contradict each other.
    #[boxed]
    pub async fn open(options: CacheOptions) -> Result<Self> {
        options.validate()?;
        let shares = options.shares();
        let counters = Counters::default();
        let in_flight = Budget::new(shares.in_flight);
        if shares.memory.as_u64() == 0 {
            tracing::warn!(memory = %options.memory, "memory budget too small to cache anything: all reads pass through");
            let inner = Inner { options, tiers: None, in_flight, unread: Mutex::default(), counters };
            return Ok(Self { inner: Arc::new(inner) });
        }
        let evictions = Arc::new(Evictions::default());
        let metrics = DiskMetrics::default();
        let memory = || {
            foyer::HybridCacheBuilder::new()
                .with_name("pages")
                .with_policy(foyer::HybridCachePolicy::WriteOnInsertion)
                .with_event_listener(evictions.clone())
                .with_metrics_registry(metrics.registry())
                .memory(shares.memory.as_usize())
                .with_shards(options.memory_shards(shares.memory))
                .with_eviction_config(options.policy.config())
                .with_weighter(page::weigh)
                .storage()
        };
        let (pages, disk) = match &options.disk {
            None => (memory().build().await.map_err(unexpected)?, None),
            Some(disk) => {
                let (pages, tier) = disk::open(disk, &options, shares, &memory, metrics.clone()).await?;
                (pages, Some(tier))
            }
        };
        let tiers = Some(Tiers { pages, evictions, disk });
        Ok(Self { inner: Arc::new(Inner { options, tiers, in_flight, unread: Mutex::default(), counters }) })
    }

    /// Writes what is not yet on disk, and stops. Reads afterwards miss or answer from memory.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        let Some(tiers) = &self.inner.tiers else { return Ok(()) };
        let pages = tiers.pages.clone();
        // A disk that failed, such as a full one, may have left the block engine in a state in which it panics.
        let closed = match tokio::spawn(async move { pages.close().await }).await {
            Ok(closed) => closed.map_err(unexpected),
            Err(failed) => Err(Error::Cache { reason: format!("the disk tier failed: {failed}") }),
        };
        if let Some(disk) = &tiers.disk {
            disk.release();
        }
        closed
    }

    /// The options it was opened with.
    pub fn options(&self) -> &CacheOptions {
        &self.inner.options
    }

    /// Whether the disk tier may hold pages of an earlier process.
    pub(crate) fn is_recovered(&self) -> bool {
        let disk = self.inner.tiers.as_ref().and_then(|tiers| tiers.disk.as_ref());
        disk.is_some_and(DiskTier::is_recovered)
    }

    /// Size of a page in bytes.
    pub(crate) fn page_size(&self) -> u64 {
        self.inner.options.page_size.as_u64()
    }

    /// The share of the memory budget that uploads hold together; `None` where none was left to them.
    pub fn uploads(&self) -> Option<ByteSize> {
        let options = &self.inner.options;
        options.uploads.then(|| options.shares().uploads)
    }

    /// The share of the memory budget that fetches under way reserve from.
    pub fn in_flight(&self) -> &Budget {
        &self.inner.in_flight
    }

    /// The page from memory, at once. Not counted as a miss: the disk may have it.
    pub(crate) fn get_memory(&self, key: &PageKey) -> Option<Bytes> {
        let entry = self.inner.tiers.as_ref()?.pages.memory().get(key)?;
        self.inner.counters.memory_hits.fetch_add(1, Ordering::Relaxed);
        Some(entry.value().0.clone())
    }

    /// Whether the page is in memory or, probably, on disk.
    pub(crate) fn may_contain(&self, key: &PageKey) -> bool {
        self.inner.tiers.as_ref().is_some_and(|tiers| tiers.pages.contains(key))
    }

    /// The page from disk if it is there and whole. From its second read on it is then in memory as well.
    pub(crate) async fn get_disk(&self, key: &PageKey, len: usize) -> Option<Bytes> {
        let tiers = self.inner.tiers.as_ref()?;
        tiers.disk.as_ref()?;
        if !tiers.pages.storage().may_contains(key) {
            return None;
        }
        let (page, old) = match tiers.pages.storage().load(key).await {
            Ok(Load::Entry { value, populated, .. }) => (value.0, populated.age == foyer::Age::Old),
            Ok(Load::Piece { piece, .. }) => (piece.value().0.clone(), false),
            Ok(Load::Throttled | Load::Miss) => {
                self.inner.counters.disk_rejected.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            Err(error) => {
                tracing::debug!(%error, "page not read from disk");
                self.inner.counters.disk_rejected.fetch_add(1, Ordering::Relaxed);
                return None;
            }
        };
        if page.len() != len {
            self.inner.counters.disk_rejected.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.inner.counters.disk_hits.fetch_add(1, Ordering::Relaxed);
        if self.inner.unread.lock().remove(key) {
            return Some(page);
        }
        if old {
            // The block it lies in is the next to go: what is still read moves to a new one.
            tiers.pages.insert(*key, Page(page.clone()));
        } else {
            tiers.pages.memory().insert(*key, Page(page.clone()));
        }
        Some(page)
    }

    /// Notes that a page had to be fetched.
    pub(crate) fn count_miss(&self) {
        self.inner.counters.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Stores a page of an object of `object_size` bytes. `unread` says that nobody waits for it yet.
    pub(crate) fn insert(&self, key: PageKey, page: Bytes, object_size: u64, unread: bool) {
        let Some(tiers) = &self.inner.tiers else { return };
        self.inner.counters.inserts.fetch_add(1, Ordering::Relaxed);
        let memory = tiers.pages.memory();
        let large = object_size > self.inner.options.small_object.as_u64();
        let full = memory.usage() + page.len() > memory.capacity() / 10 * 9;
        let to_disk_only = large && full && tiers.disk.is_some();
        if to_disk_only && unread {
            let mut pages = self.inner.unread.lock();
            if pages.len() >= MOST_UNREAD {
                pages.clear();
            }
            pages.insert(key);
        }
        let location = if to_disk_only { Location::OnDisk } else { Location::Default };
        let properties = HybridCacheProperties::default().with_location(location);
        tiers.pages.insert_with_properties(key, Page(page), properties);
    }

    /// Drops a page from every tier.
    pub(crate) fn remove(&self, key: &PageKey) {
        if let Some(tiers) = &self.inner.tiers {
            if tiers.disk.is_some() {
                tiers.pages.remove(key);
            } else {
                tiers.pages.memory().remove(key);
            }
        }
    }

    /// What it holds and did.
    pub fn stats(&self) -> CacheStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.inner.counters;
        let mut stats = CacheStats {
            in_flight_used: self.inner.in_flight.used(),
            in_flight_capacity: self.inner.in_flight.capacity(),
            memory_hits: count(&counters.memory_hits),
            disk_hits: count(&counters.disk_hits),
            misses: count(&counters.misses),
            inserts: count(&counters.inserts),
            disk_rejected: count(&counters.disk_rejected),
            ..CacheStats::default()
        };
        if let Some(tiers) = &self.inner.tiers {
            let memory = tiers.pages.memory();
            stats.memory_used = memory.usage() as u64;
            stats.memory_capacity = memory.capacity() as u64;
            stats.memory_pages = memory.entries() as u64;
            stats.evictions = count(&tiers.evictions.count);
            if let Some(disk) = &tiers.disk {
                stats.disk_capacity = disk.capacity();
                stats.disk_written = tiers.pages.statistics().disk_write_bytes() as u64;
                stats.disk_read = tiers.pages.statistics().disk_read_bytes() as u64;
                stats.dropped_inserts = disk.dropped_inserts();
            }
        }
        stats
    }
}

fn unexpected(error: foyer::Error) -> Error {
    Error::Cache { reason: error.to_string() }
}
