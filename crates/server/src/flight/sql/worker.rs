//! Runs tasks of queries that other nodes planned: the worker's service next to the Flight service, for calls that
//! are signed with the cluster's secret.

use std::{
    collections::HashSet,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant, SystemTime},
};

use http::{Request, Response};
use parking_lot::Mutex;
use tonic::{
    Code,
    body::Body,
    codegen::{Body as HttpBody, BoxFuture, Service, StdError},
};

use super::{super::error::status, engine::QueryEngine};
use crate::cluster::{CallNonce, Cluster, MAX_CLOCK_DIFFERENCE, RepeatedNotice};

/// Path prefix of the worker's calls.
const WORKER_PATH: &str = "/worker.WorkerService/";
/// Maximum bytes of a call: the plan of a task lists the row groups that it reads.
const MAX_CALL_BYTES: usize = 64 << 20;

/// The Flight service of a node combined with its query worker.
#[derive(Clone)]
pub(in crate::flight) struct FlightAndWorker<F> {
    flight: F,
    worker: Option<WorkerDoor>,
}

/// The query worker of a node in a cluster.
#[derive(Clone)]
struct WorkerDoor {
    engine: Arc<QueryEngine>,
    cluster: Arc<Cluster>,
    calls: Arc<Mutex<AcceptedCalls>>,
    refusals: Arc<Mutex<RepeatedNotice>>,
}

impl<F> FlightAndWorker<F> {
    /// Combines the Flight service with the engine's worker, if the node is in a cluster.
    pub(in crate::flight) fn new(flight: F, engine: Arc<QueryEngine>, cluster: Option<Arc<Cluster>>) -> Self {
        let worker = cluster.map(|cluster| WorkerDoor {
            engine,
            cluster,
            calls: Arc::default(),
            refusals: Arc::default(),
        });
        Self { flight, worker }
    }
}

impl<F, B> Service<Request<B>> for FlightAndWorker<F>
where
    F: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
    F::Future: Send + 'static,
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.flight.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match &self.worker {
            Some(worker) if request.uri().path().starts_with(WORKER_PATH) => worker.call(request),
            _ => Box::pin(self.flight.call(request)),
        }
    }
}

impl WorkerDoor {
    fn call<B>(&self, request: Request<B>) -> BoxFuture<Response<Body>, Infallible>
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        if let Err(reason) = self.check(&request) {
            let line = format!("a task of a query is refused: {reason}");
            if self.refusals.lock().is_due(&line, Instant::now()) {
                tracing::warn!("cluster: {line}");
            }
            let refused =
                status(Code::Unauthenticated, "the call is not signed with the secret of this cluster");
            return Box::pin(async move { Ok(refused.into_http()) });
        }

        let worker = match self.engine.worker() {
            Ok(worker) => worker,
            Err(error) => return Box::pin(async move { Ok(error.into_http()) }),
        };
        let mut server = worker.of_engine().into_worker_server().max_decoding_message_size(MAX_CALL_BYTES);
        Box::pin(async move { server.call(request).await })
    }

    /// Verifies the signature of a call, and that the call is not a replay.
    fn check<B>(&self, request: &Request<B>) -> Result<(), String> {
        let now = SystemTime::now();
        let path = request.uri().path();
        let nonce = self.cluster.key().check_call(request.headers(), path, now);
        let nonce = nonce.map_err(|error| error.to_string())?;
        if self.calls.lock().accept(nonce, Instant::now()) {
            Ok(())
        } else {
            Err("it was sent before".to_owned())
        }
    }
}

/// Nonces of the calls of the last minutes, so that each is accepted once. Only calls with a valid signature are
/// recorded.
#[derive(Debug, Default)]
struct AcceptedCalls {
    recent: HashSet<CallNonce>,
    older: HashSet<CallNonce>,
    since: Option<Instant>,
}

impl AcceptedCalls {
    /// Time for which a signature may be valid: clocks may differ in either direction.
    const SIGNATURE_LIFETIME: Duration = Duration::from_secs(2 * MAX_CLOCK_DIFFERENCE.as_secs());

    /// Returns true if a call is new, and records it.
    fn accept(&mut self, nonce: CallNonce, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) > Self::SIGNATURE_LIFETIME {
            self.older = std::mem::take(&mut self.recent);
            self.since = Some(now);
        }
        !self.older.contains(&nonce) && self.recent.insert(nonce)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::{cluster::PeerKey, config::Secret};

    #[test]
    fn a_call_is_accepted_once() {
        let key = PeerKey::new(&Secret::new("secret"));
        let nonce = |number: u128| {
            let now = SystemTime::now();
            let mut headers = HeaderMap::new();
            key.sign_call(&mut headers, "/", number, now);
            key.check_call(&headers, "/", now).unwrap()
        };

        let mut calls = AcceptedCalls::default();
        let start = Instant::now();
        assert!(calls.accept(nonce(1), start) && calls.accept(nonce(2), start));
        assert!(!calls.accept(nonce(1), start));
        let later = start + AcceptedCalls::SIGNATURE_LIFETIME + Duration::from_secs(1);
        assert!(calls.accept(nonce(3), later));
        assert!(!calls.accept(nonce(2), later));
        assert!(calls.accept(nonce(4), later + AcceptedCalls::SIGNATURE_LIFETIME + Duration::from_secs(1)));
        assert_eq!(calls.older.len() + calls.recent.len(), 2);
    }
}
