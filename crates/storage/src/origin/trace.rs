//! The trace that the work in hand is part of: carried along with a task and into the tasks that it spawns, so that each
//! request to an origin is followed in the trace of the caller that began it.
//!
//! What a span is, and where it goes, is the business of whoever begins the trace: see [`OriginTracer`].

use std::{fmt, sync::Arc};

use http::{Method, StatusCode, Uri};

use crate::origin::metrics::{OriginFailure, RequestKind};

tokio::task_local! {
    static TRACE: Trace;
}

/// Follows the requests to origins that are sent on behalf of one caller.
pub trait OriginTracer: fmt::Debug + Send + Sync {
    /// Begins the span of a request. The query of `uri` may hold secrets.
    fn begin(&self, kind: RequestKind, method: &Method, uri: &Uri) -> Box<dyn OriginSpan>;
}

/// The span of a request to an origin. A span that is dropped before it ends is that of a request that was given up.
pub trait OriginSpan: fmt::Debug + Send + Sync {
    /// The head of the answer came, or never will.
    fn end(self: Box<Self>, outcome: Result<StatusCode, OriginFailure>);
}

/// The trace that work is part of, or none. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<Arc<dyn OriginTracer>>);

impl Trace {
    /// A trace whose requests `tracer` follows.
    pub fn new(tracer: Arc<dyn OriginTracer>) -> Self {
        Self(Some(tracer))
    }

    /// Returns the trace of the task that runs.
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

/// Keeps a future, that is about to become a task of its own, within the trace of the task that spawns it.
pub fn traced<F: Future>(future: F) -> impl Future<Output = F::Output> {
    Trace::current().scope(future)
}
