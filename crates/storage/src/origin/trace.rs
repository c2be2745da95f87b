//! The trace of the current work: carried with a task and into the tasks that it spawns, so that each request to an
//! origin appears in the trace of the caller that caused it.
//!
//! The caller that begins a trace defines its spans and their destination; see [`OriginTracer`].

use std::{fmt, sync::Arc};

use http::{Method, StatusCode, Uri};
use tracing::Instrument;

use crate::origin::metrics::{OriginFailure, RequestKind};

tokio::task_local! {
    static TRACE: Trace;
}

/// A tracer of the requests to origins that are sent on behalf of one caller.
pub trait OriginTracer: fmt::Debug + Send + Sync {
    /// Begins the span of a request. The query of `uri` may contain secrets.
    fn begin(&self, kind: RequestKind, method: &Method, uri: &Uri) -> Box<dyn OriginSpan>;
}

/// The span of a request to an origin. Dropping it before it ends means that the request was cancelled.
pub trait OriginSpan: fmt::Debug + Send + Sync {
    /// Ends the span with the status of the response, or with the failure.
    fn end(self: Box<Self>, outcome: Result<StatusCode, OriginFailure>);
}

/// The current trace, if any. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<Arc<dyn OriginTracer>>);

impl Trace {
    /// Creates a trace whose requests are reported to `tracer`.
    pub fn new(tracer: Arc<dyn OriginTracer>) -> Self {
        Self(Some(tracer))
    }

    /// Returns the trace of the current task.
    pub fn current() -> Self {
        TRACE.try_with(Self::clone).unwrap_or_default()
    }

    /// Makes a future's requests part of this trace.
    pub fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        TRACE.scope(self, future)
    }

    /// Runs a part of a task, such as one poll, within this trace.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        match self.0 {
            Some(_) => TRACE.sync_scope(self.clone(), work),
            None => work(),
        }
    }

    /// Begins the span of a request, if there is a trace.
    pub(crate) fn begin(&self, kind: RequestKind, method: &Method, uri: &Uri) -> Option<Box<dyn OriginSpan>> {
        self.0.as_ref().map(|tracer| tracer.begin(kind, method, uri))
    }
}

/// Wraps a future that is about to be spawned in the trace and the `tracing` span of the current task.
pub fn traced<F: Future>(future: F) -> impl Future<Output = F::Output> {
    Trace::current().scope(future.in_current_span())
}
