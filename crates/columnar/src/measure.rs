//! What benchmarks measure from outside and nobody else calls.

use std::{sync::Arc, time::Instant};

use arrow::array::{ArrayRef, Int64Array};
use stylobate_storage::ObjectHash;

use crate::{
    chunk::{Chunk, Representation},
    chunk_cache::{ChunkCache, ChunkKey, Found},
    schema::Projected,
};

/// Nanoseconds that it takes to find four columns of a row group in a chunk cache of `groups` row groups, by median of
/// many rounds over all of them.
#[doc(hidden)]
pub async fn four_column_hit_ns(object: ObjectHash, groups: u32) -> f64 {
    const COLUMNS: usize = 4;
    let cache = ChunkCache::new(1 << 32);
    let key = |unit: u32, root: usize| ChunkKey {
        object,
        unit,
        column: Projected::whole(root),
        representation: Representation::Native,
    };
    let array: ArrayRef = Arc::new(Int64Array::from(vec![0; 1000]));
    for unit in 0..groups {
        for root in 0..COLUMNS {
            if let Found::Missing(promise) = cache.get_or_promise(&key(unit, root)).await {
                promise.keep(Chunk::Dense(Arc::new([array.clone()])));
            }
        }
    }
    let mut rounds = Vec::new();
    for _ in 0..101 {
        let start = Instant::now();
        let mut found = 0;
        for unit in 0..groups {
            for root in 0..COLUMNS {
                found += usize::from(matches!(cache.get_or_promise(&key(unit, root)).await, Found::Chunk(_)));
            }
        }
        let took = start.elapsed().as_nanos() as f64;
        assert_eq!(found, groups as usize * COLUMNS, "all of them are hits");
        rounds.push(took / f64::from(groups));
    }
    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / 2).copied().unwrap_or(f64::NAN)
}
