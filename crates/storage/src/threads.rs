//! How long threads live that have nothing to do.

use std::time::Duration;

/// How long a thread that reads, decodes and encodes should wait for more to do: what to give
/// [`Builder::thread_keep_alive`](tokio::runtime::Builder::thread_keep_alive). Allocators keep what such a thread freed,
/// and what others freed of its memory, until it ends: with the usual ten seconds a process may hold several times the
/// memory that it was given. A new thread costs some 20 µs, once for all that is done without a pause.
pub const THREAD_KEEP_ALIVE: Duration = Duration::from_millis(10);
