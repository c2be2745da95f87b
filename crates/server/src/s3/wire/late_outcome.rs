//! Bodies of answers that begin before their outcome is known: one XML declaration, whitespace, then the outcome.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::Stream;
use s3s::{Body, HttpResponse, StdError, dto::StreamingBlob, stream::ByteStream};

use super::{error, request_id::RequestId, target::RequestTarget};

/// Marks an answer, in its extensions, whose outcome is not known when its head is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateOutcome;

/// Makes the body of an answer with a late outcome one XML document; returns other answers unchanged.
///
/// The protocol layer begins such a body with an XML declaration, and serializes an error with a second one. A
/// declaration is allowed at the first byte of a document only (XML 1.0, section 2.8), so strict parsers would reject
/// the error instead of reporting it.
pub(crate) fn complete(answer: HttpResponse, target: &RequestTarget, id: RequestId) -> HttpResponse {
    if answer.extensions().get::<LateOutcome>().is_none() {
        return answer;
    }
    let target = target.clone();
    answer.map(|body| Body::from(StreamingBlob::new(LateBody { body, has_begun: false, target, id })))
}

/// A body of the protocol layer: the declaration, any amount of whitespace, and the root element in one piece.
struct LateBody {
    body: Body,
    /// True after the declaration.
    has_begun: bool,
    target: RequestTarget,
    id: RequestId,
}

impl LateBody {
    /// Returns the piece to send in place of `piece`.
    fn rewrite(&mut self, piece: Bytes) -> Bytes {
        if !mem::replace(&mut self.has_begun, true) {
            return piece;
        }
        self.error_root(&piece).map_or(piece, Bytes::from)
    }

    /// Returns the root element of an error, completed and without a declaration; `None` if `piece` is no error.
    fn error_root(&self, piece: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(piece).ok()?;
        let root = match text.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>")) {
            Some((_, root)) => root.trim_start(),
            None => text,
        };
        root.starts_with("<Error>").then(|| error::complete(root, &self.target, self.id))
    }
}

impl Stream for LateBody {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = ready!(Pin::new(&mut self.body).poll_next(cx));
        Poll::Ready(polled.map(|outcome| outcome.map(|piece| self.rewrite(piece))))
    }
}

impl ByteStream for LateBody {}
