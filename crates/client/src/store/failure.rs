//! Distinguishes failures of a node, after which the next one is tried, from answers that another node would also
//! give.

use std::{error::Error as StdError, io};

use object_store::{
    Error,
    client::{HttpError, HttpErrorKind},
};

/// Start of the text of object_store's client errors for responses with an error status.
const STATUS: &str = "Server returned non-2xx status code: ";

/// A failure of a node, as opposed to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeFailure {
    /// The node did nothing: there was no connection, or it refused the request for now.
    Refused,
    /// The node may have executed the request before it failed.
    Broken,
}

/// A fault in an answer that the node's client does not detect itself.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum NodeFault {
    /// No answer, or no further part of it, arrived in time.
    #[error("the node did not answer in time")]
    Late,
    /// The answer ended before its last byte.
    #[error("the answer of the node ended early")]
    Short,
    /// No known node can be queried.
    #[error("no node can be asked")]
    NoNode,
    /// The server returned an error status.
    #[error("the node answered with status {0}")]
    Status(u16),
}

impl From<NodeFault> for Error {
    fn from(fault: NodeFault) -> Self {
        Self::Generic { store: super::STORE, source: Box::new(fault) }
    }
}

impl NodeFailure {
    /// Returns the node failure that an error reports; `None` if the error is the node's answer.
    pub(super) fn of(error: &Error) -> Option<Self> {
        // All other variants are S3 statuses that answer the request.
        let Error::Generic { source, .. } = error else { return None };

        let mut cause: Option<&(dyn StdError + 'static)> = Some(source.as_ref());
        while let Some(error) = cause {
            if let Some(fault) = error.downcast_ref::<NodeFault>() {
                return match fault {
                    NodeFault::Late | NodeFault::Short => Some(Self::Broken),
                    NodeFault::NoNode => None,
                    NodeFault::Status(status) => Self::of_status(*status),
                };
            }
            if let Some(error) = error.downcast_ref::<HttpError>() {
                let is_refused = error.kind() == HttpErrorKind::Connect;
                return Some(if is_refused { Self::Refused } else { Self::Broken });
            }
            if let Some(error) = error.downcast_ref::<io::Error>() {
                let is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
                return Some(if is_refused { Self::Refused } else { Self::Broken });
            }
            // The type that contains the status is private: only its text reveals it.
            let text = error.to_string();
            if let Some(status) = text.strip_prefix(STATUS).and_then(|rest| rest.get(..3)) {
                return status.parse().ok().and_then(Self::of_status);
            }
            cause = error.source();
        }
        None
    }

    fn of_status(status: u16) -> Option<Self> {
        match status {
            429 | 503 => Some(Self::Refused),
            // An operation that one node does not implement is not implemented by the others either.
            501 => None,
            408 | 500..=599 => Some(Self::Broken),
            _ => None,
        }
    }
}

/// Returns the error for a read whose object was replaced while it was read.
pub(super) fn object_changed(path: &object_store::path::Path) -> Error {
    Error::Precondition { path: path.to_string(), source: "the object changed during the read".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::Generic { store: "S3", source: source.into() }
    }

    fn http(kind: HttpErrorKind) -> Error {
        generic(HttpError::new(kind, io::Error::other("broken")))
    }

    #[test]
    fn errors_of_connections_and_servers_are_failures_of_the_node() {
        use NodeFailure::{Broken, Refused};

        for (error, failure) in [
            (http(HttpErrorKind::Connect), Some(Refused)),
            (http(HttpErrorKind::Timeout), Some(Broken)),
            (generic(io::Error::from(io::ErrorKind::ConnectionRefused)), Some(Refused)),
            (generic(io::Error::from(io::ErrorKind::ConnectionReset)), Some(Broken)),
            (generic(format!("{STATUS}503 Service Unavailable: ")), Some(Refused)),
            (generic(format!("{STATUS}500 Internal Server Error: ")), Some(Broken)),
            (generic(format!("{STATUS}501 Not Implemented: ")), None),
            (generic(format!("{STATUS}416 Range Not Satisfiable: ")), None),
            (generic("Wanted range starting at 5, but object was only 2 bytes long"), None),
            (NodeFault::Late.into(), Some(Broken)),
            (NodeFault::Status(503).into(), Some(Refused)),
            (NodeFault::Status(403).into(), None),
            (object_changed(&"a".into()), None),
            (Error::NotFound { path: "a".to_owned(), source: "no".into() }, None),
        ] {
            assert_eq!(NodeFailure::of(&error), failure, "{error}");
        }
    }
}
