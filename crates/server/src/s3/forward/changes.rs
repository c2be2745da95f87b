//! Changes that a forwarded request makes at the origin, and the cache invalidation for them.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt, future::join_all};
use hyper::body::Body as _;
use object_store::path::Path;
use s3s::{
    Body, StdError,
    stream::{ByteStream, DynByteStream, RemainingLength},
};
use stylobate_storage::{ReadThrough, S3Endpoint};
use tokio::task::JoinHandle;

use super::{super::operation::S3Operation, stall_timeout::OriginBody};
use crate::{access::Action, node::Node, s3::wire::keys::CheckedKey};

/// Maximum time to wait for an answer after the client has disconnected.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Delays after which the cache is invalidated again for changes whose outcome is unknown.
const INVALIDATION_DELAYS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(15), Duration::from_secs(60)];

/// Write operations that leave every object unchanged.
const HARMLESS: [&str; 4] = ["AbortMultipartUpload", "CreateMultipartUpload", "UploadPart", "UploadPartCopy"];

/// Objects changed by a request, in every bucket of the node that exposes them.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedObjects {
    objects: Vec<(ReadThrough, Vec<Path>)>,
    buckets: Vec<ReadThrough>,
}

impl ChangedObjects {
    /// Returns the objects that an operation on these keys changes.
    pub(super) fn of(node: &Node, endpoint: &S3Endpoint, operation: &S3Operation, keys: &[String]) -> Self {
        let mut changes = Self::default();
        if operation.action == Action::Read || HARMLESS.contains(&operation.name) {
            return changes;
        }
        for bucket in node.buckets() {
            let Some(shown) = bucket.reader.origin().s3().filter(|shown| shown.url() == endpoint.url())
            else {
                continue;
            };
            if operation.name == "DeleteBucket" {
                changes.buckets.push(bucket.reader.clone());
            }

            let path_of = |key: &String| {
                let at_origin = format!("{}{key}", endpoint.key_prefix());
                match CheckedKey::parse(at_origin.strip_prefix(shown.key_prefix())?) {
                    Ok(CheckedKey::Object(path)) => Some(path),
                    Ok(CheckedKey::Folder) | Err(_) => None,
                }
            };
            let paths: Vec<Path> = keys.iter().filter_map(path_of).collect();
            if !paths.is_empty() {
                changes.objects.push((bucket.reader.clone(), paths));
            }
        }

        changes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Invalidates all cached state of the objects, here and at the other nodes of the cluster. Returns once these
    /// have been notified.
    pub(super) async fn apply(&self) {
        join_all(self.objects.iter().map(|(reader, paths)| reader.invalidate_in_cluster(paths))).await;
    }

    /// Invalidates all cached state of deleted buckets, here and at the other nodes of the cluster. Returns once
    /// these have been notified.
    pub(super) async fn apply_to_buckets(&self) {
        join_all(self.buckets.iter().map(ReadThrough::invalidate_all_in_cluster)).await;
    }

    /// Invalidates now and repeatedly for a while: the origin may carry out the request at any later time, or never.
    pub(super) async fn apply_again_later(self) {
        self.apply().await;
        if !self.is_empty() {
            tokio::spawn(async move {
                for pause in INVALIDATION_DELAYS {
                    tokio::time::sleep(pause).await;
                    self.apply().await;
                }
            });
        }
    }
}

/// Body of an answer while its origin may still be carrying out the changes.
///
/// The cache is invalidated before each piece of the answer is passed on, so that a client that has seen the end of
/// the answer never reads stale cache contents. If the client disconnects, the rest of the body is read nevertheless.
pub(super) struct InvalidatingBody {
    body: Option<OriginBody>,
    changes: ChangedObjects,
    /// Invalidation in progress, and the piece to pass on afterwards.
    applying: Option<(JoinHandle<()>, Option<BodyPiece>)>,
}

type BodyPiece = Result<Bytes, StdError>;

impl InvalidatingBody {
    pub(super) fn new(body: OriginBody, changes: ChangedObjects) -> Self {
        Self { body: Some(body), changes, applying: None }
    }
}

impl From<InvalidatingBody> for Body {
    fn from(body: InvalidatingBody) -> Self {
        let stream: DynByteStream = Box::pin(body);
        Body::from(stream)
    }
}

impl Stream for InvalidatingBody {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some((applied, _)) = &mut self.applying {
                let _ = ready!(Pin::new(applied).poll(cx));
                return Poll::Ready(self.applying.take().and_then(|(_, piece)| piece));
            }

            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            let piece = match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => Some(Ok(bytes)),
                    Err(_) => continue,
                },
                Some(Err(error)) => {
                    self.body = None;
                    Some(Err(error))
                }
                None => {
                    self.body = None;
                    None
                }
            };
            let changes = self.changes.clone();
            self.applying = Some((tokio::spawn(async move { changes.apply().await }), piece));
        }
    }
}

impl ByteStream for InvalidatingBody {
    fn remaining_length(&self) -> RemainingLength {
        let held = match &self.applying {
            Some((_, Some(Ok(bytes)))) => bytes.len(),
            _ => 0,
        };
        let hint = self.body.as_ref().map(|body| body.size_hint().exact());
        match hint {
            Some(Some(length)) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                RemainingLength::new_exact(length.saturating_add(held))
            }
            Some(None) => RemainingLength::unknown(),
            None => RemainingLength::new_exact(held),
        }
    }
}

impl Drop for InvalidatingBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        let mut rest = Body::http_body(body);
        let changes = self.changes.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let to_its_end = async { while let Some(Ok(_)) = rest.next().await {} };
                let _ = tokio::time::timeout(TIMEOUT, to_its_end).await;
                changes.apply().await;
            });
        }
    }
}
