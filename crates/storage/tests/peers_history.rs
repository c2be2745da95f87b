//! Random histories of a cluster in virtual time: readers, writers, crashes, partitions, slow links and view changes.
//!
//! Each seed is one history, using the views and the placement of the crate `stylobate-client`. For every read, the
//! test checks that all bytes belong to one version, that it fails only if the object was replaced in the meantime,
//! and that its version is no older than the rule allows. While all nodes have the same view and no fault is active,
//! reads through any nodes never go back in time and see all acknowledged writes; without writes through nodes, the
//! origin sends no byte of a version twice.
//!
//! `STYLOBATE_HISTORIES` sets the number of seeds per test, and `STYLOBATE_FIRST_HISTORY` the first one.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod cluster;
mod support;

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use cluster::Cluster;
use futures::future::join_all;
use object_store::{ObjectStoreExt, path::Path};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use stylobate_storage::{ByteSize, CacheOptions, Consistency, ReadThrough};
use support::Sent;
use tokio::time::{Instant, sleep};

/// Histories per test, unless the environment overrides it: a thousand in total.
const HISTORIES: u64 = 334;

const PAGE: u64 = 4 << 10;
const STRIPE: u64 = 16 << 10;
const MAX_RECORDS: u64 = 4_000;
/// Each record of an object contains the object, its version, and the number of the record.
const RECORD: u64 = 16;
const OBJECTS: u64 = 4;
const CLIENTS: u64 = 4;

const TTL: Duration = Duration::from_secs(2);

/// Time that a question travels, by which an answer may be older than the rule allows.
const TRAVEL: Duration = Duration::from_millis(100);

/// Time after a fault until nothing that began before it can be shown: an answer may take as long as all deadlines,
/// and is cached for as long as the rule allows.
const RECOVERY: Duration = Duration::from_secs(12);

/// The events that may happen in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    /// Objects are replaced only past the cluster, if at all.
    Calm,
    /// Objects are written and evicted through nodes, and replaced past them.
    Busy,
    /// Nodes crash and are cut off, links are slow, views change and differ.
    Stormy,
}

impl Weather {
    fn duration(self) -> Duration {
        match self {
            Self::Calm | Self::Busy => Duration::from_secs(12),
            Self::Stormy => Duration::from_secs(30),
        }
    }

    /// Maximum time between two operations of a client.
    fn pause(self) -> Duration {
        match self {
            Self::Calm | Self::Busy => Duration::from_millis(500),
            Self::Stormy => Duration::from_millis(800),
        }
    }
}

fn path_of(object: u64) -> Path {
    Path::from(format!("lake/{object}"))
}

/// Returns the bytes of a version of an object.
fn content(object: u64, version: u64, records: u64) -> Bytes {
    let mut bytes = Vec::with_capacity((records * RECORD) as usize);
    for number in 0..records {
        bytes.extend_from_slice(&(object << 48 | version).to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.into()
}

/// Returns the version of the bytes that start at `offset`.
///
/// # Panics
///
/// If they belong to several versions, to another object, or to another offset.
fn version_of(object: u64, offset: u64, bytes: &[u8]) -> u64 {
    let mut found = None;
    for (at, record) in bytes.chunks(RECORD as usize).enumerate() {
        let number = |from: usize| u64::from_le_bytes(record[from..from + 8].try_into().unwrap());
        assert_eq!(number(8), offset / RECORD + at as u64, "bytes of another place");
        assert_eq!(number(0) >> 48, object, "bytes of another object");
        let version = number(0) & ((1 << 48) - 1);
        assert_eq!(*found.get_or_insert(version), version, "bytes of two versions");
    }
    found.expect("at least one record")
}

/// A version of an object, from the time at which the origin had it.
#[derive(Clone, Copy, Debug)]
struct Written {
    at: Instant,
    version: u64,
    records: u64,
}

/// The state of an object.
#[derive(Debug, Default)]
struct ObjectHistory {
    written: Vec<Written>,
    /// The latest version that a read has returned, or a write has acknowledged, since the last fault.
    shown: u64,
}

impl ObjectHistory {
    /// Returns the versions that a read between two times may return: the first one that was current at `from`, and
    /// the last one at `to`.
    fn between(&self, from: Instant, to: Instant) -> (u64, u64) {
        let last_at = |moment: Instant| {
            let before = self.written.iter().rev().find(|written| written.at <= moment);
            before.unwrap_or(&self.written[0]).version
        };
        (last_at(from), last_at(to))
    }

    fn was_written_between(&self, from: Instant, to: Instant) -> bool {
        self.written.iter().any(|written| written.at >= from && written.at <= to)
    }
}

/// Active faults, and the end of the last one.
#[derive(Debug)]
struct Faults {
    ongoing: u32,
    /// Counts starts and ends of faults.
    changes: u64,
    over_since: Option<Instant>,
}

impl Faults {
    fn is_calm(&self) -> bool {
        self.ongoing == 0 && self.over_since.is_none_or(|since| since.elapsed() > RECOVERY)
    }
}

/// One history.
struct World {
    weather: Weather,
    cluster: Cluster,
    caches: Vec<CacheOptions>,
    objects: Vec<Mutex<ObjectHistory>>,
    /// Allows one writer at a time, so that versions are written in numeric order.
    writing: Vec<tokio::sync::Mutex<()>>,
    faults: Mutex<Faults>,
    next_version: AtomicU64,
    reads: AtomicU64,
    calm_reads: AtomicU64,
    end: Instant,
}

impl World {
    async fn new(weather: Weather, rng: &mut StdRng) -> Arc<Self> {
        let nodes = rng.random_range(2..=4);
        let memory = |rng: &mut StdRng| match weather {
            Weather::Stormy if rng.random_bool(0.3) => ByteSize::kib(rng.random_range(0..400)),
            _ => ByteSize::mib(32),
        };
        let caches: Vec<_> = (0..nodes)
            .map(|_| CacheOptions::new(memory(rng)).with_page_size(ByteSize::bytes(PAGE)))
            .collect();

        let cluster = Cluster::start(caches.clone(), STRIPE, Consistency::Ttl(TTL)).await;
        cluster.network.rank_by_hash();
        cluster.network.jitter(rng.random(), Duration::from_millis(rng.random_range(1..8)));
        *cluster.origin.latency.lock() = Duration::from_millis(rng.random_range(1..30));

        let world = Self {
            weather,
            cluster,
            caches,
            objects: (0..OBJECTS).map(|_| Mutex::default()).collect(),
            writing: (0..OBJECTS).map(|_| tokio::sync::Mutex::default()).collect(),
            faults: Mutex::new(Faults { ongoing: 0, changes: 0, over_since: None }),
            next_version: AtomicU64::new(1),
            reads: AtomicU64::new(0),
            calm_reads: AtomicU64::new(0),
            end: Instant::now() + weather.duration(),
        };
        for object in 0..OBJECTS {
            world.replace(object, rng.random_range(1..MAX_RECORDS)).await;
        }
        Arc::new(world)
    }

    fn next(&self, object: u64, records: u64) -> (u64, Bytes) {
        let version = self.next_version.fetch_add(1, Ordering::Relaxed);
        (version, content(object, version, records))
    }

    fn note_written(&self, object: u64, version: u64, records: u64) {
        let written = Written { at: Instant::now(), version, records };
        self.objects[object as usize].lock().written.push(written);
    }

    /// Replaces an object at the origin, past the cluster.
    async fn replace(&self, object: u64, records: u64) {
        let _alone = self.writing[object as usize].lock().await;
        let (version, bytes) = self.next(object, records);
        self.cluster.origin.memory.put(&path_of(object), bytes.into()).await.unwrap();
        self.note_written(object, version, records);
    }

    /// Writes an object through a node. The origin has it at once; the rest of the time is spent notifying the other
    /// nodes.
    async fn write(&self, store: &ReadThrough, object: u64, records: u64) {
        let _alone = self.writing[object as usize].lock().await;
        let (version, bytes) = self.next(object, records);
        let path = path_of(object);
        let changes = self.faults.lock().changes;

        let mut put = std::pin::pin!(store.put(&path, bytes.into()));
        let answer = futures::poll!(&mut put);
        self.note_written(object, version, records);
        match answer {
            std::task::Poll::Ready(answer) => answer.unwrap(),
            std::task::Poll::Pending => put.await.unwrap(),
        };

        let faults = self.faults.lock();
        if faults.is_calm() && faults.changes == changes {
            let mut history = self.objects[object as usize].lock();
            history.shown = history.shown.max(version);
        }
    }

    async fn read(&self, store: &ReadThrough, object: u64, rng: &mut StdRng) {
        let began = Instant::now();
        let (changes, was_calm) = {
            let faults = self.faults.lock();
            (faults.changes, faults.is_calm())
        };
        let (shown, records) = {
            let history = self.objects[object as usize].lock();
            (history.shown, history.written.last().unwrap().records)
        };

        let path = path_of(object);
        let (offset, read) = if rng.random_bool(0.4) {
            (0, store.get(&path).await)
        } else {
            let first = rng.random_range(0..records);
            let end = (first + rng.random_range(1..2_000)).min(records);
            let range: Range<u64> = first * RECORD..end * RECORD;
            let options = object_store::GetOptions::new().with_range(Some(range.clone()));
            (range.start, object_store::ObjectStore::get_opts(store, &path, options).await)
        };
        let size = read.as_ref().map_or(0, |read| read.meta.size);
        let read = match read {
            Ok(read) => read.bytes().await,
            Err(error) => Err(error),
        };

        let now = Instant::now();
        let mut history = self.objects[object as usize].lock();
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                // A range may lie outside a shorter version.
                let was_written = history.was_written_between(began - TTL - TRAVEL, now);
                assert!(was_written, "object {object}, {:?} after {began:?}: {error}", now - began);
                return;
            }
        };
        self.reads.fetch_add(1, Ordering::Relaxed);
        if bytes.is_empty() {
            return;
        }

        // A range cut off by the object's end may end within a record of a longer version.
        let whole = bytes.len() as u64 / RECORD * RECORD;
        let version = version_of(object, offset, &bytes[..whole as usize]);
        let written = history.written.iter().find(|written| written.version == version).unwrap();
        assert_eq!(written.records * RECORD, size, "the size of another version");

        let (oldest, newest) = history.between(began - TTL - TRAVEL, now);
        assert!(
            (oldest..=newest).contains(&version),
            "object {object}: version {version}, not of {oldest}..={newest}: {:?}",
            history.written
        );

        let faults = self.faults.lock();
        if was_calm && faults.changes == changes {
            self.calm_reads.fetch_add(1, Ordering::Relaxed);
            assert!(
                version >= shown,
                "object {object}: version {version} after {shown}: {:?}, read from {began:?} to {now:?}",
                history.written
            );
            history.shown = history.shown.max(version);
        }
    }

    /// Reads, writes, warms and evicts through random nodes until the end.
    async fn client(self: Arc<Self>, seed: u64) {
        let mut rng = StdRng::seed_from_u64(seed);
        let nodes = self.caches.len();
        while Instant::now() < self.end {
            sleep(self.weather.pause().mul_f64(rng.random())).await;
            let object = rng.random_range(0..OBJECTS);
            let records = rng.random_range(1..MAX_RECORDS);
            let Some(store) = self.cluster.network.store(rng.random_range(0..nodes)) else { continue };
            match rng.random_range(0..100) {
                0..4 => self.replace(object, records).await,
                4..10 if self.weather != Weather::Calm => self.write(&store, object, records).await,
                // The object may be replaced in the meantime.
                10..12 => drop(store.warm(&path_of(object)).await),
                12 if self.weather != Weather::Calm => {
                    store.evict(path_of(object).as_ref()).await.unwrap();
                }
                _ => self.read(&store, object, &mut rng).await,
            }
        }
    }

    fn begin_fault(&self) {
        let mut faults = self.faults.lock();
        faults.ongoing += 1;
        faults.changes += 1;
        self.objects.iter().for_each(|object| object.lock().shown = 0);
    }

    fn end_fault(&self) {
        let mut faults = self.faults.lock();
        faults.ongoing -= 1;
        faults.changes += 1;
        faults.over_since = Some(Instant::now());
    }

    /// Injects a fault for a while.
    async fn fault(&self, rng: &mut StdRng) {
        let nodes = self.caches.len();
        let all: Vec<usize> = (0..nodes).collect();
        let node = rng.random_range(0..nodes);
        let others: Vec<usize> = all.iter().copied().filter(|other| *other != node).collect();
        let network = &self.cluster.network;
        let a_while = Duration::from_millis(rng.random_range(100..6_000));

        self.begin_fault();
        match rng.random_range(0..5) {
            // A node crashes, and comes back with an empty cache.
            0 => {
                network.set_store(node, None);
                sleep(a_while).await;
                drop(self.cluster.open(node, self.caches[node].clone(), Consistency::Ttl(TTL)).await);
            }
            // A node is cut off from all others, or from one.
            1 => {
                let from = rng.random_range(1..=others.len());
                others.iter().take(from).for_each(|other| network.cut(node, *other));
                sleep(a_while).await;
                network.heal();
            }
            // The origin is slow.
            2 => {
                let latency = std::mem::replace(&mut *self.cluster.origin.latency.lock(), a_while / 3);
                sleep(a_while).await;
                *self.cluster.origin.latency.lock() = latency;
            }
            // A node leaves, the others hear of it one by one, and it comes back.
            3 => {
                for observer in &all {
                    network.set_view(*observer, &others);
                    sleep(a_while / nodes as u32).await;
                }
                for observer in &all {
                    network.set_view(*observer, &all);
                    sleep(a_while / nodes as u32).await;
                }
            }
            // Each node has a different view.
            _ => {
                for observer in &all {
                    let mut view: Vec<usize> = all.iter().copied().filter(|_| rng.random_bool(0.6)).collect();
                    let by = rng.random_range(0..nodes).min(view.len());
                    view.rotate_left(by);
                    network.set_view(*observer, if view.is_empty() { &others } else { &view });
                }
                sleep(a_while).await;
                network.set_views(&all);
            }
        }
        self.end_fault();
    }

    async fn storm(self: Arc<Self>, seed: u64) {
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..rng.random_range(1..5) {
            sleep(Duration::from_millis(rng.random_range(0..4_000))).await;
            self.fault(&mut rng).await;
        }
    }

    /// Checks that the origin sent each byte of each version once.
    fn check_sent_once(&self) {
        let mut sent: BTreeMap<(Path, Option<String>), Vec<Range<u64>>> = BTreeMap::new();
        for Sent { path, e_tag, range } in self.cluster.origin.sent.lock().iter().cloned() {
            sent.entry((path, e_tag)).or_default().push(range);
        }
        for (version, mut ranges) in sent {
            ranges.sort_by_key(|range| range.start);
            let overlap = ranges.windows(2).find(|pair| pair[0].end > pair[1].start);
            assert_eq!(overlap, None, "{version:?}: {ranges:?}");
        }
    }
}

/// Returns the number of reads in a history, and the number of reads in calm times.
async fn history(weather: Weather, seed: u64) -> (u64, u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let world = World::new(weather, &mut rng).await;
    let clients: Vec<_> = (0..CLIENTS).map(|_| tokio::spawn(world.clone().client(rng.random()))).collect();
    let storm = (weather == Weather::Stormy).then(|| tokio::spawn(world.clone().storm(rng.random())));

    for task in join_all(clients.into_iter().chain(storm)).await {
        task.unwrap();
    }
    if weather == Weather::Calm {
        world.check_sent_once();
    }
    (world.reads.load(Ordering::Relaxed), world.calm_reads.load(Ordering::Relaxed))
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect(variable))
}

fn histories(weather: Weather) {
    let first = number("STYLOBATE_FIRST_HISTORY", 0);
    let count = number("STYLOBATE_HISTORIES", HISTORIES);
    let mut all_reads = 0;
    let mut calm_reads = 0;
    for seed in first..first + count {
        let failed = SeedOnPanic { weather, seed };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let (reads, calm) = runtime.unwrap().block_on(history(weather, seed));
        all_reads += reads;
        calm_reads += calm;
        drop(failed);
    }
    assert!(calm_reads > 0 || count < 10, "{all_reads} reads, none of them in calm times");
}

/// Reports the seed of a history that fails.
struct SeedOnPanic {
    weather: Weather,
    seed: u64,
}

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{:?} history: STYLOBATE_FIRST_HISTORY={} STYLOBATE_HISTORIES=1",
                self.weather, self.seed
            );
        }
    }
}

#[test]
fn calm_histories_cost_one_request_per_page() {
    histories(Weather::Calm);
}

#[test]
fn busy_histories_never_go_back_in_time() {
    histories(Weather::Busy);
}

#[test]
fn stormy_histories_show_no_error_and_nothing_older_than_the_rule_allows() {
    histories(Weather::Stormy);
}
