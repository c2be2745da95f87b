//! Requests to the origin: retried with backoff until a deadline, hedged, and checked against the expected version.

use std::{fmt::Display, future::Future, ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{GetOptions, GetResult, GetResultPayload, ObjectMeta, ObjectStore, path::Path};
use rand::Rng;
use stylobate_client::HedgePolicy;
use tokio::time::Instant;

use crate::{
    Error, Origin, OriginFailure, RequestOptions, Result,
    object::headers::CapturedHeaders,
    origin::cost::OriginCost,
    read::opened_file::OpenedFile,
    stats::ReadCounters,
    versions::{ObjectInfo, ObjectInfoCache, paths_in_use::PathInUse},
};

/// Sends requests to one origin.
#[derive(Debug)]
pub(crate) struct RequestSender {
    pub(crate) origin: Origin,
    pub(crate) options: RequestOptions,
    pub(crate) counters: Arc<ReadCounters>,
    pub(crate) versions: Arc<ObjectInfoCache>,
    pub(crate) cost: OriginCost,
    hedge: HedgePolicy,
}

/// The remaining attempts of a request, and its deadline, which progress extends.
#[derive(Debug)]
pub(crate) struct RetryState {
    attempts_left: u32,
    backoff: Duration,
    deadline: Instant,
}

impl RequestSender {
    pub(crate) fn new(origin: Origin, options: RequestOptions) -> Self {
        let hedge = HedgePolicy::new(options.hedge);
        Self {
            origin,
            options,
            counters: Arc::default(),
            versions: Arc::default(),
            cost: OriginCost::default(),
            hedge,
        }
    }

    pub(crate) fn retry_state(&self) -> RetryState {
        RetryState {
            attempts_left: self.options.attempts.max(1) - 1,
            backoff: self.options.backoff,
            deadline: Instant::now() + self.options.deadline,
        }
    }

    /// Restarts the deadline after bytes arrived. Attempts are not reset: an origin that breaks off after a few bytes
    /// each time must not be retried forever.
    pub(crate) fn progress(&self, retry_state: &mut RetryState) {
        retry_state.deadline = Instant::now() + self.options.deadline;
    }

    /// Awaits `work`; fails with [`Error::Deadline`] if the deadline passes first.
    pub(crate) async fn with_deadline<T>(
        &self,
        path: impl Display,
        retry_state: &RetryState,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match tokio::time::timeout_at(retry_state.deadline, work).await {
            Ok(outcome) => outcome,
            Err(_) => {
                self.origin.metrics().count_failure(OriginFailure::Timeout);
                let deadline_ms = self.options.deadline.as_millis() as u64;
                Err(Error::Deadline { path: path.to_string(), deadline_ms })
            }
        }
    }

    /// Waits before the next attempt, or returns `error` if no attempts are left.
    pub(crate) async fn before_retry(&self, retry_state: &mut RetryState, error: Error) -> Result<()> {
        let is_retried_by_origin = self.origin.retries_itself() && matches!(error, Error::Origin { .. });
        if !error.is_retryable() || is_retried_by_origin || retry_state.attempts_left == 0 {
            return Err(error);
        }

        let jittered = retry_state.backoff.mul_f64(rand::rng().random_range(0.5..1.5));
        if Instant::now() + jittered >= retry_state.deadline {
            return Err(error);
        }

        retry_state.attempts_left -= 1;
        retry_state.backoff *= 2;
        self.counters.retries.add(1);

        tracing::debug!(%error, "request to origin failed: trying again");
        tokio::time::sleep(jittered).await;
        Ok(())
    }

    /// Requests the current description of the object.
    pub(crate) async fn head(&self, path: &Path) -> Result<ObjectInfo> {
        let in_use = self.versions.in_use.begin(path);
        let mut retry_state = self.retry_state();
        loop {
            self.counters.origin_heads.add(1);
            let seen = CapturedHeaders::default();
            let options = GetOptions::new().with_head(true).with_extensions(seen.to_extensions());
            let asked = async {
                match self.origin.store().get_opts(path, options).await {
                    Err(refused) if self.origin.is_web() && is_refusal(&refused) => {
                        self.first_byte(path).await
                    }
                    answer => answer.map_err(|error| Error::from_origin(path.as_ref(), error)),
                }
            };
            match self.with_deadline(path, &retry_state, asked).await {
                Ok(answer) => return Ok(self.object_info(path, &answer, &seen, in_use)),
                Err(error) => self.before_retry(&mut retry_state, error).await?,
            }
        }
    }

    /// Requests one byte by GET from a server that refuses HEAD, for example for a URL that was signed for GET.
    async fn first_byte(&self, path: &Path) -> Result<GetResult> {
        let refused = match self.get(path, &GetOptions::new().with_range(Some(0..1))).await {
            Err(error) if has_no_byte(&error) => error,
            answer => return answer,
        };
        match self.get(path, &GetOptions::new()).await {
            Ok(answer) if answer.meta.size == 0 => Ok(answer),
            _ => Err(refused),
        }
    }

    /// Returns the description of the object contained in a response.
    pub(crate) fn object_info(
        &self,
        path: &Path,
        answer: &GetResult,
        seen: &CapturedHeaders,
        in_use: Arc<PathInUse>,
    ) -> ObjectInfo {
        let headers = seen.take(answer.meta.e_tag.as_deref());
        let meta = ObjectMeta { location: self.origin.key_path(path), ..answer.meta.clone() };
        let attributes = answer.attributes.clone();
        let mut info = ObjectInfo::new(&self.origin, path.clone(), meta, attributes, in_use);
        info.headers = headers;
        info
    }

    /// Sends a GET without retries. The caller checks the response against the options.
    pub(crate) async fn get(&self, path: &Path, options: &GetOptions) -> Result<GetResult> {
        let send = |attempt: usize| {
            self.counters.origin_gets.add(1);
            if attempt == 1 {
                self.counters.hedges.add(1);
            }
            self.origin.store().get_opts(path, options.clone())
        };
        self.hedge.run(send).await.map_err(|error| Error::from_origin(path.as_ref(), error))
    }

    /// Forgets the version, since the origin now has another one, and returns the error for its readers.
    pub(crate) fn changed(&self, object: &ObjectInfo) -> Error {
        self.counters.changed.add(1);
        self.versions.forget_version(object);
        Error::Changed { path: object.path.to_string() }
    }

    /// Like [`changed`](Self::changed) if the error says that the object has changed; returns other errors as they are.
    pub(crate) fn if_changed(&self, object: &ObjectInfo, error: Error) -> Error {
        if matches!(error, Error::Changed { .. }) { self.changed(object) } else { error }
    }

    /// Sends a GET for bytes of exactly the version `object`; any other response is [`Error::Changed`].
    pub(crate) async fn get_version(&self, object: &ObjectInfo, range: Range<u64>) -> Result<GetResult> {
        let mut options = GetOptions::new().with_range(Some(range.clone()));
        if object.meta.e_tag.as_ref().is_some_and(|tag| !tag.starts_with("W/")) && !self.origin.is_folder() {
            options.if_match = object.meta.e_tag.clone();
        } else {
            options.version = object.meta.version.clone();
        }

        let answer = self.get(&object.path, &options).await.map_err(|error| match error {
            Error::Precondition { .. } | Error::NotFound { .. } => self.changed(object),
            other => other,
        })?;
        // Not every origin honours If-Match: check that the response is of the requested version.
        let same = answer.meta.e_tag == object.meta.e_tag
            && (!self.origin.is_folder() || answer.meta.version == object.meta.version)
            && answer.meta.size == object.meta.size
            && answer.range == range;
        if same { Ok(answer) } else { Err(self.changed(object)) }
    }
}

/// Returns whether the error may be that of a request for the first byte of an empty object: object_store does not tell
/// it from other failures.
fn has_no_byte(error: &Error) -> bool {
    let Error::Origin { source, .. } = error else { return false };
    matches!(**source, object_store::Error::Generic { .. } | object_store::Error::NotSupported { .. })
}

/// Returns whether the error means that the server refuses this kind of request. object_store takes 405 for a missing
/// object, since some servers return it for a directory: only the text tells the two apart.
fn is_refusal(error: &object_store::Error) -> bool {
    match error {
        object_store::Error::PermissionDenied { .. } | object_store::Error::NotSupported { .. } => true,
        object_store::Error::NotFound { source, .. } => source.to_string().contains("405 Method Not Allowed"),
        error => Error::is_beyond_web_server(error),
    }
}

/// Returns the stream of a response with the bytes `range` of the object that `meta` describes. If it is a file that
/// was written since, or is written before the stream ends, the error is [`Error::Changed`].
pub(crate) fn body(
    payload: GetResultPayload,
    path: &Path,
    meta: &ObjectMeta,
    range: Range<u64>,
) -> Result<BoxStream<'static, Result<Bytes>>> {
    let file = match payload {
        GetResultPayload::File(file, _) => OpenedFile::new(file, path)?,
        GetResultPayload::Stream(stream) => return Ok(exact_range(stream, path, range)),
    };
    if file.is(meta) { Ok(file.into_stream(range)) } else { Err(Error::Changed { path: path.to_string() }) }
}

/// Checks that `stream` yields exactly the bytes of `range`: fails as soon as there are more, or if there are fewer
/// at the end.
fn exact_range(
    stream: BoxStream<'static, object_store::Result<Bytes>>,
    path: &Path,
    range: Range<u64>,
) -> BoxStream<'static, Result<Bytes>> {
    let path = path.to_string();
    let expected = range.end - range.start;
    futures::stream::try_unfold((stream, 0), move |(mut stream, before)| {
        let path = path.clone();
        let Range { start, end } = range.clone();
        async move {
            let next = stream.try_next().await.map_err(|error| Error::from_origin(&path, error))?;
            let received = before + next.as_ref().map_or(0, |bytes| bytes.len() as u64);
            match next {
                Some(bytes) if received <= expected => Ok(Some((bytes, (stream, received)))),
                None if received == expected => Ok(None),
                _ => Err(Error::Truncated { path, start, end, expected, received }),
            }
        }
    })
    .boxed()
}
