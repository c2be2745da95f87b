//! Ways onto threads that may block or compute for long: a result that is awaited, and a stream.

pub(crate) mod blocking;
pub(crate) mod thread_stream;
