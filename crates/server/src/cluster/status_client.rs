//! Client functions for a node's admin door: fetch the state of its cluster, and drain the node.

use async_recursion::async_recursion as boxed;
use serde_json::json;
use stylobate_storage::without_credentials;

use super::status::ClusterStatus;
use crate::{
    Result, ServerError,
    admin_client::{AdminClient, AdminRequestError},
    config::Secret,
};

/// Fetches the state of a node's cluster from its admin door at `url`, such as `http://127.0.0.1:9001`. If the node
/// has access keys, `secret` is the secret of a key for all buckets.
///
/// # Errors
///
/// [`ServerError::ClusterStatus`] if the node does not answer within ten seconds, refuses the secret, or is in no cluster.
#[boxed]
pub async fn fetch_cluster_status(url: &str, secret: Option<&Secret>) -> Result<ClusterStatus> {
    let answer = AdminClient::new(url, secret.cloned()).fetch("/api/cluster").await;
    answer.map_err(|error| no_status(url, error))
}

/// Takes the node whose admin door is at `url` out of its cluster's placement, or back into it, and returns the state
/// of the cluster afterwards. If the node has access keys, `secret` is the secret of a key with write access to all
/// buckets.
///
/// # Errors
///
/// The same as those of [`fetch_cluster_status`].
#[boxed]
pub async fn set_cluster_draining(
    url: &str,
    secret: Option<&Secret>,
    draining: bool,
) -> Result<ClusterStatus> {
    let client = AdminClient::new(url, secret.cloned());
    let answer = client.post("/api/drain", &json!({ "draining": draining })).await;
    answer.map_err(|error| no_status(url, error))
}

fn no_status(url: &str, error: AdminRequestError) -> ServerError {
    let reason = match error {
        AdminRequestError::NotFound => "the node is in no cluster".to_owned(),
        AdminRequestError::Other(reason) => reason,
    };
    ServerError::ClusterStatus { url: without_credentials(url), reason }
}
