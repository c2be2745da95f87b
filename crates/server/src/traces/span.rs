//! The span of a request to a door, and its child spans for requests to origins.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{Method, StatusCode, Uri, uri::Authority};
use opentelemetry::{
    Context, KeyValue,
    trace::{Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, Tracer},
};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use stylobate_storage::{OriginFailure, OriginSpan, OriginTracer, RequestKind, Trace};

/// Span of a request, which ends on drop.
pub(crate) struct RequestSpan {
    context: Context,
    children: Arc<ChildSpans>,
    trace: Trace,
}

impl RequestSpan {
    pub(super) fn new(context: Context, children: Arc<ChildSpans>) -> Self {
        let trace = Trace::new(children.clone());
        Self { context, children, trace }
    }

    /// Returns the trace under which requests to origins become children of this span.
    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Renames the span once the operation is known.
    pub(crate) fn rename(&self, name: &'static str) {
        self.context.span().update_name(name);
    }

    /// Adds an attribute.
    pub(crate) fn set(&self, attribute: KeyValue) {
        self.context.span().set_attribute(attribute);
    }

    /// Marks the span as failed. The reason must have low cardinality.
    pub(crate) fn fail(&self, reason: String) {
        self.set(KeyValue::new("error.type", reason));
        self.context.span().set_status(Status::error(""));
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        let origin_requests = self.children.begun.load(Ordering::Relaxed);
        self.set(KeyValue::new("stylobate.origin_requests", origin_requests as i64));
        self.context.span().end();
    }
}

impl fmt::Debug for RequestSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestSpan").finish_non_exhaustive()
    }
}

/// Begins the child spans of one request, including those of work that outlives the request.
#[derive(Debug)]
pub(super) struct ChildSpans {
    tracer: SdkTracer,
    parent: Context,
    /// Number of child spans begun.
    begun: AtomicU64,
}

impl ChildSpans {
    pub(super) fn new(tracer: SdkTracer, parent: SpanContext) -> Self {
        Self { tracer, parent: Context::new().with_remote_span_context(parent), begun: AtomicU64::new(0) }
    }
}

impl OriginTracer for ChildSpans {
    fn begin(&self, kind: RequestKind, method: &Method, uri: &Uri) -> Box<dyn OriginSpan> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let scheme = uri.scheme_str().unwrap_or("http");
        let host = uri.host().unwrap_or_default();
        let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
        let attributes = [
            KeyValue::new("http.request.method", method.to_string()),
            KeyValue::new("url.full", format!("{scheme}://{}{}", shown_authority(uri), uri.path())),
            KeyValue::new("server.address", host.to_owned()),
            KeyValue::new("server.port", i64::from(port)),
            KeyValue::new("stylobate.origin.request", kind.name()),
        ];

        let builder = SpanBuilder::from_name(method.to_string())
            .with_kind(SpanKind::Client)
            .with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, &self.parent);
        Box::new(OriginChildSpan { span: Some(span) })
    }
}

/// Returns the host and port of a URL, without user and password.
fn shown_authority(uri: &Uri) -> &str {
    let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Span of a request to an origin.
#[derive(Debug)]
struct OriginChildSpan {
    /// `None` once it has ended.
    span: Option<Span>,
}

impl OriginSpan for OriginChildSpan {
    fn end(mut self: Box<Self>, outcome: Result<StatusCode, OriginFailure>) {
        let Some(mut span) = self.span.take() else { return };
        let failure = match outcome {
            Ok(status) => {
                span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
                let is_error = status.is_client_error() || status.is_server_error();
                is_error.then(|| OriginFailure::Status(status.as_u16()))
            }
            Err(failure) => Some(failure),
        };

        if let Some(failure) = failure {
            fail(&mut span, failure.to_string());
        }
        span.end();
    }
}

impl Drop for OriginChildSpan {
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            fail(&mut span, "cancelled".to_owned());
            span.end();
        }
    }
}

fn fail(span: &mut Span, reason: String) {
    span.set_attribute(KeyValue::new("error.type", reason));
    span.set_status(Status::error(""));
}
