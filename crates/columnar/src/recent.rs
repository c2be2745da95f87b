//! Lock-free fast path for the chunk cache: one `Weak` per chunk, valid while the eviction epoch is unchanged.
//!
//! After an eviction, lookups go to the cache again, so that its policy sees which chunks are in use.

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicU64, Ordering},
};

use arrow::array::{Array, ArrayRef};
use parking_lot::RwLock;

use crate::chunk::{Chunk, ChunkRepresentation, ChunkRequest};

/// Weak reference to a chunk.
#[derive(Debug)]
enum WeakChunk {
    Dictionary(Weak<dyn Array>),
    Dense(Weak<[ArrayRef]>),
    Whole(Weak<dyn Array>),
}

impl WeakChunk {
    fn of(chunk: &Chunk) -> Self {
        match chunk {
            Chunk::Dictionary(array) => Self::Dictionary(Arc::downgrade(array)),
            Chunk::Dense(segments) => Self::Dense(Arc::downgrade(segments)),
            Chunk::Whole(array) => Self::Whole(Arc::downgrade(array)),
        }
    }

    #[inline]
    fn upgrade(&self) -> Option<Chunk> {
        match self {
            Self::Dictionary(array) => array.upgrade().map(Chunk::Dictionary),
            Self::Dense(segments) => segments.upgrade().map(Chunk::Dense),
            Self::Whole(array) => array.upgrade().map(Chunk::Whole),
        }
    }

    fn is(&self, chunk: &Chunk) -> bool {
        match (self, chunk) {
            (Self::Dictionary(weak), Chunk::Dictionary(array)) | (Self::Whole(weak), Chunk::Whole(array)) => {
                std::ptr::addr_eq(weak.as_ptr(), Arc::as_ptr(array))
            }
            (Self::Dense(weak), Chunk::Dense(segments)) => {
                std::ptr::addr_eq(weak.as_ptr(), Arc::as_ptr(segments))
            }
            _ => false,
        }
    }
}

/// Fast path for the chunk of one key.
#[derive(Debug, Default)]
pub(crate) struct RecentChunk {
    /// The chunk that was found first: reading it takes no lock.
    first: OnceLock<WeakChunk>,
    /// The chunk that was found after the first one had been evicted.
    later: RwLock<Option<Box<WeakChunk>>>,
    /// The cache's epoch in which the chunk was resident, shifted by one; the last bit is set for the later chunk.
    /// 0 until a chunk was found.
    state: AtomicU64,
}

impl RecentChunk {
    /// Returns whether the chunk was resident in this epoch.
    #[inline]
    pub(crate) fn was_there(&self, state: u64) -> bool {
        self.state.load(Ordering::Relaxed) >> 1 == state
    }

    /// Returns the chunk if it was resident in this epoch.
    #[inline]
    pub(crate) fn get(&self, state: u64) -> Option<Chunk> {
        let found = self.state.load(Ordering::Relaxed);
        if found >> 1 != state {
            return None;
        }

        if found & 1 == 0 { self.first.get().and_then(WeakChunk::upgrade) } else { self.later() }
    }

    /// Returns the chunk if it is still in memory.
    pub(crate) fn chunk(&self) -> Option<Chunk> {
        self.later().or_else(|| self.first.get().and_then(WeakChunk::upgrade))
    }

    fn later(&self) -> Option<Chunk> {
        self.later.read().as_deref().and_then(WeakChunk::upgrade)
    }

    /// Remembers a chunk that was resident in the epoch `state`, which must be read before the lookup, or be 0 if the
    /// chunk may not be resident.
    pub(crate) fn remember(&self, chunk: &Chunk, state: u64) {
        let is_first = self.first.get_or_init(|| WeakChunk::of(chunk)).is(chunk);
        if !is_first && !self.later.read().as_ref().is_some_and(|later| later.is(chunk)) {
            *self.later.write() = Some(Box::new(WeakChunk::of(chunk)));
        }
        self.state.store(state << 1 | u64::from(!is_first), Ordering::Relaxed);
    }
}

/// Fast paths for the chunks of a file: whole columns of row groups or stripes.
#[derive(Debug)]
pub(crate) struct RecentChunks {
    row_groups: Box<[OnceLock<Box<[RecentChunk]>>]>,
    columns: usize,
}

/// Maximum fast paths of a file; larger files use the cache alone.
const MAX_CHUNKS: usize = 1 << 16;
/// Number of representations that a chunk may have.
const REPRESENTATIONS: usize = 2;

impl RecentChunks {
    /// Creates the fast paths of a file with `row_groups` row groups or stripes and `columns` columns.
    pub(crate) fn new(row_groups: usize, columns: usize) -> Self {
        let columns = columns * REPRESENTATIONS;
        let row_groups = if row_groups.saturating_mul(columns) <= MAX_CHUNKS { row_groups } else { 0 };
        Self { row_groups: (0..row_groups).map(|_| OnceLock::new()).collect(), columns }
    }

    /// Returns the bytes in memory once all are in use.
    pub(crate) fn weight(&self) -> usize {
        self.row_groups.len()
            * (self.columns * size_of::<RecentChunk>() + size_of::<OnceLock<Box<[RecentChunk]>>>())
    }

    /// Returns the fast path of a column of a row group or stripe.
    #[inline]
    pub(crate) fn of(
        &self,
        row_group: usize,
        (column, representation): &ChunkRequest,
    ) -> Option<&RecentChunk> {
        let representation = match representation {
            ChunkRepresentation::Native => 0,
            ChunkRepresentation::Dictionary => 1,
            ChunkRepresentation::Whole(_) => return None,
        };
        if column.leaves.is_some() {
            return None;
        }
        let columns = self.row_groups.get(row_group)?;
        let columns = columns.get_or_init(|| (0..self.columns).map(|_| RecentChunk::default()).collect());
        columns.get(column.root * REPRESENTATIONS + representation)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;
    use crate::file::schema::ProjectedColumn;

    fn chunks() -> [Chunk; 3] {
        let array = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
        [Chunk::Whole(array()), Chunk::Dense(vec![array()].into()), Chunk::Dictionary(array())]
    }

    fn same(a: &Chunk, b: &Chunk) -> bool {
        WeakChunk::of(a).is(b)
    }

    #[test]
    fn a_chunk_is_found_in_the_state_in_which_it_was_there_and_as_long_as_it_is_held() {
        for chunk in chunks() {
            let recent = RecentChunk::default();
            assert!(recent.get(1).is_none() && !recent.was_there(1));
            recent.remember(&chunk, 1);
            recent.remember(&chunk, 2);
            assert!(recent.get(1).is_none());
            assert!(same(&recent.get(2).unwrap(), &chunk));
            drop(chunk);
            assert!(recent.get(2).is_none());
        }
    }

    #[test]
    fn a_chunk_that_comes_again_is_found_though_the_former_is_held_still() {
        for is_held in [false, true] {
            let recent = RecentChunk::default();
            let mut held = Vec::new();
            for (state, chunk) in (1..).zip(chunks().into_iter().chain(chunks())) {
                recent.remember(&chunk, state);
                recent.remember(&chunk, state);
                assert!(same(&recent.get(state).unwrap(), &chunk), "{state}");
                assert!(same(&recent.chunk().unwrap(), &chunk), "{state}");
                held.extend(is_held.then_some(chunk));
            }
        }
    }

    #[test]
    fn a_chunk_that_the_cache_may_not_have_is_held_and_not_found() {
        let (recent, [chunk, ..]) = (RecentChunk::default(), chunks());
        recent.remember(&chunk, 0);
        assert!(recent.chunk().is_some() && recent.get(1).is_none());
    }

    #[test]
    fn each_column_of_each_row_group_has_its_own() {
        let recent = RecentChunks::new(3, 2);
        let mut found = Vec::new();
        for row_group in 0..3 {
            for root in 0..2 {
                for representation in [ChunkRepresentation::Native, ChunkRepresentation::Dictionary] {
                    found.push(std::ptr::from_ref(
                        recent.of(row_group, &(ProjectedColumn::whole(root), representation)).unwrap(),
                    ));
                }
            }
        }
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 12);
        let of = |row_group, root| {
            recent.of(row_group, &(ProjectedColumn::whole(root), ChunkRepresentation::Native)).is_some()
        };
        assert!(!of(3, 0) && !of(0, 2));
        let part = ProjectedColumn { root: 0, leaves: Some([1].into()) };
        assert!(recent.of(0, &(part, ChunkRepresentation::Native)).is_none());
        assert!(recent.of(0, &(ProjectedColumn::whole(0), ChunkRepresentation::Whole(0))).is_none());
        assert!(recent.weight() < 12 * 96 + 96, "{}", recent.weight());
        assert_eq!(RecentChunks::new(1 << 20, 100).weight(), 0);
    }
}
