//! Random readers over one cache: whatever they request, cancel or leave unread, their bytes are right, no block is
//! fetched twice concurrently, and memory held for them is free once they are gone.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Range,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};
use parking_lot::Mutex;
use proptest::prelude::*;
use stylobate_storage::{
    ByteSize, CacheOptions, ColumnLayout, Consistency, ConsistencyRules, OpenObject, Origin, PageCache,
    ReadOptions, ReadThrough,
};
use support::{Counting, Fault, noise, quick};
use tokio::task::JoinSet;

const MAX_SIZE: usize = 600_000;
const OBJECTS: u8 = 3;
const STREAMS: usize = 6;
/// The object that is a file with column chunks, and their number and size.
const COLUMNAR: u8 = OBJECTS - 1;
const GROUPS: usize = 8;
const COLUMNS: usize = 5;
const CHUNK: usize = 13_000;

/// Parked readers are released 5 seconds after their last read, by a search that runs once per second.
const UNTIL_IDLE: Duration = Duration::from_secs(10);

static CONTENT: LazyLock<Bytes> = LazyLock::new(|| noise(4 << 20, 5));

/// One version of one object: its path and ETag.
type Version = (String, Option<String>);

/// The column chunks of [`COLUMNAR`], whose last ones lie beyond the end of most versions.
#[derive(Debug)]
struct FixedChunks;

impl ColumnLayout for FixedChunks {
    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn end_len(&self) -> u64 {
        4
    }

    fn footer_len(&self, _: &[u8]) -> Option<u64> {
        Some(100)
    }

    fn chunks(&self, _: &[u8]) -> Option<Vec<Vec<Range<u64>>>> {
        let chunk = |group, column| {
            let start = (group * COLUMNS + column) * CHUNK;
            start as u64..(start + CHUNK) as u64
        };
        Some((0..GROUPS).map(|group| (0..COLUMNS).map(|column| chunk(group, column)).collect()).collect())
    }
}

/// Blocks that the origin is sending, and those requested so far.
#[derive(Debug, Default)]
struct FetchLog {
    active: HashMap<(Version, u64), u32>,
    fetched: BTreeMap<(Version, u64), u32>,
    overlaps: Vec<(Version, u64)>,
}

/// Logs the blocks of each GET, from the request until their bytes were sent, in front of a counting origin.
#[derive(Debug)]
struct Logging {
    inner: Arc<Counting>,
    block: u64,
    /// Maximum size of a chunk of a response.
    chunk: usize,
    log: Arc<Mutex<FetchLog>>,
}

/// Blocks of one GET that were not sent yet.
struct ActiveBlocks {
    log: Arc<Mutex<FetchLog>>,
    version: Version,
    block: u64,
    blocks: Range<u64>,
}

impl ActiveBlocks {
    fn start(log: &Arc<Mutex<FetchLog>>, version: Version, block: u64, range: Range<u64>) -> Self {
        let blocks = range.start / block..range.end.div_ceil(block);
        Self::log(log, version, block, blocks)
    }

    /// The end of an object of unknown size may begin within a block, whose part of it is not kept.
    fn start_suffix(log: &Arc<Mutex<FetchLog>>, version: Version, block: u64, range: Range<u64>) -> Self {
        let end = range.end.div_ceil(block);
        Self::log(log, version, block, range.start.div_ceil(block).min(end)..end)
    }

    fn log(log: &Arc<Mutex<FetchLog>>, version: Version, block: u64, blocks: Range<u64>) -> Self {
        let mut logged = log.lock();
        for number in blocks.clone() {
            let key = (version.clone(), number);
            *logged.fetched.entry(key.clone()).or_default() += 1;
            let active = logged.active.entry(key.clone()).or_default();
            *active += 1;
            if *active > 1 {
                logged.overlaps.push(key);
            }
        }
        drop(logged);

        Self { log: log.clone(), version, block, blocks }
    }

    /// Records that all bytes before an offset in the object were sent.
    fn sent_to(&mut self, offset: u64) {
        self.end_before(offset / self.block);
    }

    fn end_before(&mut self, end: u64) {
        let mut log = self.log.lock();
        for number in self.blocks.start..end.min(self.blocks.end) {
            *log.active.get_mut(&(self.version.clone(), number)).unwrap() -= 1;
        }
        self.blocks.start = end.clamp(self.blocks.start, self.blocks.end);
    }
}

impl Drop for ActiveBlocks {
    fn drop(&mut self) {
        self.end_before(self.blocks.end);
    }
}

impl fmt::Display for Logging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logging")
    }
}

#[async_trait]
impl ObjectStore for Logging {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head {
            return self.inner.get_opts(location, options).await;
        }
        let now = self.inner.memory.head(location).await?;
        let asked = match &options.range {
            Some(range) => range.as_range(now.size).unwrap_or_default(),
            None => 0..now.size,
        };
        let is_refused = options.if_match.is_some() && options.if_match != now.e_tag;
        let asked = if is_refused { 0..0 } else { asked };
        let version = (location.to_string(), now.e_tag);
        let start = match options.range {
            Some(GetRange::Suffix(_)) => ActiveBlocks::start_suffix,
            _ => ActiveBlocks::start,
        };
        let mut active = start(&self.log, version, self.block, asked);

        let result = self.inner.get_opts(location, options).await?;
        let (meta, range, attributes) =
            (result.meta.clone(), result.range.clone(), result.attributes.clone());
        let chunk_len = self.chunk;
        let chunks = result.into_stream().flat_map(move |chunk| futures::stream::iter(cut(chunk, chunk_len)));
        let mut position = range.start;
        let chunks = chunks.inspect(move |chunk| {
            position += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
            active.sent_to(position);
        });
        let payload = GetResultPayload::Stream(chunks.boxed());

        Ok(GetResult { payload, meta, range, attributes })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn cut(chunk: Result<Bytes>, len: usize) -> Vec<Result<Bytes>> {
    match chunk {
        Ok(bytes) => {
            let starts = (0..bytes.len()).step_by(len);
            starts.map(|start| Ok(bytes.slice(start..(start + len).min(bytes.len())))).collect()
        }
        Err(error) => vec![Err(error)],
    }
}

/// A cache, an origin, and read options.
#[derive(Clone, Debug)]
struct Setup {
    page: u64,
    budget: u64,
    max_fetch: u64,
    read_ahead: u64,
    chunk: usize,
    latency_ms: u64,
    pace_ms: u64,
    is_strict: bool,
}

fn setup() -> impl Strategy<Value = Setup> {
    let kib = |sizes: &'static [u64]| prop::sample::select(sizes).prop_map(|size| size << 10);
    (
        kib(&[4, 16, 64, 256]),
        kib(&[0, 64, 300, 1024, 16_384]),
        kib(&[64, 256, 8192]),
        kib(&[0, 128, 32_768]),
        prop::sample::select(vec![3_000, 16_384, 65_536]),
        0..20_u64,
        0..5_u64,
        any::<bool>(),
    )
        .prop_map(|(page, budget, max_fetch, read_ahead, chunk, latency_ms, pace_ms, is_strict)| Setup {
            page,
            budget,
            max_fetch,
            read_ahead,
            chunk,
            latency_ms,
            pace_ms,
            is_strict,
        })
}

/// A read that ends by itself.
#[derive(Clone, Debug)]
enum Read {
    Whole(u8),
    Range(u8, usize, usize),
    /// Reads ranges in order, with a pause in between.
    InOrder {
        object: u8,
        start: usize,
        len: usize,
        count: usize,
        pause_ms: u64,
    },
    /// Reads column chunks of one row group after another.
    Columns {
        first_group: usize,
        groups: usize,
        columns: Vec<usize>,
        pause_ms: u64,
    },
    GetRanges(u8, Vec<(usize, usize)>),
    Opened(u8, Vec<(usize, usize)>),
    OpenedWhole(u8),
}

#[derive(Clone, Debug)]
enum Step {
    /// Begins a GET, which [`Step::Take`] reads.
    Open {
        stream: usize,
        object: u8,
        start: usize,
        len: usize,
    },
    /// Reads some chunks of an open GET.
    Take {
        stream: usize,
        chunks: usize,
    },
    /// Drops an open GET.
    Close(usize),
    Await(Read),
    Spawn(Read),
    /// Runs the same read by several readers that start together.
    Together(Read, usize),
    /// Cancels the spawned reads.
    Cancel,
    Pause(u64),
    Evict(u8),
    Replace(u8, usize),
    Fail(Vec<Fault>),
}

fn read() -> impl Strategy<Value = Read> {
    let object = 0..OBJECTS;
    let ranges = || prop::collection::vec((0..MAX_SIZE, 1..30_000_usize), 1..6);
    prop_oneof![
        2 => object.clone().prop_map(Read::Whole),
        4 => (object.clone(), 0..MAX_SIZE, 1..200_000_usize).prop_map(|(o, s, l)| Read::Range(o, s, l)),
        4 => (object.clone(), 0..MAX_SIZE, 1..40_000_usize, 2..12_usize, 0..50_u64).prop_map(
            |(object, start, len, count, pause_ms)| Read::InOrder { object, start, len, count, pause_ms }
        ),
        4 => (0..GROUPS, 1..=GROUPS, prop::collection::vec(0..COLUMNS, 1..4), 0..50_u64).prop_map(
            |(first_group, groups, columns, pause_ms)| Read::Columns { first_group, groups, columns, pause_ms }
        ),
        2 => (object.clone(), ranges()).prop_map(|(o, ranges)| Read::GetRanges(o, ranges)),
        2 => (object.clone(), ranges()).prop_map(|(o, ranges)| Read::Opened(o, ranges)),
        1 => object.prop_map(Read::OpenedWhole),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let object = 0..OBJECTS;
    let stream = 0..STREAMS;
    prop_oneof![
        4 => (stream.clone(), object.clone(), 0..MAX_SIZE, 1..MAX_SIZE)
            .prop_map(|(stream, object, start, len)| Step::Open { stream, object, start, len }),
        6 => (stream.clone(), 1..30_usize).prop_map(|(stream, chunks)| Step::Take { stream, chunks }),
        2 => stream.prop_map(Step::Close),
        4 => read().prop_map(Step::Await),
        4 => read().prop_map(Step::Spawn),
        2 => (read(), 2..8_usize).prop_map(|(read, readers)| Step::Together(read, readers)),
        1 => Just(Step::Cancel),
        2 => (0..100_u64).prop_map(Step::Pause),
        1 => (6000..7000_u64).prop_map(Step::Pause),
        1 => object.prop_map(Step::Evict),
    ]
}

/// Generates steps after which reads may fail, and blocks may be fetched again.
fn disturbance() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        Just(Fault::Refuse),
        (0..300_000_u64).prop_map(Fault::BreakAfter),
        (0..300_000_u64).prop_map(Fault::TruncateAfter),
        (1..10_u64).prop_map(Fault::Overrun),
    ];
    prop_oneof![
        (0..OBJECTS, 0..MAX_SIZE).prop_map(|(object, size)| Step::Replace(object, size)),
        prop::collection::vec(fault, 1..4).prop_map(Step::Fail),
    ]
}

/// State shared by all readers.
#[derive(Clone)]
struct Shared {
    store: ReadThrough,
    versions: Arc<Mutex<HashMap<Version, Bytes>>>,
    /// Set once the origin was made to fail, or an object was replaced.
    may_fail: Arc<AtomicBool>,
}

impl Shared {
    fn content(&self, meta: &ObjectMeta) -> Bytes {
        let version = (meta.location.to_string(), meta.e_tag.clone());
        self.versions.lock().get(&version).expect("the version exists").clone()
    }

    /// Returns the value, or `None` for an error while errors are allowed.
    fn allowed<T, E: fmt::Display>(&self, outcome: std::result::Result<T, E>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(_) if self.may_fail.load(Ordering::SeqCst) => None,
            Err(error) => panic!("nothing failed at the origin: {error}"),
        }
    }

    /// Checks bytes of unknown version: they must belong to one version of the object.
    fn check(&self, object: u8, start: usize, read: &Bytes) {
        let versions = self.versions.lock();
        let of_object = versions.iter().filter(|((name, _), _)| *name == path(object).to_string());
        let mut same = of_object.filter(|(_, content)| content.get(start..start + read.len()) == Some(read));
        assert!(same.next().is_some(), "{} bytes at {start} of object {object}", read.len());
    }

    /// Returns the size of the object as first put.
    async fn size(&self, object: u8) -> Option<usize> {
        Some(self.allowed(self.store.head(&path(object)).await)?.size as usize)
    }

    async fn get(&self, object: u8, start: usize, len: usize) -> Option<OpenGet> {
        let size = self.size(object).await?;
        if size == 0 {
            return None;
        }
        let start = start % size;
        let range = GetRange::Bounded(start as u64..(start + len) as u64);
        let options = GetOptions::new().with_range(Some(range));
        let result = self.allowed(self.store.get_opts(&path(object), options).await)?;
        let content =
            self.content(&result.meta).slice(result.range.start as usize..result.range.end as usize);
        Some(OpenGet { shared: self.clone(), content, chunks: result.into_stream() })
    }

    async fn ranges(&self, object: u8, ranges: &[(usize, usize)]) -> Option<Vec<Range<u64>>> {
        let size = self.size(object).await?;
        let in_object = |(start, len): &(usize, usize)| {
            let start = *start % size.max(1);
            start as u64..(start + len).min(size) as u64
        };
        Some(ranges.iter().map(in_object).collect())
    }

    async fn read(self, read: Read) {
        match read {
            Read::Whole(object) => {
                if let Some(get) = self.get(object, 0, MAX_SIZE).await {
                    get.take_all().await;
                }
            }
            Read::Range(object, start, len) => {
                if let Some(get) = self.get(object, start, len).await {
                    get.take_all().await;
                }
            }
            Read::InOrder { object, start, len, count, pause_ms } => {
                for i in 0..count {
                    let Some(get) = self.get(object, start + i * len, len).await else { return };
                    get.take_all().await;
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
            }
            Read::Columns { first_group, groups, columns, pause_ms } => {
                for group in first_group..(first_group + groups).min(GROUPS) {
                    for column in &columns {
                        let start = (group * COLUMNS + column) * CHUNK;
                        let Some(get) = self.get(COLUMNAR, start, CHUNK).await else { return };
                        get.take_all().await;
                    }
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
            }
            Read::GetRanges(object, ranges) => {
                let Some(ranges) = self.ranges(object, &ranges).await else { return };
                let read = self.store.get_ranges(&path(object), &ranges).await;
                for (range, bytes) in ranges.iter().zip(self.allowed(read).unwrap_or_default()) {
                    self.check(object, range.start as usize, &bytes);
                }
            }
            Read::Opened(object, ranges) => {
                let Some(ranges) = self.ranges(object, &ranges).await else { return };
                let Some(opened) = self.allowed(self.store.open_object(&path(object)).await) else { return };
                self.read_opened(&opened, &ranges).await;
            }
            Read::OpenedWhole(object) => {
                let Some(opened) = self.allowed(self.store.open_whole(&path(object)).await) else { return };
                self.read_opened(&opened, std::slice::from_ref(&(0..opened.meta().size))).await;
            }
        }
    }

    async fn read_opened(&self, opened: &OpenObject, ranges: &[Range<u64>]) {
        let content = self.content(opened.meta());
        if ranges.iter().any(|range| range.end > content.len() as u64) {
            return;
        }
        let read = self.allowed(opened.read(ranges).await).unwrap_or_default();
        for (range, bytes) in ranges.iter().zip(read) {
            assert!(bytes == content.slice(range.start as usize..range.end as usize), "{range:?}");
        }
    }
}

/// An open GET.
struct OpenGet {
    shared: Shared,
    /// The bytes that it has yet to return.
    content: Bytes,
    chunks: BoxStream<'static, Result<Bytes>>,
}

impl OpenGet {
    /// Reads some chunks. Returns the remaining GET, unless it has ended.
    async fn take(mut self, count: usize) -> Option<Self> {
        for _ in 0..count {
            let Some(chunk) = self.chunks.next().await else {
                assert!(self.content.is_empty(), "ended {} bytes early", self.content.len());
                return None;
            };
            let chunk = self.shared.allowed(chunk)?;
            assert!(self.content.starts_with(&chunk), "{} bytes, {} left", chunk.len(), self.content.len());
            self.content = self.content.slice(chunk.len()..);
        }
        Some(self)
    }

    async fn take_all(self) {
        assert!(self.take(usize::MAX).await.is_none());
    }
}

struct World {
    origin: Arc<Counting>,
    log: Arc<Mutex<FetchLog>>,
    cache: PageCache,
    shared: Shared,
    streams: Vec<Option<OpenGet>>,
    spawned: JoinSet<()>,
    evictions: u64,
    content_at: usize,
}

impl World {
    async fn new(setup: &Setup) -> Self {
        let cache_options =
            CacheOptions::new(ByteSize::bytes(setup.budget)).with_page_size(ByteSize::bytes(setup.page));
        let cache = PageCache::open(cache_options).await.unwrap();
        let origin = Arc::new(Counting::default());
        *origin.latency.lock() = Duration::from_millis(setup.latency_ms);
        *origin.pace.lock() = Duration::from_millis(setup.pace_ms);

        let log: Arc<Mutex<FetchLog>> = Arc::default();
        let block = setup.page.min(64 << 10);
        let logging = Logging { inner: origin.clone(), block, chunk: setup.chunk, log: log.clone() };
        let consistency = if setup.is_strict { Consistency::Strict } else { Consistency::Immutable };
        let options = ReadOptions {
            max_fetch: ByteSize::bytes(setup.max_fetch),
            read_ahead: ByteSize::bytes(setup.read_ahead),
            layout: Some(Arc::new(FixedChunks)),
            ..quick()
        };
        let store = ReadThrough::new(
            Origin::new("model", Arc::new(logging)),
            cache.clone(),
            ConsistencyRules::new(consistency),
            options,
        );

        let shared = Shared { store, versions: Arc::default(), may_fail: Arc::default() };
        let mut world = Self {
            origin,
            log,
            cache,
            shared,
            streams: (0..STREAMS).map(|_| None).collect(),
            spawned: JoinSet::new(),
            evictions: 0,
            content_at: 0,
        };

        for object in 0..OBJECTS {
            world.put(object, MAX_SIZE - 70_001 * object as usize).await;
        }
        world
    }

    async fn put(&mut self, object: u8, size: usize) {
        self.content_at = (self.content_at + 4093) % (CONTENT.len() - MAX_SIZE);
        let content = CONTENT.slice(self.content_at..self.content_at + size);
        let put = self.origin.memory.put(&path(object), content.clone().into()).await.unwrap();
        self.shared.versions.lock().insert((path(object).to_string(), put.e_tag), content);
    }

    async fn run(&mut self, step: Step) {
        match step {
            Step::Open { stream, object, start, len } => {
                self.streams[stream] = None;
                self.streams[stream] = self.shared.get(object, start, len).await;
            }
            Step::Take { stream, chunks } => {
                if let Some(get) = self.streams[stream].take() {
                    self.streams[stream] = get.take(chunks).await;
                }
            }
            Step::Close(stream) => self.streams[stream] = None,
            Step::Await(read) => self.shared.clone().read(read).await,
            Step::Spawn(read) => {
                self.spawned.spawn(self.shared.clone().read(read));
            }
            Step::Together(read, readers) => {
                let reads = (0..readers).map(|_| self.shared.clone().read(read.clone()));
                futures::future::join_all(reads).await;
            }
            Step::Cancel => {
                self.spawned.abort_all();
                self.join_spawned().await;
            }
            Step::Pause(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Step::Evict(object) => {
                self.evictions += 1;
                self.shared.store.evict(path(object).as_ref()).await.unwrap();
            }
            Step::Replace(object, size) => {
                self.shared.may_fail.store(true, Ordering::SeqCst);
                self.put(object, size).await;
            }
            Step::Fail(faults) => {
                self.shared.may_fail.store(true, Ordering::SeqCst);
                self.origin.fail_next(faults);
            }
        }
    }

    async fn join_spawned(&mut self) {
        while let Some(read) = self.spawned.join_next().await {
            if let Err(error) = read
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    /// Checks the invariants of the budget.
    fn check_budget(&self) {
        let stats = self.cache.budget_stats();
        let held: u64 = stats.holders.iter().map(|holder| holder.bytes).sum();
        assert!(stats.used <= stats.capacity && held == stats.used, "{stats:?}");
    }

    /// Ends all readers, checks that nothing is held for them, and checks how often each block was fetched.
    async fn end(mut self) {
        self.join_spawned().await;
        self.streams.clear();
        let idle = async {
            // Requests that describe an object hold memory, too, and go on if their reader is cancelled.
            while self.cache.stats().ahead_used > 0
                || self.shared.store.stats().in_flight > 0
                || self.cache.budget().used() > self.cache.stats().memory_used
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(UNTIL_IDLE, idle).await;

        let stats = self.cache.stats();
        assert_eq!((stats.in_flight_used, stats.ahead_used, self.shared.store.stats().in_flight), (0, 0, 0));
        assert_eq!(self.cache.budget().used(), stats.memory_used);
        self.check_budget();

        // A read that bypassed the cache for lack of memory fetches blocks regardless of others; so does one that was
        // cancelled or failed before its first byte.
        if self.shared.store.stats().reads_passed_through > 0 {
            return;
        }
        let log = self.log.lock();
        assert!(log.overlaps.is_empty(), "fetched twice at a time: {:?}", log.overlaps);
        if self.shared.may_fail.load(Ordering::SeqCst) {
            return;
        }

        let allowed = 1 + stats.evictions + self.evictions;
        for (block, fetches) in &log.fetched {
            assert!(u64::from(*fetches) <= allowed, "{block:?}: {fetches} fetches, {allowed} allowed");
        }
    }
}

fn path(object: u8) -> Path {
    let extension = if object == COLUMNAR { ".parquet" } else { "" };
    Path::from(format!("o{object}{extension}"))
}

/// Runs the steps with a paused clock: timers fire in order, and immediately.
fn run(setup: &Setup, steps: &[Step]) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(setup).await;
        for step in steps {
            world.run(step.clone()).await;
            world.check_budget();
        }
        world.end().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn readers_that_nothing_disturbs_fetch_each_block_once(
        setup in setup(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        run(&setup, &steps);
    }

    #[test]
    fn readers_of_objects_that_change_or_fail_get_right_bytes_and_leave_nothing_behind(
        setup in setup(),
        steps in prop::collection::vec(prop_oneof![5 => step(), 1 => disturbance()], 1..40),
    ) {
        run(&setup, &steps);
    }
}

/// An eviction ran exactly when the HEADs of two strict readers were answered: one reader opened the object by a GET
/// of its first page, since nothing was known about it, and the other fetched that page too.
#[test]
fn strict_readers_beside_an_eviction_fetch_each_block_once() {
    let setup = Setup {
        page: 4096,
        budget: 16 << 20,
        max_fetch: 64 << 10,
        read_ahead: 0,
        chunk: 3000,
        latency_ms: 19,
        pace_ms: 0,
        is_strict: true,
    };
    let steps = [
        Step::Spawn(Read::Opened(0, vec![(172_533, 24_614), (421_865, 4120)])),
        Step::Spawn(Read::InOrder { object: 1, start: 0, len: 1, count: 2, pause_ms: 19 }),
        Step::Open { stream: 0, object: 0, start: 0, len: 115 },
        Step::Spawn(Read::Whole(1)),
        Step::Open { stream: 3, object: 0, start: 429_545, len: 430_260 },
        Step::Evict(1),
    ];
    run(&setup, &steps);
}

/// Runs the same reads on several threads, where the machine decides the order of events.
#[test]
fn readers_on_several_threads_leave_nothing_behind() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        for budget in [300 << 10, 16 << 20] {
            let setup = Setup {
                page: 16 << 10,
                budget,
                max_fetch: 256 << 10,
                read_ahead: 1 << 20,
                chunk: 16_384,
                latency_ms: 1,
                pace_ms: 0,
                is_strict: false,
            };

            let mut world = World::new(&setup).await;
            for round in 0..40_usize {
                for reader in 0..8 {
                    let object = (reader % 3) as u8;
                    let start = (round * 7919 + reader * 104_729) % MAX_SIZE;
                    let read = match reader % 4 {
                        0 => Read::Whole(object),
                        1 => Read::Range(object, start, 100_000),
                        2 => Read::InOrder { object, start, len: 20_000, count: 6, pause_ms: 0 },
                        _ => Read::Opened(object, vec![(start, 30_000), (start / 2, 5_000)]),
                    };
                    world.run(Step::Spawn(read)).await;
                }
                if round % 5 == 4 {
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    world.run(Step::Cancel).await;
                }
                world.join_spawned().await;
                assert!(world.cache.budget().used() <= world.cache.budget().capacity());
            }

            world.end().await;
        }
    });
}
