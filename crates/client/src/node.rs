//! A node of a cluster: its id, addresses, weight and state.

use std::{fmt, num::NonZeroU16, str::FromStr};

use twox_hash::XxHash3_64;

use crate::{
    Error, Result,
    address::{MAX_HOST_BYTES, NodeAddresses},
};

/// Name of a node, stable across restarts and address changes: a configured name or its host name, never its position
/// in a list. 1 to 253 ASCII letters, digits, `.`, `-`, `_` and `:`; case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(String);

impl NodeId {
    /// Creates an id.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidId`] if the text is empty, too long, or has other characters.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        let reason = if text.is_empty() {
            "it is empty"
        } else if text.len() > MAX_HOST_BYTES {
            "it has more than 253 bytes"
        } else if !text.bytes().all(is_allowed) {
            "use ASCII letters, digits, `.`, `-`, `_` and `:`"
        } else {
            return Ok(Self(text));
        };
        Err(Error::InvalidId { text, reason })
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for NodeId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

/// Share of a node, relative to the weights of the others: 1 to 65,535. Default: 1.
///
/// Only ratios matter. To give a node nothing, set it to [draining](NodeState::Draining).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeWeight(NonZeroU16);

impl NodeWeight {
    /// Creates a weight.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidWeight`] if it is not from 1 to 65,535.
    pub fn new(weight: u64) -> Result<Self> {
        let valid = u16::try_from(weight).ok().and_then(NonZeroU16::new);
        valid.map(Self).ok_or_else(|| Error::InvalidWeight { text: weight.to_string() })
    }

    /// Returns the weight as a number.
    pub fn get(self) -> u16 {
        self.0.get()
    }
}

impl Default for NodeWeight {
    fn default() -> Self {
        Self(NonZeroU16::MIN)
    }
}

impl FromStr for NodeWeight {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = || Error::InvalidWeight { text: text.to_owned() };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = Some(text).filter(|_| is_number).and_then(|text| text.parse().ok());
        Self::new(number.ok_or_else(invalid)?).map_err(|_| invalid())
    }
}

/// State of a node in a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// The node takes its share of keys.
    #[default]
    Up,
    /// The node has left placement, but still serves its cached pages. A draining node that fails stays draining: a
    /// donor that does not answer is a miss.
    Draining,
    /// The node is in placement, but the observer cannot reach it: the next in rank stands in. Other keys do not
    /// move.
    Down,
}

impl NodeState {
    /// Returns the name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Down => "down",
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    id: NodeId,
    addresses: NodeAddresses,
    weight: NodeWeight,
    state: NodeState,
    hash: u64,
}

impl ClusterNode {
    /// Creates a node that is up and has weight 1.
    pub fn new(id: NodeId, addresses: NodeAddresses) -> Self {
        let hash = XxHash3_64::oneshot(id.as_str().as_bytes());
        Self { id, addresses, weight: NodeWeight::default(), state: NodeState::default(), hash }
    }

    /// Sets the weight. Default: 1.
    pub fn with_weight(self, weight: NodeWeight) -> Self {
        Self { weight, ..self }
    }

    /// Sets the state. Default: [`NodeState::Up`].
    pub fn with_state(self, state: NodeState) -> Self {
        Self { state, ..self }
    }

    /// Sets the addresses.
    pub fn with_addresses(self, addresses: NodeAddresses) -> Self {
        Self { addresses, ..self }
    }

    /// Returns the id.
    pub fn id(&self) -> &NodeId {
        &self.id
    }

    /// Returns the addresses of its listeners.
    pub fn addresses(&self) -> &NodeAddresses {
        &self.addresses
    }

    /// Returns the weight.
    pub fn weight(&self) -> NodeWeight {
        self.weight
    }

    /// Returns the state.
    pub fn state(&self) -> NodeState {
        self.state
    }

    /// Returns the XXH3 of the id.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns whether the node takes part in placement.
    pub(crate) fn is_placed(&self) -> bool {
        self.state != NodeState::Draining
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_names_of_hosts_or_addresses() {
        for id in ["a", "node-1.lake.svc", "10.0.0.1", "fd00::1", "A_b", &"x".repeat(253)] {
            assert_eq!(id.parse::<NodeId>().unwrap().as_str(), id);
        }
        for id in ["", " a", "a b", "a=b", "a,b", "é", "a\n", &"x".repeat(254)] {
            assert!(matches!(id.parse::<NodeId>(), Err(Error::InvalidId { .. })), "{id:?}");
        }
    }

    #[test]
    fn weights_are_whole_numbers_from_1_to_65535() {
        assert_eq!(
            ["1", "007", "65535"].map(|text| text.parse::<NodeWeight>().unwrap().get()),
            [1, 7, 65_535]
        );
        for text in ["", "0", "65536", "-1", "+1", "1.5", "99999999999999999999999", "1 "] {
            assert_eq!(text.parse::<NodeWeight>(), Err(Error::InvalidWeight { text: text.to_owned() }));
        }
    }
}
