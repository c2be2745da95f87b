//! The nodes of a cluster, as one observer sees them.

use std::{collections::HashMap, fmt};

use twox_hash::XxHash3_64;

use crate::{
    Error, Result,
    address::NodeAddress,
    door::NodeDoor,
    node::{ClusterNode, NodeId, NodeState, NodeWeight},
};

/// The nodes of a cluster, as seen by one observer: at least one, with distinct ids and addresses.
///
/// A view has no version, since no server orders the changes; observers compare [digests](Self::digest).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// Sorted by id.
    nodes: Vec<ClusterNode>,
    has_one_weight: bool,
}

impl ClusterView {
    /// Creates a view; the order of the nodes does not matter.
    ///
    /// # Errors
    ///
    /// [`Error::NoNodes`], and [`Error::DuplicateId`] or [`Error::DuplicateAddress`] if two nodes share one.
    pub fn new(nodes: impl IntoIterator<Item = ClusterNode>) -> Result<Self> {
        let mut nodes: Vec<ClusterNode> = nodes.into_iter().collect();
        let Some(weight) = nodes.first().map(ClusterNode::weight) else { return Err(Error::NoNodes) };
        let has_one_weight = nodes.iter().all(|node| node.weight() == weight);

        nodes.sort_by(|a, b| a.id().cmp(b.id()));
        let doubled = nodes.iter().zip(nodes.iter().skip(1)).find(|(node, next)| node.id() == next.id());
        if let Some((node, _)) = doubled {
            return Err(Error::DuplicateId { id: node.id().to_string() });
        }
        check_addresses(&nodes)?;

        Ok(Self { nodes, has_one_weight })
    }

    /// Returns the nodes, sorted by id.
    pub fn nodes(&self) -> &[ClusterNode] {
        &self.nodes
    }

    /// Returns the node with this id.
    pub fn node(&self, id: &str) -> Option<&ClusterNode> {
        let at = self.nodes.binary_search_by(|node| node.id().as_str().cmp(id)).ok()?;
        self.nodes.get(at)
    }

    /// Returns the view with the state of each node replaced.
    pub fn with_states(self, state: impl Fn(&ClusterNode) -> NodeState) -> Self {
        let stated = |node: ClusterNode| {
            let state = state(&node);
            node.with_state(state)
        };
        Self { nodes: self.nodes.into_iter().map(stated).collect(), ..self }
    }

    /// Returns whether all nodes have the same weight.
    pub(crate) fn has_one_weight(&self) -> bool {
        self.has_one_weight
    }

    /// Returns the digest of ids, weights, and which nodes are draining. Observers with equal digests place all keys
    /// identically, except for nodes that one of them currently cannot reach.
    pub fn digest(&self) -> ViewDigest {
        let mut bytes = Vec::new();
        for node in &self.nodes {
            let id = node.id().as_str().as_bytes();
            bytes.extend_from_slice(&(id.len() as u64).to_le_bytes());
            bytes.extend_from_slice(id);
            bytes.extend_from_slice(&u64::from(node.weight().get()).to_le_bytes());
            bytes.extend_from_slice(&u64::from(node.is_placed()).to_le_bytes());
        }
        ViewDigest(XxHash3_64::oneshot(&bytes))
    }

    /// Returns the changes in `newer`, sorted by node id.
    pub fn changes_to(&self, newer: &Self) -> Vec<ViewChange> {
        let mut changes = Vec::new();
        let mut note = |id: &NodeId, kind| changes.push(ViewChange { id: id.clone(), kind });

        for node in &self.nodes {
            let Some(now) = newer.node(node.id().as_str()) else {
                note(node.id(), ViewChangeKind::Left);
                continue;
            };
            if node.weight() != now.weight() {
                note(node.id(), ViewChangeKind::Weight { from: node.weight(), to: now.weight() });
            }
            if node.state() != now.state() {
                note(node.id(), ViewChangeKind::State { from: node.state(), to: now.state() });
            }
            if node.addresses() != now.addresses() {
                note(node.id(), ViewChangeKind::Moved);
            }
        }

        for node in newer.nodes.iter().filter(|node| self.node(node.id().as_str()).is_none()) {
            note(node.id(), ViewChangeKind::Joined);
        }
        changes.sort_by(|a, b| a.id.cmp(&b.id));
        changes
    }
}

fn check_addresses(nodes: &[ClusterNode]) -> Result<()> {
    for door in NodeDoor::ALL {
        let mut seen: HashMap<&NodeAddress, &NodeId> = HashMap::new();
        for node in nodes {
            let Some(address) = node.addresses().get(door) else { continue };
            if let Some(other) = seen.insert(address, node.id()) {
                let address = address.to_string();
                let first = other.to_string();
                let second = node.id().to_string();
                return Err(Error::DuplicateAddress { door, address, first, second });
            }
        }
    }
    Ok(())
}

/// Digest of a [`ClusterView`], printed as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ViewDigest(u64);

impl ViewDigest {
    /// Returns the digest as a number.
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ViewDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One difference between two views; displays as a line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewChange {
    /// The node.
    pub id: NodeId,
    /// The kind of difference.
    pub kind: ViewChangeKind,
}

/// The kind of a [`ViewChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewChangeKind {
    /// The node is only in the newer view.
    Joined,
    /// The node is only in the older view.
    Left,
    /// The node has different addresses.
    Moved,
    /// The node has a different weight.
    Weight {
        /// The weight in the older view.
        from: NodeWeight,
        /// The weight in the newer view.
        to: NodeWeight,
    },
    /// The node has a different state.
    State {
        /// The state in the older view.
        from: NodeState,
        /// The state in the newer view.
        to: NodeState,
    },
}

impl fmt::Display for ViewChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.id;
        match self.kind {
            ViewChangeKind::Joined => write!(f, "node {id} joined"),
            ViewChangeKind::Left => write!(f, "node {id} left"),
            ViewChangeKind::Moved => write!(f, "node {id} has other addresses"),
            ViewChangeKind::Weight { from, to } => {
                write!(f, "node {id} has weight {} and had {}", to.get(), from.get())
            }
            ViewChangeKind::State { from, to } => write!(f, "node {id} is {to} and was {from}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::NodeAddresses;

    fn node(id: &str) -> ClusterNode {
        ClusterNode::new(id.parse().unwrap(), NodeAddresses::default())
    }

    fn at(id: &str, peer: &str) -> ClusterNode {
        node(id).with_addresses(NodeAddresses::default().with(NodeDoor::Peer, peer.parse().unwrap()))
    }

    fn view<const N: usize>(nodes: [ClusterNode; N]) -> ClusterView {
        ClusterView::new(nodes).unwrap()
    }

    fn weight(weight: u64) -> NodeWeight {
        NodeWeight::new(weight).unwrap()
    }

    #[test]
    fn two_nodes_have_neither_one_id_nor_one_address() {
        assert_eq!(ClusterView::new([]).unwrap_err(), Error::NoNodes);
        let error = ClusterView::new([node("b"), node("a"), node("b")]).unwrap_err();
        assert_eq!(error, Error::DuplicateId { id: "b".to_owned() });

        let error = ClusterView::new([at("b", "host:1"), at("c", "host:2"), at("a", "HOST:1")]).unwrap_err();
        let message = "the nodes \"a\" and \"b\" have the same peer address host:1";
        assert_eq!(error.to_string(), message);
        assert!(ClusterView::new([at("a", "host:1"), at("b", "host:2"), node("c"), node("d")]).is_ok());
    }

    #[test]
    fn digests_tell_views_apart_that_place_differently() {
        let base = view([node("a"), node("b")]);
        let same = [
            view([node("b"), node("a")]),
            view([at("a", "host:1"), node("b")]),
            view([node("a").with_state(NodeState::Down), node("b")]),
        ];
        for view in same {
            assert_eq!(view.digest(), base.digest());
        }

        let others = [
            view([node("a")]),
            view([node("a"), node("c")]),
            view([node("a"), node("b"), node("c")]),
            view([node("a").with_weight(weight(2)), node("b")]),
            view([node("a").with_state(NodeState::Draining), node("b")]),
        ];
        for view in others {
            assert_ne!(view.digest(), base.digest());
        }
        assert_eq!(base.digest().to_string().len(), 16);
    }

    #[test]
    fn changes_of_a_view_are_named() {
        let older = view([at("a", "a:1"), node("b"), node("c"), node("d")]);
        let newer = view([
            node("e"),
            node("d").with_state(NodeState::Draining),
            node("c").with_weight(weight(3)),
            at("a", "a:2"),
        ]);
        let lines: Vec<_> = older.changes_to(&newer).iter().map(ViewChange::to_string).collect();
        let expected = [
            "node a has other addresses",
            "node b left",
            "node c has weight 3 and had 1",
            "node d is draining and was up",
            "node e joined",
        ];
        assert_eq!(lines, expected);
        assert_eq!(older.changes_to(&older), []);
    }

    #[test]
    fn nodes_are_found_by_id() {
        let view = view([node("b"), node("a"), node("c")]);
        assert_eq!(view.node("b").map(|node| node.id().as_str()), Some("b"));
        assert_eq!(view.node("d"), None);
        let down = view.with_states(|node| match node.id().as_str() {
            "a" => NodeState::Down,
            _ => node.state(),
        });
        assert_eq!(
            down.nodes().iter().map(ClusterNode::state).filter(|state| *state == NodeState::Up).count(),
            2
        );
    }
}
