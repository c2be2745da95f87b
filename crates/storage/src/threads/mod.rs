//! Work on threads that may block or compute for long, returning an awaited result or a stream.

pub(crate) mod blocking;
pub(crate) mod thread_stream;
