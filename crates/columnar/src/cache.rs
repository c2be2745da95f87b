//! The cache of a process: pages of bytes, decoded chunks and metadata in one memory budget, and the stores that scans
//! read through.

use std::{collections::HashMap, sync::Arc};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use stylobate_storage::{
    Budget, ByteSize, CacheOptions, CacheStats, Consistency, ConsistencyRules, FolderReads, Origin,
    PageCache, ReadOptions, ReadStats, ReadThrough, Reservation,
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
    /// What decodes under way hold.
    working: Budget,
    /// What others hold in memory anyway.
    held: Budget,
    /// Threads that decode whole columns for readers, however many these are.
    workers: Workers,
    stores: Mutex<HashMap<StoreKey, ReadThrough>>,
}

/// URL and options.
type StoreKey = (String, Vec<(String, String)>);

impl Cache {
    /// A cache of `options.memory()` bytes in all: a quarter for pages, the rest for what is decoded. Files of local
    /// folders are read past the pages, since the system has a cache of its own for them.
    #[boxed]
    pub async fn open(options: CacheOptions) -> Result<Self> {
        let memory = options.memory().as_u64();
        let pages = memory / 4;
        let opened = PageCache::open(options.with_memory(ByteSize::bytes(pages))).await?;
        Ok(Self::over(opened, ByteSize::bytes(memory - pages)))
    }

    /// A cache over pages that are there already, with `decoded` bytes for what is made of them.
    pub fn over(pages: PageCache, decoded: ByteSize) -> Self {
        // Decodes under way take a third.
        let working = decoded.as_u64() / 3;
        let inner = Inner {
            pages,
            chunks: ChunkCache::new(decoded.as_u64() - working),
            working: Budget::new(ByteSize::bytes(working)),
            held: Budget::new(ByteSize::ZERO),
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
            working_bytes: self.inner.working.used(),
            held_bytes: self.inner.held.used(),
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

    pub(crate) fn working(&self) -> &Budget {
        &self.inner.working
    }

    /// Counts bytes as part of the budget that somebody holds whether they are free or not, until the answer is dropped:
    /// so much less is kept of what was decoded, but for a quarter of that.
    pub fn hold(&self, bytes: u64) -> Reservation {
        let held = self.inner.held.hold(bytes);
        self.inner.chunks.leave(self.inner.held.used());
        held
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
