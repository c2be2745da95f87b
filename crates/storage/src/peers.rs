//! The other nodes of a cluster, as a store that reads through them sees them.
//!
//! An implementation of [`Peers`] decides which node is home of a stripe, and how nodes talk to each other.
//! This crate decides what is asked of whom, and what counts as an answer: bytes are taken only if they are of the
//! version that was asked for and pass the checksums of their blocks. So a peer with a wrong view, or that is slow, broken
//! or gone, costs a request and never a wrong byte.
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
/// Roles are ordered: to answer, a peer asks others in lower roles only, and waits for no fetch of its own that asks in
/// the same role or a higher one. So no request comes back to a node that waits for it, even if all views differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerRole {
    /// It may have the bytes from an earlier view: answers from its memory and disk only.
    Donor,
    /// It owns the bytes: fetches what it misses from donors and the origin.
    Home,
    /// It stands in for the home: fetches what it misses from the home, else the origin.
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

/// The sources of the bytes of one stripe of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StripeSources {
    /// End of the stripe, as an offset in the object: a multiple of the page size.
    pub end: u64,
    /// Whether this node is home of the stripe, and keeps its pages on disk. Otherwise it keeps few, in memory.
    pub is_home: bool,
    /// The peers to ask, in this order, before the origin. For a home, its donors.
    pub peers: Vec<PeerSource>,
}

/// A request to a peer for bytes of one version of an object. The version is named by all that its key in the cache
/// consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRead {
    /// Path within the bucket.
    pub path: String,
    /// The id of a version that the bucket keeps of the object; `None` if the current version is read.
    #[serde(default)]
    pub kept: Option<String>,
    /// Size of the object in bytes.
    pub size: u64,
    /// The ETag of the version.
    pub e_tag: Option<String>,
    /// The version id, if the origin gave one.
    pub version: Option<String>,
    /// The bytes, in whole blocks; the last block of an object may be shorter.
    pub range: Range<u64>,
    /// The role in which the peer is asked.
    pub role: PeerRole,
}

/// Adjacent blocks of one page of an object. Runs follow each other: the offset is the end of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The bytes.
    pub bytes: Bytes,
    /// The checksum of each block, seeded by version, page and block.
    pub checksums: Box<[u64]>,
}

/// The blocks of the range of a [`PeerRead`], in order.
pub type BlockRuns = BoxStream<'static, Result<BlockRun, PeerError>>;

/// A question to the authority of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribeRequest {
    /// Path within the bucket.
    pub path: String,
    /// Whether the origin must be asked, whatever the authority knows.
    pub is_strict: bool,
    /// The bytes that will be read next, if some certainly will: the authority may fetch them with the same request.
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
    /// Time since the authority asked the origin. `None` if the description holds for this read only and must not be
    /// kept, since the object is about to be replaced.
    pub age: Option<Duration>,
}

/// The news that objects were replaced or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathsChanged {
    /// Paths within the bucket; none for [`ChangeAudience::Everyone`].
    pub paths: Vec<String>,
    /// The role in which the peer is told.
    pub to: ChangeAudience,
}

/// The role in which a peer is told of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeAudience {
    /// It is the authority: tells those that keep its answers, and answers when it has.
    Authority,
    /// It keeps an answer of the authority, and forgets it.
    Holder,
    /// It may know any object of the bucket, which was deleted, and forgets all of them. No path is named.
    Everyone,
}

/// The failure of a request to a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The peer cannot answer, though nothing is wrong with it: a donor without the bytes, or a peer whose origin
    /// failed. Ask the next source.
    #[error("the peer has no answer")]
    Declined,
    /// The origin has no such object.
    #[error("no such object")]
    NotFound,
    /// The origin has another version by now, or none. Open the object again.
    #[error("the object was replaced")]
    Changed,
    /// The peer could not be asked, or its answer is none. Ask the next source; the peer is suspect.
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
    /// It could not be asked, or its answer is none.
    #[error("{reason}")]
    Failed {
        /// The problem.
        reason: String,
    },
    /// Nothing came within the deadline.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The answer ended early.
    #[error("the answer ended early")]
    Short,
    /// The answer has other bytes than the block that was asked for.
    #[error("wrong bytes")]
    WrongBytes,
}

/// The time that peers have to answer, after which the next source is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerDeadlines {
    /// Time until the first run of blocks, and until each further one, of a home or deputy. Default: 5 s.
    pub block: Duration,
    /// The same of a donor. Default: 200 ms.
    pub donor: Duration,
    /// Time until an authority describes an object, for which it may ask the origin. Default: 5 s.
    pub describe: Duration,
    /// Time until an authority was told of a write; those that it tells have a third of that. Default: 3 s.
    pub tell: Duration,
    /// Time until a peer has dropped the objects with a prefix, for which it lists them. Default: 60 s.
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
/// Nodes must agree on the bucket's origin, spelled alike, and on the size of pages: otherwise no checksum matches.
#[async_trait]
pub trait Peers: fmt::Debug + Send + Sync {
    /// Returns the sources of the stripe that has the byte at `offset`. Must not block: locks are held.
    fn stripe(&self, path: &Path, offset: u64) -> StripeSources;

    /// Returns the authority of a path, the home of its first stripe; `None` if this node is. Must not block.
    fn authority(&self, path: &Path) -> Option<PeerId>;

    /// Asks a peer for bytes: the result of [`ReadThrough::read_for_peer`](crate::ReadThrough::read_for_peer) there.
    /// Dropping the future or the stream cancels the request.
    ///
    /// The bytes of each run must be in an allocation of their own, of their length: the cache keeps some as they are,
    /// and counts no more than that.
    async fn read(&self, peer: &PeerId, read: PeerRead) -> Result<BlockRuns, PeerError>;

    /// Asks the authority of a path for the current version: the result of
    /// [`ReadThrough::describe_for_peer`](crate::ReadThrough::describe_for_peer) there.
    async fn describe(&self, peer: &PeerId, request: DescribeRequest) -> Result<DescribedObject, PeerError>;

    /// Tells a peer that objects were replaced. Ends when
    /// [`ReadThrough::note_changed`](crate::ReadThrough::note_changed) has ended there.
    async fn tell(&self, peer: &PeerId, change: PathsChanged) -> Result<(), PeerError>;

    /// Returns all other nodes that may have bytes or versions in their caches.
    fn others(&self) -> Vec<PeerId>;

    /// Asks a peer to drop all that it has cached of the objects with a prefix: the result of
    /// [`ReadThrough::evict_for_peer`](crate::ReadThrough::evict_for_peer) there.
    async fn evict(&self, peer: &PeerId, prefix: &str) -> Result<u64, PeerError>;

    /// Notes that a peer is suspect, for a request that was sent at `sent`. Called for each fault, including those that
    /// [`PeerError::Failed`] reported.
    fn suspect(&self, peer: &PeerId, sent: std::time::Instant, fault: PeerFault);

    /// Returns the time that peers have to answer. It is asked for once.
    fn deadlines(&self) -> PeerDeadlines {
        PeerDeadlines::default()
    }
}
