//! Fake nodes: each is a store over one in-memory bucket, which records its requests and fails on demand.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    ops::Range,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory,
    path::Path,
};
use parking_lot::Mutex;
use stylobate_client::{
    ClusterNode, ClusterStore, ClusterStoreOptions, ClusterView, NodeAddress, NodeConnector, NodeDoor,
    NodeStores, parse_nodes,
};

/// Size of a chunk of an answer.
const CHUNK: usize = 1 << 20;

/// The way in which a node fails to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing listens at the node's address.
    Refuse,
    /// The connection breaks after the request was sent.
    Break,
    /// No answer ever comes.
    Hang,
    /// The answer arrives after this time.
    Late(Duration),
    /// A read breaks after this many bytes.
    BreakAfter(usize),
    /// A read ends after this many bytes as if it were complete.
    EndAfter(usize),
    /// A read stalls forever after this many bytes.
    HangAfter(usize),
}

/// A node. Clones share all its state.
#[derive(Clone, Debug)]
pub(crate) struct FakeNode {
    bucket: Arc<Mutex<Arc<InMemory>>>,
    requests: Arc<Mutex<Vec<FakeRequest>>>,
    /// Faults of the next requests.
    faults: Arc<Mutex<VecDeque<Fault>>>,
    /// The fault of all requests, if any.
    fault: Arc<Mutex<Option<Fault>>>,
    description: Arc<Mutex<String>>,
    /// Hides ETags, as some servers do.
    has_no_etags: Arc<Mutex<bool>>,
}

/// A request received by a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FakeRequest {
    pub(crate) operation: &'static str,
    pub(crate) path: String,
    /// Range of the answer, if the request is a read. Empty until it is answered.
    pub(crate) range: Range<u64>,
    pub(crate) if_match: Option<String>,
}

impl FakeNode {
    fn new(bucket: &Arc<InMemory>) -> Self {
        Self {
            bucket: Arc::new(Mutex::new(bucket.clone())),
            requests: Arc::default(),
            faults: Arc::default(),
            fault: Arc::default(),
            description: Arc::default(),
            has_no_etags: Arc::default(),
        }
    }

    /// Makes the next requests fail, one fault each.
    pub(crate) fn fail_next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().extend(faults);
    }

    /// Makes all requests fail, or none.
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        *self.fault.lock() = fault;
    }

    /// Makes the node answer from another bucket, like a node that knows another version.
    pub(crate) fn serve(&self, bucket: &Arc<InMemory>) {
        *self.bucket.lock() = bucket.clone();
    }

    pub(crate) fn describe_as(&self, description: &str) {
        description.clone_into(&mut self.description.lock());
    }

    pub(crate) fn hide_etags(&self) {
        *self.has_no_etags.lock() = true;
    }

    /// Returns the requests since the last call, except those for the cluster's description.
    pub(crate) fn take_requests(&self) -> Vec<FakeRequest> {
        std::mem::take(&mut self.requests.lock())
    }

    fn bucket(&self) -> Arc<InMemory> {
        self.bucket.lock().clone()
    }

    /// Records a request, and returns the fault that it encounters.
    async fn begin(&self, operation: &'static str, path: &Path) -> Result<Option<Fault>> {
        let fault = self.faults.lock().pop_front().or(*self.fault.lock());
        if fault != Some(Fault::Refuse) {
            let path = path.to_string();
            self.requests.lock().push(FakeRequest { operation, path, range: 0..0, if_match: None });
        }
        match fault {
            Some(Fault::Refuse) => Err(broken(io::ErrorKind::ConnectionRefused)),
            Some(Fault::Break) => Err(broken(io::ErrorKind::ConnectionReset)),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Late(time)) => {
                tokio::time::sleep(time).await;
                Ok(None)
            }
            fault => Ok(fault),
        }
    }
}

fn broken(kind: io::ErrorKind) -> Error {
    Error::Generic { store: "FakeNode", source: io::Error::from(kind).into() }
}

impl fmt::Display for FakeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FakeNode")
    }
}

#[async_trait]
impl ObjectStore for FakeNode {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.begin("put", location).await?;
        self.bucket().put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.begin("upload", location).await?;
        self.bucket().put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let operation = if options.head { "head" } else { "get" };
        let fault = self.begin(operation, location).await?;
        let if_match = options.if_match.clone();
        let mut result = self.bucket().get_opts(location, options).await?;
        if let Some(request) = self.requests.lock().last_mut() {
            request.range = result.range.clone();
            request.if_match = if_match;
        }

        if *self.has_no_etags.lock() {
            result.meta.e_tag = None;
        }
        let meta = result.meta.clone();
        let attributes = result.attributes.clone();
        let range = result.range.clone();
        let mut bytes = result.bytes().await?;
        let (fault, keep) = match fault {
            Some(Fault::BreakAfter(keep) | Fault::EndAfter(keep) | Fault::HangAfter(keep)) => (fault, keep),
            _ => (None, usize::MAX),
        };
        bytes.truncate(keep);

        let chunks: Vec<Result<Bytes>> = (0..bytes.len())
            .step_by(CHUNK)
            .map(|at| Ok(bytes.slice(at..bytes.len().min(at + CHUNK))))
            .collect();
        let end = match fault {
            Some(Fault::BreakAfter(_)) => stream::iter([Err(broken(io::ErrorKind::ConnectionReset))]).boxed(),
            Some(Fault::HangAfter(_)) => stream::pending().boxed(),
            _ => stream::empty().boxed(),
        };
        let payload = GetResultPayload::Stream(stream::iter(chunks).chain(end).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let node = self.clone();
        let delete = move |location: Path| {
            let node = node.clone();
            async move {
                node.begin("delete", &location).await?;
                let one = stream::iter([Ok(location.clone())]).boxed();
                node.bucket().delete_stream(one).try_collect::<Vec<_>>().await?;
                Ok(location)
            }
        };
        locations.and_then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.bucket().list(prefix);
        self.listed(prefix, listed)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.bucket().list_with_offset(prefix, offset);
        self.listed(prefix, listed)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.begin("list", prefix.unwrap_or(&Path::default())).await?;
        self.bucket().list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.begin("copy", to).await?;
        self.bucket().copy_opts(from, to, options).await
    }
}

impl FakeNode {
    fn listed(
        &self,
        prefix: Option<&Path>,
        listed: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let node = self.clone();
        let prefix = prefix.cloned().unwrap_or_default();
        let begun = async move {
            let fault = node.begin("list", &prefix).await?;
            let Some(Fault::BreakAfter(keep)) = fault else { return Ok::<_, Error>(listed) };
            let broken = stream::iter([Err(broken(io::ErrorKind::ConnectionReset))]);
            Ok(listed.take(keep).chain(broken).boxed())
        };
        stream::once(begun).try_flatten().boxed()
    }
}

/// The nodes of a test, by address.
#[derive(Clone, Debug)]
pub(crate) struct FakeCluster {
    pub(crate) bucket: Arc<InMemory>,
    nodes: Arc<BTreeMap<NodeAddress, FakeNode>>,
    entries: Vec<ClusterNode>,
}

impl FakeCluster {
    /// Creates nodes from these node list entries.
    pub(crate) fn new(entries: &[&str]) -> Self {
        let bucket = Arc::new(InMemory::new());
        let entries = parse_nodes(entries, NodeDoor::S3).unwrap();
        let address = |node: &ClusterNode| node.addresses().s3.clone().unwrap();
        let nodes = entries.iter().map(|node| (address(node), FakeNode::new(&bucket))).collect();
        Self { bucket, nodes: Arc::new(nodes), entries }
    }

    /// Creates three nodes.
    pub(crate) fn of_three() -> Self {
        Self::new(&["a=a:1", "b=b:1", "c=c:1"])
    }

    pub(crate) fn view(&self) -> ClusterView {
        ClusterView::new(self.entries.clone()).unwrap()
    }

    /// Returns a store that is given all nodes.
    pub(crate) fn store(&self) -> ClusterStore {
        self.store_of(self.entries.clone(), ClusterStoreOptions::default())
    }

    /// Returns a store that is given some nodes.
    pub(crate) fn store_of(&self, seeds: Vec<ClusterNode>, options: ClusterStoreOptions) -> ClusterStore {
        ClusterStore::new(seeds, self.clone(), options).unwrap()
    }

    /// Returns a store with a short answer timeout.
    pub(crate) fn impatient_store(&self) -> ClusterStore {
        let options = ClusterStoreOptions::default().with_answer_timeout(Duration::from_millis(100));
        self.store_of(self.entries.clone(), options)
    }

    pub(crate) fn seeds(&self, ids: &[&str]) -> Vec<ClusterNode> {
        self.entries.iter().filter(|node| ids.contains(&node.id().as_str())).cloned().collect()
    }

    /// Returns the node with this id.
    pub(crate) fn node(&self, id: &str) -> &FakeNode {
        let view = self.view();
        let address = view.node(id).unwrap().addresses().s3.clone().unwrap();
        self.nodes.get(&address).unwrap()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &FakeNode> {
        self.nodes.values()
    }
}

#[async_trait]
impl NodeConnector for FakeCluster {
    fn bucket(&self) -> &str {
        "lake"
    }

    fn connect(&self, address: &NodeAddress) -> Result<NodeStores> {
        let node = match self.nodes.get(address) {
            Some(node) => node.clone(),
            None => {
                let absent = FakeNode::new(&self.bucket);
                absent.fail(Some(Fault::Refuse));
                absent
            }
        };
        let node = Arc::new(node);
        Ok(NodeStores { requests: node.clone(), uploads: node })
    }

    async fn describe(&self, address: &NodeAddress) -> Result<Bytes> {
        let refused = || broken(io::ErrorKind::ConnectionRefused);
        let node = self.nodes.get(address).ok_or_else(refused)?;
        let fault = *node.fault.lock();
        match fault {
            None | Some(Fault::Late(_)) => Ok(node.description.lock().clone().into()),
            Some(Fault::Hang) => std::future::pending().await,
            Some(_) => Err(refused()),
        }
    }
}
