//! Asks the admin door of a node for the state of its cluster.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::{Request, StatusCode, header::AUTHORIZATION};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
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
    let asked = timeout(PATIENCE, ask(url, secret)).await;
    let asked = asked.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
    asked.map_err(|reason| ServerError::ClusterStatus { url: without_credentials(url), reason })
}

async fn ask(url: &str, secret: Option<&Secret>) -> Result<ClusterStatus, String> {
    let mut request = Request::get(format!("{}/api/cluster", url.trim_end_matches('/')));
    if let Some(secret) = secret {
        request = request.header(AUTHORIZATION, format!("Bearer {}", secret.expose()));
    }
    let request =
        request.body(Body::empty()).map_err(|_| "this is not the URL of an admin door".to_owned())?;

    let client = Client::builder(TokioExecutor::new()).build(connector(None));
    let answer = client.request(request).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("no answer: {}", cause.unwrap_or_else(|| error.to_string()))
    })?;

    match answer.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            return Err("it needs the secret of an access key for all buckets".to_owned());
        }
        StatusCode::NOT_FOUND => return Err("the node is in no cluster".to_owned()),
        status => return Err(format!("it answered with status {}", status.as_u16())),
    }

    let body =
        to_bytes(Body::new(answer.into_body()), MAX_ANSWER).await.map_err(|error| error.to_string())?;
    serde_json::from_slice(&body)
        .map_err(|_| "its answer cannot be read: is it an admin door of this version?".to_owned())
}
