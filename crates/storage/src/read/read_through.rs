//! An object store in front of another: reads through the page cache, writes through to the origin.
//!
//! ```text
//! get_opts ─▶ versions: which version is this path? (HEAD if not fresh) ─▶ conditions, range
//!          ─▶ reader: pages from memory ─▶ fetch: disk, or one ranged GET with If-Match ─▶ bytes as they arrive
//! ```
//!
//! An object without a strong ETag bypasses the cache: a single request reads it, so that its bytes and metadata
//! match.

use std::{
    ops::Range,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use async_recursion::async_recursion as boxed;
use bytes::{Bytes, BytesMut};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta, path::Path};
use parking_lot::{Mutex, RwLock};

use crate::{
    ByteRange, ByteSize, Consistency, ConsistencyRules, Error, ListRequest, ListedKey, Origin, PageCache,
    RequestOptions, Result,
    object::headers::{CapturedHeaders, ObjectHeaders},
    origin::{key_of_version, overlap::OriginOverlap, path_of_version, trace::traced},
    peers::Peers,
    read::{
        column_reads::{ColumnLayout, MAX_FOOTER},
        fetch_plan::{FetchUrgency, FirstBytes},
        fetcher::Fetcher,
        footer_credit::FooterCredit,
        paged::PagedObject,
        pin::PinnedRange,
        read_ahead::ReadAhead,
        reader::RangeReader,
        requests::{
            to_origin::{RequestSender, body},
            to_peers::PeerRequests,
        },
    },
    stats::ReadStats,
    threads::blocking::run_blocking,
    timing::min_interval::MinInterval,
    versions::{ListedObject, ObjectInfo, ObjectInfoCache},
};

/// Maximum attempts to open an object that keeps changing during a read.
const MAX_OPEN_ATTEMPTS: u32 = 4;

/// Minimum interval between two searches for abandoned uploads.
const UPLOAD_GC_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Number of objects per page of a listing.
const LISTING: usize = 1_000;

/// Options of a [`ReadThrough`].
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Options of requests to the origin.
    pub requests: RequestOptions,
    /// Maximum bytes of one ranged GET. Default: 8 MiB.
    pub max_fetch: ByteSize,
    /// Maximum bytes fetched ahead of a sequential reader; 0 turns read-ahead off. Default: 32 MiB.
    pub read_ahead: ByteSize,
    /// Route for reads of opened objects ([`OpenObject`](crate::OpenObject)) if the origin is a folder. Default:
    /// through the page cache.
    pub folders: FolderReads,
    /// Finds the column chunks of files, so that those of the next row group can be fetched together. Default: none.
    pub layout: Option<Arc<dyn ColumnLayout>>,
}

/// The route for reads of opened files in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FolderReads {
    /// Through the page cache, like objects of other origins: for a node whose folder may be remote.
    #[default]
    Pages,
    /// Directly from the file system, which has its own cache: for a library that caches values derived from the
    /// bytes.
    PastPages,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            requests: RequestOptions::default(),
            max_fetch: ByteSize::mib(8),
            read_ahead: ByteSize::mib(32),
            folders: FolderReads::default(),
            layout: None,
        }
    }
}

/// An [`ObjectStore`](object_store::ObjectStore) that reads through a [`PageCache`]. Cheap to clone: clones share all
/// state.
#[derive(Clone, Debug)]
pub struct ReadThrough {
    pub(crate) inner: Arc<ReadThroughInner>,
}

#[derive(Debug)]
pub(crate) struct ReadThroughInner {
    pub(crate) fetcher: Arc<Fetcher>,
    /// Shared with the store that reads retained object versions.
    rules: Arc<RwLock<Arc<ConsistencyRules>>>,
    /// Set if paths name versions: `VERSION/KEY`.
    reads_versions: bool,
    read_ahead: Arc<ReadAhead>,
    footer_credit: FooterCredit,
    options: ReadOptions,
    /// Reads object versions that the bucket retains; created on first use.
    object_versions: OnceLock<Option<ReadThrough>>,
    /// Other stores with some of the same objects.
    overlapping: OnceLock<Vec<(Weak<Self>, OriginOverlap)>>,
    pub(crate) collect_uploads: MinInterval,
}

impl ReadThroughInner {
    fn new(
        requests: RequestSender,
        cache: PageCache,
        rules: Arc<RwLock<Arc<ConsistencyRules>>>,
        options: ReadOptions,
        cluster: Option<PeerRequests>,
    ) -> Self {
        let block = cache.layout().block;
        let max_window = options.read_ahead.as_u64();
        let read_ahead = ReadAhead::new(block, max_window, cache.ahead().clone());
        Self {
            fetcher: Arc::new(Fetcher::new(requests, cache, options.max_fetch, cluster)),
            rules,
            reads_versions: false,
            read_ahead,
            footer_credit: FooterCredit::default(),
            options,
            object_versions: OnceLock::new(),
            overlapping: OnceLock::new(),
            collect_uploads: MinInterval::new(UPLOAD_GC_INTERVAL),
        }
    }

    /// Returns the consistency required for the object: that of its key, if the path names a version.
    fn consistency_of(&self, path: &Path) -> Consistency {
        let key = key_of_version(path.as_ref()).filter(|_| self.reads_versions);
        self.rules.read().for_path(key.unwrap_or(path.as_ref()))
    }

    /// Fetches column chunks ahead of a reader of the file, and keeps them until they are read.
    fn fetch_following(&self, object: &PagedObject, chunks: &[Range<u64>]) {
        let pins = self.fetcher.pin_or_fetch_ranges(object, chunks);
        self.read_ahead.park_chunks(object.hash, pins);
    }
}

impl ReadThrough {
    /// Creates a store that reads `origin` through `cache`, as fresh as `rules` require.
    pub fn new(origin: Origin, cache: PageCache, rules: ConsistencyRules, options: ReadOptions) -> Self {
        Self::with_peers(origin, cache, rules, options, None)
    }

    /// Creates the store of a cluster node, which reads stripes from the peers that are their homes.
    pub fn in_cluster(
        origin: Origin,
        cache: PageCache,
        rules: ConsistencyRules,
        options: ReadOptions,
        peers: Arc<dyn Peers>,
    ) -> Self {
        Self::with_peers(origin, cache, rules, options, Some(peers))
    }

    fn with_peers(
        origin: Origin,
        cache: PageCache,
        rules: ConsistencyRules,
        options: ReadOptions,
        peers: Option<Arc<dyn Peers>>,
    ) -> Self {
        let requests = RequestSender::new(origin, options.requests.clone());
        let cluster = peers.map(|peers| PeerRequests::new(peers, requests.counters.clone()));
        let rules = Arc::new(RwLock::new(Arc::new(rules)));
        Self { inner: Arc::new(ReadThroughInner::new(requests, cache, rules, options, cluster)) }
    }

    /// Returns the store that reads versions of objects, and the version's path in it; `None` if the origin retains
    /// no versions, or the two cannot form a path.
    pub fn object_version(&self, path: &Path, version: &str) -> Option<(&Self, Path)> {
        let open = || {
            let origin = self.origin().object_versions()?;
            let mut requests = RequestSender::new(origin, self.inner.options.requests.clone());
            requests.counters = self.inner.fetcher.counters.clone();
            let cache = self.cache().clone();
            let rules = self.inner.rules.clone();
            let cluster = self.fetcher().cluster.as_ref().map(PeerRequests::for_object_versions);
            let versions = ReadThroughInner::new(requests, cache, rules, self.inner.options.clone(), cluster);
            Some(Self { inner: Arc::new(ReadThroughInner { reads_versions: true, ..versions }) })
        };

        let versions = self.inner.object_versions.get_or_init(open).as_ref()?;
        Some((versions, path_of_version(path, version)?))
    }

    /// Creates a store with the same rules and options for another origin. It starts without known objects and
    /// belongs to no cluster.
    pub fn with_origin(&self, origin: Origin, cache: PageCache) -> Self {
        Self::new(
            origin,
            cache,
            ConsistencyRules::clone(&self.inner.rules.read()),
            self.inner.options.clone(),
        )
    }

    /// Returns the origin.
    pub fn origin(&self) -> &Origin {
        &self.inner.fetcher.requests.origin
    }

    /// Replaces the consistency rules, for all clones.
    pub fn set_rules(&self, rules: ConsistencyRules) {
        *self.inner.rules.write() = Arc::new(rules);
    }

    /// Returns the counters of its reads.
    pub fn stats(&self) -> ReadStats {
        ReadStats {
            in_flight: self.inner.fetcher.in_flight(),
            known_objects: self.versions().len() as u64,
            ..self.inner.fetcher.counters.snapshot()
        }
    }

    /// Links the stores whose origins overlap, such as a folder and one below it: a write through one of them also
    /// invalidates the object in the others. Call it once, before the stores are used.
    ///
    /// Buckets with an S3 endpoint are not linked: a node forwards requests that change them past their stores, and
    /// invalidates the objects in each store.
    pub fn link_overlapping(stores: &[Self]) {
        for store in stores {
            let others = stores.iter().filter(|other| !Arc::ptr_eq(&other.inner, &store.inner));
            let overlapping = others.filter_map(|other| {
                let overlap = OriginOverlap::of(store.origin(), other.origin())?;
                Some((Arc::downgrade(&other.inner), overlap))
            });
            let _ = store.inner.overlapping.set(overlapping.collect());
        }
    }

    /// Returns the linked stores that contain any of the objects, and the paths of these there.
    pub(crate) fn overlapping(&self, paths: &[Path]) -> Vec<(Self, Vec<Path>)> {
        let linked = self.inner.overlapping.get().into_iter().flatten();
        let affected = linked.filter_map(|(store, overlap)| {
            let paths: Vec<Path> = paths.iter().filter_map(|path| overlap.path(path)).collect();
            let store = Self { inner: store.upgrade()? };
            (!paths.is_empty()).then_some((store, paths))
        });
        affected.collect()
    }

    /// Drops everything known and cached about the object and all its versions, on this node only, also in linked
    /// stores; see [`Self::invalidate_in_cluster`].
    pub fn invalidate(&self, path: &Path) {
        self.invalidate_here(path);
        for (store, paths) in self.overlapping(std::slice::from_ref(path)) {
            paths.iter().for_each(|path| store.invalidate_here(path));
        }
    }

    /// Like [`Self::invalidate`], in this store only.
    pub(crate) fn invalidate_here(&self, path: &Path) {
        self.versions().in_use.end(path);
        if let Some(known) = self.versions().forget(path) {
            self.drop_pages(&known);
        }
        self.forget_object_versions(|key| key == path.as_ref());
    }

    pub(crate) fn forget_object_versions(&self, is_gone: impl Fn(&str) -> bool) {
        let Some(Some(versions)) = self.inner.object_versions.get() else { return };
        for known in versions.versions().forget_where(|path| key_of_version(path).is_some_and(&is_gone)) {
            versions.drop_pages(&known);
        }
    }

    /// Returns a guard that invalidates the object when it is dropped: after a write that succeeded, failed or was
    /// cancelled half-way, since the origin may have applied it in each case.
    pub(crate) fn invalidate_after(&self, path: &Path) -> InvalidateOnDrop {
        InvalidateOnDrop { store: self.clone(), path: path.clone(), is_done: false }
    }

    /// Drops everything known about all objects after their bucket was deleted at the origin, on this node only; see
    /// [`Self::invalidate_all_in_cluster`].
    pub fn invalidate_all(&self) {
        for known in self.versions().forget_prefix("") {
            self.drop_pages(&known);
        }
        self.forget_object_versions(|_| true);
    }

    /// Returns whether anything is known about the object: otherwise a listing need not be compared.
    pub fn knows(&self, path: &str) -> bool {
        self.versions().knows(path)
    }

    /// Applies a listing requested from the origin at `asked`: renews the description of an object if the listing
    /// agrees with it, and drops it otherwise. Sends no request.
    pub fn note_listing(&self, asked: Instant, listed: impl IntoIterator<Item = ListedObject>) {
        if self.is_clustered() {
            return self.note_listing_in_cluster(asked, listed);
        }

        let asked = tokio::time::Instant::from_std(asked);
        for object in listed {
            if let Some(replaced) = self.versions().compare(asked, &object) {
                self.drop_pages(&replaced);
            }
        }
    }

    pub(crate) fn drop_pages(&self, known: &ObjectInfo) {
        if let Some(hash) = known.hash {
            self.cache().remove_object(hash, known.meta.size);
        }
    }

    pub(crate) fn versions(&self) -> &Arc<ObjectInfoCache> {
        &self.inner.fetcher.requests.versions
    }

    pub(crate) fn cache(&self) -> &PageCache {
        &self.inner.fetcher.cache
    }

    pub(crate) fn fetcher(&self) -> &Arc<Fetcher> {
        &self.inner.fetcher
    }

    pub(crate) fn read_options(&self) -> &ReadOptions {
        &self.inner.options
    }

    /// Returns the options of requests to the origin.
    pub fn request_options(&self) -> &RequestOptions {
        &self.inner.options.requests
    }

    /// Returns whether paths name versions retained by the bucket.
    pub(crate) fn reads_versions(&self) -> bool {
        self.inner.reads_versions
    }

    pub(crate) fn folder_reads(&self) -> FolderReads {
        self.inner.options.folders
    }

    /// Drops everything known and cached about the objects with the prefix, including pages that an earlier process
    /// left on disk. Returns the number of objects; in a cluster, the largest number dropped by one node.
    #[tracing::instrument(level = "debug", skip_all, fields(origin = self.origin().name(), prefix = prefix))]
    #[boxed]
    pub async fn evict(&self, prefix: &str) -> Result<u64> {
        let (here, elsewhere) = futures::join!(self.evict_here(prefix), self.evict_elsewhere(prefix));
        Ok(here?.max(elsewhere))
    }

    pub(crate) async fn evict_here(&self, prefix: &str) -> Result<u64> {
        let mut dropped = std::collections::HashSet::new();
        for known in self.versions().forget_prefix(prefix) {
            self.drop_pages(&known);
            dropped.insert(known.path.to_string());
        }

        self.forget_object_versions(|key| key.starts_with(prefix));

        // Only the origin knows the versions that an earlier process saw. Objects that cannot be listed age like all
        // pages.
        let mut request =
            ListRequest { prefix: prefix.to_owned(), max_keys: LISTING, ..ListRequest::default() };
        loop {
            let page = match self.list_page(request.clone()).await {
                Err(error) if error.is_unsupported() => break,
                page => page?,
            };
            for ListedKey { meta, .. } in page.objects {
                let known = self.versions().forget(&meta.location);
                let hash = known.as_ref().and_then(|known| known.hash);
                let version = self.origin().version_of(&meta).map(|version| version.hash());
                let hashes = hash.into_iter().chain(version.filter(|version| hash != Some(*version)));
                let dropped_pages =
                    hashes.fold(false, |any, hash| self.cache().remove_object(hash, meta.size) | any);
                if known.is_some() || dropped_pages {
                    dropped.insert(meta.location.to_string());
                }
                // Large objects have many pages.
                tokio::task::yield_now().await;
            }

            request.token = page.next_token;
            if request.token.is_none() {
                break;
            }
        }

        Ok(dropped.len() as u64)
    }

    /// Returns the current description of the object, as fresh as the rules require. `wanted` are the bytes to be read
    /// next, if they are certain: if nothing is known about the object, the same request fetches them.
    pub(crate) async fn resolve(
        &self,
        path: &Path,
        at_once: bool,
        wanted: Option<FirstBytes>,
    ) -> Result<(Arc<ObjectInfo>, Vec<PinnedRange>)> {
        let consistency = if at_once { Consistency::Strict } else { self.inner.consistency_of(path) };
        if let Some(known) = self.fresh(path, consistency) {
            return Ok((known, Vec::new()));
        }

        let strict = consistency == Consistency::Strict;
        match self.authority(path) {
            Some(authority) => {
                let known =
                    self.ask_authority(authority, path, strict, wanted.and_then(FirstBytes::range)).await?;
                Ok((known, Vec::new()))
            }
            None => self.ask_origin(path, strict, wanted).await,
        }
    }

    /// Requests the description from the origin. If nothing is known about the object and no donor may have the
    /// wanted bytes, the same request fetches them.
    pub(crate) async fn ask_origin(
        &self,
        path: &Path,
        strict: bool,
        wanted: Option<FirstBytes>,
    ) -> Result<(Arc<ObjectInfo>, Vec<PinnedRange>)> {
        // Objects seen before, by this or an earlier process, are likely to be cached. Each strict reader sends its
        // own request, but only one of them requests bytes.
        let wanted = wanted.filter(|_| !self.cache().is_recovered());
        let wanted = wanted.filter(|wanted| match wanted {
            // A donor may have the bytes, but does not know the current version, since it is not notified of
            // writes.
            FirstBytes::Range(range) => {
                !range.is_empty() && self.fetcher().fills_from_origin(path, range.start)
            }
            // The home of the end of an object depends on its size; a file is described without a request.
            FirstBytes::Tail { .. } | FirstBytes::Footer => {
                !self.is_clustered() && !self.origin().is_folder()
            }
        });
        let opening = wanted.and_then(|wanted| {
            let in_use = self.versions().in_use.begin_alone(path)?;
            let is_guess = matches!(wanted, FirstBytes::Footer);
            (!is_guess || self.inner.footer_credit.spend()).then_some((wanted, in_use))
        });

        // Filled if it was this caller that sent the request.
        let opened: Arc<Mutex<Vec<PinnedRange>>> = Arc::default();
        let ask = || {
            let fetcher = self.inner.fetcher.clone();
            let path = path.clone();
            let opened = opened.clone();
            let clustered = self.is_clustered().then(|| (self.clone(), path.clone()));
            let question = match opening {
                Some((wanted, in_use)) => async move {
                    let (known, pins) = fetcher.open(path, wanted, in_use).await?;
                    *opened.lock() = pins;
                    Ok(known)
                }
                .boxed(),
                None => async move { fetcher.requests.head(&path).await }.boxed(),
            };
            match clustered {
                Some((store, path)) => async move { store.settle(&path, question.await).await }.boxed(),
                None => question,
            }
        };

        let answer = self.versions().ask(path, strict, ask).await;
        self.drop_replaced().await;

        let pins = std::mem::take(&mut *opened.lock());
        Ok((answer?, pins))
    }

    /// Drops the pages of versions that the origin has replaced, and notifies the peers that still hold their
    /// descriptions.
    pub(crate) async fn drop_replaced(&self) {
        let mut outdated = self.versions().take_replaced();
        for replaced in &outdated {
            self.drop_pages(replaced);
        }
        outdated.extend(self.versions().take_displaced());
        outdated.retain(|known| known.is_kept());
        self.notify_holders(&outdated).await;
    }

    /// Records that the footer of a file is read.
    pub(crate) fn note_footer_read(&self) {
        self.inner.footer_credit.earn();
    }

    /// Returns the consistency required for the object.
    pub(crate) fn consistency_of(&self, path: &Path) -> Consistency {
        self.inner.consistency_of(path)
    }

    /// Reads like [`get_opts`](object_store::ObjectStore::get_opts). If the origin speaks the S3 protocol, also
    /// returns the headers with which it described the version.
    #[boxed]
    pub async fn get_with_headers(
        &self,
        path: &Path,
        options: GetOptions,
    ) -> Result<(GetResult, Option<ObjectHeaders>)> {
        self.open_described(path, options).await
    }

    pub(crate) async fn open(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        Ok(self.open_described(path, options).await?.0)
    }

    async fn open_described(
        &self,
        path: &Path,
        options: GetOptions,
    ) -> Result<(GetResult, Option<ObjectHeaders>)> {
        if options.version.is_some() {
            return self.past_cache(path, options).await;
        }

        let mut at_once = false;
        let wanted = first_bytes(path, &options);
        for _ in 0..MAX_OPEN_ATTEMPTS {
            let (known, pins) = self.resolve(path, at_once, wanted.clone()).await?;
            if let Err(error) = options.check_preconditions(&known.meta) {
                // The known description may be older than the caller's: ask the origin before refusing.
                if at_once || matches!(error, object_store::Error::NotModified { .. }) {
                    return Err(Error::from_origin(path.as_ref(), error));
                }
                at_once = true;
                continue;
            }

            if options.head {
                let answer = answer(&known, 0..known.meta.size, futures::stream::empty().boxed());
                return Ok((answer, known.headers.clone()));
            }

            let answered = match known.hash {
                Some(hash) => {
                    let answer = self.read(&known, hash, options.range.as_ref(), pins).await;
                    answer.map(|answer| (answer, known.headers.clone()))
                }
                None => {
                    resolve_range(&known, options.range.as_ref())?;
                    self.past_cache(path, options.clone()).await
                }
            };

            match answered {
                Err(Error::Changed { .. }) => at_once = true,
                answered => return answered,
            }
        }

        Err(Error::Changed { path: path.to_string() })
    }

    /// Reads a version up to its first bytes: if they fail, nothing has been returned to the caller yet. `pins` hold
    /// the bytes that arrived with the request that determined the version.
    async fn read(
        &self,
        known: &Arc<ObjectInfo>,
        hash: crate::ObjectHash,
        range: Option<&GetRange>,
        pins: Vec<PinnedRange>,
    ) -> Result<GetResult> {
        let range = resolve_range(known, range)?;
        let inner = &self.inner;
        let layout = self.cache().layout();
        let object = PagedObject { known: known.clone(), hash, layout, asked_as: None };

        if range.end() == object.size() && FirstBytes::of_footer(&known.path).is_some() {
            self.note_footer_read();
        }
        let column_layout = self.layout_of(&known.path);
        let continuation = inner.read_ahead.note(hash, range, column_layout.is_some());
        let mut reader =
            RangeReader::new(inner.fetcher.clone(), object.clone(), range, inner.options.read_ahead);
        reader.adopt(continuation.pins.into_iter().chain(pins));

        let following = continuation.following;
        if !continuation.chunks.is_empty() {
            self.fetch_chunks(&object, &mut reader, range, continuation.chunks);
        }
        reader.start();
        if let Some(column_layout) = column_layout.filter(|_| continuation.wants_footer) {
            self.find_chunks(&object, column_layout, reader.is_fetching());
        }
        if !following.is_empty() && reader.is_fetching() {
            self.inner.fetch_following(&object, &following);
        }

        if continuation.released > 0 && reader.has_missed() {
            inner.read_ahead.note_refetch(hash, continuation.released);
        }
        // A reader that finds all its bytes in memory may never leave the cached range.
        if let Some(ahead) = continuation.ahead.filter(|_| reader.is_fetching()) {
            self.fetch_ahead(&object, continuation.next, ahead);
        }

        let first = reader.next().await?;
        let stream = reader.into_stream(first).map_err(object_store::Error::from).boxed();
        Ok(answer(known, range.into(), stream))
    }

    fn layout_of(&self, path: &Path) -> Option<&Arc<dyn ColumnLayout>> {
        let layout = self.inner.options.layout.as_ref()?;
        (path.extension() == Some(layout.extension())).then_some(layout)
    }

    /// Finds the column chunks of a file in the background, if its footer is in memory. If `is_fetching` is set,
    /// the reader had misses, so chunks of the following row groups are fetched ahead.
    fn find_chunks(&self, object: &PagedObject, layout: &Arc<dyn ColumnLayout>, is_fetching: bool) {
        let read_ahead = &self.inner.read_ahead;
        let hash = object.hash;
        let size = object.size();
        let end = self.resident(object, size.saturating_sub(layout.end_len())..size);
        let Some(len) = end.map(|end| layout.footer_len(&end)) else { return read_ahead.miss_footer(hash) };
        let Some(len) = len.filter(|len| *len <= size.min(MAX_FOOTER)) else {
            read_ahead.find_chunks(hash, None);
            return;
        };

        let Some(footer) = self.resident(object, size - len..size) else {
            return read_ahead.miss_footer(hash);
        };
        let layout = layout.clone();
        let inner = self.inner.clone();
        let object = object.clone();
        tokio::spawn(traced(async move {
            let groups = run_blocking(move || layout.chunks(&footer)).await;
            let following = inner.read_ahead.find_chunks(hash, groups.ok().flatten());
            if is_fetching {
                inner.fetch_following(&object, &following);
            }
        }));
    }

    /// Returns the bytes of a range if all of them are in memory.
    fn resident(&self, object: &PagedObject, Range { start, end }: Range<u64>) -> Option<Bytes> {
        let mut bytes = BytesMut::new();
        let mut position = start;
        while position < end {
            let (_, part) = self.fetcher().resident(object, position..end)?;
            position += part.len() as u64;
            bytes.extend_from_slice(&part);
        }
        Some(bytes.freeze())
    }

    /// Fetches a range together with column chunks that are likely to be read next. Does nothing if the range is
    /// in memory and nothing was fetched ahead for the reader.
    fn fetch_chunks(
        &self,
        object: &PagedObject,
        reader: &mut RangeReader,
        range: ByteRange,
        mut chunks: Vec<Range<u64>>,
    ) {
        let fetcher = &self.inner.fetcher;
        if !reader.is_fetching() && fetcher.first_not_in_memory(object, range.into()).is_none() {
            return;
        }

        chunks.push(range.into());
        let pins = fetcher.pin_or_fetch_ranges(object, &chunks);
        chunks.pop();

        let is_later =
            |pin: &PinnedRange| chunks.iter().any(|chunk| chunk.start < pin.end() && pin.start() < chunk.end);
        let (later, now): (Vec<_>, Vec<_>) = pins.into_iter().partition(is_later);
        reader.adopt(later.iter().map(PinnedRange::share).chain(now));
        self.inner.read_ahead.park_chunks(object.hash, later);
    }

    /// Fetches the bytes after a reader at `next`. Does not pin a run that is already in memory.
    fn fetch_ahead(&self, object: &PagedObject, next: u64, ahead: ByteRange) {
        let ReadThroughInner { fetcher, read_ahead, .. } = &*self.inner;
        let until = ahead.end().min(object.size());
        let missing = fetcher.first_not_in_memory(object, ahead.start().min(until)..until);

        let (fetched, pins) = match missing {
            Some(missing) => {
                let pins = fetcher.pin_or_fetch(object, missing..until, FetchUrgency::Ahead);
                (pins.last().map_or(missing, PinnedRange::end), pins)
            }
            None => (ahead.end(), Vec::new()),
        };

        read_ahead.park(object.hash, next, fetched, pins);
    }

    /// Sends one request and streams its response: for objects that cannot be cached.
    async fn past_cache(
        &self,
        path: &Path,
        options: GetOptions,
    ) -> Result<(GetResult, Option<ObjectHeaders>)> {
        let requests = &self.inner.fetcher.requests;
        self.inner.fetcher.counters.reads_passed_through.add(1);
        let seen = CapturedHeaders::default();
        let options = options.with_extensions(seen.to_extensions());

        let mut retry_state = requests.retry_state();
        let result = loop {
            match requests.with_deadline(path, &retry_state, requests.get(path, &options)).await {
                Ok(result) => break result,
                Err(error) => requests.before_retry(&mut retry_state, error).await?,
            }
        };
        let GetResult { meta, range, attributes, .. } = &result;
        let mut meta = ObjectMeta { location: self.origin().key_path(path), ..meta.clone() };
        let range = range.clone();
        let attributes = attributes.clone();
        if self.origin().is_folder() {
            meta.version = None;
        }

        let headers = seen.take(meta.e_tag.as_deref());
        let counters = self.inner.fetcher.counters.clone();
        let announced = if options.head { 0..0 } else { range.clone() };

        let checked = body(result.payload, path, &result.meta, announced)?;
        let checked = with_deadlines(checked, self.inner.fetcher.clone(), path.clone());
        let counted = checked.inspect_ok(move |bytes| counters.bytes_passed_through.add(bytes.len() as u64));
        let stream = counted.map_err(object_store::Error::from).boxed();
        Ok((GetResult { payload: GetResultPayload::Stream(stream), meta, range, attributes }, headers))
    }
}

/// Returns the chunks of a response; each must arrive within the deadline of a request.
fn with_deadlines(
    chunks: BoxStream<'static, Result<Bytes>>,
    fetcher: Arc<Fetcher>,
    path: Path,
) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
    futures::stream::try_unfold((chunks, fetcher, path), |(mut chunks, fetcher, path)| async move {
        let requests = &fetcher.requests;
        let next = requests.with_deadline(&path, &requests.retry_state(), chunks.try_next()).await?;
        Ok(next.map(|bytes| (bytes, (chunks, fetcher, path))))
    })
}

/// Returns the bytes that the sender of a request will read first; `None` if that depends on the object's size, or
/// if it may read none.
fn first_bytes(path: &Path, options: &GetOptions) -> Option<FirstBytes> {
    let conditional = options.if_match.is_some()
        || options.if_none_match.is_some()
        || options.if_modified_since.is_some()
        || options.if_unmodified_since.is_some();
    match &options.range {
        _ if conditional => None,
        _ if options.head => FirstBytes::of_footer(path),
        None => Some(FirstBytes::Range(0..u64::MAX)),
        Some(GetRange::Bounded(range)) => Some(FirstBytes::Range(range.clone())),
        Some(GetRange::Offset(start)) => Some(FirstBytes::Range(*start..u64::MAX)),
        Some(GetRange::Suffix(len)) => Some(FirstBytes::Tail { at_least: *len }),
    }
}

fn resolve_range(known: &ObjectInfo, range: Option<&GetRange>) -> Result<ByteRange> {
    let size = known.meta.size;
    let Some(range) = range else { return Ok(ByteRange::to(size)) };
    let outside = |start, end| Error::Range { path: known.path.to_string(), start, end, size };
    let resolved = range.as_range(size).map_err(|_| match range {
        GetRange::Bounded(range) => outside(range.start, range.end),
        GetRange::Offset(start) => outside(*start, size),
        GetRange::Suffix(length) => outside(size.saturating_sub(*length), size),
    })?;
    ByteRange::new(resolved.start, resolved.end).ok_or_else(|| outside(resolved.start, resolved.end))
}

fn answer(
    known: &ObjectInfo,
    range: Range<u64>,
    stream: BoxStream<'static, object_store::Result<Bytes>>,
) -> GetResult {
    GetResult {
        payload: GetResultPayload::Stream(stream),
        meta: known.shown(),
        range,
        attributes: known.attributes.clone(),
    }
}

pub(crate) struct InvalidateOnDrop {
    store: ReadThrough,
    path: Path,
    is_done: bool,
}

impl InvalidateOnDrop {
    /// Invalidates now. In a cluster, completes once the other nodes have been notified: before the write is
    /// acknowledged.
    pub(crate) async fn finish(mut self) {
        if self.store.is_clustered() {
            self.store.invalidate_in_cluster(std::slice::from_ref(&self.path)).await;
            self.is_done = true;
        }
    }

    /// Disarms the guard: the caller invalidates.
    pub(crate) fn disarm(mut self) {
        self.is_done = true;
    }
}

impl Drop for InvalidateOnDrop {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        if self.store.is_clustered() {
            self.store.invalidate_later(vec![self.path.clone()]);
        } else {
            self.store.invalidate(&self.path);
        }
    }
}
