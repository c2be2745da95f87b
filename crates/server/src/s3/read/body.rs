//! The bytes of an object sent to a client: exactly as many as announced, or an error that aborts the connection.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream::BoxStream};
use parking_lot::Mutex;
use s3s::{
    StdError,
    stream::{ByteStream, RemainingLength},
};

use crate::s3::wire::error;

/// The stream was shorter or longer than the announced length.
#[derive(Debug, thiserror::Error)]
#[error("the bytes of the object do not have the length that was announced")]
struct BodyLengthMismatch;

/// The body was cut off in the middle; the reason is in the log.
#[derive(Debug, thiserror::Error)]
#[error("the object could not be read to its end")]
struct TruncatedBody;

/// Body of a GetObject answer.
pub(crate) struct ObjectBody {
    /// Never locked. The mutex only makes the stream `Sync`, as s3s requires; access is always exclusive.
    stream: Mutex<BoxStream<'static, object_store::Result<Bytes>>>,
    remaining: u64,
}

impl ObjectBody {
    /// Wraps the `length` bytes of `stream`.
    pub(crate) fn new(stream: BoxStream<'static, object_store::Result<Bytes>>, length: u64) -> Self {
        Self { stream: Mutex::new(stream), remaining: length }
    }
}

impl Stream for ObjectBody {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = match ready!(self.stream.get_mut().poll_next_unpin(cx)) {
            Some(Ok(bytes)) => match self.remaining.checked_sub(bytes.len() as u64) {
                Some(remaining) => {
                    self.remaining = remaining;
                    Some(Ok(bytes))
                }
                None => Some(Err(BodyLengthMismatch.into())),
            },
            Some(Err(error)) => {
                error::log(&error);
                Some(Err(TruncatedBody.into()))
            }
            None if self.remaining > 0 => Some(Err(BodyLengthMismatch.into())),
            None => None,
        };
        Poll::Ready(item)
    }
}

impl ByteStream for ObjectBody {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::new_exact(usize::try_from(self.remaining).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use futures::{TryStreamExt, stream};

    use super::*;

    async fn read(pieces: Vec<object_store::Result<Bytes>>, length: u64) -> Result<usize, String> {
        let body = ObjectBody::new(stream::iter(pieces).boxed(), length);
        let pieces: Result<Vec<Bytes>, _> = body.try_collect().await;
        pieces.map(|pieces| pieces.concat().len()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_body_ends_well_only_with_its_last_byte() {
        let piece = || Ok(Bytes::from_static(b"abc"));
        assert_eq!(read(vec![piece(), piece()], 6).await, Ok(6));
        assert_eq!(read(vec![piece()], 6).await, Err(BodyLengthMismatch.to_string()));
        assert_eq!(read(vec![piece(), piece()], 5).await, Err(BodyLengthMismatch.to_string()));
        assert_eq!(
            read(
                vec![
                    piece(),
                    Err(object_store::Error::NotImplemented {
                        operation: "secret".into(),
                        implementer: "secret".into(),
                    })
                ],
                6
            )
            .await,
            Err(TruncatedBody.to_string())
        );
    }
}
