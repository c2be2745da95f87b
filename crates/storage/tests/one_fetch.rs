//! Each byte of a cold object crosses the network once, whatever the budget, the number of readers and their order.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, of which some have one")]

mod support;

use std::{
    ops::Range,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, future::join_all};
use object_store::{ObjectStoreExt, path::Path};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use stylobate_storage::{ByteSize, CacheOptions, Consistency, OpenObject, PageCache};
use support::{Bench, bench, noise, quick};
use tokio::task::JoinHandle;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const BLOCK: u64 = 64 * KIB;

/// Fraction of the budget that pages may take when nothing else needs memory.
const PART_FOR_PAGES: f64 = 0.85;

/// Parked readers are released 5 seconds after their last read, by a search that runs once per second.
const UNTIL_IDLE: Duration = Duration::from_secs(10);

static CONTENT: LazyLock<Bytes> = LazyLock::new(|| noise(64 << 20, 1));

#[derive(Clone, Copy, Debug)]
struct Case {
    budget: u64,
    page: u64,
    object: u64,
    readers: usize,
}

impl Case {
    /// Returns all combinations of budget, page size and number of readers, for an object that is not a whole number
    /// of blocks.
    fn all() -> Vec<Self> {
        let object = 20 * MIB + 12_345;
        let mut cases = Vec::new();
        for budget in [4 * MIB, 16 * MIB, 64 * MIB] {
            for page in [64 * KIB, 256 * KIB, MIB] {
                for readers in [1, 8, 64] {
                    cases.push(Self { budget, page, object, readers });
                }
            }
        }
        cases
    }

    /// Returns the number of bytes that may be fetched per requested byte. A page is evicted as a whole, and never
    /// while any of it is held: if the budget has room for only a few pages, readers may hold all of them, so that
    /// others bypass the cache.
    fn limit(self) -> f64 {
        if self.budget / self.page < 8 { 1.1 } else { 1.02 }
    }

    async fn open(self) -> World {
        self.open_with(Consistency::Immutable).await
    }

    async fn open_with(self, consistency: Consistency) -> World {
        let options =
            CacheOptions::new(ByteSize::bytes(self.budget)).with_page_size(ByteSize::bytes(self.page));
        let bench = bench(options, consistency, quick()).await;
        let content = CONTENT.slice(..self.object as usize);
        let path = bench.put("object", content.clone()).await;
        *bench.origin.latency.lock() = Duration::from_millis(10);
        *bench.origin.pace.lock() = Duration::from_millis(1);
        World { case: self, bench, path, content }
    }
}

/// A cold object at a slow origin.
struct World {
    case: Case,
    bench: Bench,
    path: Path,
    content: Bytes,
}

/// One reader, which reads in any order.
#[derive(Clone)]
struct Client {
    store: stylobate_storage::ReadThrough,
    path: Path,
    content: Bytes,
}

impl World {
    fn client(&self) -> Client {
        Client { store: self.bench.store.clone(), path: self.path.clone(), content: self.content.clone() }
    }

    /// Runs one task per reader, all started together, and returns when all have ended.
    async fn run<Work: Future<Output = ()> + Send + 'static>(&self, work: impl Fn(usize, Client) -> Work) {
        let peak = PeakUse::watch(&self.bench.cache);
        let readers = (0..self.case.readers).map(|i| tokio::spawn(work(i, self.client())));
        for read in join_all(readers).await {
            read.unwrap();
        }
        peak.check();
    }

    /// Checks that the origin sent at most `limit` times the distinct bytes that readers requested.
    fn check_fetched(&self, asked: u64, limit: f64) {
        let fetched = self.bench.origin.bytes();
        let allowed = (asked as f64 * limit) as u64;
        assert!(fetched <= allowed, "{:?}: {fetched} bytes fetched for {asked}", self.case);
    }

    /// Checks that nothing is held for readers that are gone, once parked readers have timed out.
    async fn check_at_rest(&self) {
        let cache = &self.bench.cache;
        let is_at_rest = || {
            let stats = cache.stats();
            let used = cache.budget().used();
            stats.in_flight_used == 0 && stats.ahead_used == 0 && used == stats.memory_used
        };
        let at_rest = async {
            while !is_at_rest() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(UNTIL_IDLE, at_rest).await.is_ok();
        assert!(reached, "{:?}: {:?}, {} used", self.case, cache.stats(), cache.budget().used());
    }
}

impl Client {
    /// Sends one GET of the whole object and checks it chunk by chunk.
    async fn read_whole(&self) {
        let mut chunks = self.store.get(&self.path).await.unwrap().into_stream();
        let mut position = 0;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.unwrap();
            let expected = self.content.get(position..position + chunk.len());
            assert!(expected == Some(chunk.as_ref()), "{} bytes at {position}", chunk.len());
            position += chunk.len();
        }
        assert_eq!(position, self.content.len());
    }

    async fn read(&self, range: Range<u64>) {
        let read = self.store.get_range(&self.path, range.clone()).await.unwrap();
        assert!(read == self.content.slice(range.start as usize..range.end as usize), "{range:?}");
    }

    fn size(&self) -> u64 {
        self.content.len() as u64
    }
}

/// Samples the budget until it is checked or dropped.
struct PeakUse {
    cache: PageCache,
    peak: Arc<Mutex<u64>>,
    sampler: JoinHandle<()>,
}

impl PeakUse {
    fn watch(cache: &PageCache) -> Self {
        let peak: Arc<Mutex<u64>> = Arc::default();
        let sampled = cache.clone();
        let highest = peak.clone();
        let sampler = tokio::spawn(async move {
            loop {
                let used = sampled.budget().used();
                {
                    let mut highest = highest.lock();
                    *highest = used.max(*highest);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Self { cache: cache.clone(), peak, sampler }
    }

    fn check(&self) {
        let peak = *self.peak.lock();
        let capacity = self.cache.budget().capacity();
        assert!(peak <= capacity, "{peak} bytes were used of {capacity}");
    }
}

impl Drop for PeakUse {
    fn drop(&mut self) {
        self.sampler.abort();
    }
}

/// Opens an object whose origin responds at once.
async fn open_at_once(consistency: Consistency) -> World {
    let case = Case { budget: 16 * MIB, page: MIB, object: 2 * MIB, readers: 1 };
    let world = case.open_with(consistency).await;
    *world.bench.origin.latency.lock() = Duration::ZERO;
    *world.bench.origin.pace.lock() = Duration::ZERO;
    world
}

/// Lets other tasks run until a condition holds, without advancing the clock.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

/// Returns consecutive ranges of length `len` that cover an object.
fn ranges(size: u64, len: u64) -> Vec<Range<u64>> {
    let starts = (0..size).step_by(len as usize);
    starts.map(|start| start..(start + len).min(size)).collect()
}

/// Returns the number of bytes in the blocks that a range overlaps.
fn aligned_len(range: &Range<u64>) -> u64 {
    range.end.div_ceil(BLOCK) * BLOCK - range.start / BLOCK * BLOCK
}

#[tokio::test(start_paused = true)]
async fn readers_of_one_object_that_start_together_fetch_it_once() {
    for case in Case::all() {
        let world = case.open().await;
        world.run(|_, client| async move { client.read_whole().await }).await;
        world.check_fetched(case.object, 1.02);
        world.check_at_rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn readers_of_ranges_in_order_that_start_together_fetch_each_once() {
    for case in Case::all() {
        let world = case.open().await;
        let read_in_order = |_, client: Client| async move {
            for range in ranges(client.size(), 200_000) {
                client.read(range).await;
            }
        };
        world.run(read_in_order).await;
        world.check_fetched(case.object, 1.02);
        world.check_at_rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn strict_readers_of_one_object_that_start_together_fetch_it_once() {
    for readers in [8, 64] {
        let case = Case { budget: 16 * MIB, page: MIB, object: 20 * MIB + 12_345, readers };
        let world = case.open_with(Consistency::Strict).await;
        world.run(|_, client| async move { client.read_whole().await }).await;
        world.check_fetched(case.object, 1.02);
        world.check_at_rest().await;
    }
}

/// An eviction dropped all knowledge of the object while a reader fetched its first block: the next reader opened it
/// by a GET of the same block.
#[tokio::test(start_paused = true)]
async fn a_block_on_its_way_is_not_fetched_again_after_an_eviction() {
    for consistency in [Consistency::Immutable, Consistency::Strict] {
        let world = open_at_once(consistency).await;
        let opened = world.bench.store.open_object(&world.path).await.unwrap();
        *world.bench.origin.latency.lock() = Duration::from_millis(10);
        let reader = tokio::spawn(async move { opened.read(&[0..BLOCK]).await.unwrap() });
        until(|| world.bench.origin.gets() == 1).await;

        world.bench.store.evict("object").await.unwrap();
        world.client().read(0..BLOCK).await;
        assert!(reader.await.unwrap()[0] == world.content.slice(..BLOCK as usize));
        assert_eq!(*world.bench.origin.ranges.lock(), [0..BLOCK], "{consistency}");
        world.check_at_rest().await;
    }
}

/// An eviction ran concurrently with the HEAD of a strict reader: the next reader opened the object by a GET of its
/// first block, and the first reader, whose response had arrived earlier, fetched that block too.
#[tokio::test(start_paused = true)]
async fn a_strict_reader_that_asks_for_the_version_during_an_eviction_shares_its_fetch() {
    let world = open_at_once(Consistency::Strict).await;
    world.bench.store.head(&world.path).await.unwrap();
    *world.bench.origin.latency.lock() = Duration::from_millis(10);
    let client = world.client();
    let reader = tokio::spawn(async move { client.read(0..BLOCK).await });
    until(|| world.bench.origin.heads() == 2).await;
    *world.bench.origin.latency.lock() = Duration::from_millis(20);

    world.bench.store.evict("object").await.unwrap();
    world.client().read(0..BLOCK).await;
    reader.await.unwrap();
    assert_eq!(*world.bench.origin.ranges.lock(), [0..BLOCK]);
    world.check_at_rest().await;
}

/// A reader that outlived an eviction brought blocks of an object about which nothing was known any more: once it was
/// gone, the next reader opened the object by a GET of its first page, including those blocks.
#[tokio::test(start_paused = true)]
async fn blocks_that_a_reader_brought_after_an_eviction_are_not_fetched_again() {
    for consistency in [Consistency::Immutable, Consistency::Strict] {
        let world = open_at_once(consistency).await;
        let opened = world.bench.store.open_object(&world.path).await.unwrap();
        world.bench.store.evict("object").await.unwrap();
        opened.read(&[BLOCK..2 * BLOCK]).await.unwrap();
        drop(opened);

        world.client().read_whole().await;
        assert_eq!(world.bench.origin.bytes(), world.case.object, "{consistency}");
    }
}

/// An object without readers is opened by one request, however often it is evicted.
#[tokio::test(start_paused = true)]
async fn an_object_that_was_evicted_is_opened_by_one_request_again() {
    for consistency in [Consistency::Immutable, Consistency::Strict] {
        let world = open_at_once(consistency).await;
        for gets in 1..4 {
            world.client().read(0..BLOCK).await;
            world.bench.store.evict("object").await.unwrap();
            assert_eq!((world.bench.origin.gets(), world.bench.origin.heads()), (gets, 0), "{consistency}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn readers_of_objects_of_their_own_fetch_each_once() {
    for case in Case::all() {
        let world = case.open().await;
        let len = case.object / case.readers as u64;
        let content = world.content.slice(..len as usize);
        for i in 0..case.readers {
            world.bench.put(&format!("object-{i}"), content.clone()).await;
        }
        let read_own = |i: usize, client: Client| {
            let path = Path::from(format!("object-{i}"));
            let content = content.clone();
            async move { Client { path, content, ..client }.read_whole().await }
        };
        world.run(read_own).await;
        world.check_fetched(len * case.readers as u64, case.limit());
        world.check_at_rest().await;
    }
}

/// A reader cannot know where its part ends: bytes fetched ahead after that may be evicted before another reader
/// needs them.
#[tokio::test(start_paused = true)]
async fn readers_of_parts_of_their_own_fetch_each_once_but_for_what_was_ahead_at_the_end() {
    for case in Case::all() {
        let world = case.open().await;
        let readers = case.readers as u64;
        let read_part = move |i: usize, client: Client| async move {
            let part_len = client.size().div_ceil(readers).next_multiple_of(BLOCK);
            let start = (i as u64 * part_len).min(client.size());
            let part = start..(start + part_len).min(client.size());
            for range in ranges(part.end - part.start, 2 * BLOCK) {
                client.read(start + range.start..start + range.end).await;
            }
        };
        world.run(read_part).await;
        world.check_fetched(case.object + case.budget / 2, 1.02);
        world.check_at_rest().await;
    }
}

#[tokio::test(start_paused = true)]
async fn readers_of_interleaved_stripes_fetch_each_once() {
    for case in Case::all() {
        for stripe_len in [BLOCK, 5 * BLOCK] {
            let world = case.open().await;
            let read_stripes = move |i: usize, client: Client| async move {
                let stripes = ranges(client.size(), stripe_len);
                for stripe in stripes.into_iter().skip(i).step_by(case.readers) {
                    client.read(stripe).await;
                }
            };
            world.run(read_stripes).await;
            world.check_fetched(case.object, case.limit());
            world.check_at_rest().await;
        }
    }
}

/// By chance, some blocks follow one of the blocks read last, like those of a sequential reader.
#[tokio::test(start_paused = true)]
async fn blocks_in_random_order_are_fetched_once() {
    for case in Case::all() {
        let world = case.open().await;
        let mut blocks = ranges(case.object, BLOCK);
        blocks.shuffle(&mut StdRng::seed_from_u64(7));
        let blocks = Arc::new(blocks);
        let read_blocks = |i: usize, client: Client| {
            let blocks = blocks.clone();
            async move {
                for block in blocks.iter().skip(i).step_by(case.readers) {
                    client.read(block.clone()).await;
                }
            }
        };
        world.run(read_blocks).await;
        world.check_fetched(case.object, case.limit().max(1.05));
        world.check_at_rest().await;
    }
}

/// The threads decide the order of the stripes. Bytes fetched for a stripe that another overtakes are no longer held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_on_several_threads_fetch_an_object_once() {
    for budget in [4 * MIB, 16 * MIB] {
        for readers in [8, 64] {
            let case = Case { budget, page: 256 * KIB, object: 16 * MIB, readers };
            let world = case.open().await;
            let read_in_turns = move |i: usize, client: Client| async move {
                let stripes = ranges(client.size(), 3 * BLOCK);
                for stripe in stripes.into_iter().skip(i).step_by(readers) {
                    client.read(stripe).await;
                }
            };
            world.run(read_in_turns).await;
            world.check_fetched(case.object, 1.1);
            world.check_at_rest().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_pass_over_what_fits_fetches_nothing() {
    for budget in [4 * MIB, 16 * MIB, 64 * MIB] {
        for page in [64 * KIB, 256 * KIB, MIB] {
            let object = (budget as f64 * PART_FOR_PAGES) as u64;
            let case = Case { budget, page, object, readers: 1 };
            let world = case.open().await;
            let client = world.client();
            client.read_whole().await;
            let fetched = world.bench.origin.bytes();

            client.read_whole().await;
            for range in ranges(object, 200_000) {
                client.read(range).await;
            }
            assert_eq!(world.bench.origin.bytes(), fetched, "{case:?}");
            world.check_at_rest().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_over_twice_the_budget_keeps_hitting_what_fits() {
    for (budget, page) in [(16 * MIB, 64 * KIB), (16 * MIB, 256 * KIB), (32 * MIB, MIB)] {
        for is_in_ranges in [false, true] {
            let case = Case { budget, page, object: 2 * budget, readers: 1 };
            let world = case.open().await;
            let client = world.client();
            let mut fetched = 0;
            for _ in 0..5 {
                let before = world.bench.origin.bytes();
                if is_in_ranges {
                    for range in ranges(case.object, 4 * BLOCK) {
                        client.read(range).await;
                    }
                } else {
                    client.read_whole().await;
                }
                fetched = world.bench.origin.bytes() - before;
            }
            let hit_ratio = 1.0 - fetched as f64 / case.object as f64;
            assert!(
                hit_ratio >= 0.9 * PART_FOR_PAGES / 2.0,
                "{hit_ratio} of {case:?}, ranges: {is_in_ranges}"
            );
            world.check_at_rest().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn small_reads_at_random_offsets_fetch_little_more_than_their_blocks() {
    for len in [4 * KIB, 64 * KIB] {
        for page in [256 * KIB, MIB] {
            let case = Case { budget: 64 * MIB, page, object: 64 * MIB, readers: 1 };
            let world = case.open().await;
            let client = world.client();
            let mut random = StdRng::seed_from_u64(11);
            let mut asked = 0;
            for _ in 0..100 {
                let start = random.random_range(0..case.object - len);
                asked += aligned_len(&(start..start + len));
                client.read(start..start + len).await;
            }
            world.check_fetched(asked, 1.3);
            world.check_at_rest().await;
        }
    }
}

/// A read larger than the read-ahead quota continued in requests of one block once its first pins had used up the
/// quota: they were kept until the whole read had ended.
#[tokio::test(start_paused = true)]
async fn a_read_larger_than_what_may_be_held_ahead_needs_few_requests() {
    let case = Case { budget: 16 * MIB, page: MIB, object: 32 * MIB, readers: 1 };
    let world = case.open().await;
    let object: OpenObject = world.bench.store.open_object(&world.path).await.unwrap();
    let whole = 0..12 * MIB;
    let read = object.read(std::slice::from_ref(&whole)).await.unwrap();
    assert!(read[0] == world.content.slice(..12 << 20));
    assert!(world.bench.origin.gets() <= 20, "{} requests for 12 MiB", world.bench.origin.gets());
    drop((read, object));
    world.check_at_rest().await;
}

/// A client that stopped reading kept the whole read-ahead quota, and others continued block by block.
#[tokio::test(start_paused = true)]
async fn a_client_that_stalls_does_not_end_the_read_ahead_of_others() {
    let case = Case { budget: 16 * MIB, page: MIB, object: 64 * MIB, readers: 1 };
    let world = case.open().await;
    let mut stalled = world.bench.store.get(&world.path).await.unwrap().into_stream();
    for _ in 0..100 {
        stalled.next().await.unwrap().unwrap();
    }
    let before = world.bench.origin.gets();

    let other = 40 * MIB..48 * MIB;
    world.client().read(other).await;
    let requests = world.bench.origin.gets() - before;
    assert!(requests <= 16, "{requests} requests for 8 MiB");
    drop(stalled);
    world.check_at_rest().await;
}
