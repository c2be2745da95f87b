//! Clusters of nodes: placement as the nodes compute it, and buckets that are read through several nodes.

use std::sync::Arc;

use object_store::{
    ObjectStore,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    path::Path,
    prefix::PrefixStore,
};
use pyo3::prelude::*;
use stylobate_client::{
    ClusterNode, ClusterStore, ClusterStoreOptions, ClusterView, NodeDescription, NodeDoor, PathHash,
    RequestsInFlight, S3Connector, parse_node,
};
use stylobate_storage::{Origin, without_credentials};

use crate::errors::{ErrorClass, UnraisedError};

/// Maximum time of one request from its first byte to its last, unless the options say otherwise.
const REQUEST_TIMEOUT: &str = "300s";
/// Options that give credentials. Without any of them, requests are unsigned.
const CREDENTIALS: [AmazonS3ConfigKey; 4] = [
    AmazonS3ConfigKey::AccessKeyId,
    AmazonS3ConfigKey::WebIdentityTokenFile,
    AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
    AmazonS3ConfigKey::ContainerCredentialsFullUri,
];

/// Returns the ids of the first `count` nodes in rank for the stripe that has the byte at `offset`.
///
/// A node is an entry of a node list, or a JSON object of `GET /?x-stylobate-cluster`.
#[pyfunction]
pub(crate) fn rank_nodes(
    py: Python<'_>,
    nodes: Vec<String>,
    bucket: &str,
    key: &str,
    offset: u64,
    count: usize,
) -> PyResult<Vec<String>> {
    let view = view(&nodes).map_err(|error| error.raised(py))?;
    let ranked = view.rank(PathHash::of(bucket, key).stripe_at(offset), count);
    Ok(ranked.into_iter().map(|node| node.id().to_string()).collect())
}

/// Returns the digest of the view of the nodes.
#[pyfunction]
pub(crate) fn view_digest(py: Python<'_>, nodes: Vec<String>) -> PyResult<String> {
    let view = view(&nodes).map_err(|error| error.raised(py))?;
    Ok(view.digest().to_string())
}

/// Returns the rank of the node to ask next, given the requests in flight to the first nodes in rank.
#[pyfunction]
pub(crate) fn choose_by_load(in_flight: Vec<u64>, total: u64, nodes: u64) -> usize {
    RequestsInFlight { total, nodes }.choose(&in_flight)
}

fn view(nodes: &[String]) -> Result<ClusterView, UnraisedError> {
    let nodes = nodes.iter().map(|node| described(node)).collect::<Result<Vec<_>, _>>()?;
    ClusterView::new(nodes).map_err(refused)
}

fn described(node: &str) -> Result<ClusterNode, UnraisedError> {
    if !node.starts_with('{') {
        return parse_node(node, NodeDoor::S3).map_err(refused);
    }
    let description: NodeDescription = serde_json::from_str(node).map_err(refused)?;
    description.node().map_err(refused)
}

fn refused(error: impl std::fmt::Display) -> UnraisedError {
    UnraisedError::new(ErrorClass::Config, format!("nodes: {error}"))
}

/// Returns the bucket at `url`, `s3://bucket/prefix`, read through nodes. `options` are those of S3.
///
/// Nodes are reached by plain HTTP unless `allow_http` is false, and requests are not signed without credentials.
pub(crate) fn cluster_origin(
    url: &str,
    nodes: &[String],
    options: &[(String, String)],
) -> Result<Origin, UnraisedError> {
    let url = without_credentials(url);
    let invalid = |reason: String| UnraisedError::new(ErrorClass::Config, format!("{url}: {reason}"));
    let Some(location) = url.strip_prefix("s3://") else {
        return Err(invalid("nodes serve buckets: give s3://bucket".to_owned()));
    };
    let (bucket, prefix) = location.split_once('/').unwrap_or((location, ""));
    let prefix = Path::from_url_path(prefix).map_err(|error| invalid(error.to_string()))?;

    let mut builder = AmazonS3Builder::from_env();
    let defaults = [("timeout", REQUEST_TIMEOUT), ("allow_http", "true")];
    let given = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in defaults.into_iter().chain(given) {
        let key = name
            .to_ascii_lowercase()
            .parse()
            .map_err(|error: object_store::Error| invalid(error.to_string()))?;
        builder = builder.with_config(key, value);
    }
    builder = builder.with_bucket_name(bucket);
    let has_credentials = CREDENTIALS.iter().any(|key| builder.get_config_value(key).is_some());
    let says_itself = options.iter().any(|(name, _)| name.to_ascii_lowercase().ends_with("skip_signature"));
    if !has_credentials && !says_itself {
        builder = builder.with_skip_signature(true);
    }

    let failed = |error: object_store::Error| invalid(error.to_string());
    let entries = nodes.iter().map(|node| described(node)).collect::<Result<Vec<_>, _>>()?;
    let connector = S3Connector::new(builder).map_err(failed)?;
    let store = ClusterStore::new(entries, connector, ClusterStoreOptions::default()).map_err(failed)?;

    let mut sorted = nodes.to_vec();
    sorted.sort();
    let identity = format!("{url} through {}", sorted.join(" "));
    let store: Arc<dyn ObjectStore> =
        if prefix.is_root() { Arc::new(store) } else { Arc::new(PrefixStore::new(store, prefix)) };
    Ok(Origin::new(url.trim_end_matches('/'), store).with_identity(identity))
}
