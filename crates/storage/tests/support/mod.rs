//! A store that counts requests and injects faults on demand.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

pub mod eventually;
pub mod http;

use std::{
    collections::VecDeque,
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    memory::InMemory, path::Path,
};
use parking_lot::Mutex;
use stylobate_storage::{
    ByteSize, CacheOptions, Consistency, ConsistencyRules, Origin, PageCache, ReadOptions, ReadThrough,
    RequestOptions,
};

/// The fault of one GET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Fails before any byte.
    Refuse,
    /// Fails after this many bytes.
    BreakAfter(u64),
    /// Ends cleanly after this many bytes, as if complete.
    TruncateAfter(u64),
    /// Sends this many bytes too many.
    Overrun(u64),
}

/// An answer to a GET.
#[derive(Clone, Debug)]
pub struct Sent {
    pub path: Path,
    pub e_tag: Option<String>,
    pub range: Range<u64>,
}

/// An in-memory origin that counts, delays, and fails.
#[derive(Debug, Default)]
pub struct Counting {
    pub memory: InMemory,
    pub gets: AtomicU64,
    pub heads: AtomicU64,
    pub bytes: AtomicU64,
    pub ranges: Mutex<Vec<Range<u64>>>,
    /// Each answer to a GET.
    pub sent: Mutex<Vec<Sent>>,
    /// Faults of the next GETs, one each; later ones succeed.
    pub faults: Mutex<VecDeque<Fault>>,
    pub latency: Mutex<Duration>,
    /// Delays of the next answers, one each, after their version was read.
    pub lags: Mutex<VecDeque<Duration>>,
    /// Time between chunks of 64 KiB.
    pub pace: Mutex<Duration>,
    /// Responds with `W/` before each ETag.
    pub weak: AtomicBool,
    /// Responds without an ETag.
    pub no_etag: AtomicBool,
    /// Ignores `If-Match`, as some servers do.
    pub ignore_conditions: AtomicBool,
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

impl Counting {
    pub fn gets(&self) -> u64 {
        self.gets.load(Ordering::SeqCst)
    }

    pub fn heads(&self) -> u64 {
        self.heads.load(Ordering::SeqCst)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    pub fn fail_next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().extend(faults);
    }

    fn disguise(&self, meta: &mut ObjectMeta) {
        if self.weak.load(Ordering::SeqCst) {
            meta.e_tag = meta.e_tag.take().map(|tag| format!("W/\"{tag}\""));
        }
        if self.no_etag.load(Ordering::SeqCst) {
            meta.e_tag = None;
            meta.version = None;
        }
    }
}

fn broken() -> object_store::Error {
    object_store::Error::Generic { store: "Counting", source: "injected failure".into() }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.memory.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.memory.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        if options.head {
            self.heads.fetch_add(1, Ordering::SeqCst);
        } else {
            self.gets.fetch_add(1, Ordering::SeqCst);
        }
        let latency = *self.latency.lock();
        tokio::time::sleep(latency).await;
        let fault = if options.head { None } else { self.faults.lock().pop_front() };
        if fault == Some(Fault::Refuse) {
            return Err(broken());
        }
        if self.ignore_conditions.load(Ordering::SeqCst) {
            options.if_match = None;
        }

        let head = options.head;
        let mut result = self.memory.get_opts(location, options).await?;
        let lag = self.lags.lock().pop_front();
        if let Some(lag) = lag {
            tokio::time::sleep(lag).await;
        }
        self.disguise(&mut result.meta);
        if head {
            return Ok(result);
        }

        let (meta, range, attributes) =
            (result.meta.clone(), result.range.clone(), result.attributes.clone());
        self.ranges.lock().push(range.clone());
        self.sent.lock().push(Sent {
            path: location.clone(),
            e_tag: meta.e_tag.clone(),
            range: range.clone(),
        });
        let mut bytes = result.bytes().await?;
        match fault {
            Some(Fault::BreakAfter(count) | Fault::TruncateAfter(count)) => {
                bytes.truncate(count as usize);
            }
            Some(Fault::Overrun(count)) => {
                bytes = [bytes, Bytes::from(vec![0; count as usize])].concat().into();
            }
            _ => {}
        }

        self.bytes.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        let pace = *self.pace.lock();
        let chunks: Vec<Bytes> = (0..bytes.len())
            .step_by(64 << 10)
            .map(|start| bytes.slice(start..(start + (64 << 10)).min(bytes.len())))
            .collect();
        let chunks = futures::stream::iter(chunks).then(move |chunk| async move {
            tokio::time::sleep(pace).await;
            Ok(chunk)
        });
        let error = matches!(fault, Some(Fault::BreakAfter(_))).then(|| Err(broken()));
        let stream = chunks.chain(futures::stream::iter(error)).boxed();

        Ok(GetResult { payload: GetResultPayload::Stream(stream), meta, range, attributes })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.memory.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.memory.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.memory.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.memory.copy_opts(from, to, options).await
    }
}

/// Returns bytes that are unique to the seed.
pub fn noise(len: usize, seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).take(len.div_ceil(8)).flatten().take(len).collect()
}

/// A read-through over a counting origin.
pub struct Bench {
    pub origin: Arc<Counting>,
    pub store: ReadThrough,
    pub cache: PageCache,
}

/// Returns options with quick retries, so that tests of failures do not wait.
pub fn quick() -> ReadOptions {
    let requests =
        RequestOptions { backoff: Duration::from_millis(1), attempts: 3, ..RequestOptions::default() };
    ReadOptions { requests, ..ReadOptions::default() }
}

pub async fn bench(cache: CacheOptions, consistency: Consistency, options: ReadOptions) -> Bench {
    let origin = Arc::new(Counting::default());
    let cache = PageCache::open(cache).await.unwrap();
    let store = ReadThrough::new(
        Origin::new("counting", origin.clone()),
        cache.clone(),
        ConsistencyRules::new(consistency),
        options,
    );
    Bench { origin, store, cache }
}

/// Creates a read-through with plenty of memory, the default freshness, and no read-ahead across requests.
pub async fn plenty() -> Bench {
    bench(CacheOptions::new(ByteSize::mib(512)), Consistency::DEFAULT, quick()).await
}

impl Bench {
    /// Puts an object at the origin, bypassing the store.
    pub async fn put(&self, path: &str, bytes: impl Into<Bytes>) -> Path {
        let path = Path::from(path);
        self.origin.memory.put(&path, bytes.into().into()).await.unwrap();
        path
    }

    pub async fn read(&self, path: &Path) -> Result<Bytes> {
        self.store.get(path).await?.bytes().await
    }
}
