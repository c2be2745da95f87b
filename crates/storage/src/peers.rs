//! The other nodes of a cluster, as seen by a store that reads through them.
//!
//! An implementation of [`Peers`] decides which node is the home of a stripe, and how nodes communicate. This crate
//! decides which peers to ask for which bytes, and which answers to accept: only bytes of the requested version that
//! match the checksums of their blocks. So a peer that has a wrong view, or that is slow, broken or gone, can cost a
//! request but never return a wrong byte.
//!
//! ```text
//!   reader ─▶ own memory and disk ─▶ home ─▶ deputy ─▶ origin
//!                                     └▶ its memory and disk ─▶ donor ─▶ origin
//! ```

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

/// The name of a peer. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(Arc<str>);

impl PeerId {
    /// Creates the name of a peer.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The role in which a peer is asked for bytes.
///
/// Roles are ordered: to answer a request, a peer asks others only in lower roles, and does not wait for one of its
/// own fetches that asks in the same or a higher role. So no request comes back to a node that is waiting for it,
/// even if all views differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerRole {
    /// May have the bytes from an earlier view: answers from its memory and disk only.
    Donor,
    /// Owns the bytes: fetches missing ones from donors and the origin.
    Home,
    /// Stands in for the home: fetches missing bytes from the home, or from the origin otherwise.
    Deputy,
}

/// A peer, and the role in which it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSource {
    /// The peer.
    pub peer: PeerId,
    /// Its role.
    pub role: PeerRole,
}

/// The sources for the bytes of one stripe of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeSources {
    /// End of the stripe, as an offset in the object: a multiple of the page size.
    pub end: u64,
    /// True if this node is the home of the stripe, and keeps its pages on disk. Other nodes keep a few of them, in
    /// memory.
    pub is_home: bool,
    /// The peers to ask before the origin, in order. For a home, its donors.
    pub peers: Vec<PeerSource>,
}

/// A request to a peer for bytes of one version of an object. It names everything that makes up the version's cache
/// key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRead {
    /// Path within the bucket.
    pub path: String,
    /// Version id of a retained object version; `None` for the current version.
    #[serde(default)]
    pub kept: Option<String>,
    /// Size of the object in bytes.
    pub size: u64,
    /// The ETag of the version.
    pub e_tag: Option<String>,
    /// The version id, if the origin gave one.
    pub version: Option<String>,
    /// The requested bytes, in whole blocks; the last block of an object may be shorter.
    pub range: Range<u64>,
    /// The role in which the peer is asked.
    pub role: PeerRole,
}

/// Adjacent blocks of one page of an object. Runs are contiguous: each starts at the end of the previous one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The bytes.
    pub bytes: Bytes,
    /// The checksum of each block, seeded by version, page and block.
    pub checksums: Box<[u64]>,
}

/// The blocks in the range of a [`PeerRead`], in order.
pub type BlockRuns = BoxStream<'static, Result<BlockRun, PeerError>>;

/// A request to the authority of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribeRequest {
    /// Path within the bucket.
    pub path: String,
    /// True if the authority must ask the origin, even if it knows the object.
    pub is_strict: bool,
    /// The bytes to be read next, if any certainly will be: the authority may fetch them with the same request.
    pub wanted: Option<Range<u64>>,
}

/// An authority's description of the current version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedObject {
    /// Size in bytes.
    pub size: u64,
    /// The ETag.
    pub e_tag: Option<String>,
    /// The version id.
    pub version: Option<String>,
    /// Time of the last change: seconds and nanoseconds since 1970.
    pub last_modified: (i64, u32),
    /// Attributes, by name.
    pub attributes: BTreeMap<String, String>,
    /// Headers of an origin that speaks the S3 protocol; values are Latin-1.
    pub headers: Option<Vec<(String, String)>>,
    /// Time since the authority asked the origin. `None` if the description is valid only for this read and must not
    /// be cached, since the object is about to be replaced.
    pub age: Option<Duration>,
}

/// Notification that objects were replaced or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathsChanged {
    /// Paths within the bucket; empty for [`ChangeAudience::Everyone`].
    pub paths: Vec<String>,
    /// The role in which the peer is notified.
    pub to: ChangeAudience,
}

/// The role in which a peer is notified of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeAudience {
    /// The authority: it notifies the peers that hold its descriptions, and answers once they have been notified.
    Authority,
    /// A peer that holds a description by the authority, and forgets it.
    Holder,
    /// A peer that may know any object of a deleted bucket, and forgets all of them. No path is named.
    Everyone,
}

/// The failure of a request to a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The peer cannot answer, though it is healthy: a donor without the bytes, or a peer whose origin failed. Ask
    /// the next source.
    #[error("the peer has no answer")]
    Declined,
    /// The origin has no such object.
    #[error("no such object")]
    NotFound,
    /// The origin now has another version, or none. Open the object again.
    #[error("the object was replaced")]
    Changed,
    /// The peer could not be reached, or its answer is invalid. Ask the next source; the peer is suspect.
    #[error("the peer failed: {reason}")]
    Failed {
        /// The problem.
        reason: String,
    },
}

/// A reason to suspect a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerFault {
    /// The peer could not be reached, or its answer is invalid.
    #[error("{reason}")]
    Failed {
        /// The problem.
        reason: String,
    },
    /// Nothing arrived within the deadline.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The answer ended early.
    #[error("the answer ended early")]
    Short,
    /// The answer has different bytes than the requested block.
    #[error("wrong bytes")]
    WrongBytes,
}

/// The time that peers have to answer before the next source is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerDeadlines {
    /// Time for a home or deputy to send the first run of blocks, and each further one. Default: 5 s.
    pub block: Duration,
    /// The same for a donor. Default: 200 ms.
    pub donor: Duration,
    /// Time for an authority to describe an object; it may have to ask the origin. Default: 5 s.
    pub describe: Duration,
    /// Time to notify an authority of a write. The authority has a third of it to notify others. Default: 3 s.
    pub tell: Duration,
    /// Time for a peer to drop the objects with a prefix, which it has to list. Default: 60 s.
    pub evict: Duration,
}

impl Default for PeerDeadlines {
    fn default() -> Self {
        Self {
            block: Duration::from_secs(5),
            donor: Duration::from_millis(200),
            describe: Duration::from_secs(5),
            tell: Duration::from_secs(3),
            evict: Duration::from_secs(60),
        }
    }
}

/// The other nodes of a cluster, for one bucket.
///
/// Nodes must agree on the bucket's origin, spelled identically, and on the page size: otherwise checksums do not
/// match.
#[async_trait]
pub trait Peers: fmt::Debug + Send + Sync {
    /// Returns the sources for the stripe that contains the byte at `offset`. Must not block: the caller holds locks.
    fn stripe(&self, path: &Path, offset: u64) -> StripeSources;

    /// Returns the authority of a path, which is the home of its first stripe; `None` if it is this node. Must not
    /// block.
    fn authority(&self, path: &Path) -> Option<PeerId>;

    /// Requests bytes from a peer: the result of [`ReadThrough::read_for_peer`](crate::ReadThrough::read_for_peer)
    /// there. Dropping the future or the stream cancels the request.
    ///
    /// The bytes of each run must be an allocation of exactly their length: the cache keeps some of them as they are,
    /// and counts no more than their length.
    async fn read(&self, peer: &PeerId, read: PeerRead) -> Result<BlockRuns, PeerError>;

    /// Asks the authority of a path for the current version: the result of
    /// [`ReadThrough::describe_for_peer`](crate::ReadThrough::describe_for_peer) there.
    async fn describe(&self, peer: &PeerId, request: DescribeRequest) -> Result<DescribedObject, PeerError>;

    /// Notifies a peer that objects were replaced. Completes when
    /// [`ReadThrough::note_changed`](crate::ReadThrough::note_changed) has completed there.
    async fn tell(&self, peer: &PeerId, change: PathsChanged) -> Result<(), PeerError>;

    /// Returns all other nodes that may have cached bytes or versions.
    fn others(&self) -> Vec<PeerId>;

    /// Asks a peer to drop everything cached for the objects with a prefix: the result of
    /// [`ReadThrough::evict_for_peer`](crate::ReadThrough::evict_for_peer) there.
    async fn evict(&self, peer: &PeerId, prefix: &str) -> Result<u64, PeerError>;

    /// Records that a peer is suspect because of a request sent at `sent`. Called for each fault, including those
    /// reported by [`PeerError::Failed`].
    fn suspect(&self, peer: &PeerId, sent: std::time::Instant, fault: PeerFault);

    /// Returns the time that peers have to answer. Called once.
    fn deadlines(&self) -> PeerDeadlines {
        PeerDeadlines::default()
    }
}
