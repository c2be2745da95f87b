//! One opened version of one object: all bytes read from it, now or later, belong to that version.

use std::{
    fs::File,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    sync::Arc,
};

use async_recursion::async_recursion as boxed;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use object_store::{GetResult, GetResultPayload, ObjectMeta, path::Path};
use parking_lot::Mutex;

use super::requests::{
    coalesce,
    to_origin::{RetryState, body},
};
use crate::{
    ByteRange, Error, ObjectHash, ReadThrough, Result,
    read::{
        byte_source::{ByteSource, BytesBySource},
        fetch_plan::FirstBytes,
        paged::PagedObject,
        pin::PinnedRange,
        read_through::FolderReads,
        reader::RangeReader,
    },
    stats::ReadCounters,
    versions::ObjectInfo,
};

/// Maximum concurrent range reads of one object.
const MAX_CONCURRENT_READS: usize = 16;
/// Maximum gap between two ranges that a read bypassing the page cache merges.
const MERGE_GAP: u64 = 64 << 10;

/// An object opened by [`ReadThrough::open_object`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OpenObject {
    store: ReadThrough,
    known: Arc<ObjectInfo>,
    /// Bytes that arrived with the request that opened the object, until they are read.
    opened: Arc<Mutex<Vec<PinnedRange>>>,
    /// Set to hide the version from callers that cache derived values.
    unnamed: bool,
    by_source: Option<Arc<BytesBySource>>,
}

impl ReadThrough {
    /// Opens the current version of the object, as fresh as the rules require.
    #[boxed]
    pub async fn open_object(&self, path: &Path) -> Result<OpenObject> {
        let footer = FirstBytes::of_footer(path).inspect(|_| self.note_footer_read());
        let (known, pins) = self.resolve(path, false, footer).await?;
        Ok(OpenObject::new(self, known, pins))
    }
}

impl ReadThrough {
    /// Opens an object that will be read whole: if nothing is known about it, its first page arrives with the first
    /// response.
    #[boxed]
    pub async fn open_whole(&self, path: &Path) -> Result<OpenObject> {
        let in_pages = !(self.origin().is_folder() && self.folder_reads() == FolderReads::PastPages);
        let (known, pins) =
            self.resolve(path, false, in_pages.then_some(FirstBytes::Range(0..u64::MAX))).await?;
        Ok(OpenObject::new(self, known, pins))
    }
}

impl OpenObject {
    fn new(store: &ReadThrough, known: Arc<ObjectInfo>, pins: Vec<PinnedRange>) -> Self {
        let opened = Arc::new(Mutex::new(pins));
        Self { store: store.clone(), known, opened, unnamed: false, by_source: None }
    }

    /// Returns the origin's description: path, size in bytes, and other metadata.
    pub fn meta(&self) -> &ObjectMeta {
        &self.known.meta
    }

    /// Returns the hash of this version, as a key for caching values derived from its bytes. `None` if the object
    /// cannot be distinguished from its replacement, so that nothing may be cached.
    pub fn version(&self) -> Option<ObjectHash> {
        self.known.hash.filter(|_| !self.unnamed)
    }

    /// Hides the version's hash, so that no values derived from the bytes are cached: for decrypted values. The bytes
    /// themselves are still read through the cache.
    pub fn without_version(self) -> Self {
        Self { unnamed: true, ..self }
    }

    /// Also counts the bytes read in `by_source`.
    pub fn counted_in(self, by_source: Arc<BytesBySource>) -> Self {
        Self { by_source: Some(by_source), ..self }
    }

    /// Returns the origin, without credentials, and the path, to identify the object in errors.
    pub fn name(&self) -> String {
        self.store.origin().name_of(&self.known.path)
    }

    /// Reads the bytes of each range, in the order of the ranges; nearby ranges share a request. All bytes belong to
    /// this version: fails with [`Error::Changed`] if the object was replaced.
    #[boxed]
    pub async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let size = self.known.meta.size;
        if let Some(Range { start, end }) =
            ranges.iter().find(|range| range.start > range.end || range.end > size)
        {
            let path = self.known.path.to_string();
            return Err(Error::Range { path, start: *start, end: *end, size });
        }

        let bytes = match self.known.hash {
            Some(hash) if !self.is_past_pages() => self.read_pages(hash, ranges).await,
            _ => self.read_origin(ranges).await,
        };
        bytes.map_err(|error| self.with_name(error))
    }

    /// Returns the error for readers of another version of the object.
    pub fn changed(&self) -> Error {
        self.with_name(Error::Changed { path: self.known.path.to_string() })
    }

    /// Returns whether it is a local file that is read without the page cache.
    fn is_past_pages(&self) -> bool {
        self.store.origin().is_folder() && self.store.folder_reads() == FolderReads::PastPages
    }

    /// Names a local file in full if the page cache is bypassed. The callers of other stores name them themselves.
    fn with_name(&self, error: Error) -> Error {
        match error {
            Error::Changed { .. } if self.is_past_pages() => Error::Changed { path: self.name() },
            Error::NotFound { .. } if self.is_past_pages() => Error::NotFound { path: self.name() },
            error => error,
        }
    }

    /// Opens the underlying file, if opened files bypass the page cache, so that it can be read incrementally while
    /// it is decoded. Call [`Self::check_local`] afterwards, which must succeed.
    pub fn local(&self) -> Option<std::io::Result<LocalFile>> {
        let past_pages = self.store.folder_reads() == FolderReads::PastPages;
        let folder = self.store.origin().folder().filter(|_| past_pages)?;
        let counters = self.store.fetcher().counters.clone();
        counters.origin_gets.add(1);
        let by_source = self.by_source.clone();
        Some(folder.open_file(&self.known.path).map(|file| LocalFile { file, counters, by_source }))
    }

    /// Checks that all bytes read from the file belong to this version: fails if it was replaced or written in the
    /// meantime.
    pub async fn check_local(&self, file: &LocalFile) -> Result<()> {
        self.check_unchanged().await.map_err(|error| self.with_name(error))?;
        let same = || {
            let now = self.store.origin().folder()?.open_file(&self.known.path).ok()?;
            let at_path = now.metadata().ok()?;
            let open = file.file.metadata().ok()?;
            Some(at_path.ino() == open.ino() && at_path.dev() == open.dev())
        };

        if same() == Some(true) {
            return Ok(());
        }
        Err(self.with_name(self.store.fetcher().requests.changed(&self.known)))
    }

    async fn read_pages(&self, hash: ObjectHash, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let fetcher = self.store.fetcher();
        let object =
            PagedObject { known: self.known.clone(), hash, layout: fetcher.cache.layout(), asked_as: None };
        let opened = std::mem::take(&mut *self.opened.lock());
        // Request all bytes of all ranges together, so that nearby ones share a request.
        let pins: Vec<PinnedRange> =
            opened.into_iter().chain(fetcher.pin_or_fetch_ranges(&object, ranges)).collect();

        let read_ahead = self.store.read_options().read_ahead;
        let mut readers: Vec<_> = ranges
            .iter()
            .map(|range| {
                let range = ByteRange::new(range.start, range.end).unwrap_or(ByteRange::to(0));
                let reader = RangeReader::new(fetcher.clone(), object.clone(), range, read_ahead);
                reader.counted_in(self.by_source.clone())
            })
            .collect();

        for pin in pins {
            // The pin counts as read-ahead until the first reader that needs it has passed it.
            let mut needed_by = readers.iter_mut().filter(|reader| reader.needs(&pin));
            if let Some(first) = needed_by.next() {
                needed_by.for_each(|reader| reader.adopt([pin.share()]));
                first.adopt([pin]);
            }
        }

        let reads = readers.into_iter().map(|mut reader| async move {
            let mut pieces = Vec::new();
            while let Some(piece) = reader.next().await? {
                pieces.push(piece);
            }
            Ok(joined(pieces))
        });

        futures::stream::iter(reads).buffered(MAX_CONCURRENT_READS).try_collect().await
    }

    async fn read_origin(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let merged = coalesce::merge(ranges, MERGE_GAP);
        let reads = merged.clone().into_iter().map(|range| self.get(range));
        let read: Vec<Bytes> =
            futures::stream::iter(reads).buffered(MAX_CONCURRENT_READS).try_collect().await?;
        if self.store.origin().is_folder() {
            self.check_unchanged().await?;
        }

        let cut = ranges.iter().map(|range| {
            let at = merged.partition_point(|merged| merged.start <= range.start).saturating_sub(1);
            match (merged.get(at), read.get(at)) {
                (Some(merged), Some(bytes)) if !range.is_empty() => {
                    bytes.slice((range.start - merged.start) as usize..(range.end - merged.start) as usize)
                }
                _ => Bytes::new(),
            }
        });

        Ok(cut.collect())
    }

    async fn get(&self, range: Range<u64>) -> Result<Bytes> {
        let requests = &self.store.fetcher().requests;
        let mut retry_state = requests.retry_state();
        loop {
            match self.get_once(&range, &mut retry_state).await {
                Ok(bytes) => {
                    let passed = &self.store.fetcher().counters.bytes_passed_through;
                    passed.add(bytes.len() as u64);
                    count(self.by_source.as_deref(), bytes.len());
                    return Ok(bytes);
                }
                Err(error) => requests.before_retry(&mut retry_state, error).await?,
            }
        }
    }

    /// Makes one attempt to read a range. Each piece of the response extends the deadline.
    async fn get_once(&self, range: &Range<u64>, retry_state: &mut RetryState) -> Result<Bytes> {
        let requests = &self.store.fetcher().requests;
        let path = &self.known.path;
        let get = requests.get_version(&self.known, range.clone());
        let answer = requests.with_deadline(path, retry_state, get).await?;
        if matches!(answer.payload, GetResultPayload::File(..)) {
            return requests.with_deadline(path, retry_state, self.read_file(answer, range)).await;
        }

        let mut pieces = body(answer.payload, path, &answer.meta, range.clone())?;
        let mut bytes = BytesMut::with_capacity((range.end - range.start) as usize);
        while let Some(piece) = requests.with_deadline(path, retry_state, pieces.try_next()).await? {
            bytes.extend_from_slice(&piece);
            requests.progress(retry_state);
        }
        Ok(bytes.freeze())
    }

    /// Reads a range of a file at once. A short read means that the file was truncated while it was read.
    async fn read_file(&self, answer: GetResult, range: &Range<u64>) -> Result<Bytes> {
        let path = &self.known.path;
        let bytes = answer.bytes().await.map_err(|error| Error::from_origin(path.as_ref(), error))?;
        if bytes.len() as u64 == range.end - range.start {
            return Ok(bytes);
        }
        Err(self.store.fetcher().requests.changed(&self.known))
    }

    /// Checks that the object is unchanged. A file may be written in place while it is read: its bytes are valid only
    /// then.
    async fn check_unchanged(&self) -> Result<()> {
        let requests = &self.store.fetcher().requests;
        let now = requests.head(&self.known.path).await?;
        let now = &now.meta;
        let known = &self.known.meta;
        let same = now.e_tag == known.e_tag && now.version == known.version && now.size == known.size;
        if same { Ok(()) } else { Err(requests.changed(&self.known)) }
    }
}

/// An open file. Bytes read from it are valid only once [`OpenObject::check_local`] has succeeded.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    counters: Arc<ReadCounters>,
    by_source: Option<Arc<BytesBySource>>,
}

impl LocalFile {
    /// Reads the bytes of a range, on the calling thread.
    pub fn read(&self, range: Range<u64>) -> std::io::Result<Bytes> {
        let mut bytes = vec![0; usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX)];
        self.read_into(range.start, &mut bytes)?;
        Ok(bytes.into())
    }

    /// Fills `bytes` from offset `start`, on the calling thread. Fails if the file is too short.
    pub fn read_into(&self, start: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.file.read_exact_at(bytes, start)?;
        self.counters.bytes_passed_through.add(bytes.len() as u64);
        count(self.by_source.as_deref(), bytes.len());
        Ok(())
    }
}

/// Counts bytes read from the origin.
fn count(by_source: Option<&BytesBySource>, bytes: usize) {
    if let Some(by_source) = by_source {
        by_source.add(ByteSource::Origin, bytes as u64);
    }
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() < 2 {
        return pieces.pop().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| all.extend_from_slice(piece));
    all.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteSize, CacheOptions, ConsistencyRules, Origin, PageCache, ReadOptions, RequestOptions};

    async fn over(url: &str, folders: FolderReads) -> ReadThrough {
        let cache = PageCache::open(CacheOptions::new(ByteSize::mib(16))).await.unwrap();
        let origin = Origin::parse(url, &[], &RequestOptions::default()).unwrap();
        let options = ReadOptions { folders, ..ReadOptions::default() };
        ReadThrough::new(origin, cache, ConsistencyRules::default(), options)
    }

    #[tokio::test]
    async fn ranges_come_back_in_their_own_order_by_either_way() {
        let folder = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
        std::fs::write(folder.path().join("x"), &content).unwrap();
        for folders in [FolderReads::Pages, FolderReads::PastPages] {
            let store = over(folder.path().to_str().unwrap(), folders).await;
            let object = store.open_object(&Path::from("x")).await.unwrap();
            let ranges = [2_999_990..3_000_000, 5..5, 0..10, 1_000_000..2_500_000, 4..90_000];
            let read = object.read(&ranges).await.unwrap();
            for (range, bytes) in ranges.iter().zip(read) {
                assert_eq!(bytes.as_ref(), &content[range.start as usize..range.end as usize]);
            }
            let outside = object.read(&[0..1, 0..3_000_001]).await.unwrap_err();
            assert!(matches!(outside, Error::Range { .. }), "{outside}");
        }
    }

    #[tokio::test]
    async fn a_file_that_was_replaced_is_not_read_as_the_opened_one() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x"), b"before").unwrap();
        let store = over(folder.path().to_str().unwrap(), FolderReads::PastPages).await;
        let object = store.open_object(&Path::from("x")).await.unwrap();
        std::fs::write(folder.path().join("y"), b"after!").unwrap();
        std::fs::rename(folder.path().join("y"), folder.path().join("x")).unwrap();
        let error = object.read(&[0..6, 0..1]).await.unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
    }
}
