//! Changes that a request makes at the origin, and the invalidation of the cache for them.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use hyper::body::Body as _;
use object_store::path::Path;
use s3s::{
    Body, StdError,
    stream::{ByteStream, DynByteStream, RemainingLength},
};
use stylobate_storage::{ReadThrough, S3Endpoint};

use super::{super::operation::S3Operation, patience::OriginBody};
use crate::{access::Action, node::Node, s3::wire::keys::CheckedKey};

/// Maximum wait for an answer after its client has disconnected.
const PATIENCE: Duration = Duration::from_secs(600);

/// Delays after which uncertain changes are applied again.
const LATER: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(15), Duration::from_secs(60)];

/// Writes that leave every object as it is.
const HARMLESS: [&str; 4] = ["AbortMultipartUpload", "CreateMultipartUpload", "UploadPart", "UploadPartCopy"];

/// Objects changed by a request, in each bucket of the node that shows them.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedObjects {
    objects: Vec<(ReadThrough, Path)>,
    buckets: Vec<ReadThrough>,
}

impl ChangedObjects {
    /// Returns what an operation on these keys changes.
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

            for key in keys {
                let at_origin = format!("{}{key}", endpoint.key_prefix());
                let key = at_origin.strip_prefix(shown.key_prefix()).map(CheckedKey::parse);
                if let Some(Ok(CheckedKey::Object(path))) = key {
                    changes.objects.push((bucket.reader.clone(), path));
                }
            }
        }

        changes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Invalidates all cached state of the objects.
    pub(super) fn apply(&self) {
        self.objects.iter().for_each(|(reader, path)| reader.invalidate(path));
    }

    /// Invalidates all cached state of deleted buckets.
    pub(super) fn apply_to_buckets(&self) {
        self.buckets.iter().for_each(ReadThrough::invalidate_all);
    }

    /// Invalidates now and repeatedly for a while: the origin may carry out the request at any later time, or never.
    pub(super) fn apply_again_later(self) {
        self.apply();
        if !self.is_empty() {
            tokio::spawn(async move {
                for pause in LATER {
                    tokio::time::sleep(pause).await;
                    self.apply();
                }
            });
        }
    }
}

/// Body of an answer during which its origin may still carry out the changes.
///
/// They are applied before each piece of the answer is passed on, so that no client that has seen its end finds stale
/// cache contents. If the client disconnects, the rest is read nevertheless.
pub(super) struct InvalidatingBody {
    body: Option<OriginBody>,
    changes: ChangedObjects,
}

impl InvalidatingBody {
    pub(super) fn new(body: OriginBody, changes: ChangedObjects) -> Self {
        Self { body: Some(body), changes }
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
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else { return Poll::Pending };
            self.changes.apply();
            return match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => Poll::Ready(Some(Ok(bytes))),
                    Err(_) => continue,
                },
                Some(Err(error)) => {
                    self.body = None;
                    Poll::Ready(Some(Err(error)))
                }
                None => {
                    self.body = None;
                    Poll::Ready(None)
                }
            };
        }
    }
}

impl ByteStream for InvalidatingBody {
    fn remaining_length(&self) -> RemainingLength {
        let hint = self.body.as_ref().map(|body| body.size_hint().exact());
        match hint {
            Some(Some(length)) => RemainingLength::new_exact(usize::try_from(length).unwrap_or(usize::MAX)),
            Some(None) => RemainingLength::unknown(),
            None => RemainingLength::new_exact(0),
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
                let _ = tokio::time::timeout(PATIENCE, to_its_end).await;
                changes.apply();
            });
        }
    }
}
