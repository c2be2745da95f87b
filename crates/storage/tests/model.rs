//! Random operations against a model: whatever the cache holds, evicts, loses or cannot write, no read is ever wrong.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, path::Path};
use proptest::prelude::*;
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, EvictionPolicy, Origin, PageCache, ReadThrough,
};
use support::{Counting, Fault, noise, quick};

#[derive(Clone, Debug)]
enum Step {
    /// Replaces an object at the origin, bypassing the cache.
    ReplaceAtOrigin(u8, usize),
    /// Writes an object through the cache.
    Put(u8, usize),
    Delete(u8),
    Copy(u8, u8),
    Read(u8),
    Range(u8, usize, usize),
    Suffix(u8, usize),
    Ranges(u8, Vec<(usize, usize)>),
    /// Two concurrent reads of the same object; one is cancelled half-way.
    Cancel(u8),
    Fail(Vec<Fault>),
    Evict(u8),
    Restart,
}

const SIZE: usize = 60_000;

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::Refuse),
        (0..50_000u64).prop_map(Fault::BreakAfter),
        (0..50_000u64).prop_map(Fault::TruncateAfter),
        (1..10u64).prop_map(Fault::Overrun),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let object = 0..4u8;
    prop_oneof![
        2 => (object.clone(), 0..SIZE).prop_map(|(o, s)| Step::ReplaceAtOrigin(o, s)),
        2 => (object.clone(), 0..SIZE).prop_map(|(o, s)| Step::Put(o, s)),
        1 => object.clone().prop_map(Step::Delete),
        1 => (object.clone(), object.clone()).prop_map(|(a, b)| Step::Copy(a, b)),
        4 => object.clone().prop_map(Step::Read),
        6 => (object.clone(), 0..SIZE, 1..SIZE).prop_map(|(o, s, l)| Step::Range(o, s, l)),
        2 => (object.clone(), 1..SIZE).prop_map(|(o, l)| Step::Suffix(o, l)),
        2 => (object.clone(), prop::collection::vec((0..SIZE, 1..5000usize), 1..5))
            .prop_map(|(o, r)| Step::Ranges(o, r)),
        1 => object.clone().prop_map(Step::Cancel),
        2 => prop::collection::vec(fault(), 1..4).prop_map(Step::Fail),
        1 => object.prop_map(Step::Evict),
        1 => Just(Step::Restart),
    ]
}

struct World {
    origin: Arc<Counting>,
    options: CacheOptions,
    cache: PageCache,
    store: ReadThrough,
    model: HashMap<u8, Bytes>,
    seed: u64,
}

impl World {
    async fn new(options: CacheOptions) -> Self {
        let origin = Arc::new(Counting::default());
        let (cache, store) = open(&origin, &options).await;
        Self { origin, options, cache, store, model: HashMap::new(), seed: 0 }
    }

    fn fresh(&mut self, size: usize) -> Bytes {
        self.seed += 1;
        noise(size, self.seed)
    }

    async fn run(&mut self, step: Step) {
        match step {
            Step::ReplaceAtOrigin(object, size) => {
                let data = self.fresh(size);
                self.origin.memory.put(&path(object), data.clone().into()).await.unwrap();
                self.model.insert(object, data);
            }
            Step::Put(object, size) => {
                let data = self.fresh(size);
                self.store.put(&path(object), data.clone().into()).await.unwrap();
                self.model.insert(object, data);
            }
            Step::Delete(object) => {
                let _ = self.store.delete(&path(object)).await;
                self.model.remove(&object);
            }
            Step::Copy(from, to) if from != to => {
                if self.store.copy(&path(from), &path(to)).await.is_ok() {
                    self.model.insert(to, self.model[&from].clone());
                }
            }
            Step::Copy(..) => {}
            Step::Read(object) => self.check(object, None, |data| data.clone()).await,
            Step::Range(object, start, len) => {
                let range = start as u64..(start + len) as u64;
                self.check(object, Some(GetRange::Bounded(range)), |data| {
                    data.slice(start..(start + len).min(data.len()))
                })
                .await;
            }
            Step::Suffix(object, len) => {
                self.check(object, Some(GetRange::Suffix(len as u64)), |data| {
                    data.slice(data.len().saturating_sub(len)..)
                })
                .await;
            }
            Step::Ranges(object, ranges) => {
                let Some(data) = self.model.get(&object) else { return };
                let ranges: Vec<_> = ranges
                    .into_iter()
                    .filter(|(start, _)| *start < data.len())
                    .map(|(start, len)| start as u64..(start + len).min(data.len()) as u64)
                    .collect();
                if let Ok(read) = self.store.get_ranges(&path(object), &ranges).await {
                    for (bytes, range) in read.iter().zip(&ranges) {
                        assert_eq!(bytes, &data.slice(range.start as usize..range.end as usize));
                    }
                }
            }
            Step::Cancel(object) => {
                let first = self.read(object, None);
                let second = self.read(object, None);
                let cancelled = async {
                    tokio::select! {
                        biased;
                        () = tokio::task::yield_now() => {}
                        _ = first => {}
                    }
                };
                let (read, ()) = tokio::join!(second, cancelled);
                if let Ok(read) = read {
                    assert_eq!(Some(&read), self.model.get(&object));
                }
            }
            Step::Fail(faults) => self.origin.fail_next(faults),
            Step::Evict(object) => {
                self.store.evict(path(object).as_ref()).await.unwrap();
            }
            Step::Restart => {
                self.cache.close().await.unwrap();
                let origin = self.origin.clone();
                let options = self.options.clone();
                // The folder's lock is released once the old cache is gone.
                let idle = CacheOptions::new(ByteSize::ZERO);
                (self.cache, self.store) = open(&origin, &idle).await;
                while self.store.stats().in_flight > 0 {
                    tokio::task::yield_now().await;
                }
                let opened = loop {
                    match PageCache::open(options.clone()).await {
                        Err(stylobate_storage::Error::CacheLocked { .. }) => tokio::task::yield_now().await,
                        opened => break opened.unwrap(),
                    }
                };
                self.store = through(&origin, &opened);
                self.cache = opened;
            }
        }
    }

    async fn read(&self, object: u8, range: Option<GetRange>) -> object_store::Result<Bytes> {
        let options = GetOptions { range, ..GetOptions::default() };
        self.store.get_opts(&path(object), options).await?.bytes().await
    }

    /// Checks a read: it may fail while the origin fails, but a response must be right.
    async fn check(&self, object: u8, range: Option<GetRange>, expected: impl Fn(&Bytes) -> Bytes) {
        match (self.read(object, range.clone()).await, self.model.get(&object)) {
            (Ok(read), Some(data)) => assert!(read == expected(data), "{range:?} of {} bytes", data.len()),
            (Ok(_), None) => panic!("object {object} was deleted"),
            (Err(_), _) => {}
        }
    }
}

fn path(object: u8) -> Path {
    Path::from(format!("o{object}"))
}

async fn open(origin: &Arc<Counting>, options: &CacheOptions) -> (PageCache, ReadThrough) {
    let cache = PageCache::open(options.clone()).await.unwrap();
    let store = through(origin, &cache);
    (cache, store)
}

fn through(origin: &Arc<Counting>, cache: &PageCache) -> ReadThrough {
    let origin = Origin::new("model", origin.clone());
    ReadThrough::new(origin, cache.clone(), ConsistencyRules::new(Consistency::Strict), quick())
}

fn caches(dir: &std::path::Path) -> Vec<CacheOptions> {
    let page = ByteSize::kib(4);
    vec![
        CacheOptions::new(ByteSize::mib(4)).with_page_size(page),
        CacheOptions::new(ByteSize::kib(64)).with_page_size(page).with_policy(EvictionPolicy::Lru),
        CacheOptions::new(ByteSize::kib(512)).with_page_size(page).with_disk(dir, ByteSize::mib(16)),
        CacheOptions::new(ByteSize::ZERO),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_operations_reads_a_wrong_byte(steps in prop::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            for options in caches(dir.path()) {
                let mut world = World::new(options).await;
                for step in steps.clone() {
                    world.run(step).await;
                }
                world.origin.faults.lock().clear();
                for object in 0..4 {
                    let read = world.read(object, None).await.ok();
                    assert_eq!(read.as_ref(), world.model.get(&object), "once the origin is well again");
                }
                world.cache.close().await.unwrap();
            }
        });
    }
}
