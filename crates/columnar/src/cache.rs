//! Process-wide cache of pages, decoded chunks and metadata in one memory budget, and of the stores that scans read
//! through.

pub(super) mod chunk_cache;
pub(super) mod stats;
pub(super) mod workers;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use stylobate_storage::{
    Budget, BudgetStats, ByteSize, CacheOptions, CacheStats, Consistency, ConsistencyRules, Durability,
    FolderReads, Holder, Origin, PageCache, ReadOptions, ReadStats, ReadThrough, Reservation,
};

use crate::{
    Result,
    cache::{chunk_cache::ChunkCache, stats::ColumnStats, workers::DecodeWorkers},
};

/// The state that scans share: pages, decoded chunks, metadata and open stores. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cache {
    inner: Arc<ColumnCacheInner>,
}

#[derive(Debug)]
struct ColumnCacheInner {
    pages: PageCache,
    chunks: ChunkCache,
    working: DecodeBudget,
    /// Threads that decode whole columns for all readers.
    workers: DecodeWorkers,
    stores: Mutex<StoreRegistry>,
}

/// Open stores. Unused ones are closed, since each holds the secrets of its options, and tokens rotate.
#[derive(Debug, Default)]
struct StoreRegistry {
    opened: HashMap<StoreKey, OpenStore>,
}

#[derive(Debug)]
struct OpenStore {
    store: ReadThrough,
    used: Instant,
}

/// Time after which an unused store is closed.
const STORE_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Maximum number of open stores; beyond it, the least recently used is closed.
const MAX_STORES: usize = 64;

impl StoreRegistry {
    /// Returns the store of this key, opening it if absent.
    fn get_or_open(
        &mut self,
        key: StoreKey,
        now: Instant,
        open: impl FnOnce() -> Result<ReadThrough>,
    ) -> Result<ReadThrough> {
        if let Some(opened) = self.opened.get_mut(&key) {
            opened.used = now;
            return Ok(opened.store.clone());
        }

        let store = open()?;

        let mut by_age: Vec<_> = self.opened.iter().map(|(key, opened)| (opened.used, *key)).collect();
        by_age.sort_unstable();
        let excess = (by_age.len() + 1).saturating_sub(MAX_STORES);
        for (at, (used, key)) in by_age.into_iter().enumerate() {
            if at < excess || now.duration_since(used) > STORE_LIFETIME {
                self.opened.remove(&key);
            }
        }

        self.opened.insert(key, OpenStore { store: store.clone(), used: now });
        Ok(store)
    }
}

/// Bytes that decodes may always hold, in addition to the budget: decoding whole row groups is many times faster than
/// page by page.
const DECODE_FLOOR: ByteSize = ByteSize::mib(32);
/// Decodes may hold up to `1 / WORKING_DIVISOR` of the memory.
const WORKING_DIVISOR: u64 = 4;

/// The memory of running decodes: a part of the budget, bounded so that one scan does not evict the chunks of others.
#[derive(Debug)]
pub(crate) struct DecodeBudget {
    limit: Budget,
    /// Memory for decodes once `limit` is exhausted.
    floor: Budget,
    budget: Budget,
}

/// The reserved memory of one decode.
#[derive(Debug)]
pub(crate) struct DecodeReservation {
    _limited: Reservation,
    _reserved: Option<Reservation>,
}

impl DecodeBudget {
    /// Returns the maximum bytes of one decode: the larger of the budget and the floor.
    pub(crate) fn capacity_or_floor(&self) -> u64 {
        self.limit.capacity().max(self.floor.capacity())
    }

    /// Reserves memory for a decode, from the floor if other decodes exhaust the limit.
    pub(crate) fn try_reserve_or_floor(&self, bytes: u64) -> Option<DecodeReservation> {
        let of_floor = || {
            let limited = self.floor.try_reserve(Holder::Decodes, bytes)?;
            Some(DecodeReservation { _limited: limited, _reserved: None })
        };
        self.try_reserve(bytes).or_else(of_floor)
    }

    /// Reserves memory for a decode; `None` if other decodes hold too much.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<DecodeReservation> {
        let limited = self.limit.try_reserve(Holder::Decodes, bytes)?;
        // Refused only if readers and uploads hold nearly everything; `limit` still bounds decodes then.
        let reserved = self.budget.try_reserve(Holder::Decodes, bytes);
        Some(DecodeReservation { _limited: limited, _reserved: reserved })
    }
}

/// The hash of a URL and its options, so that no secret outlives its store.
type StoreKey = [u8; 32];

fn store_key(url: &str, options: &[(String, String)]) -> StoreKey {
    let mut hasher = blake3::Hasher::new();
    let texts = options.iter().flat_map(|(name, value)| [name, value]).map(String::as_str);
    for text in std::iter::once(url).chain(texts) {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

impl Cache {
    /// Opens a cache of `options.memory()` bytes, shared by pages and decoded chunks as needed. Local files bypass the
    /// pages, since the operating system caches them.
    #[boxed]
    pub async fn open(options: CacheOptions) -> Result<Self> {
        Ok(Self::over(PageCache::open(options).await?))
    }

    /// Creates a cache that shares the budget of existing pages.
    pub fn over(pages: PageCache) -> Self {
        let memory = pages.budget().capacity();
        Self::with_limits(pages, memory, memory / WORKING_DIVISOR, DECODE_FLOOR)
    }

    /// Creates a cache over pages that keeps no decoded chunks: row groups are read page by page.
    pub fn passing(pages: PageCache) -> Self {
        Self::with_limits(pages, 0, 0, ByteSize::bytes(0))
    }

    fn with_limits(pages: PageCache, decoded: u64, working: u64, floor: ByteSize) -> Self {
        let budget = pages.budget().clone();
        let inner = ColumnCacheInner {
            chunks: ChunkCache::new(&budget, decoded),
            working: DecodeBudget {
                limit: Budget::new(ByteSize::bytes(working)),
                floor: Budget::new(floor),
                budget,
            },
            pages,
            workers: DecodeWorkers::new(std::thread::available_parallelism().map_or(1, usize::from)),
            stores: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the page cache.
    pub fn pages(&self) -> &PageCache {
        &self.inner.pages
    }

    /// Returns the counters of chunks and metadata.
    pub fn stats(&self) -> ColumnStats {
        ColumnStats {
            working_bytes: self.inner.working.limit.used(),
            held_bytes: self.inner.pages.budget().held_by(Holder::Other),
            ..self.inner.chunks.stats()
        }
    }

    /// Returns the counters of pages.
    pub fn page_stats(&self) -> CacheStats {
        self.inner.pages.stats()
    }

    /// Returns the counters of each open store.
    pub fn read_stats(&self) -> Vec<ReadStats> {
        self.inner.stores.lock().opened.values().map(|opened| opened.store.stats()).collect()
    }

    /// Drops all decoded chunks and all metadata.
    pub fn clear(&self) {
        self.inner.chunks.clear();
    }

    /// Writes pages that are only in memory to disk, and closes the page cache.
    #[boxed]
    pub async fn close(&self) -> Result<()> {
        Ok(self.inner.pages.close().await?)
    }

    pub(crate) fn chunks(&self) -> &ChunkCache {
        &self.inner.chunks
    }

    pub(crate) fn workers(&self) -> &DecodeWorkers {
        &self.inner.workers
    }

    pub(crate) fn working(&self) -> &DecodeBudget {
        &self.inner.working
    }

    /// Returns the use of the memory budget by holder, in bytes.
    pub fn budget_stats(&self) -> BudgetStats {
        self.inner.pages.budget_stats()
    }

    /// Charges bytes that a caller holds to the budget, even if that many are not free, until the reservation is
    /// dropped. Pages and decoded chunks are evicted to make room.
    pub fn hold(&self, bytes: u64) -> Reservation {
        self.inner.pages.budget().hold(Holder::Other, bytes)
    }

    /// Returns the store at `url`, opened once for the same options while it is in use.
    pub fn store(&self, url: &str, options: &[(String, String)]) -> Result<ReadThrough> {
        let read = ReadOptions { folders: FolderReads::PastPages, ..ReadOptions::default() };
        let open = || {
            // Sinks write the files of a folder. Objects written through the store itself, such as leases, expire.
            let origin = Origin::parse(url, options, &read.requests)?.with_durability(Durability::None)?;
            // Requests to a file system cost next to nothing: versions are checked every time.
            let rules = if url.starts_with("file:") {
                ConsistencyRules::new(Consistency::Strict)
            } else {
                ConsistencyRules::default()
            };

            Ok(ReadThrough::new(origin, self.inner.pages.clone(), rules, read.clone()))
        };

        self.inner.stores.lock().get_or_open(store_key(url, options), Instant::now(), open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stores_that_are_not_asked_for_any_more_are_closed() {
        let cache = Cache::open(CacheOptions::new(ByteSize::mib(16))).await.unwrap();
        let memory = cache.store("memory:///", &[]).unwrap();
        let key = |number: usize| store_key("memory:///", &[("token".to_owned(), number.to_string())]);
        let open = || Ok(memory.clone());
        let mut stores = StoreRegistry::default();

        let start = Instant::now();
        for number in 0..1_000 {
            stores.get_or_open(key(number), start, open).unwrap();
            assert!(stores.opened.len() <= MAX_STORES);
        }
        assert_eq!(stores.opened.len(), MAX_STORES);

        let soon = start + STORE_LIFETIME / 2;
        stores.get_or_open(key(999), soon, open).unwrap();
        stores.get_or_open(key(0), start + STORE_LIFETIME + Duration::from_secs(1), open).unwrap();
        let mut left: Vec<_> = stores.opened.keys().copied().collect();
        let mut expected = vec![key(0), key(999)];
        left.sort_unstable();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }

    #[test]
    fn options_and_urls_are_told_apart_wherever_they_are_cut() {
        let options = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
        assert_ne!(store_key("a", &options("b", "c")), store_key("ab", &options("", "c")));
        assert_ne!(store_key("a", &options("b", "c")), store_key("a", &options("bc", "")));
        assert_eq!(store_key("a", &options("b", "c")), store_key("a", &options("b", "c")));
    }
}
