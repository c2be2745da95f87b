//! The listeners of a node that others connect to.

use std::fmt;

/// A listener of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeDoor {
    /// The S3 door, for clients.
    S3,
    /// The Arrow Flight door, for clients.
    Flight,
    /// The peer door, for other nodes.
    Peer,
}

impl NodeDoor {
    /// All doors.
    pub const ALL: [Self; 3] = [Self::S3, Self::Flight, Self::Peer];

    /// Returns its name in node lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Flight => "flight",
            Self::Peer => "peer",
        }
    }
}

impl fmt::Display for NodeDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
