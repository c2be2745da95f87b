//! The body of an answer, which reports its end and the bytes sent to the metrics.

use std::{
    fmt,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Method;
use hyper::body::{Body, Frame, SizeHint};
use s3s::StdError;

use super::{request_id::RequestId, span};
use crate::{InFlightGuard, metrics::BucketRequests, traces::RequestSpan};

/// Body of an answer of the S3 door.
pub struct DoorBody {
    inner: s3s::Body,
    meter: ResponseMeter,
}

/// Records a request in the metrics and the log once its answer has been sent, or its client has disconnected.
pub(crate) struct ResponseMeter {
    /// The counters of the bucket that the request is about.
    pub(crate) counters: Arc<BucketRequests>,
    pub(crate) id: RequestId,
    pub(crate) operation: &'static str,
    pub(crate) status: u16,
    pub(crate) started: Instant,
    /// Time until the head of the answer was ready.
    pub(crate) ready_after: Duration,
    pub(crate) bytes_out: u64,
    /// Entry of the access log, if enabled.
    pub(crate) access: Option<Box<AccessLogEntry>>,
    /// The span of the request, if it is traced.
    pub(crate) span: Option<Box<RequestSpan>>,
    pub(crate) _in_flight: InFlightGuard,
}

/// Access log entry of a request, except for the outcome.
pub(crate) struct AccessLogEntry {
    pub(crate) method: Method,
    /// The path, without the query, which may hold a signature.
    pub(crate) path: String,
    pub(crate) access_key: Option<String>,
    pub(crate) client: Option<SocketAddr>,
}

impl DoorBody {
    pub(crate) fn new(inner: s3s::Body, meter: ResponseMeter) -> Self {
        Self { inner, meter }
    }
}

impl fmt::Debug for DoorBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorBody").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Body for DoorBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Self { inner, meter } = &mut *self;
        let polled = match &meter.span {
            Some(span) => span.trace().enter(|| Pin::new(inner).poll_frame(cx)),
            None => Pin::new(inner).poll_frame(cx),
        };
        let frame = ready!(polled);
        if let Some(Ok(frame)) = &frame {
            self.meter.bytes_out += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for ResponseMeter {
    fn drop(&mut self) {
        let Self { counters, id, operation, status, started, ready_after, bytes_out, access, .. } = self;
        counters.count(operation, *status, ready_after.as_secs_f64(), *bytes_out);
        if let Some(AccessLogEntry { method, path, access_key, client }) = access.as_deref() {
            tracing::info!(
                target: "stylobate::access",
                %id,
                %method,
                path,
                operation,
                status,
                bytes_out,
                seconds = started.elapsed().as_secs_f64(),
                access_key,
                client = client.map(tracing::field::display),
            );
        }

        if let Some(span) = &self.span {
            span::finish(span, operation, *status, *bytes_out);
        }
        tracing::debug!(%id, operation, status, bytes_out, ?ready_after, took = ?started.elapsed(), "request");
    }
}
