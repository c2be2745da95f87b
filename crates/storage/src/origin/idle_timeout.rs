//! Limits the time that an origin may be silent, rather than the total time of a response: a large object may take
//! hours, and not every read can be resumed.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::{
    ClientConfigKey, ClientOptions,
    client::{HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody},
};
use tokio::time::{Instant, Sleep};

use crate::timing::duration::{format_duration, parse_positive_duration};

/// Returns the option `timeout` as a limit of silence. `None` if it is not set, or in a notation that only the client
/// reads: the client then applies it to whole responses.
pub(super) fn limit_of(options: &ClientOptions) -> Option<Duration> {
    parse_positive_duration(&options.get_config_value(&ClientConfigKey::Timeout)?).ok()
}

/// Sends a request. Fails if the head of the response does not arrive within `limit`, and later, if the next bytes of
/// its body do not.
pub(super) async fn execute(
    client: &HttpClient,
    request: HttpRequest,
    limit: Duration,
) -> Result<HttpResponse, HttpError> {
    let answered = tokio::time::timeout(limit, client.execute(request)).await;
    let response = answered.map_err(|_| silence(limit))??;
    Ok(response.map(|body| HttpResponseBody::new(IdleTimeoutBody::new(body, limit))))
}

fn silence(limit: Duration) -> HttpError {
    let reason = format!("the origin sent nothing for {}", format_duration(limit));
    HttpError::new(HttpErrorKind::Timeout, io::Error::new(io::ErrorKind::TimedOut, reason))
}

/// A body that fails if its next frame does not arrive in time. Time counts only while the reader waits.
struct IdleTimeoutBody {
    body: HttpResponseBody,
    limit: Duration,
    /// End of the current wait for a frame.
    deadline: Option<Instant>,
    /// Fires at the deadline or earlier, since it is only reset when it fires.
    timer: Pin<Box<Sleep>>,
}

impl IdleTimeoutBody {
    fn new(body: HttpResponseBody, limit: Duration) -> Self {
        Self { body, limit, deadline: None, timer: Box::pin(tokio::time::sleep(limit)) }
    }
}

impl Body for IdleTimeoutBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let Self { body, limit, deadline, timer } = &mut *self;
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            *deadline = None;
            return Poll::Ready(frame);
        }

        let deadline = *deadline.get_or_insert_with(|| Instant::now() + *limit);
        loop {
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(Some(Err(silence(*limit))));
            }
            timer.as_mut().reset(deadline);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// A body of one byte per frame, each after a pause that begins when the reader asks for it.
    struct DrippingBody {
        frames_left: usize,
        pause: Duration,
        timer: Option<Pin<Box<Sleep>>>,
    }

    impl Body for DrippingBody {
        type Data = Bytes;
        type Error = HttpError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
            if self.frames_left == 0 {
                return Poll::Ready(None);
            }

            let pause = self.pause;
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
            ready!(timer.as_mut().poll(cx));

            self.timer = None;
            self.frames_left -= 1;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
        }
    }

    fn dripping(frames: usize, pause: Duration) -> HttpResponseBody {
        let body = HttpResponseBody::new(DrippingBody { frames_left: frames, pause, timer: None });
        HttpResponseBody::new(IdleTimeoutBody::new(body, LIMIT))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_any_time_while_bytes_arrive() {
        let begun = Instant::now();
        assert_eq!(dripping(100, LIMIT * 9 / 10).bytes().await.unwrap().len(), 100);
        assert!(begun.elapsed() >= LIMIT * 90);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_pauses_for_longer_than_the_limit_times_out() {
        let begun = Instant::now();
        let error = dripping(1, LIMIT * 2).bytes().await.unwrap_err();
        assert_eq!(error.kind(), HttpErrorKind::Timeout);
        assert_eq!(begun.elapsed().as_secs(), LIMIT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_of_the_reader_do_not_count() {
        let mut bytes = dripping(2, LIMIT / 2).bytes_stream();
        assert!(bytes.try_next().await.unwrap().is_some());
        tokio::time::sleep(LIMIT * 10).await;
        assert!(bytes.try_next().await.unwrap().is_some());
        assert!(bytes.try_next().await.unwrap().is_none());
    }

    #[test]
    fn a_timeout_in_another_notation_is_left_to_the_client() {
        let limit = |text: &str| limit_of(&ClientOptions::new().with_config(ClientConfigKey::Timeout, text));
        assert_eq!(limit("300s"), Some(Duration::from_secs(300)));
        assert_eq!(limit("2 minutes"), None);
        assert_eq!(limit_of(&ClientOptions::new().with_timeout_disabled()), None);
    }
}
