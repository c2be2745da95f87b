//! Measurements for benchmarks outside this crate.

use std::{hint::black_box, sync::Arc, time::Instant};

use arrow::array::{ArrayRef, Int64Array};
use stylobate_storage::{Budget, ByteSize, ObjectHash};

use crate::{
    cache::chunk_cache::{ChunkCache, ChunkLookup},
    chunk::{Chunk, ChunkRepresentation},
    file::schema::ProjectedColumn,
    recent::RecentChunks,
};

/// Returns the nanoseconds to find four columns of a row group in a chunk cache of `groups` row groups: the median of
/// many rounds over all of them.
#[doc(hidden)]
pub async fn four_column_hit_ns(object: ObjectHash, groups: usize) -> f64 {
    const COLUMNS: usize = 4;

    let cache = ChunkCache::new(&Budget::new(ByteSize::gib(4)), 1 << 32);
    let recent = RecentChunks::new(groups, COLUMNS);
    let wanted = [0, 1, 2, 3].map(|root| (ProjectedColumn::whole(root), ChunkRepresentation::Native));
    let array: ArrayRef = Arc::new(Int64Array::from(vec![0; 1000]));

    for unit in 0..groups {
        for wanted in &wanted {
            if let ChunkLookup::Missing(promise) = cache.find(&recent, object, unit, wanted).await {
                promise.keep(Chunk::Dense(Arc::new([array.clone()])));
            }
        }
    }

    // Fresh entries are remembered by the next lookup.
    for unit in 0..groups {
        for wanted in &wanted {
            assert!(
                matches!(cache.find(&recent, object, unit, wanted).await, ChunkLookup::Chunk(_)),
                "it is there"
            );
        }
    }

    let mut rounds = Vec::new();
    for _ in 0..101 {
        let start = Instant::now();
        let mut found = 0;
        for unit in 0..groups {
            found += cache.recent(&recent, unit, &wanted).map_or(0, |chunks| black_box(chunks).len());
        }
        let took = start.elapsed().as_nanos() as f64;
        assert_eq!(found, groups * COLUMNS, "all of them are hits");
        rounds.push(took / groups as f64);
    }

    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / 2).copied().unwrap_or(f64::NAN)
}
