//! Asks the admin door of a node for the state of its cluster.

use stylobate_storage::without_credentials;

use super::status::ClusterStatus;
use crate::{
    Result, ServerError,
    admin_client::{AdminClient, AdminRequestError},
    config::Secret,
};

/// Asks the admin door at `url`, such as `http://127.0.0.1:9001`, for the state of the node's cluster. `secret` is that of
/// an access key for all buckets, on a node with access keys.
///
/// # Errors
///
/// [`ServerError::ClusterStatus`] if the node does not answer within ten seconds, refuses the secret, or is in no cluster.
pub async fn fetch_cluster_status(url: &str, secret: Option<&Secret>) -> Result<ClusterStatus> {
    let client = AdminClient::new(url, secret.cloned());
    client.fetch("/api/cluster").await.map_err(|error| ServerError::ClusterStatus {
        url: without_credentials(url),
        reason: match error {
            AdminRequestError::NotFound => "the node is in no cluster".to_owned(),
            AdminRequestError::Other(reason) => reason,
        },
    })
}
