//! Stall timeouts of forwarded requests: request bodies record their progress, and response bodies fail if no more
//! bytes arrive.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use s3s::StdError;
use tokio::time::{Instant, Sleep, sleep_until};

/// Time at which bytes of a request were last sent, shared by all clones.
#[derive(Clone, Debug)]
pub(super) struct TransferProgress {
    start: Instant,
    /// Time of the last progress, in milliseconds after `start`.
    last_ms: Arc<AtomicU64>,
}

impl TransferProgress {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), last_ms: Arc::default() }
    }

    /// Records progress at the current time.
    fn record(&self) {
        self.last_ms.store(self.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns once there has been no progress for `timeout`.
    pub(super) async fn stalled(&self, timeout: Duration) {
        loop {
            let last_progress = self.start + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let deadline = last_progress + timeout;
            if deadline <= Instant::now() {
                return;
            }

            sleep_until(deadline).await;
        }
    }
}

/// Request body that records its progress.
pub(super) struct ProgressBody<B> {
    body: B,
    progress: TransferProgress,
}

impl<B> ProgressBody<B> {
    pub(super) fn new(body: B, progress: TransferProgress) -> Self {
        Self { body, progress }
    }
}

impl<B: Body + Unpin> Body for ProgressBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_ready() {
            self.progress.record();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Response body that fails if the origin sends no bytes for the stall timeout.
#[derive(Debug)]
pub(super) struct OriginBody<B = Incoming> {
    body: B,
    timeout: Duration,
    /// Deadline for the next bytes; set only while waiting for them.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<B> OriginBody<B> {
    pub(super) fn new(body: B, timeout: Duration) -> Self {
        Self { body, timeout, deadline: None }
    }
}

impl<B> Body for OriginBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    StdError: From<B::Error>,
{
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.deadline = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(StdError::from)));
        }

        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        match deadline.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Some(Err(StalledTransfer { seconds: timeout.as_secs_f64() }.into())))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// No bytes were sent or received for the stall timeout.
#[derive(Debug, thiserror::Error)]
#[error("no bytes moved for {seconds} s")]
pub(super) struct StalledTransfer {
    pub(super) seconds: f64,
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(3);

    /// Returns a body that sends one byte after each of the pauses, in seconds.
    fn slow_body(
        pauses: &'static [u64],
    ) -> StreamBody<impl stream::Stream<Item = Result<Frame<Bytes>, StdError>> + Unpin> {
        StreamBody::new(Box::pin(stream::iter(pauses).then(async |pause| {
            tokio::time::sleep(Duration::from_secs(*pause)).await;
            Ok(Frame::data(Bytes::from_static(b"x")))
        })))
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_fails_only_once_it_stalls() {
        let slow = OriginBody::new(slow_body(&[2, 2, 2, 2]), TIMEOUT);
        assert_eq!(slow.collect().await.unwrap().to_bytes(), "xxxx");

        let began = Instant::now();
        let mut stuck = OriginBody::new(slow_body(&[1, 60]), TIMEOUT);
        assert!(stuck.frame().await.unwrap().is_ok());
        let error = stuck.frame().await.unwrap().unwrap_err();
        assert!(error.is::<StalledTransfer>(), "{error}");
        assert_eq!(began.elapsed().as_secs(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_stalls_after_its_last_progress() {
        let began = Instant::now();
        let progress = TransferProgress::new();
        let body = ProgressBody::new(slow_body(&[2, 2, 2]), progress.clone());
        let (sent, ()) = tokio::join!(body.collect(), progress.stalled(TIMEOUT));
        assert_eq!(sent.unwrap().to_bytes(), "xxx");
        assert_eq!(began.elapsed().as_secs(), 9);
    }
}
