//! Errors of node lists and views.

use crate::door::NodeDoor;

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error for an unusable node list. Messages are one line and contain no credentials.
///
/// A list that is reread while a cluster runs may be invalid for a moment: report the error and keep the previous view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The list has no nodes.
    #[error("the list of nodes is empty")]
    NoNodes,
    /// Two nodes have the same id.
    #[error("two nodes have the id {id:?}: give each its own, as in `a=host:9003`")]
    DuplicateId {
        /// The id.
        id: String,
    },
    /// Two nodes have the same address for the same door.
    #[error("the nodes {first:?} and {second:?} have the same {door} address {address}")]
    DuplicateAddress {
        /// The door.
        door: NodeDoor,
        /// The address, as `host:port`.
        address: String,
        /// The id of one node.
        first: String,
        /// The id of the other node.
        second: String,
    },
    /// The text is not a valid node id.
    #[error("{text:?} is not a node id: {reason}")]
    InvalidId {
        /// The text.
        text: String,
        /// The rule that the text breaks.
        reason: &'static str,
    },
    /// The text is not a valid node address.
    #[error("{text:?} is not the address of a node: {reason}")]
    InvalidAddress {
        /// The text, without user and password.
        text: String,
        /// The rule that the text breaks.
        reason: &'static str,
    },
    /// The text is not a valid weight.
    #[error("{text:?} is not a weight: use a whole number from 1 to 65535")]
    InvalidWeight {
        /// The text.
        text: String,
    },
    /// A field of an entry is unknown or repeated.
    #[error(
        "{field:?} of a node {reason}: an entry is `id=host:port`, then any of a weight, `s3=host:port`, \
             `flight=host:port`, `peer=host:port` and `draining`, separated by commas"
    )]
    InvalidField {
        /// The field, without user and password.
        field: String,
        /// The rule that the field breaks.
        reason: &'static str,
    },
    /// A line of a node file is invalid.
    #[error("line {line}: {error}")]
    InvalidLine {
        /// Line number, from 1.
        line: usize,
        /// The error in its entry.
        error: Box<Error>,
    },
}
