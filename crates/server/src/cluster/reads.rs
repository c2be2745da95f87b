//! Reads of one bucket from the other nodes: combines the routes of the membership with the peer client.

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use futures::StreamExt;
use object_store::path::Path;
use serde::{Serialize, de::DeserializeOwned};
use stylobate_client::PathHash;
use stylobate_storage::{
    BlockRuns, DescribeRequest, DescribedObject, PathsChanged, PeerError, PeerFault, PeerId, PeerRead, Peers,
    StripeSources,
};

use super::{
    Cluster,
    peer_client::{BucketRequest, DESCRIBE_PATH, EVICT_PATH, WROTE_PATH},
    routes::{BucketRoutes, PeerRoute},
};

/// The other nodes of the cluster, for one bucket.
#[derive(Debug)]
pub(super) struct BucketPeers {
    cluster: Arc<Cluster>,
    bucket: String,
    /// Hash of the bucket's origin.
    origin: String,
}

impl BucketPeers {
    pub(super) fn new(cluster: Arc<Cluster>, bucket: String, origin: String) -> Self {
        Self { cluster, bucket, origin }
    }

    fn path(&self, path: &Path) -> PathHash {
        PathHash::of(&self.bucket, path.as_ref())
    }

    /// Returns the route to a peer. A peer that is no longer known counts as one without an answer.
    fn route(&self, peer: &PeerId) -> Result<PeerRoute, PeerError> {
        let routes = self.cluster.routes();
        let route = routes.bucket(&self.bucket).and_then(|bucket| bucket.peer(peer));
        route.cloned().ok_or(PeerError::Declined)
    }

    fn request<T>(&self, payload: T) -> BucketRequest<T> {
        BucketRequest {
            from: self.cluster.id.to_string(),
            bucket: self.bucket.clone(),
            origin: self.origin.clone(),
            page_size: self.cluster.shared.page_size.as_u64(),
            payload,
        }
    }

    async fn ask<T: Serialize + Send + Sync, A: DeserializeOwned>(
        &self,
        peer: &PeerId,
        path: &str,
        request: T,
    ) -> Result<A, PeerError> {
        let route = self.route(peer)?;
        let _in_flight = route.begin_request();
        self.cluster.client.ask(&route.address, path, &self.request(request)).await
    }
}

#[async_trait]
impl Peers for BucketPeers {
    fn stripe(&self, path: &Path, offset: u64) -> StripeSources {
        let routes = self.cluster.routes();
        match routes.bucket(&self.bucket) {
            Some(bucket) => bucket.stripe(self.path(path), offset, Instant::now()),
            None => StripeSources { end: u64::MAX, is_home: true, peers: Vec::new() },
        }
    }

    fn authority(&self, path: &Path) -> Option<PeerId> {
        let routes = self.cluster.routes();
        let bucket = routes.bucket(&self.bucket)?;
        if bucket.is_alone() { None } else { bucket.authority(self.path(path)) }
    }

    async fn read(&self, peer: &PeerId, read: PeerRead) -> Result<BlockRuns, PeerError> {
        let route = self.route(peer)?;
        let in_flight = route.begin_request();
        let runs = self.cluster.client.pages(&route.address, &self.request(read)).await?;
        let counted = runs.map(move |run| {
            let _until_the_stream_is_dropped = &in_flight;
            run
        });
        Ok(counted.boxed())
    }

    async fn describe(&self, peer: &PeerId, request: DescribeRequest) -> Result<DescribedObject, PeerError> {
        self.ask(peer, DESCRIBE_PATH, request).await
    }

    async fn tell(&self, peer: &PeerId, change: PathsChanged) -> Result<(), PeerError> {
        self.ask(peer, WROTE_PATH, change).await
    }

    fn others(&self) -> Vec<PeerId> {
        self.cluster.routes().bucket(&self.bucket).map(BucketRoutes::others).unwrap_or_default()
    }

    async fn evict(&self, peer: &PeerId, prefix: &str) -> Result<u64, PeerError> {
        self.ask(peer, EVICT_PATH, prefix).await
    }

    fn suspect(&self, peer: &PeerId, sent: Instant, fault: PeerFault) {
        // The deadline for a donor is short on purpose: a late answer is a miss, not a failure of the peer.
        if matches!(fault, PeerFault::Late(deadline) if deadline <= self.deadlines().donor) {
            return;
        }
        if let Ok(route) = self.route(peer) {
            self.cluster.request_failed(&route.address, fault.to_string(), sent);
        }
    }
}
