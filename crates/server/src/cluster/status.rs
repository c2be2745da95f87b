//! The state of a cluster as one node sees it: the answer of `GET /api/cluster`.

use serde::{Deserialize, Serialize};

/// A cluster, as one of its nodes sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct ClusterStatus {
    /// Id of the node that answers.
    pub id: String,
    /// Digest of its view: nodes with equal digests place objects alike.
    pub digest: String,
    /// True if it has left placement, to be stopped.
    pub draining: bool,
    /// Source of the list of nodes.
    pub source: String,
    /// What is wrong with the list, or with the place of this node in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Ids of the nodes that were up before placement last changed, for as long as they may be asked for their pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<String>,
    /// All nodes, by id; last those whose id is not known yet.
    pub nodes: Vec<ClusterNodeStatus>,
}

/// A node, as another one sees it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct ClusterNodeStatus {
    /// Its id, if it is known.
    pub id: Option<String>,
    /// True for the node that answers.
    pub this: bool,
    /// Address of its peer door.
    pub address: Option<String>,
    /// `up`, `draining` or `down`; `unknown` before its first answer if the list does not name it.
    pub state: String,
    /// True if it answered the last probe.
    pub answers: bool,
    /// Weight in placement.
    pub weight: u16,
    /// Share of all keys whose home it is, 0 to 1.
    pub share: f64,
    /// Version of its software.
    pub version: Option<String>,
    /// True if its view has the same digest.
    pub same_view: Option<bool>,
    /// Time of the last probe that it answered, there and back.
    pub probe_ms: Option<f64>,
    /// Bytes that its readers got since it started.
    pub traffic: Option<NodeTraffic>,
    /// What keeps it from working together with this node.
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

/// A node with the addresses of its doors, as far as they are known.
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

/// Bytes that a node handed to readers since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct NodeTraffic {
    /// All of them.
    pub bytes_read: u64,
    /// Those that came from memory or disk.
    pub bytes_cached: u64,
    /// Those that came from other nodes of the cluster.
    #[serde(default)]
    pub bytes_peer: u64,
    /// Bytes that other nodes got from it.
    #[serde(default)]
    pub bytes_to_peers: u64,
    /// Requests to other nodes for bytes.
    #[serde(default)]
    pub peer_reads: u64,
    /// Those that went to a deputy.
    #[serde(default)]
    pub deputy_reads: u64,
    /// Those that went to a donor.
    #[serde(default)]
    pub donor_reads: u64,
}

impl NodeTraffic {
    /// Returns the fraction of the bytes that came from memory or disk, 0 to 1, and 0 if there are none.
    pub fn hit_ratio(&self) -> f64 {
        if self.bytes_read == 0 { 0.0 } else { self.bytes_cached as f64 / self.bytes_read as f64 }
    }
}
