//! Stall timeouts of exchanges with an origin: requests that record the progress of their bytes, and answers that
//! fail if no more bytes arrive.

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

/// Time at which bytes of a request last moved. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct TransferProgress {
    since: Instant,
    /// Milliseconds from `since` to the last progress.
    last: Arc<AtomicU64>,
}

impl TransferProgress {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), last: Arc::default() }
    }

    fn note(&self) {
        self.last.store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Returns once nothing has moved for this long.
    pub(super) async fn stalled(&self, patience: Duration) {
        loop {
            let until = self.since + Duration::from_millis(self.last.load(Ordering::Relaxed)) + patience;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// Body of a request that records its progress.
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
            self.progress.note();
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

/// Body of an answer, which fails if its origin stalls for longer than its patience.
#[derive(Debug)]
pub(super) struct OriginBody<B = Incoming> {
    body: B,
    patience: Duration,
    /// Deadline of the next bytes; set only while waiting for them.
    end: Option<Pin<Box<Sleep>>>,
}

impl<B> OriginBody<B> {
    pub(super) fn new(body: B, patience: Duration) -> Self {
        Self { body, patience, end: None }
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
            self.end = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(StdError::from)));
        }
        let patience = self.patience;
        let end = self.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));

        match end.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Some(Err(StalledTransfer { seconds: patience.as_secs_f64() }.into())))
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

/// Neither side of an exchange moved for the stall timeout.
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

    const PATIENCE: Duration = Duration::from_secs(3);

    fn pieces(
        pauses: &'static [u64],
    ) -> StreamBody<impl stream::Stream<Item = Result<Frame<Bytes>, StdError>> + Unpin> {
        StreamBody::new(Box::pin(stream::iter(pauses).then(async |pause| {
            tokio::time::sleep(Duration::from_secs(*pause)).await;
            Ok(Frame::data(Bytes::from_static(b"x")))
        })))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_may_take_long_as_long_as_it_moves() {
        let slow = OriginBody::new(pieces(&[2, 2, 2, 2]), PATIENCE);
        assert_eq!(slow.collect().await.unwrap().to_bytes(), "xxxx");

        let began = Instant::now();
        let mut stuck = OriginBody::new(pieces(&[1, 60]), PATIENCE);
        assert!(stuck.frame().await.unwrap().is_ok());
        let error = stuck.frame().await.unwrap().unwrap_err();
        assert!(error.is::<StalledTransfer>(), "{error}");
        assert_eq!(began.elapsed().as_secs(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_stalls_from_its_last_bytes_on() {
        let began = Instant::now();
        let progress = TransferProgress::new();
        let body = ProgressBody::new(pieces(&[2, 2, 2]), progress.clone());
        let (sent, ()) = tokio::join!(body.collect(), progress.stalled(PATIENCE));
        assert_eq!(sent.unwrap().to_bytes(), "xxx");
        assert_eq!(began.elapsed().as_secs(), 9);
    }
}
