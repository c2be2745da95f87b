//! A cluster as its nodes describe it to clients: the answer to `GET /?x-stylobate-cluster` at the S3 door.

use serde::{Deserialize, Serialize};

use crate::{
    address::{NodeAddress, NodeAddresses},
    error::Result,
    node::{ClusterNode, NodeId, NodeState, NodeWeight},
    view::ClusterView,
};

/// A cluster as described by one of its nodes. Without nodes if the node that answers is not in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ClusterDescription {
    /// Digest of the answering node's view.
    #[serde(default)]
    pub digest: Option<String>,
    /// All nodes.
    #[serde(default)]
    pub nodes: Vec<NodeDescription>,
}

/// A node of a [`ClusterDescription`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct NodeDescription {
    /// Node id.
    pub id: String,
    /// Weight in placement.
    #[serde(default = "default_weight")]
    pub weight: u64,
    /// `up`, `draining` or `down`. Clients treat any other state as `down`.
    #[serde(default = "default_state")]
    pub state: String,
    /// Address of the S3 door.
    #[serde(default)]
    pub s3: Option<String>,
    /// Address of the Flight door.
    #[serde(default)]
    pub flight: Option<String>,
}

fn default_weight() -> u64 {
    NodeWeight::default().get().into()
}

fn default_state() -> String {
    NodeState::default().name().to_owned()
}

impl ClusterDescription {
    /// Parses an answer. Nodes without this request list their buckets as XML instead: such a node is not in a
    /// cluster.
    pub fn parse(answer: &[u8]) -> Self {
        serde_json::from_slice(answer).unwrap_or_default()
    }

    /// Returns the described view; `None` without nodes. Fails if an id, weight or address is invalid.
    pub fn view(&self) -> Result<Option<ClusterView>> {
        if self.nodes.is_empty() {
            return Ok(None);
        }
        let nodes = self.nodes.iter().map(NodeDescription::node).collect::<Result<Vec<_>>>()?;
        ClusterView::new(nodes).map(Some)
    }
}

impl NodeDescription {
    /// Returns the node. Fails if its id, weight or an address is invalid.
    pub fn node(&self) -> Result<ClusterNode> {
        let address = |text: &Option<String>| text.as_deref().map(str::parse::<NodeAddress>).transpose();
        let addresses = NodeAddresses { s3: address(&self.s3)?, flight: address(&self.flight)?, peer: None };
        let states = [NodeState::Up, NodeState::Draining];
        let state = states.into_iter().find(|state| state.name() == self.state).unwrap_or(NodeState::Down);

        let node = ClusterNode::new(NodeId::new(self.id.as_str())?, addresses);
        Ok(node.with_weight(NodeWeight::new(self.weight)?).with_state(state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_gives_a_view() {
        let answer = r#"{"digest": "00ff", "nodes": [
            {"id": "a", "weight": 2, "state": "up", "s3": "h:1", "flight": "h:2", "later": true},
            {"id": "b", "weight": 1, "state": "draining", "s3": null, "flight": null},
            {"id": "c", "state": "unknown"}]}"#;
        let view = ClusterDescription::parse(answer.as_bytes()).view().unwrap().unwrap();
        let nodes: Vec<_> =
            view.nodes().iter().map(|node| (node.id().as_str(), node.weight().get(), node.state())).collect();
        let expected = [("a", 2, NodeState::Up), ("b", 1, NodeState::Draining), ("c", 1, NodeState::Down)];
        assert_eq!(nodes, expected);
        let a = view.node("a").unwrap().addresses();
        assert_eq!((&a.s3, &a.flight), (&"h:1".parse().ok(), &"h:2".parse().ok()));
        assert_eq!(view.node("b").unwrap().addresses(), &NodeAddresses::default());
    }

    #[test]
    fn a_node_without_a_cluster_describes_no_nodes() {
        for answer in ["", "<ListAllMyBucketsResult/>", "[]", "{}", r#"{"digest": null, "nodes": []}"#] {
            assert_eq!(ClusterDescription::parse(answer.as_bytes()).view(), Ok(None), "{answer}");
        }
    }

    #[test]
    fn a_description_that_cannot_be_is_an_error() {
        for node in [r#"{"id": ""}"#, r#"{"id": "a", "weight": 0}"#, r#"{"id": "a", "s3": "h"}"#] {
            let answer = format!(r#"{{"nodes": [{node}]}}"#);
            assert!(ClusterDescription::parse(answer.as_bytes()).view().is_err(), "{node}");
        }
    }
}
