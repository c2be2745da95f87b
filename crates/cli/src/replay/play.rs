//! Plays a trace open loop: each request is sent at its arrival time, regardless of how many are in flight.

use std::{
    error::Error,
    future::Future,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use futures::TryStreamExt;
use indicatif::ProgressBar;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    task::JoinSet,
};

use super::{
    measure::{Measurement, RequestFailure, RequestSample},
    trace::{ReplayTrace, TraceObject},
};

/// Maximum characters of a failure message.
const MESSAGE_CHARACTERS: usize = 160;

/// Plays the trace at `speed` times its pace, until the last answer has arrived or `stop` completes.
///
/// # Errors
///
/// If no thread can be spawned, or a request is due later than the clock can represent. Failed requests are not
/// errors, but part of the measurement.
pub(super) async fn play(
    trace: &ReplayTrace,
    store: Arc<dyn ObjectStore>,
    speed: f64,
    progress: &ProgressBar,
    stop: impl Future<Output = ()>,
) -> Result<Measurement> {
    let mut measurement = Measurement::new(trace.requests.len())?;
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    let mut due = Some(clock(start, trace, speed)?);
    let mut sent = 0;
    tokio::pin!(stop);

    while due.is_some() || !tasks.is_empty() {
        tokio::select! {
            next = next_due(&mut due) => match next {
                Some(DueRequest { object, arrival }) => {
                    let store = store.clone();
                    let object = trace.objects[object].clone();
                    tasks.spawn(async move { read(&*store, &object, arrival).await });
                    sent += 1;
                }
                // The clock thread may have panicked.
                None if sent < trace.requests.len() => {
                    bail!("the clock of the trace ended after {sent} of {} requests", trace.requests.len());
                }
                None => due = None,
            },
            Some(ended) = tasks.join_next() => {
                measurement.record(ended.unwrap_or_else(|error| {
                    let message = format!("the request was not finished: {error}");
                    Err(RequestFailure { message, key: String::new() })
                }));
                progress.inc(1);
            }
            () = &mut stop => {
                measurement.interrupted = true;
                break;
            }
        }
    }

    measurement.elapsed = start.elapsed();
    Ok(measurement)
}

/// A request that is due.
struct DueRequest {
    object: usize,
    arrival: Instant,
}

/// Waits for the next due request. Never completes if there are no more.
async fn next_due(due: &mut Option<UnboundedReceiver<DueRequest>>) -> Option<DueRequest> {
    match due {
        Some(due) => due.recv().await,
        None => std::future::pending().await,
    }
}

/// Starts a thread that emits each request at its arrival time. The runtime's timers may be a millisecond late, which
/// is longer than it takes to read a cached object.
fn clock(start: Instant, trace: &ReplayTrace, speed: f64) -> Result<UnboundedReceiver<DueRequest>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let requests = trace.requests.clone();
    let run = move || {
        for request in requests {
            let Some(arrival) = start.checked_add(scaled(request.arrival, speed)) else { return };
            thread::sleep(arrival.saturating_duration_since(Instant::now()));
            if sender.send(DueRequest { object: request.object, arrival }).is_err() {
                return;
            }
        }
    };

    thread::Builder::new().name("replay-clock".to_owned()).spawn(run)?;
    Ok(receiver)
}

/// Reads the whole object and drops its bytes.
async fn read(
    store: &dyn ObjectStore,
    object: &TraceObject,
    arrival: Instant,
) -> Result<RequestSample, RequestFailure> {
    let failure = |message| RequestFailure { message, key: object.key.to_string() };
    let failed = |error: object_store::Error| failure(describe(&error));
    let late = arrival.elapsed();
    let answer = store.get(&object.key).await.map_err(failed)?;
    let announced = answer.meta.size;

    let mut stream = answer.into_stream();
    let mut bytes = 0;
    let mut first_byte = None;
    while let Some(chunk) = stream.try_next().await.map_err(failed)? {
        if !chunk.is_empty() {
            first_byte.get_or_insert_with(|| arrival.elapsed());
        }
        bytes += chunk.len() as u64;
    }

    let latency = arrival.elapsed();
    if bytes != announced {
        return Err(failure(format!("the answer ended at {bytes} of {announced} bytes")));
    }

    match object.size {
        Some(size) if size != bytes => {
            Err(failure(format!("the object has {bytes} bytes, where the objects file says {size}")))
        }
        _ => Ok(RequestSample { late, first_byte: first_byte.unwrap_or(latency), latency, bytes }),
    }
}

/// Returns the cause of an error in one line. Omits addresses, times and request ids, so that equal causes have equal
/// texts.
fn describe(error: &object_store::Error) -> String {
    match error {
        object_store::Error::NotFound { .. } => return "no such object or bucket".to_owned(),
        object_store::Error::PermissionDenied { .. } => return "access denied (403)".to_owned(),
        object_store::Error::Unauthenticated { .. } => return "not authenticated (401)".to_owned(),
        _ => {}
    }

    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }

    let text = cause.to_string();
    // Keeps only the code of an S3 error body: the rest contains ids.
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let head = text.split(['<', '\n']).next().unwrap_or_default().trim_end_matches([' ', ':']);
    let line = match code {
        Some((code, _)) => format!("{head}: {code}"),
        None => head.to_owned(),
    };

    line.chars().take(MESSAGE_CHARACTERS).collect()
}

/// Completes on Ctrl-C.
pub(super) async fn interrupt() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler for the signal, waits forever.
        std::future::pending::<()>().await;
    }
}

/// Returns the duration of the trace at this speed.
pub(super) fn span(trace: &ReplayTrace, speed: f64) -> Duration {
    trace.requests.last().map_or(Duration::ZERO, |request| scaled(request.arrival, speed))
}

fn scaled(arrival: Duration, speed: f64) -> Duration {
    Duration::try_from_secs_f64(arrival.as_secs_f64() / speed).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use object_store::{memory::InMemory, path::Path};

    use super::super::trace::TraceRequest;
    use super::*;

    /// Creates a store with objects of 1000 and 2000 bytes, and a trace of requests given as (ms, index). Object 2
    /// does not exist.
    async fn fixture(requests: &[(u64, usize)]) -> (ReplayTrace, Arc<dyn ObjectStore>) {
        let store = InMemory::new();
        let keys = ["a", "b", "missing"].map(Path::from);
        store.put(&keys[0], vec![0; 1000].into()).await.unwrap();
        store.put(&keys[1], vec![0; 2000].into()).await.unwrap();
        let objects = keys.into_iter().map(|key| TraceObject { key, size: None }).collect();
        let request = |(ms, object)| TraceRequest { arrival: Duration::from_millis(ms), object };
        let requests = requests.iter().copied().map(request).collect();
        (ReplayTrace { objects, requests }, Arc::new(store))
    }

    async fn play_all(trace: &ReplayTrace, store: Arc<dyn ObjectStore>, speed: f64) -> Measurement {
        play(trace, store, speed, &ProgressBar::hidden(), std::future::pending()).await.unwrap()
    }

    #[tokio::test]
    async fn every_request_is_played_and_its_bytes_are_counted() {
        let (trace, store) = fixture(&[(0, 0), (5, 1), (5, 0), (30, 1)]).await;
        let measurement = play_all(&trace, store, 1.0).await;
        assert_eq!((measurement.completed, measurement.failed(), measurement.bytes), (4, 0, 6000));
        assert!(measurement.elapsed >= Duration::from_millis(30));
        assert!(!measurement.interrupted);
    }

    #[tokio::test]
    async fn a_speed_of_ten_takes_a_tenth_of_the_time() {
        let (trace, store) = fixture(&[(0, 0), (3_000, 0)]).await;
        let elapsed = play_all(&trace, store, 10.0).await.elapsed;
        assert!((Duration::from_millis(300)..Duration::from_millis(2_500)).contains(&elapsed), "{elapsed:?}");
        assert_eq!(span(&trace, 10.0), Duration::from_millis(300));
    }

    #[tokio::test]
    async fn failures_are_counted_and_stop_nothing() {
        let (mut trace, store) = fixture(&[(0, 2), (1, 0), (2, 2), (3, 1)]).await;
        trace.objects[1].size = Some(1999);
        let measurement = play_all(&trace, store, 1.0).await;
        assert_eq!((measurement.completed, measurement.failed()), (1, 3));
        assert_eq!(measurement.failures["no such object or bucket"].count, 2);
        let other = "the object has 2000 bytes, where the objects file says 1999";
        assert_eq!(measurement.failures[other].first_key, "b");
    }

    #[tokio::test]
    async fn what_was_measured_before_an_interrupt_is_kept() {
        let (trace, store) = fixture(&[(0, 0), (60_000, 0)]).await;
        let stop = tokio::time::sleep(Duration::from_millis(200));
        let measurement = play(&trace, store, 1.0, &ProgressBar::hidden(), stop).await.unwrap();
        assert!(measurement.interrupted);
        assert_eq!(measurement.completed, 1);
    }

    #[test]
    fn the_cause_of_a_failure_has_no_ids_in_it() {
        let error = |text: &str| object_store::Error::Generic { store: "S3", source: text.to_owned().into() };
        let body = "Server returned non-2xx status code: 503: <?xml?><Error><Code>SlowDown</Code>\
                    <RequestId>17</RequestId></Error>";
        assert_eq!(describe(&error(body)), "Server returned non-2xx status code: 503: SlowDown");
        assert_eq!(describe(&error("connection refused\nat 12:01")), "connection refused");
    }
}
