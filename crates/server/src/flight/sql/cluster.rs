//! The cluster as the query planner sees it: the nodes that run tasks, the node that reads a row group, and the
//! connections to them.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::SystemTime,
};

use http::Request;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use stylobate_datafusion::{
    Result,
    distributed::{ConnectNode, Distribution, NodeChannel, QueryNodes, RecentFailures, node_endpoint},
};
use tonic::codegen::Service;
use url::Url;

use crate::{
    cluster::{Cluster, PeerKey},
    https::http2_connector,
};

/// Returns the distribution of queries over the nodes of a cluster.
pub(super) fn distribution(cluster: &Arc<Cluster>) -> Distribution {
    let nodes = ClusterNodes { cluster: cluster.clone(), failures: RecentFailures::default() };
    let connector = SignedConnector {
        key: cluster.key().clone(),
        connector: http2_connector(cluster.certificate_name()),
    };
    Distribution::connected(Arc::new(nodes), Arc::new(connector))
}

/// The nodes of the cluster. A node that failed is skipped for a while, until the probes have determined its state.
#[derive(Debug)]
struct ClusterNodes {
    cluster: Arc<Cluster>,
    failures: RecentFailures,
}

impl ClusterNodes {
    /// Returns the URL of a node, unless the node failed recently.
    fn worker(&self, url: &str) -> Option<Url> {
        let url = Url::parse(url).ok()?;
        self.failures.is_up(&url).then_some(url)
    }
}

impl QueryNodes for ClusterNodes {
    fn workers(&self) -> Vec<Url> {
        self.cluster.query_workers().iter().filter_map(|url| self.worker(url)).collect()
    }

    fn home(&self, source: &str, path: &str, offset: u64) -> Option<Url> {
        let homes = self.cluster.query_homes(bucket_of(source), path, offset);
        if homes.is_empty() {
            // The bucket is not shared, so only this node can read it.
            return self.worker(&self.cluster.own_query_url()?);
        }
        let workers = self.cluster.query_workers();
        homes.iter().filter(|home| workers.contains(home)).find_map(|home| self.worker(home))
    }

    fn is_shared(&self, source: &str) -> bool {
        !self.cluster.query_homes(bucket_of(source), "", 0).is_empty()
    }

    fn failed(&self, worker: &Url) {
        self.failures.add(worker.clone());
        self.cluster.query_failed(worker.as_str());
    }
}

/// Returns the bucket of a named source.
fn bucket_of(source: &str) -> &str {
    source.split_once('/').map_or(source, |(bucket, _)| bucket)
}

/// Connects to the Flight doors of other nodes, over TLS if the doors have a certificate, and signs each call.
#[derive(Debug)]
struct SignedConnector {
    key: PeerKey,
    connector: HttpsConnector<HttpConnector>,
}

impl ConnectNode for SignedConnector {
    fn connect(&self, url: &Url) -> Result<NodeChannel> {
        let channel = node_endpoint(url)?.connect_with_connector_lazy(self.connector.clone());
        Ok(NodeChannel::new(SignedCalls { channel, key: self.key.clone() }))
    }
}

/// A channel that signs each call with the cluster's secret.
#[derive(Clone)]
struct SignedCalls<S> {
    channel: S,
    key: PeerKey,
}

impl<S, B> Service<Request<B>> for SignedCalls<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let path = request.uri().path().to_owned();
        self.key.sign_call(request.headers_mut(), &path, rand::random(), SystemTime::now());
        self.channel.call(request)
    }
}
