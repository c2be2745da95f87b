//! The cache of a process: pages of bytes, decoded chunks and metadata in one memory budget, and the stores that scans
//! read through.

use std::{collections::HashMap, sync::Arc};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use stylobate_storage::{
    Budget, BudgetStats, ByteSize, CacheOptions, CacheStats, Consistency, ConsistencyRules, FolderReads,
    Holder, Origin, PageCache, ReadOptions, ReadStats, ReadThrough, Reservation,
};

use crate::{Result, chunk_cache::ChunkCache, column_stats::ColumnStats, workers::Workers};

/// What scans share: pages of bytes, decoded chunks, metadata, and the stores that were opened. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pages: PageCache,
    chunks: ChunkCache,
    working: Working,
    /// Threads that decode whole columns for readers, however many these are.
    workers: Workers,
    stores: Mutex<HashMap<StoreKey, ReadThrough>>,
}

/// Decodes take one in this many bytes of the memory at most.
const WORKING_DIVISOR: u64 = 4;

/// The memory of decodes under way: a part of the budget, bounded so that one scan does not flush what others keep.
#[derive(Debug)]
pub(crate) struct Working {
    limit: Budget,
    budget: Budget,
}

/// Memory of one decode.
#[derive(Debug)]
pub(crate) struct WorkingBytes {
    _limited: Reservation,
    _reserved: Option<Reservation>,
}

impl Working {
    /// Most bytes of one decode.
    pub(crate) fn capacity(&self) -> u64 {
        self.limit.capacity()
    }

    /// Memory for a decode, or `None` if other decodes hold too much of it.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<WorkingBytes> {
        let limited = self.limit.try_reserve(Holder::Decodes, bytes)?;
        // Refused only if nearly everything is held by readers and uploads: what is bounded here goes on then.
        let reserved = self.budget.try_reserve(Holder::Decodes, bytes);
        Some(WorkingBytes { _limited: limited, _reserved: reserved })
    }
}

/// URL and options.
type StoreKey = (String, Vec<(String, String)>);

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
        Self::with_limits(pages, memory, memory / WORKING_DIVISOR)
    }

    /// A cache over pages that keeps nothing of what is decoded: row groups are read page by page.
    pub fn passing(pages: PageCache) -> Self {
        Self::with_limits(pages, 0, 0)
    }

    fn with_limits(pages: PageCache, decoded: u64, working: u64) -> Self {
        let budget = pages.budget().clone();
        let inner = Inner {
            chunks: ChunkCache::new(&budget, decoded),
            working: Working { limit: Budget::new(ByteSize::bytes(working)), budget },
            pages,
            workers: Workers::new(std::thread::available_parallelism().map_or(1, usize::from)),
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

    /// What the stores that it opened did so far, each for itself.
    pub fn read_stats(&self) -> Vec<ReadStats> {
        self.inner.stores.lock().values().map(ReadThrough::stats).collect()
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

    pub(crate) fn workers(&self) -> &Workers {
        &self.inner.workers
    }

    pub(crate) fn working(&self) -> &Working {
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

    /// The store at `url`, opened once for the same options.
    pub fn store(&self, url: &str, options: &[(String, String)]) -> Result<ReadThrough> {
        let key = (url.to_owned(), options.to_vec());
        if let Some(store) = self.inner.stores.lock().get(&key) {
            return Ok(store.clone());
        }
        let read = ReadOptions { folders: FolderReads::PastPages, ..ReadOptions::default() };
        let origin = Origin::parse(url, options, &read.requests)?;
        // To ask a file system costs next to nothing: what it says is never believed for a while.
        let rules = match url.starts_with("file:") {
            true => ConsistencyRules::new(Consistency::Strict),
            false => ConsistencyRules::default(),
        };
        let store = ReadThrough::new(origin, self.inner.pages.clone(), rules, read);
        Ok(self.inner.stores.lock().entry(key).or_insert(store).clone())
    }
}
