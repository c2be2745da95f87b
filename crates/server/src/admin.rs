//! The admin door: health, metrics, statistics, warming, eviction, and a status page.
//!
//! | request | answer | who |
//! |---|---|---|
//! | `GET /healthz` | 200 while the process runs | everybody |
//! | `GET /readyz` | 200, or 503 with the buckets whose origins do not answer | everybody |
//! | `GET /readyz?verbose` | the same, with the health of each part of the node | everybody |
//! | `GET /` | a page that shows the statistics | a key for all buckets |
//! | `GET /metrics` | counters for Prometheus, as OpenMetrics if that is accepted | a key for all buckets |
//! | `GET /api/stats` | counters as JSON | a key for all buckets |
//! | `GET /api/cluster` | the nodes of the cluster as JSON, or 404 | a key for all buckets |
//! | `POST /api/warm` | loads a prefix; number of objects and bytes | a key that writes to the bucket |
//! | `POST /api/evict` | drops a prefix; number of objects | a key that writes to the bucket |
//! | `POST /api/drain` | takes the node out of its cluster's placement, or back; the cluster | a key that writes to all buckets |
//!
//! A key is sent as `Authorization: Bearer SECRET` or as HTTP basic authentication with id and secret. A node without
//! keys needs none, and listens on loopback only. Posts must be `application/json`, which no page of another site can
//! send.

mod metrics;
mod ready;
mod stats;
mod warm;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{RawQuery, Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::json;
use stylobate_storage::redacted;

pub use self::ready::check_origins;
use self::{
    ready::{Readiness, checks},
    warm::WarmTarget,
};
pub(crate) use self::{stats::collect as statistics_of, warm::warm};
use crate::{
    Bucket, Node,
    local_names::{REFUSED, is_foreign},
};

const STATUS_PAGE: &str = include_str!("admin/status.html");
/// The page is self-contained and may load nothing.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                           connect-src 'self'; img-src data:; frame-ancestors 'none'";

/// State shared by the handlers.
struct AdminContext {
    node: Arc<Node>,
    readiness: Readiness,
}

type AdminState = State<Arc<AdminContext>>;
type AdminRejection = (StatusCode, &'static str);

/// Builds the router of a node's admin door.
pub(crate) fn router(node: Arc<Node>) -> Router {
    let admin = Arc::new(AdminContext { node, readiness: Readiness::default() });
    let seeing = Router::new()
        .route("/", get(page))
        .route("/metrics", get(prometheus))
        .route("/api/stats", get(statistics))
        .route("/api/cluster", get(cluster))
        .layer(middleware::from_fn_with_state(admin.clone(), require_sight));

    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/api/warm", post(warm_prefix))
        .route("/api/evict", post(evict_prefix))
        .route("/api/drain", post(drain))
        .merge(seeing)
        .fallback(|| async { refusal(StatusCode::NOT_FOUND, "no such page") })
        .layer(middleware::from_fn_with_state(admin.clone(), require_local_name))
        .with_state(admin)
}

/// Returns an error response of this door.
fn refusal(status: StatusCode, what: &str) -> Response {
    let body = Json(json!({ "error": what }));
    if status == StatusCode::UNAUTHORIZED {
        let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"stylobate\", charset=\"UTF-8\"")];
        return (status, challenge, body).into_response();
    }
    (status, body).into_response()
}

async fn require_sight(State(admin): AdminState, request: Request, next: Next) -> Response {
    match admin.node.admin_keys().may_see(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refusal(refused.status(), refused.reason()),
    }
}

async fn require_local_name(State(admin): AdminState, request: Request, next: Next) -> Response {
    let node = &admin.node;
    if node.keys().is_empty() && is_foreign(request.uri(), request.headers(), node.domains(), true) {
        refusal(StatusCode::FORBIDDEN, REFUSED)
    } else {
        next.run(request).await
    }
}

async fn page() -> impl IntoResponse {
    ([(header::CONTENT_SECURITY_POLICY, PAGE_POLICY), (header::CACHE_CONTROL, "no-store")], Html(STATUS_PAGE))
}

async fn prometheus(State(admin): AdminState, headers: HeaderMap) -> Response {
    let format = metrics::MetricsFormat::of(&headers);
    match metrics::scrape(&admin.node, &admin.readiness.last_failing(), format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"),
    }
}

async fn statistics(State(admin): AdminState) -> impl IntoResponse {
    ([(header::CACHE_CONTROL, "no-store")], Json(statistics_of(&admin.node)))
}

const NO_CLUSTER: &str = "this node is in no cluster";

async fn cluster(State(admin): AdminState) -> Response {
    match admin.node.cluster_status() {
        Some(cluster) => ([(header::CACHE_CONTROL, "no-store")], Json(cluster)).into_response(),
        None => refusal(StatusCode::NOT_FOUND, NO_CLUSTER),
    }
}

/// Body of `POST /api/drain`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DrainTarget {
    /// False takes the node back into placement.
    #[serde(default = "drains")]
    draining: bool,
}

fn drains() -> bool {
    true
}

async fn drain(State(admin): AdminState, headers: HeaderMap, Json(target): Json<DrainTarget>) -> Response {
    if let Err(refused) = admin.node.admin_keys().may_drain(&headers) {
        return refusal(refused.status(), refused.reason());
    }
    let Some(cluster) = admin.node.cluster() else { return refusal(StatusCode::NOT_FOUND, NO_CLUSTER) };
    cluster.set_draining(target.draining).await;
    tracing::info!(
        draining = target.draining,
        "the admin door changed the place of this node in the cluster"
    );
    Json(cluster.status(admin.node.traffic())).into_response()
}

async fn readyz(State(admin): AdminState, RawQuery(query): RawQuery) -> Response {
    let failing = admin.readiness.failing(&admin.node).await;
    let is_verbose = query.is_some_and(|query| query.split('&').any(|name| name.starts_with("verbose")));
    if is_verbose {
        let status = if failing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        return (status, Json(checks(&admin.node, &failing))).into_response();
    }

    if failing.is_empty() {
        Json(json!({ "ready": true })).into_response()
    } else {
        let body = json!({ "ready": false, "failing": *failing });
        (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
    }
}

/// Returns the bucket of a post, if its sender may change what is cached of it.
fn bucket_of<'a>(
    admin: &'a AdminContext,
    headers: &HeaderMap,
    target: &WarmTarget,
) -> Result<&'a Bucket, AdminRejection> {
    if let Err(refused) = admin.node.admin_keys().may_change(headers, &target.bucket) {
        return Err((refused.status(), refused.reason()));
    }
    admin.node.bucket(&target.bucket).ok_or((StatusCode::NOT_FOUND, "no such bucket"))
}

async fn warm_prefix(
    State(admin): AdminState,
    headers: HeaderMap,
    Json(target): Json<WarmTarget>,
) -> Response {
    let bucket = match bucket_of(&admin, &headers, &target) {
        Ok(bucket) => bucket,
        Err((status, what)) => return refusal(status, what),
    };
    let warmed = warm(&bucket.reader, &target.prefix).await;
    tracing::info!(
        bucket = target.bucket,
        prefix = target.prefix,
        objects = warmed.objects,
        bytes = warmed.bytes,
        failed = warmed.failed,
        "warmed"
    );

    let status =
        if warmed.objects == 0 && warmed.failed > 0 { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
    (status, Json(warmed)).into_response()
}

async fn evict_prefix(
    State(admin): AdminState,
    headers: HeaderMap,
    Json(target): Json<WarmTarget>,
) -> Response {
    let bucket = match bucket_of(&admin, &headers, &target) {
        Ok(bucket) => bucket,
        Err((status, what)) => return refusal(status, what),
    };
    match bucket.reader.evict(&target.prefix).await {
        Ok(objects) => {
            tracing::info!(bucket = target.bucket, prefix = target.prefix, objects, "evicted");
            Json(json!({ "objects": objects })).into_response()
        }
        Err(error) => {
            let reason = redacted(&error.to_string()).into_owned();
            tracing::warn!(bucket = target.bucket, prefix = target.prefix, reason, "not evicted");
            refusal(StatusCode::BAD_GATEWAY, "not all of it could be dropped: try again")
        }
    }
}
