//! Answers to peers: runs of blocks of one version with their checksums, from memory, disk, or a fetch on their behalf.

use std::{ops::Range, sync::Arc, time::Duration};

use async_recursion::async_recursion as boxed;
use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use futures::StreamExt;
use object_store::{Attributes, ObjectMeta, path::Path};

use crate::{
    ByteRange, Error, ReadThrough,
    page_cache::{PagePiece, checksum},
    peers::{BlockRun, BlockRuns, PeerError, PeerRead, PeerRole},
    read::{fetcher::Fetcher, paged::PagedObject, reader::RangeReader},
    versions::ObjectInfo,
};

/// Maximum bytes of a run, unless a single block is larger: the peer waits for the whole run.
const MAX_RUN: usize = 1 << 20;

impl ReadThrough {
    /// Reads blocks of one version for a peer. Missing blocks are fetched as the role of this node allows, and cached
    /// if this node is their home.
    ///
    /// Returns once the first run is available. A donor without it declines, and so does a node whose origin fails or
    /// is slow: the peer then asks the origin itself, and gets the origin's error.
    #[boxed]
    pub async fn read_for_peer(&self, read: PeerRead) -> Result<BlockRuns, PeerError> {
        let refused = |reason: &str| PeerError::Failed { reason: reason.to_owned() };
        let key = Path::parse(&read.path).map_err(|error| refused(&error.to_string()))?;
        let (store, path) = match &read.kept {
            Some(version) => self
                .object_version(&key, version)
                .ok_or_else(|| refused("the bucket keeps no versions of objects"))?,
            None => (self, key.clone()),
        };
        store.read_blocks(path, key, read).await
    }

    /// Reads blocks of the object with this path in the store and this key in the bucket.
    async fn read_blocks(&self, path: Path, key: Path, read: PeerRead) -> Result<BlockRuns, PeerError> {
        let refused = |reason: &str| PeerError::Failed { reason: reason.to_owned() };
        let object = self.object_of_peer(path, key, &read);
        let object = object.ok_or_else(|| refused("no version that could be cached"))?;
        let range = ByteRange::new(read.range.start, read.range.end).filter(|range| {
            let is_aligned = object.align(read.range.clone()) == read.range;
            is_aligned && !range.is_empty() && range.end() <= object.size()
        });
        let range = range.ok_or_else(|| refused("not a range of whole blocks"))?;

        let fetcher = self.fetcher().clone();
        let deadline =
            fetcher.cluster.as_ref().map_or(Duration::MAX, |cluster| cluster.own_deadlines().block);
        let source = if read.role == PeerRole::Donor {
            BlockSource::Cached(fetcher.clone())
        } else {
            let read_ahead = self.read_options().read_ahead;
            let reader = RangeReader::new(fetcher.clone(), object.clone(), range, read_ahead);
            BlockSource::Reader(Box::new(reader))
        };

        let counters = fetcher.counters.clone();
        let end = range.end();
        let position = range.start();
        let mut runs = RunCutter { source, object, position, end, deadline, rest: Bytes::new(), piece: None };
        let first = runs.next().await?;

        let stream = futures::stream::unfold((Some(first), runs), move |(first, mut runs)| async move {
            let run = match first {
                Some(first) => Ok(first),
                None if runs.position >= runs.end => return None,
                None => runs.next().await,
            };
            // End the stream after an error.
            if run.is_err() {
                runs.position = runs.end;
            }
            Some((run, (None, runs)))
        });
        let counted = stream.inspect(move |run| {
            let bytes = run.as_ref().map_or(0, |run| run.bytes.len());
            counters.bytes_to_peers.add(bytes as u64);
        });
        Ok(counted.boxed())
    }

    /// Returns the version that a peer requests. `None` if it cannot be cached, so that the peer should not have
    /// asked for it.
    fn object_of_peer(&self, path: Path, key: Path, read: &PeerRead) -> Option<PagedObject> {
        let meta = ObjectMeta {
            location: key,
            last_modified: DateTime::<Utc>::UNIX_EPOCH,
            size: read.size,
            e_tag: read.e_tag.clone(),
            version: read.version.clone(),
        };

        let in_use = self.versions().in_use.begin(&path);
        let known = ObjectInfo::new(self.origin(), path, meta, Attributes::new(), in_use);
        let hash = known.hash?;
        let layout = self.cache().layout();
        Some(PagedObject { known: Arc::new(known), hash, layout, asked_as: Some(read.role) })
    }
}

/// The bytes of a served range, in chunks of any length.
enum BlockSource {
    Reader(Box<RangeReader>),
    /// Reads from memory and disk only.
    Cached(Arc<Fetcher>),
}

/// Splits the bytes of a range into runs of blocks.
struct RunCutter {
    source: BlockSource,
    object: PagedObject,
    /// Offset of the next block in the object.
    position: u64,
    end: u64,
    /// Maximum time to wait for bytes.
    deadline: Duration,
    /// Bytes that follow the position.
    rest: Bytes,
    /// The piece in memory that contains them, if they came from memory.
    piece: Option<Arc<PagePiece>>,
}

impl RunCutter {
    async fn next(&mut self) -> Result<BlockRun, PeerError> {
        let bytes = self.whole_blocks().await?;
        let checksums = self.checksums(&bytes);
        self.position += bytes.len() as u64;
        Ok(BlockRun { bytes, checksums })
    }

    /// Takes the whole blocks of the next chunk. Copies only blocks that span several chunks.
    async fn whole_blocks(&mut self) -> Result<Bytes, PeerError> {
        if self.rest.is_empty() {
            let position = self.position;
            let resident = match &mut self.source {
                BlockSource::Reader(reader) => reader.next_resident(),
                BlockSource::Cached(fetcher) => fetcher.resident(&self.object, position..self.end),
            };
            (self.piece, self.rest) = match resident {
                Some((piece, bytes)) => (Some(piece), bytes),
                None => (None, self.chunk(position).await?),
            };
        }
        let block = self.object.block_len(self.position);
        let len = self.object.whole_blocks(self.position, self.rest.len().min(MAX_RUN.max(block)));
        if len > 0 {
            return Ok(self.rest.split_to(len));
        }

        let mut gathered = BytesMut::with_capacity(block);
        loop {
            let missing = block - gathered.len();
            gathered.extend_from_slice(&self.rest.split_to(self.rest.len().min(missing)));
            if gathered.len() == block {
                return Ok(gathered.freeze());
            }
            self.rest = self.chunk(self.position + gathered.len() as u64).await?;
        }
    }

    /// Returns the checksums of the blocks at the position. Those of a piece in memory are computed once.
    fn checksums(&self, bytes: &[u8]) -> Box<[u64]> {
        let (key, first) = self.object.block_at(self.position);
        let layout = self.object.layout;
        let of_blocks =
            |first: u32, bytes: &[u8]| checksum::of_blocks(&key, first, bytes, layout.block as usize);

        let kept = self.piece.as_ref().and_then(|piece| {
            let first_kept = layout.block_of(piece.start());
            let from = first.checked_sub(first_kept)? as usize;
            let count = bytes.len().div_ceil(layout.block as usize);
            let checksums = piece.checksums(|bytes| of_blocks(first_kept, bytes));
            checksums.get(from..from + count).map(Box::from)
        });
        kept.unwrap_or_else(|| of_blocks(first, bytes))
    }

    /// Returns the next chunk, starting at `offset`.
    async fn chunk(&mut self, offset: u64) -> Result<Bytes, PeerError> {
        match &mut self.source {
            BlockSource::Reader(reader) => match tokio::time::timeout(self.deadline, reader.next()).await {
                Ok(Ok(Some(chunk))) => Ok(chunk),
                Ok(Err(Error::Changed { .. })) => Err(PeerError::Changed),
                Ok(Ok(None) | Err(_)) | Err(_) => Err(PeerError::Declined),
            },
            BlockSource::Cached(fetcher) => {
                from_disk(fetcher, &self.object, offset..self.end).await.ok_or(PeerError::Declined)
            }
        }
    }
}

/// Returns bytes of one page from disk, starting at the start of a range; `None` if the first one is not on disk.
async fn from_disk(fetcher: &Fetcher, object: &PagedObject, range: Range<u64>) -> Option<Bytes> {
    let Fetcher { cache, counters, .. } = fetcher;
    let (page, part) = object.parts(range).next()?;
    let key = object.key(page);
    let first = object.layout.block_of(part.start);
    let end = cache.disk_blocks(&key).run_end(first).min(object.layout.block_of(part.end - 1) + 1);
    let len = (end as usize * object.layout.block as usize).min(part.end).checked_sub(part.start)?;
    if len == 0 {
        return None;
    }
    let charge = cache.reserve(len as u64)?;
    let bytes = cache.read_disk(&key, first..end, len).await?;
    counters.bytes_disk.add(len as u64);
    Some(PagePiece::new(part.start, bytes, charge, object.known.in_use.clone()).whole())
}

#[cfg(test)]
mod tests {
    use std::{sync::OnceLock, time::Instant};

    use async_trait::async_trait;
    use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory};
    use parking_lot::Mutex;

    use super::*;
    use crate::{
        ByteSize, CacheOptions, ConsistencyRules, DescribeRequest, DescribedObject, Origin, PageCache,
        PathsChanged, PeerFault, PeerId, PeerSource, Peers, ReadOptions, RequestOptions, StripeSources,
    };

    const STRIPE: u64 = 64 << 20;

    /// Peers of a node, one of which is the home of every stripe.
    #[derive(Debug, Default)]
    struct OneHome {
        home: OnceLock<ReadThrough>,
        located: Mutex<Vec<Path>>,
        reads: Mutex<Vec<PeerRead>>,
    }

    #[async_trait]
    impl Peers for OneHome {
        fn stripe(&self, path: &Path, offset: u64) -> StripeSources {
            self.located.lock().push(path.clone());
            let peers = vec![PeerSource { peer: PeerId::new("home"), role: PeerRole::Home }];
            StripeSources { end: (offset / STRIPE + 1) * STRIPE, is_home: false, peers }
        }

        fn authority(&self, path: &Path) -> Option<PeerId> {
            panic!("{path}: a version needs no authority")
        }

        async fn read(&self, _: &PeerId, read: PeerRead) -> Result<BlockRuns, PeerError> {
            self.reads.lock().push(read.clone());
            let runs = self.home.get().unwrap().read_for_peer(read).await?;
            let copied =
                runs.map(|run| run.map(|run| BlockRun { bytes: Bytes::copy_from_slice(&run.bytes), ..run }));
            Ok(copied.boxed())
        }

        async fn describe(&self, _: &PeerId, _: DescribeRequest) -> Result<DescribedObject, PeerError> {
            Err(PeerError::Declined)
        }

        async fn tell(&self, _: &PeerId, _: PathsChanged) -> Result<(), PeerError> {
            Ok(())
        }

        fn others(&self) -> Vec<PeerId> {
            vec![PeerId::new("home")]
        }

        async fn evict(&self, _: &PeerId, _: &str) -> Result<u64, PeerError> {
            Ok(0)
        }

        fn suspect(&self, _: &PeerId, _: Instant, fault: PeerFault) {
            panic!("{fault}")
        }
    }

    #[tokio::test]
    async fn a_version_that_the_bucket_keeps_is_read_from_the_home_of_its_key() {
        let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let key = Path::from("lake/a b");
        bucket.put(&key, "the bytes".into()).await.unwrap();

        let origin = || {
            let region = [("region".to_owned(), "eu-west-1".to_owned())];
            let s3 = Origin::parse("s3://bucket", &region, &RequestOptions::default()).unwrap();
            s3.with_store(bucket.clone())
        };
        let open = async |peers: Option<Arc<OneHome>>| {
            let cache = PageCache::open(CacheOptions::new(ByteSize::mib(16))).await.unwrap();
            let rules = ConsistencyRules::default();
            let options = ReadOptions::default();
            match peers {
                Some(peers) => ReadThrough::in_cluster(origin(), cache, rules, options, peers),
                None => ReadThrough::new(origin(), cache, rules, options),
            }
        };
        let peers = Arc::new(OneHome::default());
        let node = open(Some(peers.clone())).await;
        let at_home = open(None).await;
        peers.home.set(at_home.clone()).unwrap();

        let (versions, path) = node.object_version(&key, "v1").unwrap();
        let bytes = versions.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(bytes, "the bytes");
        let asked: Vec<_> =
            peers.reads.lock().iter().map(|read| (read.path.clone(), read.kept.clone())).collect();
        assert_eq!(asked, [(key.to_string(), Some("v1".to_owned()))]);
        assert!(peers.located.lock().iter().all(|path| *path == key));
        assert_eq!((versions.stats().bytes_origin, at_home.stats().bytes_origin), (0, bytes.len() as u64));
    }
}
