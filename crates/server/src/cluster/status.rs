//! The state of a cluster as one node sees it: the answer of `GET /api/cluster`.

use serde::{Deserialize, Serialize};

/// A cluster, as one of its nodes sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct ClusterStatus {
    /// Id of the node that answers.
    pub id: String,
    /// Digest of its view: nodes with equal digests place objects identically.
    pub digest: String,
    /// True if it is draining, and so has left placement.
    pub draining: bool,
    /// Source of the list of nodes.
    pub source: String,
    /// A problem with the list, or with this node's entry in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Ids of the nodes that were up before placement last changed, while they may still be asked for pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<String>,
    /// All nodes, by id; nodes whose id is still unknown come last.
    pub nodes: Vec<ClusterNodeStatus>,
}

/// A node, as another one sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct ClusterNodeStatus {
    /// Its id, if known.
    pub id: Option<String>,
    /// True for the node that answers.
    pub this: bool,
    /// Address of its peer door.
    pub address: Option<String>,
    /// `up`, `draining` or `down`; `unknown` before its first answer if the list does not name it.
    pub state: String,
    /// True if the node answered the last probe.
    pub answers: bool,
    /// Weight in placement.
    pub weight: u16,
    /// Share of all keys whose home is this node, 0 to 1.
    pub share: f64,
    /// Version of its software.
    pub version: Option<String>,
    /// True if its view has the same digest as that of the answering node; `None` if unknown.
    pub same_view: Option<bool>,
    /// Round-trip time of the last answered probe.
    pub probe_ms: Option<f64>,
    /// Bytes that its readers received since it started.
    pub traffic: Option<NodeTraffic>,
    /// The problem that keeps it from working together with the answering node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The nodes of a cluster, for clients that place reads themselves: the answer of `GET /?x-stylobate-cluster`.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct KnownNodes {
    /// `None` if the node is in no cluster.
    pub(crate) digest: Option<String>,
    pub(crate) nodes: Vec<KnownNode>,
}

/// A node with the known addresses of its doors.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KnownNode {
    pub(crate) id: String,
    pub(crate) weight: u16,
    pub(crate) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) s3: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flight: Option<String>,
}

/// Bytes that a node delivered to readers since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct NodeTraffic {
    /// Bytes from all sources.
    pub bytes_read: u64,
    /// Bytes that came from memory or disk.
    pub bytes_cached: u64,
    /// Bytes that came from other nodes of the cluster.
    #[serde(default)]
    pub bytes_peer: u64,
    /// Bytes that it sent to other nodes.
    #[serde(default)]
    pub bytes_to_peers: u64,
    /// Requests for bytes sent to other nodes.
    #[serde(default)]
    pub peer_reads: u64,
    /// The subset of `peer_reads` sent to a deputy.
    #[serde(default)]
    pub deputy_reads: u64,
    /// The subset of `peer_reads` sent to a donor.
    #[serde(default)]
    pub donor_reads: u64,
}

impl NodeTraffic {
    /// Returns the fraction of the bytes that came from memory or disk, from 0 to 1; 0 if no bytes were read.
    pub fn hit_ratio(&self) -> f64 {
        if self.bytes_read == 0 { 0.0 } else { self.bytes_cached as f64 / self.bytes_read as f64 }
    }
}
