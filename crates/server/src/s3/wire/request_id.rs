//! Request ids.

use std::fmt;

/// Identifies a request in answers and in the log.
#[derive(Clone, Copy)]
pub(crate) struct RequestId(pub(crate) u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}
