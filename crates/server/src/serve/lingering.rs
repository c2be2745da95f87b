//! A stream that is closed only after the client has closed its side.
//!
//! Closing a socket with unread data from the client resets the connection, which discards what the client has not
//! read yet: the end of an answer. So the write side is shut down first, and the client's data is read for a moment.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// Maximum time that data is read from a client that does not close its side.
const PATIENCE: Duration = Duration::from_secs(1);

/// A stream that lingers when it is shut down.
#[derive(Debug)]
pub(super) struct LingeringStream<S> {
    stream: S,
    /// Runs since the write side was shut down.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> LingeringStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, patience: None }
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
        let Self { stream, patience } = &mut *self;
        let patience = match patience {
            Some(patience) => patience,
            None => {
                ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
                patience.insert(Box::pin(sleep(PATIENCE)))
            }
        };

        let mut unheard = [0; 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut unheard);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending => return patience.as_mut().poll(cx).map(Ok),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

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

    #[tokio::test]
    async fn a_client_that_does_not_close_its_side_is_left_after_a_moment() {
        let (_client, server) = duplex(1 << 16);
        let before = Instant::now();
        LingeringStream::new(server).shutdown().await.unwrap();
        assert!(before.elapsed() >= PATIENCE);
    }
}
