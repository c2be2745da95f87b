//! What was made of files: decoded chunks and parsed metadata, weighed in bytes, each made once however many ask.
//!
//! Everything here is keyed by a version of an object, so that nothing is ever stale; what belongs to versions that
//! are gone is not asked for any more, and leaves first.

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
    cache::column_stats::ColumnStats,
    chunk::{Chunk, ChunkRepresentation, ChunkRequest},
    file::schema::ProjectedColumn,
    format::{FileMetadata, index::ColumnChunkIndex},
    recent::RecentChunks,
};

/// One column of one row group or stripe of one version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKey {
    pub(crate) object: ObjectHash,
    pub(crate) unit: u32,
    pub(crate) column: ProjectedColumn,
    pub(crate) representation: ChunkRepresentation,
}

impl ChunkKey {
    /// That of a column of a row group or stripe.
    pub(crate) fn of_unit(object: ObjectHash, unit: usize, (column, representation): &ChunkRequest) -> Self {
        Self { object, unit: unit as u32, column: column.clone(), representation: *representation }
    }
}

impl Hash for ChunkKey {
    /// In two or three words: to look chunks up is mostly to hash their keys.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { object, unit, column, representation } = self;
        object.hash(state);
        state.write_u64(u64::from(*unit) << 40 ^ (column.root as u64) << 2 ^ representation.bits());
        if let Some(leaves) = &column.leaves {
            leaves.hash(state);
        }
    }
}

/// The index of one leaf of one row group, or of one column of one stripe, of one version of an object, with its bloom
/// filter or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IndexKey {
    pub(crate) object: ObjectHash,
    pub(crate) unit: u32,
    pub(crate) leaf: u32,
    pub(crate) bloom: bool,
}

#[derive(Clone, Debug)]
struct EntryWeighter;

/// What an entry costs besides its value.
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

/// A number that changes whenever chunks leave; away from what changes all the time.
#[derive(Debug)]
#[repr(align(128))]
struct EvictionEpoch(AtomicU64);

impl EvictionEpoch {
    fn change(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sees chunks leave.
#[derive(Clone, Debug)]
struct EvictionObserver {
    state: Arc<EvictionEpoch>,
    absent: GhostKeys,
}

impl Lifecycle<ChunkKey, Chunk> for EvictionObserver {
    /// What left, to be dropped without a lock.
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
    /// Bytes of everything together.
    limit: u64,
    /// The names and types under which whole columns were asked for.
    columns: Mutex<HashMap<(String, DataType), u32>>,
    state: Arc<EvictionEpoch>,
    hits: AtomicU64,
    misses: AtomicU64,
    decoded_chunks: AtomicU64,
    parsed_files: AtomicU64,
    streamed_units: AtomicU64,
    pruned_units: AtomicU64,
    selected_units: AtomicU64,
    pruned_strides: AtomicU64,
}

/// A chunk, or the duty to make it: others who want it wait until the promise is kept, or dropped.
pub(crate) enum ChunkLookup<'a> {
    Chunk(Chunk),
    Missing(DecodeGuard<'a>),
}

/// The duty to make a chunk.
pub(crate) struct DecodeGuard<'a> {
    cache: &'a GrantedCache<ChunkKey, Chunk, EvictionObserver>,
    key: ChunkKey,
    guard: EntryGuard<'a, ChunkKey, Chunk, EvictionObserver>,
}

impl DecodeGuard<'_> {
    /// Hands the chunk to the cache and to all who wait.
    pub(crate) fn keep(self, chunk: Chunk) {
        let _arrival = self.cache.make_room(&self.key, &chunk);
        // It fails only where the entry was removed meanwhile: then nobody wants it.
        let _ = self.guard.insert(chunk);
    }
}

/// The part of the budget that footers may take: one in this many. Indexes take half of that besides.
const METADATA_SHARE: u64 = 16;

impl ChunkCache {
    /// A cache of up to `limit` bytes of the budget.
    pub(crate) fn new(budget: &Budget, limit: u64) -> Self {
        let (files, indexes) = (limit / METADATA_SHARE, limit / METADATA_SHARE / 2);
        let zero = AtomicU64::default;
        let state = Arc::new(EvictionEpoch(AtomicU64::new(1)));
        let leaving = |absent| EvictionObserver { state: state.clone(), absent };
        Self {
            chunks: GrantedCache::new(budget, Holder::Chunks, limit, 1 << 20, leaving),
            files: GrantedCache::new(budget, Holder::Metadata, files, 16 << 10, |_| Default::default()),
            indexes: GrantedCache::new(budget, Holder::Metadata, indexes, 4 << 10, |_| Default::default()),
            limit,
            columns: Mutex::default(),
            state,
            hits: zero(),
            misses: zero(),
            decoded_chunks: zero(),
            parsed_files: zero(),
            streamed_units: zero(),
            pruned_units: zero(),
            selected_units: zero(),
            pruned_strides: zero(),
        }
    }

    /// The chunk, once whoever makes it has it, or the duty to make it.
    ///
    /// Who holds several promises takes them in the order of their columns, so that no two wait for one another.
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

    /// The chunks of columns, if all of them were found before, and nothing left since.
    pub(crate) fn recent(
        &self,
        recent: &RecentChunks,
        unit: usize,
        wanted: &[ChunkRequest],
    ) -> Option<SmallVec<[Chunk; 4]>> {
        let state = self.state();
        let mut chunks = SmallVec::new();
        for wanted in wanted {
            chunks.push(recent.of(unit, wanted)?.get(state)?);
        }
        self.count_hits(wanted.len() as u64);
        Some(chunks)
    }

    /// The chunk of a column, which is remembered if it is there, or the duty to make it.
    pub(crate) async fn find(
        &self,
        recent: &RecentChunks,
        object: ObjectHash,
        unit: usize,
        wanted: &ChunkRequest,
    ) -> ChunkLookup<'_> {
        let state = self.state();
        let found = self.get_or_promise(&ChunkKey::of_unit(object, unit, wanted)).await;
        if let (Some(recent), ChunkLookup::Chunk(chunk)) = (recent.of(unit, wanted), &found) {
            recent.remember(chunk, state);
        }
        found
    }

    /// The chunk, if it is there; it does not count as a hit.
    pub(crate) fn get(&self, key: &ChunkKey) -> Option<Chunk> {
        self.chunks.peek(key)
    }

    /// A number that is another once chunks left; never 0.
    #[inline]
    pub(crate) fn state(&self) -> u64 {
        self.state.0.load(Ordering::Relaxed)
    }

    /// Counts chunks that were found without asking here.
    pub(crate) fn count_hits(&self, hits: u64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
        self.chunks.count_hits(hits);
    }

    /// The number that stands for a column of this name and type, as long as this cache lives.
    pub(crate) fn column_id(&self, name: &str, data_type: &DataType) -> u32 {
        let mut columns = self.columns.lock();
        let next = columns.len() as u32;
        *columns.entry((name.to_owned(), data_type.clone())).or_insert(next)
    }

    /// The metadata of a version, made by `make` if nobody has or does.
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

    /// Whether a chunk is there, or on its way.
    pub(crate) fn has(&self, key: &ChunkKey) -> bool {
        self.chunks.contains(key)
    }

    /// The index of a leaf.
    pub(crate) fn index(&self, key: &IndexKey) -> Option<ColumnChunkIndex> {
        self.indexes.get(key)
    }

    /// Remembers the index of a leaf.
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

    /// Counts a row group or stripe that was read past the cache.
    pub(crate) fn count_streamed(&self) {
        self.streamed_units.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts row groups or stripes that statistics ruled out.
    pub(crate) fn count_pruned(&self, units: usize) {
        self.pruned_units.fetch_add(units as u64, Ordering::Relaxed);
    }

    /// Counts a row group of which only some pages were read, or a stripe of which only some strides were.
    pub(crate) fn count_selected(&self) {
        self.selected_units.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts strides that were left out.
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

    /// The counters.
    pub(crate) fn stats(&self) -> ColumnStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ColumnStats {
            hits: read(&self.hits),
            misses: read(&self.misses),
            decoded_chunks: read(&self.decoded_chunks),
            parsed_files: read(&self.parsed_files),
            streamed_units: read(&self.streamed_units),
            pruned_units: read(&self.pruned_units),
            selected_units: read(&self.selected_units),
            pruned_strides: read(&self.pruned_strides),
            entries: self.chunks.len() + self.files.len() + self.indexes.len(),
            bytes: self.chunks.weight() + self.files.weight() + self.indexes.weight(),
            capacity: self.limit,
            working_bytes: 0,
            held_bytes: 0,
        }
    }
}
