//! Traces over OTLP: a span for each request of the S3 and Flight doors, and a child span for each request to an
//! origin that it causes.
//!
//! ```text
//! request ─▶ span (traceparent of the client is its parent) ─▶ bounded queue ─▶ thread ─▶ POST to the collector
//!    └─▶ Trace of the storage crate ─▶ spans of requests to origins ─▶ ┘
//! ```
//!
//! A node without an endpoint begins no spans. Spans are dropped while the queue is full. Names and attributes follow
//! the semantic conventions of OpenTelemetry for HTTP, S3 and RPC. No span contains a query or a header of a request,
//! since both may hold a signature.

mod collector;
mod span;

use std::{borrow::Cow, sync::Arc, time::Duration};

use http::HeaderMap;
use opentelemetry::{
    Context, KeyValue, Value,
    propagation::TextMapPropagator,
    trace::{SpanBuilder, SpanKind, TraceContextExt, Tracer, TracerProvider},
};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider},
};
use stylobate_storage::{run_blocking, without_credentials};

pub(crate) use self::span::RequestSpan;
use self::{collector::CollectorClient, span::ChildSpans};
use crate::config::NodeConfig;

/// Maximum time for which a stopping node waits for the delivery of its last spans.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Begins spans, and delivers them to a collector. Sampling, the resource, headers for the collector and the batch
/// size come from the standard `OTEL_` variables.
#[derive(Debug)]
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    /// Scheme under which clients reach the S3 door: `http` or `https`.
    scheme: &'static str,
}

impl Traces {
    /// Opens the traces of a node, if an endpoint is configured. An invalid `OTEL_` variable is logged as a warning
    /// and disables traces. Must be called within a tokio runtime.
    pub(crate) fn open(config: &NodeConfig) -> Option<Self> {
        let endpoint = config.settings.otlp_endpoint.as_deref()?;
        let shown = without_credentials(endpoint);
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(CollectorClient::new(shown.clone()))
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build();

        let exporter = match exporter {
            Ok(exporter) => exporter,
            Err(error) => {
                tracing::warn!(%error, "there are no traces");
                return None;
            }
        };

        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        tracing::info!(endpoint = shown, "traces are sent by OTLP");
        let tracer = provider.tracer("stylobate");
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        Some(Self { provider, tracer, propagator: TraceContextPropagator::new(), scheme })
    }

    /// Returns the scheme under which clients reach the S3 door: `http` or `https`.
    pub(crate) fn scheme(&self) -> &'static str {
        self.scheme
    }

    /// Begins the span of a request that has these headers. Returns `None` if it is not sampled.
    pub(crate) fn begin(
        &self,
        name: impl Into<Cow<'static, str>>,
        headers: &HeaderMap,
        attributes: impl FnOnce() -> Vec<KeyValue>,
    ) -> Option<Box<RequestSpan>> {
        let parent = self.propagator.extract_with_context(&Context::new(), &HeaderExtractor(headers));
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Server);
        let context = parent.with_span(self.tracer.build_with_context(builder, &parent));
        if !context.span().is_recording() {
            return None;
        }

        context.span().set_attributes(attributes());
        let children = ChildSpans::new(self.tracer.clone(), context.span().span_context().clone());
        Some(Box::new(RequestSpan::new(context, Arc::new(children))))
    }

    /// Delivers the remaining spans, waiting at most five seconds. Later spans are not delivered.
    pub(crate) async fn close(&self) {
        let provider = self.provider.clone();
        let closing = run_blocking(move || provider.shutdown_with_timeout(CLOSE_TIMEOUT));
        if let Ok(Err(error)) = closing.await {
            tracing::debug!(%error, "the last spans were not delivered");
        }
    }
}

impl Drop for Traces {
    /// Runs the shutdown outside the runtime's threads, because it blocks.
    fn drop(&mut self) {
        let provider = self.provider.clone();
        let closing = std::thread::Builder::new().name("traces".to_owned());
        drop(closing.spawn(move || drop(provider.shutdown_with_timeout(CLOSE_TIMEOUT))));
    }
}

/// Returns the resource to which spans are attributed: the one configured by the environment, with the default name
/// `stylobate`.
fn resource() -> Resource {
    let resource = Resource::builder().build();
    let name = resource.get(&"service.name".into());
    let is_named =
        matches!(&name, Some(Value::String(name)) if !name.as_str().starts_with("unknown_service"));
    let builder =
        Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if is_named { builder.build() } else { builder.with_service_name("stylobate").build() }
}
