//! Asks the admin door of a node for the state of its cluster, and takes the node out of placement.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::{
    Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE},
    request::Builder,
};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::json;
use stylobate_storage::without_credentials;
use tokio::time::timeout;

use super::status::ClusterStatus;
use crate::{Result, ServerError, config::Secret, https::connector};

const PATIENCE: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 16 << 20;

/// Asks the admin door at `url`, such as `http://127.0.0.1:9001`, for the state of the node's cluster. `secret` is that of
/// an access key for all buckets, on a node with access keys.
///
/// # Errors
///
/// [`ServerError::ClusterStatus`] if the node does not answer within ten seconds, refuses the secret, or is in no cluster.
pub async fn fetch_cluster_status(url: &str, secret: Option<&Secret>) -> Result<ClusterStatus> {
    let request = Request::get(format!("{}/api/cluster", url.trim_end_matches('/')));
    ask_in_time(url, request, Body::empty(), secret, "all buckets").await
}

/// Takes the node whose admin door is at `url` out of its cluster's placement, or back into it, and returns the state of
/// the cluster after that. `secret` is that of an access key that writes to all buckets, on a node with access keys.
///
/// # Errors
///
/// As those of [`fetch_cluster_status`].
pub async fn set_cluster_draining(
    url: &str,
    secret: Option<&Secret>,
    draining: bool,
) -> Result<ClusterStatus> {
    let request = Request::post(format!("{}/api/drain", url.trim_end_matches('/')))
        .header(CONTENT_TYPE, "application/json");
    let body = Body::from(json!({ "draining": draining }).to_string());
    ask_in_time(url, request, body, secret, "all buckets that may write").await
}

/// Sends a request to the admin door at `url`. `rights` says what the access key must be for.
async fn ask_in_time(
    url: &str,
    request: Builder,
    body: Body,
    secret: Option<&Secret>,
    rights: &str,
) -> Result<ClusterStatus> {
    let asked = timeout(PATIENCE, ask(request, body, secret, rights)).await;
    let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
    asked.map_err(|reason| ServerError::ClusterStatus { url: without_credentials(url), reason })
}

async fn ask(
    mut request: Builder,
    body: Body,
    secret: Option<&Secret>,
    rights: &str,
) -> Result<ClusterStatus, String> {
    if let Some(secret) = secret {
        request = request.header(AUTHORIZATION, format!("Bearer {}", secret.expose()));
    }
    let request = request.body(body).map_err(|_| "this is not the URL of an admin door".to_owned())?;

    let client = Client::builder(TokioExecutor::new()).build(connector(None));
    let answer = client.request(request).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("no answer: {}", cause.unwrap_or_else(|| error.to_string()))
    })?;

    match answer.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err(format!("it needs the secret of an access key for {rights}"));
        }
        StatusCode::NOT_FOUND => return Err("the node is in no cluster".to_owned()),
        status => return Err(format!("it answered with status {}", status.as_u16())),
    }

    let body =
        to_bytes(Body::new(answer.into_body()), MAX_ANSWER).await.map_err(|error| error.to_string())?;
    serde_json::from_slice(&body)
        .map_err(|_| "its answer cannot be read: is it an admin door of this version?".to_owned())
}
