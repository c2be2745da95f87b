//! Probes the origins: at startup and for readiness checks.

use std::{sync::Arc, time::Duration};

use async_recursion::async_recursion as boxed;
use futures::future::join_all;
use serde::Serialize;
use stylobate_storage::{Error, redacted};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::{Bucket, Node, Result, ServerError};

const STARTUP_TIMEOUT: Duration = Duration::from_secs(15);
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for which a result is shared by all callers: a probe costs a request to each origin, and anyone may trigger
/// one.
const PROBE_LIFETIME: Duration = Duration::from_secs(2);

/// Probes the origin of every bucket.
///
/// # Errors
///
/// [`ServerError::OriginUnreachable`] for the first bucket, by name, whose origin does not answer within 15 s.
#[boxed]
pub async fn check_origins(node: &Node) -> Result<()> {
    match failures(node, STARTUP_TIMEOUT).await.into_iter().next() {
        None => Ok(()),
        Some((bucket, error)) => Err(ServerError::OriginUnreachable {
            bucket: bucket.name.clone(),
            origin: bucket.reader.origin().name().to_owned(),
            reason: redacted(&error.to_string()).into_owned(),
        }),
    }
}

async fn failures(node: &Node, deadline: Duration) -> Vec<(&Bucket, Error)> {
    let checks = node.buckets().map(|bucket| async move {
        let checked = timeout(deadline, bucket.reader.origin().check()).await.unwrap_or_else(|_| {
            Err(Error::Deadline { path: "/".to_owned(), deadline_ms: deadline.as_millis() as u64 })
        });
        checked.err().map(|error| (bucket, error))
    });
    join_all(checks).await.into_iter().flatten().collect()
}

/// A bucket that is not ready. The reason is one word, since this answer is public and an origin's error text may
/// hold a signed URL.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FailingBucket {
    bucket: String,
    error: &'static str,
}

/// The result of the last probe, kept for `PROBE_LIFETIME`.
#[derive(Default)]
pub(super) struct Readiness {
    last: Mutex<Option<(Instant, Arc<Vec<FailingBucket>>)>>,
}

impl Readiness {
    /// Returns the buckets that failed the most recent probe; empty before the first probe.
    pub(super) fn last_failing(&self) -> Vec<String> {
        let last = self.last.try_lock();
        let failing = last.ok().and_then(|last| last.as_ref().map(|(_, failing)| failing.clone()));
        failing.iter().flat_map(|failing| failing.iter()).map(|failing| failing.bucket.clone()).collect()
    }

    /// Returns the buckets whose origins do not answer. Concurrent callers share one probe.
    pub(super) async fn failing(&self, node: &Node) -> Arc<Vec<FailingBucket>> {
        let mut last = self.last.lock().await;
        if let Some((_, failing)) = last.as_ref().filter(|(at, _)| at.elapsed() < PROBE_LIFETIME) {
            return failing.clone();
        }
        let failures = failures(node, PROBE_TIMEOUT).await;
        let failing = failures.into_iter().map(|(bucket, error)| {
            let reason = redacted(&error.to_string()).into_owned();
            tracing::warn!(bucket = bucket.name, reason, "origin does not answer");
            FailingBucket { bucket: bucket.name.clone(), error: in_a_word(&error) }
        });

        let failing: Arc<Vec<_>> = Arc::new(failing.collect());
        *last = Some((Instant::now(), failing.clone()));
        failing
    }
}

/// Health of each part of a node, with the reason if it is degraded.
#[derive(Debug, Serialize)]
pub(super) struct HealthReport {
    ready: bool,
    /// True if any part is degraded.
    degraded: bool,
    checks: Vec<HealthCheck>,
}

#[derive(Debug, Serialize)]
struct HealthCheck {
    name: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

/// Checks each part of a node, given the buckets whose origins do not answer.
pub(super) fn checks(node: &Node, failing: &[FailingBucket]) -> HealthReport {
    let error_of =
        |name: &str| failing.iter().find(|failing| failing.bucket == name).map(|failing| failing.error);
    let mut checks: Vec<HealthCheck> = node
        .buckets()
        .map(|bucket| {
            let throttles = bucket.reader.origin().metrics().is_throttling();
            let error = error_of(&bucket.name).or(throttles.then_some("the origin asks for fewer requests"));
            HealthCheck { name: format!("bucket {}", bucket.name), ok: error.is_none(), error }
        })
        .collect();

    let cache = node.cache().stats();
    if cache.disk_capacity > 0 {
        let error =
            (cache.disk_paused > 0).then_some("the disk is full or fails: nothing more is written to it");
        checks.push(HealthCheck { name: "disk tier".to_owned(), ok: error.is_none(), error });
    }
    HealthReport { ready: failing.is_empty(), degraded: checks.iter().any(|check| !check.ok), checks }
}

fn in_a_word(error: &Error) -> &'static str {
    match error {
        Error::NotFound { .. } => "the origin has no such bucket or folder",
        Error::Deadline { .. } => "the origin does not answer in time",
        Error::Origin { source, .. } => match **source {
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                "the origin refuses the credentials"
            }
            _ => "the origin cannot be reached",
        },
        _ => "the origin cannot be used",
    }
}
