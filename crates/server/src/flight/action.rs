//! Actions of the Flight door: warming, eviction, statistics, cluster state, and a health check.

use arrow_flight::{Action as Request, ActionType};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tonic::{Code, Status};

use super::{
    bucket_path::BucketPath,
    error::{from_storage, invalid, status},
};
use crate::{Action, Node, stats, warm::warm};

const MAX_ACTION_BYTES: usize = 4 << 10;
const ACTIONS: [(&str, &str); 5] = [
    ("warm", "Loads what begins with a prefix into the cache: {\"path\": \"bucket/prefix\"}"),
    ("evict", "Drops what is cached of what begins with a prefix: {\"path\": \"bucket/prefix\"}"),
    ("stats", "What the node did and holds, as JSON"),
    ("cluster", "The nodes of the cluster and their doors, as JSON"),
    ("healthcheck", "Answers {\"status\": \"ok\"}"),
];

/// Target of an action.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionTarget {
    /// A bucket, or a bucket and a key prefix.
    path: String,
}

/// Lists the supported actions.
pub(super) fn actions() -> impl Iterator<Item = ActionType> {
    ACTIONS
        .into_iter()
        .map(|(name, does)| ActionType { r#type: name.to_owned(), description: does.to_owned() })
}

/// Performs an action and returns its result as JSON. The caller needs the same rights as at the admin door.
pub(super) async fn act(node: &Node, caller: Option<&str>, request: &Request) -> Result<Vec<u8>, Status> {
    match request.r#type.as_str() {
        "warm" => {
            let target = target(request)?;
            let path = BucketPath::parse(&target.path)?;
            let bucket = path.open(node, caller, Action::Write)?;
            let warmed = warm(&bucket.reader, path.within).await;
            let objects = warmed.objects;
            let bytes = warmed.bytes;
            let failed = warmed.failed;
            tracing::info!(bucket = path.bucket, prefix = path.within, objects, bytes, failed, "warmed");
            json(&warmed)
        }
        "evict" => {
            let target = target(request)?;
            let path = BucketPath::parse(&target.path)?;
            let bucket = path.open(node, caller, Action::Write)?;
            let evicted = bucket.reader.evict(path.within).await;
            let objects = evicted.map_err(|error| from_storage(&error, path.bucket))?;
            tracing::info!(bucket = path.bucket, prefix = path.within, objects, "evicted");
            json(&json!({ "objects": objects }))
        }
        "stats" if node.keys().sees_all(caller) => json(&stats::collect(node)),
        "stats" => Err(status(Code::PermissionDenied, "statistics are for tokens that open all buckets")),
        "cluster" => json(&node.known_nodes()),
        "healthcheck" => json(&json!({ "status": "ok" })),
        _ => Err(invalid("no such action; available: warm, evict, stats, cluster and healthcheck")),
    }
}

fn target(request: &Request) -> Result<ActionTarget, Status> {
    if request.body.len() > MAX_ACTION_BYTES {
        return Err(invalid(format!("action: longer than {MAX_ACTION_BYTES} bytes")));
    }
    serde_json::from_slice(&request.body).map_err(|error| invalid(format!("action: {error}")))
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(value).map_err(|_| status(Code::Internal, "the answer cannot be written"))
}
