//! An object store for one bucket over the nodes of a cluster, which sends requests directly to the home of each
//! stripe.

mod connect;
mod description;
mod failure;
mod pool;
mod read;

use std::{fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    path::Path,
};

pub use self::{
    connect::{NodeConnector, NodeStores, S3Connector},
    description::{ClusterDescription, NodeDescription},
    pool::ClusterStoreOptions,
};
use self::{
    failure::NodeFailure,
    pool::{NodePool, NodeRequest, RepeatEffect},
};
use crate::{
    address::NodeAddress,
    node::ClusterNode,
    placement::{PathHash, StripeKey},
    view::ClusterView,
};

/// Name of the store in errors.
const STORE: &str = "ClusterStore";
/// Maximum objects deleted concurrently.
const CONCURRENT_DELETES: usize = 20;

/// An object store for one bucket over the nodes of a cluster. Cheap to clone.
///
/// Each part of a read goes to the home of its stripe, without a hop between nodes. If a node fails, by its
/// connection, a 5xx status or silence, the request moves on to the deputy and then to any other node, even in the
/// middle of an answer: no read fails as long as one node answers. All bytes of a read belong to one version; if the
/// object is replaced in the meantime and no node has the former bytes, the read fails with [`Error::Precondition`].
///
/// Reads are hedged: if a node does not begin to answer within the time in which 95% of recent reads began, the read
/// is also sent to the deputy. The first answer wins, and the other request is cancelled.
///
/// Writes, listings and HEADs go to the home of stripe 0, the authority of the path, and move on to others in the
/// same way. A conditional write is repeated only if the failed node did nothing, since it could conflict with
/// itself. A multipart upload stays on one node.
///
/// The store requests the view of the cluster from the given nodes at the first request, every few seconds while
/// it is in use, and after failures. If they are not in a cluster, the given nodes are the view.
///
/// ```no_run
/// use object_store::{ObjectStoreExt, aws::AmazonS3Builder};
/// use stylobate_client::{ClusterStore, ClusterStoreOptions, NodeDoor, S3Connector, parse_nodes};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let s3 = AmazonS3Builder::new()
///     .with_bucket_name("lake")
///     .with_access_key_id("reader")
///     .with_secret_access_key("a long secret")
///     .with_allow_http(true);
/// let nodes = parse_nodes(["10.0.0.1:9000", "10.0.0.2:9000"], NodeDoor::S3)?;
/// let store = ClusterStore::new(nodes, S3Connector::new(s3)?, ClusterStoreOptions::default())?;
///
/// let bytes = store.get_range(&"lineitem/part-0.parquet".into(), 0..4).await?;
/// assert_eq!(bytes.as_ref(), b"PAR1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ClusterStore {
    pool: Arc<NodePool>,
}

impl fmt::Display for ClusterStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{STORE}({})", self.pool.bucket())
    }
}

impl ClusterStore {
    /// Creates a store over nodes with S3 addresses, without sending a request.
    ///
    /// Fails if the list is empty, contains an id or an address twice, or contains a node that cannot be connected
    /// to.
    pub fn new(
        nodes: impl IntoIterator<Item = ClusterNode>,
        connector: impl NodeConnector,
        options: ClusterStoreOptions,
    ) -> Result<Self> {
        let invalid = |source| Error::Generic { store: STORE, source };
        let seeds = ClusterView::new(nodes).map_err(|error| invalid(error.into()))?;
        if let Some(node) = seeds.nodes().iter().find(|node| node.addresses().s3.is_none()) {
            return Err(invalid(format!("the node {:?} has no S3 address", node.id().as_str()).into()));
        }
        let pool = NodePool::new(seeds, Arc::new(connector), options)?;
        Ok(Self { pool: Arc::new(pool) })
    }

    /// Returns the view that currently determines the placement of requests: nodes that do not answer are down in it.
    pub fn view(&self) -> ClusterView {
        self.pool.view()
    }

    /// Returns the key of stripe 0, whose home is the authority of the path.
    fn authority(&self, path: &Path) -> StripeKey {
        PathHash::of(self.pool.bucket(), path.as_ref()).stripe(0)
    }

    /// Sends a request to the authority of a path; it is complete when its future is.
    async fn ask_authority<T, F>(
        &self,
        path: &Path,
        effect: RepeatEffect,
        send: impl Fn(&NodeStores) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let (answer, request) = self.pool.ask(self.authority(path), &[], effect, send).await?;
        request.succeeded();
        Ok(answer)
    }

    async fn delete_object(&self, path: &Path) -> Result<()> {
        self.ask_authority(path, RepeatEffect::Same, |stores| {
            let store = stores.requests.clone();
            let path = path.clone();
            async move { store.delete(&path).await }
        })
        .await
    }

    fn listing(&self, prefix: Option<&Path>, after: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listing = Listing {
            pool: self.pool.clone(),
            key: self.authority(prefix.unwrap_or(&Path::default())),
            prefix: prefix.cloned(),
            after: after.cloned(),
            part: None,
            avoid: Vec::new(),
            consecutive_failures: 0,
        };
        let next = |mut listing: Listing| async move {
            let meta = listing.next().await?;
            Ok(meta.map(|meta| (meta, listing)))
        };
        stream::try_unfold(listing, next).boxed()
    }
}

#[async_trait]
impl ObjectStore for ClusterStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let effect = match options.mode {
            PutMode::Overwrite => RepeatEffect::Same,
            PutMode::Create | PutMode::Update(_) => RepeatEffect::Conflict,
        };
        self.ask_authority(location, effect, |stores| {
            let store = stores.requests.clone();
            let location = location.clone();
            let payload = payload.clone();
            let options = options.clone();
            async move { store.put_opts(&location, payload, options).await }
        })
        .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.ask_authority(location, RepeatEffect::Same, |stores| {
            let store = stores.uploads.clone();
            let location = location.clone();
            let options = options.clone();
            async move { store.put_multipart_opts(&location, options).await }
        })
        .await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        read::get(&self.pool, location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        read::get_ranges(&self.pool, location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let delete = move |location: Result<Path>| {
            let store = store.clone();
            async move {
                let location = location?;
                store.delete_object(&location).await?;
                Ok(location)
            }
        };
        locations.map(delete).buffered(CONCURRENT_DELETES).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix, Some(offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.cloned().unwrap_or_default();
        self.ask_authority(&path, RepeatEffect::Same, |stores| {
            let store = stores.requests.clone();
            let prefix = prefix.cloned();
            async move { store.list_with_delimiter(prefix.as_ref()).await }
        })
        .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let effect = match options.mode {
            CopyMode::Overwrite => RepeatEffect::Same,
            CopyMode::Create => RepeatEffect::Conflict,
        };
        self.ask_authority(to, effect, |stores| {
            let store = stores.requests.clone();
            let from = from.clone();
            let to = to.clone();
            let options = options.clone();
            async move { store.copy_opts(&from, &to, options).await }
        })
        .await
    }
}

/// A listing in progress. Keys arrive in order, so that another node can continue after the last one.
struct Listing {
    pool: Arc<NodePool>,
    key: StripeKey,
    prefix: Option<Path>,
    after: Option<Path>,
    part: Option<(BoxStream<'static, Result<ObjectMeta>>, NodeRequest)>,
    avoid: Vec<NodeAddress>,
    /// Failures since the last key.
    consecutive_failures: usize,
}

impl Listing {
    async fn next(&mut self) -> Result<Option<ObjectMeta>> {
        loop {
            let (mut listed, request) = match self.part.take() {
                Some(part) => part,
                None => self.begin().await?,
            };

            let error = match listed.try_next().await {
                Ok(Some(meta)) => {
                    self.after = Some(meta.location.clone());
                    self.consecutive_failures = 0;
                    self.part = Some((listed, request));
                    return Ok(Some(meta));
                }
                Ok(None) => {
                    request.succeeded();
                    return Ok(None);
                }
                Err(error) => error,
            };

            if NodeFailure::of(&error).is_none() {
                return Err(error);
            }
            request.failed();
            self.consecutive_failures += 1;
            if self.consecutive_failures > self.pool.len() + 2 {
                return Err(error);
            }
            self.avoid.push(request.address().clone());
        }
    }

    async fn begin(&mut self) -> Result<(BoxStream<'static, Result<ObjectMeta>>, NodeRequest)> {
        let mut request = self.pool.begin(self.key, &self.avoid).await;
        if request.is_none() {
            self.avoid.clear();
            request = self.pool.begin(self.key, &[]).await;
        }
        let request = request.ok_or(failure::NodeFault::NoNode)?;
        let store = &request.stores().requests;
        let prefix = self.prefix.as_ref();
        let listed = match &self.after {
            Some(after) => store.list_with_offset(prefix, after),
            None => store.list(prefix),
        };
        Ok((listed, request))
    }
}
