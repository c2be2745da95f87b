//! A request in flight to an origin: measures the time to the head of its response, counts its failure, and belongs
//! to its caller's trace.

use std::{sync::Arc, time::Instant};

use http::{Method, StatusCode, Uri};

use crate::origin::{
    metrics::{OriginFailure, OriginMetrics, RequestKind},
    trace::{OriginSpan, Trace},
};

/// A request in flight to an origin. If it is dropped before it ends, its caller cancelled it, and it is not counted.
#[derive(Debug)]
pub struct OriginRequest {
    metrics: Arc<OriginMetrics>,
    kind: RequestKind,
    sent: Instant,
    span: Option<Box<dyn OriginSpan>>,
}

impl OriginRequest {
    /// Begins a request that is about to be sent, within the trace of the current task.
    pub fn begin(metrics: Arc<OriginMetrics>, kind: RequestKind, method: &Method, uri: &Uri) -> Self {
        let span = Trace::current().begin(kind, method, uri);
        Self { metrics, kind, sent: Instant::now(), span }
    }

    /// Ends the request when the head of the response arrives.
    pub fn answered(mut self, status: StatusCode) {
        self.metrics.observe(self.kind, self.sent.elapsed().as_secs_f64());
        if status.is_client_error() || status.is_server_error() {
            self.metrics.count_failure(OriginFailure::Status(status.as_u16()));
        }
        if let Some(span) = self.span.take() {
            span.end(Ok(status));
        }
    }

    /// Ends the request without a response.
    pub fn failed(mut self, failure: OriginFailure) {
        self.metrics.count_failure(failure);
        if let Some(span) = self.span.take() {
            span.end(Err(failure));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_answer_is_timed_and_its_error_counted() {
        let metrics = Arc::new(OriginMetrics::default());
        let begin = || {
            let uri = Uri::from_static("http://h/k");
            OriginRequest::begin(metrics.clone(), RequestKind::Head, &Method::HEAD, &uri)
        };
        begin().answered(StatusCode::OK);
        begin().answered(StatusCode::NOT_FOUND);
        begin().failed(OriginFailure::Timeout);
        drop(begin());

        let latencies = metrics.latencies();
        assert_eq!(latencies.len(), 1);
        assert_eq!((latencies[0].0, latencies[0].1.count()), (RequestKind::Head, 2));
        let failures = BTreeMap::from([(OriginFailure::Status(404), 1), (OriginFailure::Timeout, 1)]);
        assert_eq!(metrics.failures(), failures);
    }
}
