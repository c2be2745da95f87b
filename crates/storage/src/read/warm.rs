//! Loads whole objects into the cache; in a cluster, each stripe into the cache of its home.

use std::ops::Range;

use async_recursion::async_recursion as boxed;
use futures::{StreamExt, TryStreamExt};
use object_store::{GetOptions, path::Path};

use crate::{
    ByteRange, Error, ReadThrough, Result,
    peers::PeerSource,
    read::{
        fetch_plan::FirstBytes,
        paged::PagedObject,
        reader::RangeReader,
        requests::to_peers::{FetchRoute, PeerMiss, PeerRequests},
    },
};

/// Maximum stripes of an object that are loaded concurrently.
const MAX_CONCURRENT_STRIPES: usize = 4;

impl ReadThrough {
    /// Loads the whole object into the cache; in a cluster, each stripe into the cache of its home. Returns the
    /// number of bytes loaded: the size of the object, minus the stripes whose home does not answer.
    #[tracing::instrument(level = "debug", skip_all, fields(object = self.origin().name_of(path)))]
    #[boxed]
    pub async fn warm(&self, path: &Path) -> Result<u64> {
        let Some(cluster) = &self.fetcher().cluster else { return self.warm_here(path).await };
        match self.warm_homes(cluster, path, false).await {
            Err(Error::Changed { .. }) => self.warm_homes(cluster, path, true).await,
            loaded => loaded,
        }
    }

    async fn warm_here(&self, path: &Path) -> Result<u64> {
        let result = self.open(path, GetOptions::new()).await?;
        let mut stream = result.into_stream();
        let mut bytes = 0;
        while let Some(chunk) = stream.next().await {
            bytes += chunk.map_err(|error| Error::from_origin(path.as_ref(), error))?.len() as u64;
        }
        Ok(bytes)
    }

    async fn warm_homes(&self, cluster: &PeerRequests, path: &Path, at_once: bool) -> Result<u64> {
        let (known, _first) = self.resolve(path, at_once, Some(FirstBytes::Range(0..u64::MAX))).await?;
        let Some(hash) = known.hash else { return self.warm_here(path).await };
        let object = PagedObject { known, hash, layout: self.cache().layout(), asked_as: None };

        let mut loads = Vec::new();
        let mut start = 0;
        while start < object.size() {
            let FetchRoute { end, is_home, peers } = cluster.route(&object, start);
            let stripe = start..end.min(object.size());
            start = stripe.end;
            let object = &object;
            loads.push(async move {
                if is_home {
                    self.warm_own_stripe(object, stripe).await
                } else {
                    self.warm_stripe_of_peer(cluster, object, stripe, peers).await
                }
            });
        }

        let loads = futures::stream::iter(loads).buffer_unordered(MAX_CONCURRENT_STRIPES);
        loads.try_fold(0, |sum, loaded| std::future::ready(Ok(sum + loaded))).await
    }

    async fn warm_own_stripe(&self, object: &PagedObject, stripe: Range<u64>) -> Result<u64> {
        let Some(range) = ByteRange::new(stripe.start, stripe.end) else { return Ok(0) };
        let read_ahead = self.read_options().read_ahead;
        let mut reader = RangeReader::new(self.fetcher().clone(), object.clone(), range, read_ahead);
        let mut loaded = 0;
        while let Some(bytes) = reader.next().await? {
            loaded += bytes.len() as u64;
        }
        Ok(loaded)
    }

    /// Reads a stripe through its home, which caches it. This node does not.
    async fn warm_stripe_of_peer(
        &self,
        cluster: &PeerRequests,
        object: &PagedObject,
        stripe: Range<u64>,
        mut peers: Vec<PeerSource>,
    ) -> Result<u64> {
        peers.truncate(1);
        let changed = || self.fetcher().requests.changed(&object.known);
        let len = stripe.end - stripe.start;
        let mut loaded = 0;

        let opened = cluster.open(object, &mut peers, object.align(stripe), None).await;
        if let Some(mut blocks) = opened.map_err(|_| changed())? {
            while loaded < len {
                match blocks.next().await {
                    Ok(block) => loaded += block.len() as u64,
                    Err(PeerMiss::Unavailable) => break,
                    Err(PeerMiss::Changed) => return Err(changed()),
                }
            }
        }

        if loaded < len {
            tracing::warn!(path = %object.known.path, bytes = len - loaded, "not loaded by their home");
        }
        Ok(loaded)
    }
}
