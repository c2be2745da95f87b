//! Bookkeeping of a call, which is counted when it is answered, when its stream ends, or when its client disconnects.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::FlightData;
use futures::{Stream, TryStreamExt, stream, stream::BoxStream};
use opentelemetry::KeyValue;
use stylobate_storage::Trace;
use tonic::{Code, Status, metadata::MetadataMap};

use super::{
    encode::{FlightMessage, FlightStreamEncoder},
    error::{name, status},
};
use crate::{InFlightGuard, Node, running_reads::RunningReadGuard, traces::RequestSpan};

const SERVICE: &str = "arrow.flight.protocol.FlightService";

/// A call in progress. If dropped before [`end`](Self::end), it counts as cancelled.
pub(super) struct FlightCall {
    node: Arc<Node>,
    method: &'static str,
    code: Code,
    span: Option<Box<RequestSpan>>,
    read: Option<FlightRead>,
}

/// A read that is listed while it runs, and is recorded in the bucket's read counts at its end.
pub(super) struct FlightRead {
    /// Bucket and path; `None` for a query.
    pub(super) object: Option<(String, String)>,
    pub(super) running: RunningReadGuard,
}

/// The stream that a ticket opens.
pub(super) struct TicketBatches {
    pub(super) schema: SchemaRef,
    pub(super) batches: BoxStream<'static, Result<RecordBatch, Status>>,
    /// Entry in the list of running reads; `None` for metadata.
    pub(super) read: Option<FlightRead>,
}

impl FlightCall {
    pub(super) fn begin(node: &Arc<Node>, method: &'static str, metadata: &MetadataMap) -> Self {
        let attributes = || {
            vec![
                KeyValue::new("rpc.system", "grpc"),
                KeyValue::new("rpc.service", SERVICE),
                KeyValue::new("rpc.method", method),
            ]
        };

        let span = node.traces().and_then(|traces| {
            let name = format!("{SERVICE}/{method}");
            traces.begin(name, metadata.as_ref(), attributes)
        });
        Self { node: node.clone(), method, code: Code::Cancelled, span, read: None }
    }

    /// Returns the trace that the call is part of.
    pub(super) fn trace(&self) -> Trace {
        self.span.as_ref().map(|span| span.trace().clone()).unwrap_or_default()
    }

    /// Ends the call with this answer.
    pub(super) fn end<T>(mut self, answer: Result<T, Status>) -> Result<T, Status> {
        self.code = answer.as_ref().err().map_or(Code::Ok, Status::code);
        answer
    }
}

impl Drop for FlightCall {
    fn drop(&mut self) {
        if let Some(FlightRead { object: Some((bucket, path)), running }) = &self.read
            && let Some(bucket) = self.node.bucket(bucket)
        {
            bucket.hot_keys().record(path, running.bytes());
        }
        self.node.metrics().flight().call(self.method, name(self.code));
        if let Some(span) = &self.span {
            span.set(KeyValue::new("rpc.grpc.status_code", i64::from(i32::from(self.code))));
            if is_of_server(self.code) {
                span.fail(name(self.code).to_owned());
            }
        }
    }
}

/// Returns true if a status is a fault of the node, not of its caller.
fn is_of_server(code: Code) -> bool {
    use Code::{DataLoss, DeadlineExceeded, Internal, Unavailable, Unimplemented, Unknown};
    matches!(code, DataLoss | DeadlineExceeded | Internal | Unavailable | Unimplemented | Unknown)
}

/// Batches being sent to a client. Dropping it ends the scan or query.
pub(super) struct FlightBatchStream {
    messages: Pin<Box<dyn Stream<Item = Result<FlightMessage, Status>> + Send>>,
    call: FlightCall,
    _active: InFlightGuard,
}

impl FlightBatchStream {
    /// Creates the stream for an opened ticket.
    pub(super) fn new(opened: TicketBatches, mut call: FlightCall) -> Self {
        let active = call.node.metrics().flight().stream();
        call.read = opened.read;
        let state = (FlightStreamEncoder::new(&opened.schema), opened.batches);
        let messages = stream::try_unfold(state, |(mut encoder, mut batches)| async move {
            loop {
                let message = encoder.next().map_err(|error| {
                    tracing::warn!(%error, "a batch cannot be written");
                    status(Code::Internal, "a batch cannot be written as a message")
                })?;
                if let Some(message) = message {
                    return Ok(Some((message, (encoder, batches))));
                }

                match batches.try_next().await? {
                    Some(batch) => encoder.push(batch),
                    None => return Ok(None),
                }
            }
        });

        Self { messages: Box::pin(messages), call, _active: active }
    }
}

impl Stream for FlightBatchStream {
    type Item = Result<FlightData, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { messages, call, .. } = &mut *self;
        if call.read.as_mut().is_some_and(|read| read.running.poll_cancelled(cx)) {
            return Poll::Ready(Some(Err(status(
                Code::Cancelled,
                "the read was cancelled at the admin door",
            ))));
        }
        let polled = match &call.span {
            Some(span) => span.trace().enter(|| messages.as_mut().poll_next(cx)),
            None => messages.as_mut().poll_next(cx),
        };
        let message = std::task::ready!(polled);

        Poll::Ready(match message {
            Some(Ok(FlightMessage { data, rows })) => {
                let bytes = data.data_header.len() + data.data_body.len();
                self.call.node.metrics().flight().sent(rows, bytes as u64);
                if let Some(read) = &self.call.read {
                    read.running.sent(rows, bytes as u64);
                }
                Some(Ok(data))
            }
            Some(Err(error)) => {
                self.call.code = error.code();
                Some(Err(error))
            }
            None => {
                self.call.code = Code::Ok;
                None
            }
        })
    }
}
