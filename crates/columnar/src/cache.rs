//! The cache of a process: pages of bytes, decoded chunks and metadata in one memory budget, and the stores that scans
//! read through.

pub(super) mod chunk_cache;
pub(super) mod column_stats;
pub(super) mod columns_use;
pub(super) mod workers;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use stylobate_storage::{
    Budget, BudgetStats, ByteSize, CacheOptions, CacheStats, Consistency, ConsistencyRules, FolderReads,
    Holder, Origin, PageCache, ReadOptions, ReadStats, ReadThrough, Reservation,
};

use crate::{
    Result,
    cache::{chunk_cache::ChunkCache, column_stats::ColumnStats, workers::DecodeWorkers},
};

/// What scans share: pages of bytes, decoded chunks, metadata, and the stores that were opened. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cache {
    inner: Arc<ColumnCacheInner>,
}

#[derive(Debug)]
struct ColumnCacheInner {
    pages: PageCache,
    chunks: ChunkCache,
    working: DecodeBudget,
    /// Threads that decode whole columns for readers, however many these are.
    workers: DecodeWorkers,
    stores: Mutex<StoreRegistry>,
}

/// The stores that were opened, for as long as they are used: each holds the secrets of its options, and tokens rotate.
#[derive(Debug, Default)]
struct StoreRegistry {
    opened: HashMap<StoreKey, OpenStore>,
}

#[derive(Debug)]
struct OpenStore {
    store: ReadThrough,
    used: Instant,
}

/// A store that was not asked for in this time is closed.
const STORE_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Most stores that are open at a time; beyond, the one that was asked for the longest time ago is closed.
const MAX_STORES: usize = 64;

impl StoreRegistry {
    /// The store of this key, opened if there is none.
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

/// Bytes that decodes may hold in any case, beside the budget: a row group at a time is decoded many times faster than page
/// by page.
const DECODE_FLOOR: ByteSize = ByteSize::mib(32);
/// Decodes take one in this many bytes of the memory at most.
const WORKING_DIVISOR: u64 = 4;

/// The memory of decodes under way: a part of the budget, bounded so that one scan does not flush what others keep.
#[derive(Debug)]
pub(crate) struct DecodeBudget {
    limit: Budget,
    /// What decodes may hold where the budget has nothing for them.
    floor: Budget,
    budget: Budget,
}

/// Memory of one decode.
#[derive(Debug)]
pub(crate) struct DecodeReservation {
    _limited: Reservation,
    _reserved: Option<Reservation>,
}

impl DecodeBudget {
    /// Most bytes of one decode that may take of the floor.
    pub(crate) fn capacity_or_floor(&self) -> u64 {
        self.limit.capacity().max(self.floor.capacity())
    }

    /// Memory for a decode, of the floor if other decodes hold too much of what the budget has for them.
    pub(crate) fn try_reserve_or_floor(&self, bytes: u64) -> Option<DecodeReservation> {
        let of_floor = || {
            let limited = self.floor.try_reserve(Holder::Decodes, bytes)?;
            Some(DecodeReservation { _limited: limited, _reserved: None })
        };
        self.try_reserve(bytes).or_else(of_floor)
    }

    /// Memory for a decode, or `None` if other decodes hold too much of it.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<DecodeReservation> {
        let limited = self.limit.try_reserve(Holder::Decodes, bytes)?;
        // Refused only if nearly everything is held by readers and uploads: what is bounded here goes on then.
        let reserved = self.budget.try_reserve(Holder::Decodes, bytes);
        Some(DecodeReservation { _limited: limited, _reserved: reserved })
    }
}

/// A hash of URL and options, so that no secret outlives its store.
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
    /// A cache of `options.memory()` bytes in all, for pages and for what is decoded: whichever needs them. Files of local
    /// folders are read past the pages, since the system has a cache of its own for them.
    #[boxed]
    pub async fn open(options: CacheOptions) -> Result<Self> {
        Ok(Self::over(PageCache::open(options).await?))
    }

    /// A cache that shares the budget of pages that are there already.
    pub fn over(pages: PageCache) -> Self {
        let memory = pages.budget().capacity();
        Self::with_limits(pages, memory, memory / WORKING_DIVISOR, DECODE_FLOOR)
    }

    /// A cache over pages that keeps nothing of what is decoded: row groups are read page by page.
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

    /// The page cache.
    pub fn pages(&self) -> &PageCache {
        &self.inner.pages
    }

    /// What it did so far with columns.
    pub fn stats(&self) -> ColumnStats {
        ColumnStats {
            working_bytes: self.inner.working.limit.used(),
            held_bytes: self.inner.pages.budget().held_by(Holder::Other),
            ..self.inner.chunks.stats()
        }
    }

    /// What it did so far with pages.
    pub fn page_stats(&self) -> CacheStats {
        self.inner.pages.stats()
    }

    /// What the stores that are open did so far, each for itself.
    pub fn read_stats(&self) -> Vec<ReadStats> {
        self.inner.stores.lock().opened.values().map(|opened| opened.store.stats()).collect()
    }

    /// Drops all that was decoded, and all metadata.
    pub fn clear(&self) {
        self.inner.chunks.clear();
    }

    /// Writes to disk what only memory holds, and closes the pages.
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

    /// Who holds how much of the memory.
    pub fn budget_stats(&self) -> BudgetStats {
        self.inner.pages.budget_stats()
    }

    /// Counts bytes as part of the budget that a caller holds whether they are free or not, until the answer is dropped:
    /// pages and decoded chunks give way.
    pub fn hold(&self, bytes: u64) -> Reservation {
        self.inner.pages.budget().hold(Holder::Other, bytes)
    }

    /// The store at `url`, opened once for the same options for as long as it is used now and then.
    pub fn store(&self, url: &str, options: &[(String, String)]) -> Result<ReadThrough> {
        let read = ReadOptions { folders: FolderReads::PastPages, ..ReadOptions::default() };
        let open = || {
            let origin = Origin::parse(url, options, &read.requests)?;
            // To ask a file system costs next to nothing: what it says is never believed for a while.
            let rules = match url.starts_with("file:") {
                true => ConsistencyRules::new(Consistency::Strict),
                false => ConsistencyRules::default(),
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
