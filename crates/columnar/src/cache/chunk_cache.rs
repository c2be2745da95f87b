//! The cache of decoded chunks and parsed metadata, weighed in bytes. Concurrent requests for an entry compute it
//! only once.
//!
//! Keys contain the version of an object, so that no entry is ever stale; entries of old versions are no longer
//! requested, and are evicted first.

mod granted;

use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::datatypes::DataType;
use parking_lot::Mutex;
use quick_cache::{Lifecycle, Weighter, sync::DefaultLifecycle};
use smallvec::SmallVec;
use stylobate_storage::{Budget, Holder, ObjectHash};

use self::granted::{EntryGuard, GhostKeys, GrantedCache};
use crate::{
    cache::stats::ColumnStats,
    chunk::{Chunk, ChunkRepresentation, ChunkRequest},
    file::schema::ProjectedColumn,
    format::{FileMetadata, index::ColumnChunkIndex},
    recent::RecentChunks,
};

/// One column of one row group or stripe of one version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKey {
    pub(crate) object: ObjectHash,
    pub(crate) row_group: u32,
    pub(crate) column: ProjectedColumn,
    pub(crate) representation: ChunkRepresentation,
}

impl ChunkKey {
    /// Returns the key of a column of a row group or stripe.
    pub(crate) fn of_row_group(
        object: ObjectHash,
        row_group: usize,
        (column, representation): &ChunkRequest,
    ) -> Self {
        Self { object, row_group: row_group as u32, column: column.clone(), representation: *representation }
    }
}

impl Hash for ChunkKey {
    /// Hashes two or three words: hashing is most of the cost of a lookup.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { object, row_group, column, representation } = self;
        object.hash(state);
        state.write_u64(u64::from(*row_group) << 40 ^ (column.root as u64) << 2 ^ representation.bits());
        if let Some(leaves) = &column.leaves {
            leaves.hash(state);
        }
    }
}

/// The index of one leaf of one row group, or of one column of one stripe, of one version of an object, with or without
/// its bloom filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IndexKey {
    pub(crate) object: ObjectHash,
    pub(crate) row_group: u32,
    pub(crate) leaf: u32,
    pub(crate) bloom: bool,
}

#[derive(Clone, Debug)]
struct EntryWeighter;

/// Overhead of an entry besides its value, in bytes.
const ENTRY: u64 = 256;

impl Weighter<ChunkKey, Chunk> for EntryWeighter {
    fn weight(&self, _: &ChunkKey, chunk: &Chunk) -> u64 {
        chunk.weight() as u64 + ENTRY
    }
}

impl Weighter<ObjectHash, Arc<FileMetadata>> for EntryWeighter {
    fn weight(&self, _: &ObjectHash, file: &Arc<FileMetadata>) -> u64 {
        file.weight() as u64 + ENTRY
    }
}

impl Weighter<IndexKey, ColumnChunkIndex> for EntryWeighter {
    fn weight(&self, _: &IndexKey, index: &ColumnChunkIndex) -> u64 {
        index.weight() + ENTRY
    }
}

/// A number that changes when chunks are evicted; aligned to keep other counters off its cache line.
#[derive(Debug)]
#[repr(align(128))]
struct EvictionEpoch(AtomicU64);

impl EvictionEpoch {
    fn change(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Observer of evictions, which bumps the epoch and remembers the keys of evicted chunks.
#[derive(Clone, Debug)]
struct EvictionObserver {
    state: Arc<EvictionEpoch>,
    absent: GhostKeys,
}

impl Lifecycle<ChunkKey, Chunk> for EvictionObserver {
    /// Evicted chunks, to be dropped outside the lock.
    type RequestState = SmallVec<[Chunk; 2]>;

    fn on_evict(&self, left: &mut Self::RequestState, key: ChunkKey, chunk: Chunk) {
        self.state.change();
        self.absent.remember(&key);
        left.push(chunk);
    }
}

type MetadataCache<K, V> = GrantedCache<K, V, DefaultLifecycle<K, V>>;

/// The cache of chunks and metadata.
#[derive(Debug)]
pub(crate) struct ChunkCache {
    chunks: Arc<GrantedCache<ChunkKey, Chunk, EvictionObserver>>,
    files: Arc<MetadataCache<ObjectHash, Arc<FileMetadata>>>,
    indexes: Arc<MetadataCache<IndexKey, ColumnChunkIndex>>,
    /// Maximum bytes of all entries.
    limit: u64,
    /// Ids of whole columns by name and type.
    columns: Mutex<HashMap<(String, DataType), u32>>,
    state: Arc<EvictionEpoch>,
    hits: AtomicU64,
    misses: AtomicU64,
    decoded_chunks: AtomicU64,
    parsed_files: AtomicU64,
    streamed_row_groups: AtomicU64,
    pruned_row_groups: AtomicU64,
    selected_row_groups: AtomicU64,
    pruned_strides: AtomicU64,
}

/// A chunk, or the guard to decode it: other tasks wait until the guard is published or dropped.
pub(crate) enum ChunkLookup<'a> {
    Chunk(Chunk),
    Missing(DecodeGuard<'a>),
}

/// The exclusive right to decode a chunk, and the obligation to publish it.
pub(crate) struct DecodeGuard<'a> {
    cache: &'a GrantedCache<ChunkKey, Chunk, EvictionObserver>,
    key: ChunkKey,
    guard: EntryGuard<'a, ChunkKey, Chunk, EvictionObserver>,
}

impl DecodeGuard<'_> {
    /// Publishes the chunk to the cache and to all tasks that wait.
    pub(crate) fn publish(self, chunk: Chunk) {
        let _arrival = self.cache.make_room(&self.key, &chunk);
        // Fails only if the entry was removed in the meantime, in which case no task waits for it.
        let _ = self.guard.insert(chunk);
    }
}

/// Footers take at most `1 / METADATA_SHARE` of the limit, and indexes at most half as much in addition.
const METADATA_SHARE: u64 = 16;

impl ChunkCache {
    /// Creates a cache of up to `limit` bytes of the budget.
    pub(crate) fn new(budget: &Budget, limit: u64) -> Self {
        let files = limit / METADATA_SHARE;
        let indexes = limit / METADATA_SHARE / 2;
        let zero = AtomicU64::default;
        let state = Arc::new(EvictionEpoch(AtomicU64::new(1)));
        let leaving = |absent| EvictionObserver { state: state.clone(), absent };

        Self {
            chunks: GrantedCache::new(budget, Holder::Chunks, limit, 1 << 20, leaving),
            files: GrantedCache::new(budget, Holder::Metadata, files, 16 << 10, |_| {
                DefaultLifecycle::default()
            }),
            indexes: GrantedCache::new(budget, Holder::Metadata, indexes, 4 << 10, |_| {
                DefaultLifecycle::default()
            }),
            limit,
            columns: Mutex::default(),
            state,
            hits: zero(),
            misses: zero(),
            decoded_chunks: zero(),
            parsed_files: zero(),
            streamed_row_groups: zero(),
            pruned_row_groups: zero(),
            selected_row_groups: zero(),
            pruned_strides: zero(),
        }
    }

    /// Returns the chunk, waiting for a task that is decoding it, or the guard to decode it.
    ///
    /// A task that holds several guards must take them in the order of their columns, which prevents deadlocks.
    pub(crate) async fn get_or_promise(&self, key: &ChunkKey) -> ChunkLookup<'_> {
        match self.chunks.get_or_guard(key).await {
            Ok(chunk) => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                ChunkLookup::Chunk(chunk)
            }
            Err(guard) => {
                self.misses.fetch_add(1, Ordering::Relaxed);
                ChunkLookup::Missing(DecodeGuard { cache: &self.chunks, key: key.clone(), guard })
            }
        }
    }

    /// Returns the chunks of columns, if all were found before and none was evicted since.
    pub(crate) fn recent(
        &self,
        recent: &RecentChunks,
        row_group: usize,
        wanted: &[ChunkRequest],
    ) -> Option<SmallVec<[Chunk; 4]>> {
        let state = self.state();
        let mut chunks = SmallVec::new();
        for wanted in wanted {
            chunks.push(recent.of(row_group, wanted)?.get(state)?);
        }
        self.count_hits(wanted.len() as u64);
        Some(chunks)
    }

    /// Returns the chunk of a column, which is then remembered in `recent`, or the guard to decode it.
    pub(crate) async fn find(
        &self,
        recent: &RecentChunks,
        object: ObjectHash,
        row_group: usize,
        wanted: &ChunkRequest,
    ) -> ChunkLookup<'_> {
        let state = self.state();
        let found = self.get_or_promise(&ChunkKey::of_row_group(object, row_group, wanted)).await;
        if let (Some(recent), ChunkLookup::Chunk(chunk)) = (recent.of(row_group, wanted), &found) {
            recent.remember(chunk, state);
        }
        found
    }

    /// Returns the chunk if it is cached, without counting a hit.
    pub(crate) fn get(&self, key: &ChunkKey) -> Option<Chunk> {
        self.chunks.peek(key)
    }

    /// Returns the eviction epoch, which changes when chunks are evicted; never 0.
    #[inline]
    pub(crate) fn state(&self) -> u64 {
        self.state.0.load(Ordering::Relaxed)
    }

    /// Counts hits of chunks that were found without a lookup here.
    pub(crate) fn count_hits(&self, hits: u64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
        self.chunks.count_hits(hits);
    }

    /// Returns the id of a column of this name and type, constant for the life of this cache.
    pub(crate) fn column_id(&self, name: &str, data_type: &DataType) -> u32 {
        let mut columns = self.columns.lock();
        let next = columns.len() as u32;
        *columns.entry((name.to_owned(), data_type.clone())).or_insert(next)
    }

    /// Returns the metadata of a version, computing it with `make` unless it is cached or another task is
    /// computing it.
    pub(crate) async fn file<E>(
        &self,
        object: ObjectHash,
        make: impl Future<Output = Result<FileMetadata, E>>,
    ) -> Result<Arc<FileMetadata>, E> {
        match self.files.get_or_guard(&object).await {
            Ok(file) => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                Ok(file)
            }
            Err(guard) => {
                self.misses.fetch_add(1, Ordering::Relaxed);
                let file = Arc::new(make.await?);
                self.count_parsed();
                let _arrival = self.files.make_room(&object, &file);
                let _ = guard.insert(file.clone());
                Ok(file)
            }
        }
    }

    /// Returns whether chunks of this total size can ever fit.
    pub(crate) fn may_hold(&self, bytes: u64) -> bool {
        bytes <= self.limit
    }

    /// Returns whether a chunk is cached or being decoded.
    pub(crate) fn has(&self, key: &ChunkKey) -> bool {
        self.chunks.contains(key)
    }

    /// Returns the index of a leaf.
    pub(crate) fn index(&self, key: &IndexKey) -> Option<ColumnChunkIndex> {
        self.indexes.get(key)
    }

    /// Caches the index of a leaf.
    pub(crate) fn keep_index(&self, key: IndexKey, index: ColumnChunkIndex) {
        self.indexes.insert(key, index);
    }

    /// Counts a footer that was parsed.
    pub(crate) fn count_parsed(&self) {
        self.parsed_files.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a chunk that was decoded.
    pub(crate) fn count_decoded(&self) {
        self.decoded_chunks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a row group or stripe that bypassed the cache.
    pub(crate) fn count_streamed(&self) {
        self.streamed_row_groups.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts pruned row groups or stripes.
    pub(crate) fn count_pruned(&self, row_groups: usize) {
        self.pruned_row_groups.fetch_add(row_groups as u64, Ordering::Relaxed);
    }

    /// Counts a row group or stripe that was read in part.
    pub(crate) fn count_selected(&self) {
        self.selected_row_groups.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts pruned strides.
    pub(crate) fn count_pruned_strides(&self, strides: usize) {
        self.pruned_strides.fetch_add(strides as u64, Ordering::Relaxed);
    }

    /// Drops everything.
    pub(crate) fn clear(&self) {
        self.chunks.clear();
        self.files.clear();
        self.indexes.clear();
        self.state.change();
    }

    /// Returns the counters.
    pub(crate) fn stats(&self) -> ColumnStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ColumnStats {
            hits: read(&self.hits),
            misses: read(&self.misses),
            decoded_chunks: read(&self.decoded_chunks),
            parsed_files: read(&self.parsed_files),
            streamed_row_groups: read(&self.streamed_row_groups),
            pruned_row_groups: read(&self.pruned_row_groups),
            selected_row_groups: read(&self.selected_row_groups),
            pruned_strides: read(&self.pruned_strides),
            entries: self.chunks.len() + self.files.len() + self.indexes.len(),
            bytes: self.chunks.weight() + self.files.weight() + self.indexes.weight(),
            capacity: self.limit,
            working_bytes: 0,
            held_bytes: 0,
        }
    }
}
