//! Reads of ranges that are in memory: through the object store's `get_range`, and from an open object.
//!
//! Reads do not copy bytes, so the size of a range should not matter.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use divan::{Bencher, Divan};
use futures::executor::block_on;
use object_store::{ObjectStoreExt, memory::InMemory, path::Path};
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
};
use tokio::runtime::{Builder, Runtime};

/// The allocator used by the command and the Python package.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Size of the object: 64 pages.
const OBJECT: u64 = 64 << 20;
/// Sizes of the ranges: a block and a page.
const RANGES: [u64; 2] = [64 << 10, 1 << 20];
/// Number of random ranges, which are read repeatedly.
const READS: usize = 1000;

fn main() {
    let times = Divan::default().min_time(Duration::from_millis(100)).max_time(Duration::from_millis(700));
    times.config_with_args().main();
}

/// A store whose only object is in the cache.
struct WarmObject {
    store: ReadThrough,
    path: Path,
    /// Keeps the tasks of the cache alive.
    runtime: Runtime,
}

impl WarmObject {
    fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let path = Path::from("object");
        let store = runtime.block_on(async {
            let bucket = Arc::new(InMemory::new());
            bucket.put(&path, vec![7; OBJECT as usize].into()).await.unwrap();

            let pages = PageCache::open(CacheOptions::new(ByteSize::gib(1))).await.unwrap();
            let origin = Origin::new("bucket", bucket);
            // The origin is never asked again.
            let rules = ConsistencyRules::new(Consistency::Immutable);
            ReadThrough::new(origin, pages, rules, ReadOptions::default())
        });

        assert_eq!(runtime.block_on(store.warm(&path)).unwrap(), OBJECT);
        Self { store, path, runtime }
    }

    /// Measures reads of one range after another, each within one page.
    fn bench(&self, bencher: Bencher, length: u64, read: impl Fn(Range<u64>) -> Bytes) {
        let mut random = StdRng::seed_from_u64(1);
        let starts = (0..READS).map(|_| random.random_range(0..OBJECT / length) * length);
        let ranges: Vec<Range<u64>> = starts.map(|start| start..start + length).collect();
        let fetched = self.store.stats().origin_gets;

        let mut ranges = ranges.iter().cycle();
        bencher.bench_local(|| {
            let bytes = ranges.next().map(|range| read(range.clone()));
            assert_eq!(bytes.map_or(0, |bytes| bytes.len() as u64), length);
        });
        assert_eq!(self.store.stats().origin_gets, fetched, "a range was not in memory");
    }
}

#[divan::bench(args = RANGES)]
fn get_range(bencher: Bencher, length: u64) {
    let object = WarmObject::new();
    object.bench(bencher, length, |range| block_on(object.store.get_range(&object.path, range)).unwrap());
}

#[divan::bench(args = RANGES)]
fn read_of_open_object(bencher: Bencher, length: u64) {
    let object = WarmObject::new();
    let open = object.runtime.block_on(object.store.open_object(&object.path)).unwrap();
    object.bench(bencher, length, |range| block_on(open.read(&[range])).unwrap().remove(0));
}
