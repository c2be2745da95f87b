//! In-memory bucket that counts requests, and stops answering on demand.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use stylobate_columnar::{Cache, Source};
use stylobate_graph::store::{GraphStore, StoreOptions, StoreSchema};
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
    RequestOptions,
};
use tokio::sync::RwLock;

/// Numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    pub gets: u64,
    pub heads: u64,
    pub puts: u64,
    pub lists: u64,
}

#[derive(Debug)]
pub struct Bucket {
    pub memory: Arc<InMemory>,
    gets: AtomicU64,
    heads: AtomicU64,
    puts: AtomicU64,
    lists: AtomicU64,
    /// Reads in progress, and the number of times a read began while none was in progress.
    reading: AtomicU64,
    steps: AtomicU64,
    /// Latency of a read, in milliseconds.
    latency: AtomicU64,
    /// Requests that are still answered; negative for all.
    left: AtomicI64,
    /// If true, the first unanswered request is carried out if it is a write.
    carries_out: AtomicBool,
    /// Held by a test to delay the records of commits.
    pub commits: RwLock<()>,
    /// Held by a test to delay the answers to puts of leases, which are carried out at once.
    pub lease_answers: RwLock<()>,
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bucket")
    }
}

/// Outcome of a request.
enum Fate {
    Answered,
    /// Carried out, but not answered.
    Silent,
    Refused,
}

impl Bucket {
    pub fn over(memory: Arc<InMemory>) -> Arc<Self> {
        let zero = AtomicU64::default;
        Arc::new(Self {
            memory,
            gets: zero(),
            heads: zero(),
            puts: zero(),
            lists: zero(),
            reading: zero(),
            steps: zero(),
            latency: zero(),
            left: AtomicI64::new(-1),
            carries_out: AtomicBool::new(false),
            commits: RwLock::default(),
            lease_answers: RwLock::default(),
        })
    }

    pub fn new() -> Arc<Self> {
        Self::over(Arc::new(InMemory::new()))
    }

    /// Answers `requests` more requests, then none.
    pub fn stop_after(&self, requests: i64, carries_out: bool) {
        self.carries_out.store(carries_out, Ordering::SeqCst);
        self.left.store(requests, Ordering::SeqCst);
    }

    pub fn heal(&self) {
        self.left.store(-1, Ordering::SeqCst);
    }

    pub fn requests(&self) -> Requests {
        let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Requests {
            gets: count(&self.gets),
            heads: count(&self.heads),
            puts: count(&self.puts),
            lists: count(&self.lists),
        }
    }

    /// Slows down reads enough to distinguish sequential from concurrent ones.
    pub fn slow_down(&self) {
        self.latency.store(20, Ordering::SeqCst);
    }

    /// Returns the number of sequential reads: concurrent ones count once.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    async fn delay(&self) {
        let latency = self.latency.load(Ordering::SeqCst);
        if latency > 0 {
            if self.reading.fetch_add(1, Ordering::SeqCst) == 0 {
                self.steps.fetch_add(1, Ordering::SeqCst);
            }
            tokio::time::sleep(Duration::from_millis(latency)).await;
            self.reading.fetch_sub(1, Ordering::SeqCst);
        }
    }

    pub fn total(&self) -> u64 {
        let Requests { gets, heads, puts, lists } = self.requests();
        gets + heads + puts + lists
    }

    fn fate(&self, counter: &AtomicU64) -> Fate {
        counter.fetch_add(1, Ordering::SeqCst);
        let left =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| (left > 0).then(|| left - 1));
        match left {
            Ok(_) => Fate::Answered,
            Err(left) if left < 0 => Fate::Answered,
            Err(_) if self.carries_out.swap(false, Ordering::SeqCst) => Fate::Silent,
            Err(_) => Fate::Refused,
        }
    }

    pub async fn cache() -> Cache {
        Cache::open(CacheOptions::new(ByteSize::mib(64))).await.unwrap()
    }

    /// Returns the bucket as the source of a store, with a cache of its own.
    pub async fn source(self: &Arc<Self>) -> (Cache, Source) {
        self.source_with(ByteSize::mib(64)).await
    }

    /// Returns [`Self::source`] with `decoded` bytes for decoded data.
    pub async fn source_with(self: &Arc<Self>, decoded: ByteSize) -> (Cache, Source) {
        let memory = ByteSize::bytes(ByteSize::mib(32).as_u64() + decoded.as_u64());
        let pages = PageCache::open(CacheOptions::new(memory)).await.unwrap();
        let requests =
            RequestOptions { backoff: Duration::from_millis(1), attempts: 1, ..RequestOptions::default() };
        let store = ReadThrough::new(
            Origin::new("bucket", self.clone()),
            pages.clone(),
            ConsistencyRules::new(Consistency::DEFAULT),
            ReadOptions { requests, ..ReadOptions::default() },
        );

        let cache = match decoded.as_u64() {
            0 => Cache::passing(pages),
            _ => Cache::over(pages),
        };
        (cache, Source::Store { store, pattern: "lake/graph".to_owned() })
    }

    /// Returns [`Self::source`] with the store at another path.
    pub async fn source_at(self: &Arc<Self>, path: &str) -> (Cache, Source) {
        let (cache, Source::Store { store, .. }) = self.source().await else { panic!("a store") };
        (cache, Source::Store { store, pattern: path.to_owned() })
    }

    pub async fn create(
        self: &Arc<Self>,
        schema: StoreSchema,
        options: StoreOptions,
    ) -> stylobate_graph::Result<GraphStore> {
        let (cache, source) = self.source().await;
        GraphStore::create(&cache, source, schema, options).await
    }

    pub async fn open(self: &Arc<Self>, options: StoreOptions) -> stylobate_graph::Result<GraphStore> {
        let (cache, source) = self.source().await;
        GraphStore::open(&cache, source, options).await
    }
}

fn stopped() -> object_store::Error {
    object_store::Error::Generic { store: "Bucket", source: "the bucket does not answer".into() }
}

#[async_trait]
impl ObjectStore for Bucket {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let is_record = location.as_ref().contains("/_log/");
        let _delayed = if is_record { Some(self.commits.read().await) } else { None };
        match self.fate(&self.puts) {
            Fate::Answered => {
                let put = self.memory.put_opts(location, payload, options).await;
                if location.as_ref().contains("/leases/") {
                    drop(self.lease_answers.read().await);
                }
                put
            }
            Fate::Silent => {
                let _ = self.memory.put_opts(location, payload, options).await;
                Err(stopped())
            }
            Fate::Refused => Err(stopped()),
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.fate(&self.puts) {
            Fate::Answered => self.memory.put_multipart_opts(location, options).await,
            _ => Err(stopped()),
        }
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let counter = if options.head { &self.heads } else { &self.gets };
        match self.fate(counter) {
            Fate::Answered => {
                self.delay().await;
                self.memory.get_opts(location, options).await
            }
            _ => Err(stopped()),
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.fate(&self.puts) {
            Fate::Answered => self.memory.delete_stream(locations),
            _ => futures::stream::once(async { Err(stopped()) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fate(&self.lists) {
            Fate::Answered => self.memory.list(prefix),
            _ => futures::stream::once(async { Err(stopped()) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        match self.fate(&self.lists) {
            Fate::Answered => self.memory.list_with_delimiter(prefix).await,
            _ => Err(stopped()),
        }
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        match self.fate(&self.puts) {
            Fate::Answered => self.memory.copy_opts(from, to, options).await,
            _ => Err(stopped()),
        }
    }
}
