//! One memory budget for pages and decoded chunks: memory moves to the more valuable cache, and is never exceeded.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "../../storage/tests/support/mod.rs"]
mod counting;
mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use counting::{Bench, bench, noise, quick};
use object_store::ObjectStoreExt;
use parquet::file::properties::WriterProperties;
use stylobate_columnar::{Cache, ScanRequest};
use stylobate_storage::{ByteSize, CacheOptions, Consistency, Holder};
use support::{Folder, collect};

const MEMORY: u64 = 48 << 20;
const OBJECT: usize = 64 << 20;

/// Creates columns of 8-byte values without dictionaries: 32 MiB in 32 row groups.
fn table() -> RecordBatch {
    let rows: i64 = 1 << 18;
    let column = |seed: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(
            (0..rows).map(|row| row.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) ^ seed),
        ))
    };

    let names = (0..16).map(|i| Field::new(format!("c{i}"), DataType::Int64, false));
    RecordBatch::try_new(Arc::new(Schema::new(names.collect::<Vec<_>>())), (0..16).map(column).collect())
        .unwrap()
}

struct Setup {
    bench: Bench,
    cache: Cache,
    file: String,
    _folder: Folder,
}

impl Setup {
    async fn new() -> Self {
        let options = CacheOptions::new(ByteSize::bytes(MEMORY));
        let bench = bench(options, Consistency::Immutable, quick()).await;
        bench.put("large", noise(OBJECT, 1)).await;
        let folder = Folder::new();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(Some(1 << 13))
            .build();

        let file = folder.parquet("t.parquet", &table(), properties);
        let cache = Cache::over(bench.cache.clone());
        Self { bench, cache, file, _folder: folder }
    }

    /// Reads all bytes of an object larger than the memory, in ranges.
    async fn read(&self) {
        for start in (0..OBJECT as u64).step_by(4 << 20) {
            self.bench.store.get_range(&"large".into(), start..start + (4 << 20)).await.unwrap();
            self.check();
        }
    }

    /// Scans a local file, whose pages the operating system caches.
    async fn scan(&self) {
        let request = ScanRequest::new(&self.file);
        assert_eq!(collect(request, &self.cache).await.unwrap().num_rows(), 1 << 18);
        self.check();
    }

    fn check(&self) {
        let stats = self.cache.budget_stats();
        assert!(stats.used <= stats.capacity, "{stats:?}");
        assert_eq!(stats.holders.iter().map(|holder| holder.bytes).sum::<u64>(), stats.used, "{stats:?}");
    }

    /// Returns the part of the budget that a holder has.
    fn part(&self, holder: Holder) -> f64 {
        self.bench.cache.budget().held_by(holder) as f64 / MEMORY as f64
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_goes_to_pages_or_chunks_as_the_load_changes() {
    let setup = Setup::new().await;
    setup.read().await;
    setup.read().await;
    assert!(setup.part(Holder::Pages) >= 0.85, "{:?}", setup.cache.budget_stats());

    // Each scan decodes the part of the 32 MiB that it does not find in the cache, until it finds all of it.
    let moved = |begun: Instant| begun.elapsed() < Duration::from_secs(20);
    let begun = Instant::now();
    let mut decoded = u64::MAX;
    while decoded > 0 && moved(begun) {
        let before = setup.cache.stats().decoded_chunks;
        setup.scan().await;
        decoded = setup.cache.stats().decoded_chunks - before;
    }

    let stats = (setup.cache.stats(), setup.cache.budget_stats());
    assert_eq!(decoded, 0, "all chunks are kept: {stats:?}");
    assert!(setup.part(Holder::Chunks) >= 0.66, "{stats:?}");

    let begun = Instant::now();
    while setup.part(Holder::Pages) < 0.85 && moved(begun) {
        setup.read().await;
    }

    assert!(setup.part(Holder::Pages) >= 0.85, "{:?}", setup.cache.budget_stats());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_callers_hold_is_taken_from_caches_and_given_back() {
    let setup = Setup::new().await;
    setup.read().await;
    let held = setup.cache.hold(MEMORY / 2);
    setup.check();
    assert!(setup.part(Holder::Pages) <= 0.5);
    setup.scan().await;
    drop(held);
    setup.read().await;
    setup.read().await;
    assert!(setup.part(Holder::Pages) >= 0.5, "{:?}", setup.cache.budget_stats());
}
