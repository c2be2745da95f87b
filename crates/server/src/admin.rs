//! The admin door: health, metrics, statistics, warming, eviction, and a status page.
//!
//! | request | answer | who |
//! |---|---|---|
//! | `GET /healthz` | 200 while the process runs | anyone |
//! | `GET /readyz` | 200, or 503 with the buckets whose origins do not answer | anyone |
//! | `GET /readyz?verbose` | the same, with the health of each part of the node | anyone |
//! | `GET /` | the status page: a web application, whose files are below `/web/` | a key for all buckets |
//! | `GET /metrics` | counters for Prometheus, as OpenMetrics if the client accepts it | a key for all buckets |
//! | `GET /api/stats` | counters as JSON | a key for all buckets |
//! | `GET /api/session` | the caller's key and its rights | a key for all buckets |
//! | `GET /api/health` | the health of each part of the node as JSON, with status 200 | a key for all buckets |
//! | `GET /api/history` | samples of the last ten minutes or of the last day | a key for all buckets |
//! | `GET /api/hot` | the most read objects and folders | a key for all buckets and keys |
//! | `GET /api/reads` | running scans and queries | a key for all buckets and keys |
//! | `GET /api/cluster` | the nodes of the cluster as JSON, or 404 | a key for all buckets |
//! | `GET /api/list` | one level of a bucket | a key that may read the prefix |
//! | `GET /api/inspect` | the metadata of a file | a key that may read the object |
//! | `GET /api/rows` | the first rows of a file | a key that may read the object |
//! | `POST /api/sql` | the first rows of a query, or 404 on a node without SQL | any key, for the data that it may read |
//! | `POST /api/reads/cancel` | cancels a scan or query | a key with write access to all buckets |
//! | `POST /api/warm` | loads the objects with a prefix; number of objects and bytes | a key with write access to the bucket |
//! | `POST /api/evict` | evicts the objects with a prefix; number of objects | a key with write access to the bucket |
//! | `POST /api/drain` | takes the node out of its cluster's placement, or back in; state of the cluster | a key with write access to all buckets |
//!
//! Clients send a key as `Authorization: Bearer SECRET` or as HTTP basic authentication with id and secret. A node
//! without keys needs none, and listens on loopback only. POST requests must have the content type
//! `application/json`, which a page of another site cannot send.

mod browse;
mod metrics;
mod ready;
mod sampling;
#[cfg(feature = "sql")]
mod sql;
mod web;

use std::{cmp::Reverse, sync::Arc};

use axum::{
    Json, Router,
    extract::{Query, RawQuery, Request, State, rejection::QueryRejection},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use stylobate_storage::redacted;
use tokio::sync::Semaphore;

pub use self::ready::check_origins;
pub(crate) use self::sampling::sample;
#[cfg(feature = "sql")]
use self::sql::SqlQueryRequest;
use self::{
    browse::{BrowseQuery, InspectQuery, RowsQuery},
    ready::{Readiness, checks},
};
#[cfg(feature = "sql")]
use crate::flight::QueryEngine;
use crate::{
    Bucket, Node,
    history::SampleInterval,
    hot_keys::HotKey,
    local_names::{REFUSED, is_foreign},
    stats,
    warm::warm,
};

/// Maximum files that are described or previewed concurrently.
const MAX_PREVIEWS: usize = 4;
const DEFAULT_HOT: usize = 20;
const MAX_HOT: usize = 200;

/// State shared by the handlers.
struct AdminContext {
    node: Arc<Node>,
    readiness: Readiness,
    previews: Semaphore,
    #[cfg(feature = "sql")]
    queries: Arc<QueryEngine>,
}

type AdminState = State<Arc<AdminContext>>;
type AdminRejection = (StatusCode, &'static str);

/// Builds the router of a node's admin door.
pub(crate) fn router(node: Arc<Node>, #[cfg(feature = "sql")] queries: Arc<QueryEngine>) -> Router {
    let previews = Semaphore::new(MAX_PREVIEWS);
    let admin = Arc::new(AdminContext {
        node,
        readiness: Readiness::default(),
        previews,
        #[cfg(feature = "sql")]
        queries,
    });
    let seeing = Router::new()
        .route("/", get(web::index))
        .route("/web/{name}", get(web::file))
        .route("/api/session", get(session))
        .route("/api/health", get(health))
        .route("/api/history", get(history))
        .route("/metrics", get(prometheus))
        .route("/api/stats", get(statistics))
        .route("/api/cluster", get(cluster))
        .layer(middleware::from_fn_with_state(admin.clone(), require_sight));
    let naming = Router::new()
        .route("/api/hot", get(hot))
        .route("/api/reads", get(reads))
        .layer(middleware::from_fn_with_state(admin.clone(), require_names));

    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/api/list", get(list))
        .route("/api/inspect", get(inspect))
        .route("/api/rows", get(rows))
        .route("/api/sql", post(sql))
        .route("/api/reads/cancel", post(cancel_read))
        .route("/api/warm", post(warm_prefix))
        .route("/api/evict", post(evict_prefix))
        .route("/api/drain", post(drain))
        .merge(seeing)
        .merge(naming)
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

async fn require_names(State(admin): AdminState, request: Request, next: Next) -> Response {
    match admin.node.admin_keys().may_see_names(request.headers()) {
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

async fn prometheus(State(admin): AdminState, headers: HeaderMap) -> Response {
    let format = metrics::MetricsFormat::of(&headers);
    match metrics::scrape(&admin.node, &admin.readiness.last_failing(), format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written"),
    }
}

async fn statistics(State(admin): AdminState) -> Response {
    fresh(stats::collect(&admin.node))
}

/// Answers with a JSON document that must not be cached.
fn fresh(document: impl Serialize) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(document)).into_response()
}

/// Answers with a JSON document that must not be cached, or with the refusal.
fn fresh_or_refusal(document: Result<impl Serialize, AdminRejection>) -> Response {
    match document {
        Ok(document) => fresh(document),
        Err((status, what)) => refusal(status, what),
    }
}

/// The caller's key and rights, for the status page.
#[derive(Serialize)]
struct SessionReport {
    version: &'static str,
    /// True if the node has access keys.
    keys: bool,
    access_key: Option<String>,
    /// Buckets whose cached data the caller may change.
    may_change: Vec<String>,
    /// True if the caller may cancel reads and take the node out of placement.
    may_operate: bool,
    /// True if the node answers queries at `POST /api/sql`.
    sql: bool,
}

async fn session(State(admin): AdminState, headers: HeaderMap) -> Response {
    let keys = admin.node.admin_keys();
    let names = admin.node.buckets().map(|bucket| &bucket.name);
    fresh(SessionReport {
        version: env!("CARGO_PKG_VERSION"),
        keys: keys.are_needed(),
        access_key: keys.id_of(&headers),
        may_change: names.filter(|name| keys.may_change(&headers, name).is_ok()).cloned().collect(),
        may_operate: keys.may_cancel(&headers).is_ok(),
        sql: cfg!(feature = "sql"),
    })
}

async fn health(State(admin): AdminState) -> Response {
    let failing = admin.readiness.failing(&admin.node).await;
    fresh(checks(&admin.node, &failing))
}

/// Parameters of `GET /api/history`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    every: SampleInterval,
    /// Returns only samples after this time, in milliseconds since 1970.
    #[serde(default)]
    since: u64,
}

async fn history(State(admin): AdminState, query: Result<Query<HistoryQuery>, QueryRejection>) -> Response {
    match query {
        Ok(Query(HistoryQuery { every, since })) => fresh(admin.node.history().report(every, since)),
        Err(_) => refusal(StatusCode::BAD_REQUEST, "write every=1s or every=1m, and since=MILLISECONDS"),
    }
}

/// Parameters of `GET /api/hot`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HotQuery {
    top: Option<usize>,
}

/// The most read objects and folders of all buckets.
#[derive(Serialize)]
struct HotReport {
    objects: Vec<HotEntry>,
    folders: Vec<HotEntry>,
}

#[derive(Serialize)]
struct HotEntry {
    bucket: String,
    #[serde(flatten)]
    hot: HotKey,
}

async fn hot(State(admin): AdminState, query: Result<Query<HotQuery>, QueryRejection>) -> Response {
    let top = match query {
        Ok(Query(HotQuery { top })) => top.unwrap_or(DEFAULT_HOT),
        Err(_) => return refusal(StatusCode::BAD_REQUEST, "write top=NUMBER"),
    };
    let top = top.min(MAX_HOT);
    fresh(HotReport {
        objects: hottest(&admin.node, top, |bucket| bucket.hot_keys().objects(top)),
        folders: hottest(&admin.node, top, |bucket| bucket.hot_keys().folders(top)),
    })
}

/// Returns the most read keys of all buckets, at most `top`.
fn hottest(node: &Node, top: usize, of: impl Fn(&Bucket) -> Vec<HotKey>) -> Vec<HotEntry> {
    let mut entries = Vec::new();
    for bucket in node.buckets() {
        entries.extend(of(bucket).into_iter().map(|hot| HotEntry { bucket: bucket.name.clone(), hot }));
    }
    entries.sort_by_key(|entry| Reverse(entry.hot.reads));
    entries.truncate(top);
    entries
}

async fn reads(State(admin): AdminState) -> Response {
    fresh(admin.node.running_reads().report())
}

/// Body of `POST /api/reads/cancel`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelTarget {
    id: u64,
}

async fn cancel_read(
    State(admin): AdminState,
    headers: HeaderMap,
    Json(target): Json<CancelTarget>,
) -> Response {
    if let Err(refused) = admin.node.admin_keys().may_cancel(&headers) {
        return refusal(refused.status(), refused.reason());
    }
    if !admin.node.running_reads().cancel(target.id) {
        return refusal(StatusCode::NOT_FOUND, "no such read: it may have ended");
    }
    tracing::info!(id = target.id, "a read was cancelled");
    Json(json!({ "cancelled": true })).into_response()
}

const WRONG_QUERY: AdminRejection =
    (StatusCode::BAD_REQUEST, "a parameter is missing, unknown or not a number");

/// Returns the bucket of an object or prefix, if the caller may read it.
fn readable<'a>(
    admin: &'a AdminContext,
    headers: &HeaderMap,
    bucket: &str,
    key: &str,
) -> Result<&'a Bucket, AdminRejection> {
    if let Err(refused) = admin.node.admin_keys().may_read(headers, bucket, key) {
        return Err((refused.status(), refused.reason()));
    }
    admin.node.bucket(bucket).ok_or((StatusCode::NOT_FOUND, "no such bucket"))
}

async fn list(
    State(admin): AdminState,
    headers: HeaderMap,
    query: Result<Query<BrowseQuery>, QueryRejection>,
) -> Response {
    let listed = async {
        let Query(query) = query.map_err(|_| WRONG_QUERY)?;
        let bucket = readable(&admin, &headers, &query.bucket, &query.prefix)?;
        browse::list(bucket, query).await
    };
    fresh_or_refusal(listed.await)
}

async fn inspect(
    State(admin): AdminState,
    headers: HeaderMap,
    query: Result<Query<InspectQuery>, QueryRejection>,
) -> Response {
    let described = async {
        let Query(query) = query.map_err(|_| WRONG_QUERY)?;
        let bucket = readable(&admin, &headers, &query.bucket, &query.key)?;
        let _permit = admin.previews.try_acquire().map_err(|_| TOO_MANY_PREVIEWS)?;
        browse::describe(&admin.node, bucket, &query).await
    };
    fresh_or_refusal(described.await)
}

const TOO_MANY_PREVIEWS: AdminRejection =
    (StatusCode::TOO_MANY_REQUESTS, "other files are being read for pages: try again");

async fn rows(
    State(admin): AdminState,
    headers: HeaderMap,
    query: Result<Query<RowsQuery>, QueryRejection>,
) -> Response {
    let rows = async {
        let Query(query) = query.map_err(|_| WRONG_QUERY)?;
        let bucket = readable(&admin, &headers, &query.bucket, &query.key)?;
        let _permit = admin.previews.try_acquire().map_err(|_| TOO_MANY_PREVIEWS)?;
        let access_key = admin.node.admin_keys().id_of(&headers);
        browse::first_rows(&admin.node, bucket, &query, access_key).await
    };
    fresh_or_refusal(rows.await)
}

#[cfg(feature = "sql")]
async fn sql(State(admin): AdminState, headers: HeaderMap, Json(query): Json<SqlQueryRequest>) -> Response {
    let caller = match admin.node.admin_keys().caller(&headers) {
        Ok(caller) => caller,
        Err(refused) => return refusal(refused.status(), refused.reason()),
    };
    match sql::first_rows(&admin.queries, caller.as_deref(), query).await {
        Ok(rows) => fresh(rows),
        Err(refused) => refusal(sql::http_status(refused.code()), refused.message()),
    }
}

#[cfg(not(feature = "sql"))]
async fn sql() -> Response {
    refusal(StatusCode::NOT_FOUND, "this node has no SQL: it was built without it")
}

const NO_CLUSTER: &str = "this node is in no cluster";

async fn cluster(State(admin): AdminState) -> Response {
    match admin.node.cluster_status() {
        Some(cluster) => fresh(cluster),
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
    tracing::info!(draining = target.draining, "the admin door changed whether this node is draining");
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

/// Body of `POST /api/warm` and `POST /api/evict`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WarmTarget {
    bucket: String,
    /// Prefix of the keys; empty for the whole bucket.
    #[serde(default)]
    prefix: String,
}

/// Returns the bucket of a POST request, if the caller may change its cached data.
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
