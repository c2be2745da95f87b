//! A stream that waits for the client to close its side before it closes.
//!
//! Closing a socket with unread data from the client resets the connection, which discards data that the client has
//! not read yet, such as the end of an answer. So the write side is shut down first, and the client's data is read
//! for a moment.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// Time to wait for a client that neither sends nor closes its side, such as one with an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time to wait for the next bytes of a client that is sending.
const SENDING_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time to read from a client that keeps sending.
const MAX_LINGER: Duration = Duration::from_secs(30);

/// A stream that lingers on shutdown.
#[derive(Debug)]
pub(super) struct LingeringStream<S> {
    stream: S,
    linger: Option<Linger>,
}

/// State after the write side was shut down.
#[derive(Debug)]
struct Linger {
    /// Limits the wait for the client's next bytes.
    idle_timer: Pin<Box<Sleep>>,
    /// Time at which lingering ends even if the client keeps sending.
    end: Instant,
}

impl Linger {
    fn begin() -> Self {
        let now = Instant::now();
        Self { idle_timer: Box::pin(sleep_until(now + IDLE_TIMEOUT)), end: now + MAX_LINGER }
    }

    /// Extends the wait, since the client is sending. Returns false once lingering must end.
    fn extend(&mut self) -> bool {
        let now = Instant::now();
        self.idle_timer.as_mut().reset(self.end.min(now + SENDING_TIMEOUT));
        now < self.end
    }
}

impl<S> LingeringStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, linger: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, linger } = &mut *self;
        let linger = match linger {
            Some(linger) => linger,
            None => {
                ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
                linger.insert(Linger::begin())
            }
        };

        let mut discarded = [0; 8 << 10];
        loop {
            let mut buffer = ReadBuf::new(&mut discarded);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && linger.extend() => {}
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => return linger.idle_timer.as_mut().poll(cx).map(Ok),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::sleep,
    };

    use super::*;

    #[tokio::test]
    async fn a_client_is_heard_out_until_it_closes_its_side() {
        let (mut client, server) = duplex(1 << 16);
        let mut server = LingeringStream::new(server);
        server.write_all(b"the end").await.unwrap();
        let close = tokio::spawn(async move { server.shutdown().await });
        client.write_all(&[7; 5_000]).await.unwrap();
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();

        assert_eq!(heard, b"the end");
        assert!(!close.is_finished());
        drop(client);
        close.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_close_its_side_is_left_after_a_moment() {
        let (_client, server) = duplex(1 << 16);
        let before = Instant::now();
        LingeringStream::new(server).shutdown().await.unwrap();
        assert_eq!(before.elapsed().as_secs(), IDLE_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_sending_is_read_through_its_pauses_but_not_forever() {
        let (mut client, server) = duplex(1 << 16);
        let before = Instant::now();
        let close = tokio::spawn(async move {
            LingeringStream::new(server).shutdown().await.unwrap();
            before.elapsed()
        });
        while client.write_all(&[7; 50_000]).await.is_ok() {
            sleep(SENDING_TIMEOUT / 2).await;
        }

        assert_eq!(close.await.unwrap().as_secs(), MAX_LINGER.as_secs());
    }
}
