//! Chunks that were found in the cache, found again without their keys as long as nothing else comes into it.
//!
//! Nothing leaves the cache while nothing comes, so that what was there still is. Once something came, the cache is asked
//! again: it keeps what is asked for often, and sees that only where it is asked itself.

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicU64, Ordering},
};

use arrow::array::{Array, ArrayRef};
use parking_lot::RwLock;
use smallvec::SmallVec;
use stylobate_storage::ObjectHash;

use crate::{
    chunk::{Chunk, Representation, Wanted},
    chunk_cache::{ChunkCache, ChunkKey, Found},
};

/// A chunk, which is not held here.
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

/// One chunk, always of the same key.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// As it was found first: to look here takes no lock.
    first: OnceLock<WeakChunk>,
    /// As it was found after it had left.
    later: RwLock<Option<WeakChunk>>,
    /// The state of the cache in which it was there; 0 before it was ever asked.
    state: AtomicU64,
}

impl Recent {
    /// Whether it was in the cache in this state.
    #[inline]
    pub(crate) fn was_there(&self, state: u64) -> bool {
        self.state.load(Ordering::Relaxed) == state
    }

    /// The chunk, if it was in the cache in this state.
    #[inline]
    pub(crate) fn get(&self, state: u64) -> Option<Chunk> {
        if self.was_there(state) { self.held() } else { None }
    }

    /// The chunk, if anybody holds it.
    #[inline]
    pub(crate) fn held(&self) -> Option<Chunk> {
        let later = || self.later.read().as_ref().and_then(WeakChunk::upgrade);
        self.first.get().and_then(WeakChunk::upgrade).or_else(later)
    }

    /// Remembers a chunk that the cache had in a state which it was in before it was asked.
    pub(crate) fn remember(&self, chunk: &Chunk, state: u64) {
        if !self.first.get_or_init(|| WeakChunk::of(chunk)).is(chunk) {
            *self.later.write() = Some(WeakChunk::of(chunk));
        }
        self.state.store(state, Ordering::Relaxed);
    }
}

/// Chunks of columns that were asked for together.
pub(crate) type Chunks = SmallVec<[Chunk; 4]>;

/// The chunks of a file's row groups or stripes, of columns as a whole.
#[derive(Debug)]
pub(crate) struct RecentChunks {
    units: Box<[OnceLock<Box<[Recent]>>]>,
    columns: usize,
}

/// Chunks of files that have more are found by their keys alone.
const MOST: usize = 16_384;
/// How a scan may want a column to be held.
const REPRESENTATIONS: usize = 2;

impl RecentChunks {
    /// Those of a file with so many row groups or stripes, and so many columns.
    pub(crate) fn new(units: usize, columns: usize) -> Self {
        let columns = columns * REPRESENTATIONS;
        let units = if units.saturating_mul(columns) <= MOST { units } else { 0 };
        Self { units: (0..units).map(|_| OnceLock::new()).collect(), columns }
    }

    /// Bytes in memory, once all were asked for.
    pub(crate) fn weight(&self) -> usize {
        self.units.len() * (self.columns * size_of::<Recent>() + size_of::<OnceLock<Box<[Recent]>>>())
    }

    /// The chunks of columns, if all of them are in the cache and were found there since anything came into it.
    pub(crate) fn all(&self, cache: &ChunkCache, unit: usize, wanted: &[Wanted]) -> Option<Chunks> {
        let state = cache.state();
        let mut chunks = Chunks::new();
        for wanted in wanted {
            chunks.push(self.of(unit, wanted)?.get(state)?);
        }
        cache.count_hits(wanted.len() as u64);
        Some(chunks)
    }

    /// The chunk of a column, or the duty to make it.
    pub(crate) async fn find<'a>(
        &self,
        cache: &'a ChunkCache,
        object: ObjectHash,
        unit: usize,
        wanted: &Wanted,
    ) -> Found<'a> {
        let state = cache.state();
        let found = cache.get_or_promise(&ChunkKey::of_unit(object, unit, wanted)).await;
        if let (Some(recent), Found::Chunk(chunk)) = (self.of(unit, wanted), &found) {
            recent.remember(chunk, state);
        }
        found
    }

    /// That of a column of a row group or stripe.
    #[inline]
    pub(crate) fn of(&self, unit: usize, (column, representation): &Wanted) -> Option<&Recent> {
        let representation = match representation {
            Representation::Native => 0,
            Representation::Dictionary => 1,
            Representation::Whole(_) => return None,
        };
        if column.leaves.is_some() {
            return None;
        }
        let columns = self.units.get(unit)?;
        let columns = columns.get_or_init(|| (0..self.columns).map(|_| Recent::default()).collect());
        columns.get(column.root * REPRESENTATIONS + representation)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;
    use crate::schema::Projected;

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
            let recent = Recent::default();
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
    fn a_chunk_that_comes_again_is_found_again() {
        let recent = Recent::default();
        for (state, chunk) in (1..).zip(chunks().into_iter().chain(chunks())) {
            recent.remember(&chunk, state);
            assert!(same(&recent.get(state).unwrap(), &chunk), "{state}");
        }
    }

    #[test]
    fn each_column_of_each_row_group_has_its_own() {
        let recent = RecentChunks::new(3, 2);
        let mut found = Vec::new();
        for unit in 0..3 {
            for root in 0..2 {
                for representation in [Representation::Native, Representation::Dictionary] {
                    found.push(std::ptr::from_ref(
                        recent.of(unit, &(Projected::whole(root), representation)).unwrap(),
                    ));
                }
            }
        }
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 12);
        let of = |unit, root| recent.of(unit, &(Projected::whole(root), Representation::Native)).is_some();
        assert!(!of(3, 0) && !of(0, 2));
        let part = Projected { root: 0, leaves: Some([1].into()) };
        assert!(recent.of(0, &(part, Representation::Native)).is_none());
        assert!(recent.of(0, &(Projected::whole(0), Representation::Whole(0))).is_none());
        assert!(recent.weight() < 12 * 96 + 96, "{}", recent.weight());
        assert_eq!(RecentChunks::new(1 << 20, 100).weight(), 0);
    }
}
